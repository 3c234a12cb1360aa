"""`mooring` and its subcommands: what is said to those who get the words wrong, and what is loaded for those who
don't.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mooring
from mooring.base.log import logger
from mooring.cli import mooring as command
from mooring.dev import run
from mooring.driver.hostpath.statefile import read_state
from mooring.mounts import namespace
from tests.support.programs import Program
from tests.support.rows import each_row
from tests.support.waiting import eventually


@each_row("word", ["version", "--version"])
def test_the_version(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == command.run([word])
    assert f"mooring v{mooring.__version__}\n" == capsys.readouterr().out


def test_mooring_attacher_is_the_attacher(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == command.run(["attacher", "--version"])
    assert f"mooring attacher v{mooring.__version__}\n" == capsys.readouterr().out


@each_row(
    ("flag", "code", "problem"),
    [
        ("--port=70000", 2, "mooring dev: port: must be between 0 and 65535"),
        ("--state=/dev/null/x", 1, "can't be used: Not a directory"),
        (
            f"--state={{folder}}/{'x' * 200}",
            1,
            "state: the folder's path has {size} bytes, and may have 96",
        ),
        ("--volume=Data", 2, "mooring dev: volume: 'Data' can't be an object's name"),
        ("--node-id=a,,b", 2, "mooring dev: node-id: '' can't be an object's name"),
    ],
)
def test_dev_that_can_not_start_says_why(
    flag: str, code: int, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code == command.run(["dev", flag.format(folder=tmp_path)])
    assert problem.format(size=len(f"{tmp_path}/") + 200) in capsys.readouterr().err


@each_row("line", ["dev", "apiserver", "driver hostpath --endpoint=unix:///nowhere/csi.sock --node-id=a"])
def test_a_state_that_is_a_file_is_told(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "state"
    file.write_text("")
    assert 1 == command.run([*line.split(), f"--state={file}"])
    prog = " ".join(word for word in line.split() if not word.startswith("-"))
    assert (
        f"mooring {prog}: state folder '{file}' can't be used: it is a file; give a folder\n" == capsys.readouterr().err
    )


@each_row("name", ["dev", "demo"])
def test_without_the_extra_for_the_server_one_line_says_what_to_install(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert 1 == command.run([name])
    said = capsys.readouterr().err
    assert said.startswith(f"mooring {name}: the embedded API server needs the package cryptography")
    assert "[server,ui]" in said
    assert 1 == said.count("\n")


def test_a_thread_s_log_is_part_of_the_demo_s_story(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the one that names a driver which holds the event loop: a thread has no loop whose clock it could read."""

    async def slow(*_: Any) -> None:
        await asyncio.to_thread(logger("mooring.driver.steps").warning, "Blocks the event loop")

    monkeypatch.setattr(run, "run_demo", slow)
    monkeypatch.setattr(namespace, "enter_private_mounts", lambda: None)
    assert 0 == command.run(["demo", "--plain"])
    assert "Blocks the event loop" in capsys.readouterr().out


INDEX_FORM, FOLDER_FORM = "pip install 'mooring[server,ui]'\n", "pip install '.[server,ui]' in the project's folder\n"


@each_row(
    ("origin", "wanted"),
    [
        (None, INDEX_FORM),
        ({"url": "file:///d/mooring-0.1.0-py3-none-any.whl", "archive_info": {}}, INDEX_FORM),
        ({"url": "file:///d/mooring", "dir_info": {}}, FOLDER_FORM),
        ({"url": "file:///d/mooring", "dir_info": {"editable": True}}, FOLDER_FORM),
    ],
    ids=["index", "wheel", "folder", "editable"],
)
def test_what_to_install_is_told_by_where_mooring_came_from(
    origin: dict[str, object] | None,
    wanted: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    info = tmp_path / "mooring-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mooring\nVersion: 0.1.0\n")
    if origin is not None:
        (info / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert 1 == command.run(["dev"])
    assert capsys.readouterr().err.endswith(f"as in: {wanted}")


@pytest.mark.slow
def test_the_command_itself_loads_no_part() -> None:
    code = (
        "import sys, mooring.cli.mooring; print(*[one for one in sys.modules if one.startswith(('grpc', 'mooring.'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    base = ["mooring.base", "mooring.base.interrupts", "mooring.base.errors"]
    assert ["mooring.cli", *base, "mooring.cli.border", "mooring.cli.mooring"] == done.stdout.split()


GOOD = ["--endpoint=unix:///nowhere/csi.sock", "--state=/nowhere/state", "--node-id=node-1"]


@each_row(
    ("argv", "code", "problem"),
    [
        ([], 2, "usage: mooring driver hostpath"),
        (["nfs"], 2, "mooring driver: 'nfs' is not known: there are hostpath, run and new"),
        (["hostpath", "--no-such-flag"], 2, "no-such-flag"),
        (["hostpath", "--capacity=lots"], 2, "no quantity; allowed: bytes as a quantity, as in 10Gi"),
        (["hostpath", "--capacity=1GiB"], 2, 'invalid value "1GiB" for flag -capacity: did you mean 1Gi?; allowed'),
        (["hostpath", "--capacity=fast=20 gb"], 2, "did you mean 20G?"),
        (["hostpath", "--max-volume-size=1m"], 2, "not a whole number of bytes above zero; did you mean 1M?"),
        (["hostpath", "--capacity=0"], 2, "10Gi"),
        (["hostpath", *GOOD[:1], *GOOD[2:]], 2, "state: required"),
        (["hostpath", *GOOD[:2]], 2, "node-id: required"),
        (["hostpath", *GOOD, "--node-id=a,,b"], 2, "node-id: required"),
        (["hostpath", *GOOD[1:]], 2, "endpoint: required"),
        (["hostpath", *GOOD, "--attach-limit=-2"], 2, "attach-limit: must not be below -1"),
        (["hostpath", *GOOD, "--maxvolumespernode=-1"], 2, "max-volumes-per-node: must not be negative"),
        (["hostpath", *GOOD, "--node-endpoint=b=unix:///nowhere/b.sock"], 2, "node-endpoint: there is no node 'b'"),
        (["hostpath", *GOOD, "--node-endpoint=b"], 2, "node-2=unix:///run/node-2.sock"),
        (["hostpath", *GOOD, "--enable-topology", "--topology=node-1:zone=a"], 2, "give either this or topology"),
        (["hostpath", *GOOD, "--mounts=magic"], 2, "one of auto, mount, link"),
        (["hostpath", *GOOD, "--without-on-nodes=CLONE_VOLUME"], 2, "GET_VOLUME_STATS"),
        (["hostpath", *GOOD, "--snapshot-delay=-1s"], 2, "snapshot-delay: must not be negative"),
        (["hostpath", *GOOD, "--capacity==1Gi"], 2, "fast=10Gi"),
        (["hostpath", *GOOD, "--capacity=1Gi", "--capacity=fast=1Gi"], 2, "capacity: give each size a kind"),
        (["hostpath", *GOOD, "--topology=zone=a"], 2, "node-1:topology.kubernetes.io/zone=a"),
        (["hostpath", *GOOD, "--topology=node-1:zone"], 2, "node-1:topology.kubernetes.io/zone=a"),
        (["hostpath", *GOOD, "--topology=node-9:zone=a"], 1, "topology: there is no node 'node-9'"),
        (["hostpath", *GOOD, "--without=CLONES"], 2, "CLONE_VOLUME"),
        (["hostpath", *GOOD, "--accepted-mutable-parameter-names=a,,b"], 2, "an empty name is among them"),
    ],
)
def test_a_driver_that_can_not_start_says_why(
    argv: list[str], code: int, problem: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CSI_ENDPOINT", raising=False)
    assert code == command.run(["driver", *argv])
    assert problem in capsys.readouterr().err


@each_row(
    ("flag", "problem"),
    [
        ("--endpoint=http://localhost:1", "is not supported: give a unix socket"),
        ("--endpoint=tcp://localhost", "names no address: give one, as in tcp://127.0.0.1:7654"),
        ("--faults=/dev/null", "faults: '/dev/null' can't be read"),
        ("--call-log=/nowhere/calls", "call-log: '/nowhere/calls' can't be written"),
        ("--mounts=link --images", "mounting is asked for, and not possible: volumes are to be shown by links"),
        ("--endpoint=unix:///nowhere/csi.sock", "the folder of socket '/nowhere/csi.sock' does not exist"),
        ("--driver-name=-x-", "driver name '-x-'"),
        ("--state=/dev/null/state", "can't be used: Not a directory"),
    ],
)
def test_a_driver_that_can_not_serve_says_why(
    tmp_path: Path, flag: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [
        f"--endpoint=unix://{tmp_path}/csi.sock",
        f"--state={tmp_path / 'state'}",
        "--node-id=node-1",
        *flag.split(),
    ]
    assert 1 == command.run(["driver", "hostpath", *argv])
    assert problem in capsys.readouterr().err


@pytest.mark.slow
@each_row("sign", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_driver_runs_until_it_is_stop_requested(tmp_path: Path, sign: signal.Signals) -> None:
    socket = tmp_path / "csi.sock"
    flags = ["--endpoint", f"unix://{socket}", "--state", str(tmp_path / "state"), "--node-id", "a,b"]
    program = Program([sys.executable, "-m", "mooring.cli.mooring", "driver", "hostpath", *flags], tmp_path / "log")
    try:
        eventually(
            lambda: f'"Serving" driver="hostpath.csi.mooring" socket="{socket}"' in program.output_alive(),
            20,
            "it serves",
        )
        program.send(sign)
        assert 0 == program.wait_exit(), program.log_tail()
    finally:
        program.kill()
    assert not socket.exists()
    assert {} == read_state(tmp_path / "state").volumes
