"""`mooring apiserver` as a command: where its kubeconfig goes, and its port."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path

import pytest

from mooring.base.flags import parse
from mooring.cli import mooring
from mooring.cli.apiserver import ApiServerFlags, kubeconfig_file
from tests.support.programs import Program
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    ("argv", "place"),
    [
        ([], "/here/state/kubeconfig"),
        (["--kubeconfig=file"], "/here/file"),
        (["--kubeconfig=/there/file"], "/there/file"),
    ],
)
def test_the_kubeconfig_is_named_by_its_whole_path(
    argv: list[str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is pasted into another terminal, which is in another folder."""
    monkeypatch.setattr("os.getcwd", lambda: "/here")
    assert Path(place) == kubeconfig_file(parse(ApiServerFlags, argv, {}).flags, Path("state"))


@pytest.mark.parametrize(
    "words", [["apiserver", "--port=0"], ["apiserver", "restore", "backup.db"], ["dev", "--nodes=1"]]
)
def test_a_state_folder_of_others_is_refused(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever prepares it could put a token and a CA there, and the objects."""
    tmp_path.chmod(0o777)
    assert 1 == mooring.run([*words[:-1], "--state", str(tmp_path), words[-1]])
    assert f"others may write to '{tmp_path}' (mode 0777)" in capsys.readouterr().err


def serving(state: Path, log: Path, *flags: str) -> Program:
    """`mooring apiserver` on the folder, once it answers."""
    program = Program([sys.executable, "-m", "mooring.cli.mooring", "apiserver", f"--state={state}", *flags], log)
    eventually(lambda: "export KUBECONFIG=" in program.output_alive(), 30, "it answers")
    return program


def port_of(program: Program) -> int:
    found = re.search(r"answers on https://127\.0\.0\.1:(\d+)", program.output())
    assert found is not None, program.output()
    return int(found[1])


@pytest.mark.slow
def test_27b6_the_port_stays_that_of_the_folder_unless_a_flag_or_somebody_else_has_another(tmp_path: Path) -> None:
    """As in `mooring dev`: a kubectl in another terminal, and a sidecar, find the server again."""
    state = tmp_path / "state"
    first = serving(state, tmp_path / "log-1")
    port = port_of(first)
    first.kill()
    again = serving(state, tmp_path / "log-2")
    again.kill()
    assert port == port_of(again)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        third = serving(state, tmp_path / "log-3")
        third.kill()
        assert port != port_of(third)
        assert f"port {port}, where it was last time, is taken: it takes another" in third.output()
        fourth = serving(tmp_path / "state-2", tmp_path / "log-4", f"--port={port_of(third)}")
        fourth.kill()
        assert port_of(third) == port_of(fourth)
