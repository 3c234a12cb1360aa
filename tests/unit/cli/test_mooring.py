"""`mooring` and its subcommands: what is said to those who get the words wrong, and what is loaded for those who don't."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

import mooring
from mooring.cli import mooring as command
from mooring.driver.statefile import read_state
from tests.support.programs import Program
from tests.support.waiting import eventually


@pytest.mark.parametrize("word", ["version", "--version"])
def test_the_version(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == command.run([word])
    assert f"mooring v{mooring.__version__}\n" == capsys.readouterr().out


def test_mooring_attacher_is_the_attacher(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == command.run(["attacher", "--version"])
    assert f"mooring attacher v{mooring.__version__}\n" == capsys.readouterr().out


@pytest.mark.parametrize("name", ["dev", "demo"])
def test_commands_for_people_answer_in_words(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == command.run([name, "--help"])
    assert f"mooring {name}" in capsys.readouterr().out
    assert 2 == command.run([name, "--nonsense"])
    assert f"mooring {name}: flag provided but not defined: -nonsense; mooring {name} --help" in capsys.readouterr().err
    assert 2 == command.run([name, "word"])
    assert f"mooring {name}: 'word' is no flag" in capsys.readouterr().err


class Cut(io.StringIO):
    """A pipe that nobody reads."""

    def flush(self) -> None:
        raise BrokenPipeError


@pytest.mark.parametrize("name", ["dev", "demo", "orphans"])
def test_who_reads_no_further_gets_no_traceback(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Cut())
    assert 141 == command.run([name, "--help"])


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("--port=70000", "mooring dev: port: must be between 0 and 65535"),
        ("--state=/dev/null/x", "can't be used: Not a directory"),
        ("--volume=Data", "mooring dev: volume: 'Data' can't be an object's name"),
        ("--node-id=a,,b", "mooring dev: node-id: '' can't be an object's name"),
    ],
)
def test_dev_that_can_not_start_says_why(flag: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 1 == command.run(["dev", flag])
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("name", ["dev", "demo"])
def test_without_the_extra_for_the_server_one_line_says_what_to_install(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert 1 == command.run([name])
    said = capsys.readouterr().err
    assert said.startswith(f"mooring {name}: the embedded API server needs the package cryptography")
    assert "[server,ui]" in said
    assert 1 == said.count("\n")


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == command.run(["--help"])
    said = capsys.readouterr().out
    assert [] == [name for name in command.COMMANDS if f"\n  {name} " not in said]


@pytest.mark.parametrize(
    ("argv", "problem"), [([], "a command is missing"), (["atacher"], "unknown command 'atacher'"), (["-v=4"], "unknown command '-v=4'")]
)
def test_a_word_that_is_no_command(argv: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == command.run(argv)
    said = capsys.readouterr()
    assert f"mooring: {problem}\nusage: mooring COMMAND" in said.err
    assert "" == said.out


@pytest.mark.slow
def test_the_command_itself_loads_no_part() -> None:
    code = "import sys, mooring.cli.mooring; print(*[one for one in sys.modules if one.startswith(('grpc', 'aiohttp', 'mooring.'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ["mooring.cli", "mooring.cli.mooring"] == done.stdout.split()


GOOD = ["--endpoint=unix:///nowhere/csi.sock", "--state=/nowhere/state", "--node-id=node-1"]


@pytest.mark.parametrize(
    ("argv", "code", "problem"),
    [
        ([], 2, "usage: mooring driver hostpath"),
        (["nfs"], 2, "unknown driver 'nfs': there is hostpath"),
        (["hostpath", "--no-such-flag"], 2, "no-such-flag"),
        (["hostpath", "--capacity=lots"], 2, "10Gi"),
        (["hostpath", "--capacity=0"], 2, "10Gi"),
        (["hostpath", *GOOD[:1], *GOOD[2:]], 1, "state: required"),
        (["hostpath", *GOOD[:2]], 1, "node-id: required"),
        (["hostpath", *GOOD, "--node-id=a,,b"], 1, "node-id: required"),
        (["hostpath", *GOOD[1:]], 1, "endpoint: required"),
        (["hostpath", *GOOD, "--attach-limit=-1"], 1, "attach-limit: must not be negative"),
        (["hostpath", *GOOD, "--snapshot-delay=-1s"], 1, "snapshot-delay: must not be negative"),
        (["hostpath", *GOOD, "--capacity==1Gi"], 2, "fast=10Gi"),
        (["hostpath", *GOOD, "--capacity=1Gi", "--capacity=fast=1Gi"], 1, "capacity: give each size a kind"),
        (["hostpath", *GOOD, "--topology=zone=a"], 2, "node-1:topology.kubernetes.io/zone=a"),
        (["hostpath", *GOOD, "--topology=node-1:zone"], 2, "node-1:topology.kubernetes.io/zone=a"),
        (["hostpath", *GOOD, "--topology=node-9:zone=a"], 1, "topology: there is no node 'node-9'"),
        (["hostpath", *GOOD, "--without=CLONES"], 2, "CLONE_VOLUME"),
        (["hostpath", *GOOD, "--accepted-mutable-parameter-names=a,,b"], 1, "an empty name is among them"),
    ],
)
def test_a_driver_that_can_not_start_says_why(
    argv: list[str], code: int, problem: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CSI_ENDPOINT", raising=False)
    assert code == command.run(["driver", *argv])
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("--endpoint=tcp://localhost:1", "is not supported: give a unix socket"),
        ("--endpoint=unix:///nowhere/csi.sock", "the folder of socket '/nowhere/csi.sock' does not exist"),
        ("--driver-name=-x-", "driver name '-x-'"),
        ("--state=/dev/null/state", "can't be used: Not a directory"),
    ],
)
def test_a_driver_that_can_not_serve_says_why(tmp_path: Path, flag: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [f"--endpoint=unix://{tmp_path}/csi.sock", f"--state={tmp_path / 'state'}", "--node-id=node-1", flag]
    assert 1 == command.run(["driver", "hostpath", *argv])
    assert problem in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("sign", [15, 2])
def test_a_driver_runs_until_it_is_told_to_end(tmp_path: Path, sign: int) -> None:
    socket = tmp_path / "csi.sock"
    flags = ["--endpoint", f"unix://{socket}", "--state", str(tmp_path / "state"), "--node-id", "a,b"]
    program = Program([sys.executable, "-m", "mooring.cli.mooring", "driver", "hostpath", *flags], tmp_path / "log")
    try:
        eventually(lambda: f'"Serving" driver="hostpath.csi.mooring" socket="{socket}"' in program.output_alive(), 20, "it serves")
        program.send(sign)
        assert 0 == program.wait_exit(), program.log_tail()
    finally:
        program.kill()
    assert not socket.exists()
    assert {} == read_state(tmp_path / "state").volumes
