"""What `--driver` may say."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from mooring.base.errors import ConfigError
from mooring.csi.driver_form import CommandLine, Form, PythonClass, ReferenceDriver, Socket, parse_form
from tests.support.rows import each_row


@each_row(
    ("text", "form"),
    [
        ("", ReferenceDriver()),
        ("unix:///run/csi.sock", Socket("/run/csi.sock")),
        ("driver:Mine", PythonClass("driver:Mine")),
        ("my.package.driver:Mine", PythonClass("my.package.driver:Mine")),
        ("./drivers/mine.py:Mine", PythonClass("./drivers/mine.py:Mine")),
        ("./cmd --endpoint {socket}", CommandLine(("./cmd", "--endpoint", "{socket}"))),
        (
            "./cmd --endpoint=unix://{socket} --id {node}",
            CommandLine(("./cmd", "--endpoint=unix://{socket}", "--id", "{node}")),
        ),
        ("sh -c 'exec ./cmd {socket}'", CommandLine(("sh", "-c", "exec ./cmd {socket}"))),
    ],
)
def test_the_forms(text: str, form: Form) -> None:
    assert form == parse_form(text)


@each_row(
    ("text", "problem"),
    [
        (
            "./cmd",
            (
                "is none of the three forms: unix:///path/of.sock (or the path alone), module:Class (or "
                "./file.py:Class), or a"
            ),
        ),
        ("/nowhere/csi.sock", "there is no socket at '/nowhere/csi.sock': start the driver first, or check the path"),
        ("/run/csi --endpoint=/run/csi.sock", "is none of the three forms"),
        ("/dev/null", "is none of the three forms"),
        ("module", "is none of the three forms"),
        ("tcp://1.2.3.4:5", "is none of the three forms"),
        ("unix://", "is not the path of a unix socket"),
        ("unix://relative.sock", "is not the path of a unix socket"),
        (f"unix:///{'x' * 120}", "the path has 121 bytes, a socket's may have 107"),
        ("./cmd '{socket}", "can't be read as a command: No closing quotation"),
    ],
)
def test_anything_else_is_refused_with_what_there_is(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_form(text)
    assert str(caught.value).startswith("driver: ")
    assert problem in str(caught.value)


def test_options_are_a_class_s_alone() -> None:
    assert {"folder": "/data"} == parse_form("driver:Mine", {"folder": "/data"}).options  # type: ignore[union-attr]
    for text in ("", "./cmd {socket}", "unix:///run/csi.sock"):
        with pytest.raises(ConfigError, match="option: it is for the constructor of a driver that is a class"):
            parse_form(text, {"folder": "/data"})


def test_a_command_gets_its_socket_and_its_node_wherever_they_stand() -> None:
    form = CommandLine(("./cmd", "--e=unix://{socket}", "{node}-{node}", "{other}"))
    assert ("./cmd", "--e=unix:///s", "n-n", "{other}") == form.for_node("/s", "n")


def test_options_say_the_node() -> None:
    """B3 of what hurt drivers' authors."""
    form = parse_form("a:B", {"folder": "/data/{node}", "size": "5"})
    assert isinstance(form, PythonClass)
    assert {"folder": "/data/n2", "size": "5"} == form.for_node("n2")


def test_a_path_alone_is_a_socket_where_one_is(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as served:
        served.bind(str(tmp_path / "s"))
        assert Socket(str(tmp_path / "s")) == parse_form(str(tmp_path / "s"))
    with pytest.raises(ConfigError):
        parse_form(str(tmp_path / "nothing"))
