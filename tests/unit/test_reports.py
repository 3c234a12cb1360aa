"""hack/reports.py names failed tests as pytest takes them, and counts a test as it ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hack import reports

TESTS = """
import os
import pytest

AGAIN = "AGAIN" in os.environ

def test_passes(): pass
@pytest.mark.skip
def test_skipped(): pass
def test_fails_once(): assert AGAIN
@pytest.mark.parametrize("text", ["a.b", "c::d e", "[x]"])
def test_rows(text): assert text == "a.b"

class TestRoom:
    class TestCorner:
        def test_fails(self): assert False, "in the corner"

@pytest.fixture
def broken(): raise RuntimeError("no set-up")
def test_without_set_up(broken): pass

@pytest.fixture
def ends_badly():
    yield
    raise RuntimeError("no end")
def test_without_end(ends_badly): pass
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a test of each way to fail, and a module that can't be collected."""
    folder = tmp_path / "tests" / "room"
    folder.mkdir(parents=True)
    (folder / "test_ways.py").write_text(TESTS)
    (folder / "test_unreadable.py").write_text("import no_such_module")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.setattr(reports, "PROJECT", tmp_path)
    monkeypatch.setattr(reports, "ROOTS", (tmp_path,))
    return tmp_path


def run(project: Path, report: Path, *words: str, **environ: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib"]
    command += ["--continue-on-collection-errors", f"--junitxml={report}", *words]
    subprocess.run(command, cwd=project, env=environ, stdout=subprocess.DEVNULL, check=False)


FAILED = [
    "tests/room/test_unreadable.py",
    "tests/room/test_ways.py::TestRoom::TestCorner::test_fails",
    "tests/room/test_ways.py::test_fails_once",
    "tests/room/test_ways.py::test_rows[[x]]",
    "tests/room/test_ways.py::test_rows[c::d e]",
    "tests/room/test_ways.py::test_without_end",
    "tests/room/test_ways.py::test_without_set_up",
]


@pytest.mark.slow
def test_what_failed_is_named_tried_again_alone_told_and_counted(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = project / "step.xml", project / "step-again.xml"
    run(project, first)
    failed = sorted(reports.failures(first))
    assert FAILED == failed

    run(project, second, *failed, AGAIN="1")
    (project / "step-again.command").write_text("pytest of what failed")
    assert [one for one in FAILED if "once" not in one] == sorted(reports.failures(second))

    reports.told(project)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "failed once, passed then: tests/room/test_ways.py::test_fails_once"
    assert "==== FAILED tests/room/test_ways.py::TestRoom::TestCorner::test_fails" in told
    assert any(line.endswith("AssertionError: in the corner") for line in told)
    assert told[-1] == "to repeat: pytest of what failed"

    assert 1 == reports.count(project)
    assert "3 passed, 6 failed, 1 skipped\n" == capsys.readouterr().out


def test_a_second_try_stands_alone_where_the_first_left_no_report(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "step-again.xml").write_text(
        '<testsuites><testcase classname="tests.room.test_ways" name="test_passes"/></testsuites>'
    )
    assert 0 == reports.count(project)
    assert "1 passed, 0 failed, 0 skipped\n" == capsys.readouterr().out


def test_no_test_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 1 == reports.count(tmp_path)
    assert "0 passed, 0 failed, 0 skipped\n" == capsys.readouterr().out


def test_what_one_step_could_not_test_and_another_did_counts_once(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tests of the gate run as an ordinary user; as root run those that he could not."""
    row = '<testsuites><testcase classname="tests.room.test_ways" name="{}">{}</testcase></testsuites>'
    for step, text in (("as-a-user", "<skipped/>"), ("as-root", ""), ("kit-one", "<skipped/>"), ("kit-two", "")):
        (project / f"{step}.xml").write_text(row.format("test_passes", text))
    assert ["tests/room/test_ways.py::test_passes"] == reports.skipped(project / "as-a-user.xml")
    assert 0 == reports.count(project)
    assert "2 passed, 0 failed, 1 skipped\n" == capsys.readouterr().out
