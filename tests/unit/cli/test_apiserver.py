"""`mooring apiserver` as a command: where its kubeconfig goes, and its port."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.apiserver.disk import file as durable
from mooring.base.flags import parse
from mooring.cli import mooring
from mooring.cli.apiserver import ApiServerFlags, kubeconfig_file
from tests.support.programs import Program
from tests.support.rows import each_row
from tests.support.waiting import eventually


@each_row(
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


@each_row("words", [["apiserver", "--port=0"], ["apiserver", "restore", "backup.db"], ["dev", "--nodes=1"]])
def test_a_state_folder_of_others_is_refused(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever prepares it could put a token and a CA there, and the objects."""
    monkeypatch.chdir(tmp_path)
    durable.create(tmp_path / "backup.db", version=1)
    tmp_path.chmod(0o777)
    assert 1 == mooring.run([*words[:-1], "--state", str(tmp_path), words[-1]])
    assert f"others may write to '{tmp_path}' (mode 0777)" in capsys.readouterr().err


def serving(state: Path, log: Path, *flags: str) -> Program:
    """`mooring apiserver` on the folder, once it answers."""
    program = Program([sys.executable, "-m", "mooring.cli.mooring", "apiserver", f"--state={state}", *flags], log)
    eventually(lambda: "export KUBECONFIG=" in program.output_alive(), 30, "it answers")
    return program


@pytest.mark.slow
@each_row("files", [7, 8, 10, 12, 14, 16, 20, 24, 159])
def test_too_few_open_files_are_one_line(tmp_path: Path, files: int) -> None:
    """With fewer than it keeps for itself the server would start, and refuse everybody."""
    code = f"import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files})); " + (
        "from mooring.cli.mooring import main; sys.exit(main())"
    )
    words = [sys.executable, "-c", code, "apiserver", f"--state={tmp_path}", "--port=0"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=30)
    assert (1, 1, "") == (done.returncode, done.stderr.count("\n"), done.stdout), done.stderr
    assert done.stderr.rstrip().endswith("(ulimit -n)")


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
