"""Backup and restore: by one command each, nothing overwritten, no version twice."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.apiserver.disk import file as durable
from mooring.apiserver.disk.rows import DiskRow
from mooring.apiserver.disk.state import NAME, lasting
from mooring.apiserver.rules.volumeattachment import VOLUME_ATTACHMENTS
from mooring.apiserver.store import ObjectStore
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.cli import mooring as command
from tests.support.builders import a_va
from tests.support.rows import each_row
from tests.unit.apiserver.objects import create

LATER_MS = 1_700_000_000_000
"""The time of every restore is after this, in milliseconds since the epoch."""


def on(folder: Path, work: Callable[[ObjectStore], object]) -> None:
    async def main() -> None:
        async with lasting(folder, clock=LoopClock(), randomness=Random()) as (store, log):
            work(store)
            await log.wait_committed(store.version)

    asyncio.run(main())


def names_in(folder: Path) -> list[str]:
    found: list[str] = []
    on(folder, lambda store: found.extend(stored.key.name for stored in store.table(VOLUME_ATTACHMENTS).items()))
    return found


def replaced_in(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"replaced-*/{NAME}"))


def making(name: str) -> Callable[[ObjectStore], object]:
    return lambda store: create(store, VOLUME_ATTACHMENTS, a_va(name))


def run(*words: object) -> int:
    return command.run(["apiserver", *map(str, words)])


def test_a_backup_of_a_running_server_is_restored_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def back_up(store: ObjectStore) -> None:
        assert 0 == run("backup", f"--state={tmp_path / 'old'}", tmp_path / "file")

    on(tmp_path / "old", making("a"))
    on(tmp_path / "old", back_up)
    assert f"'{tmp_path / 'file'}' has the objects as of version 6\n" == capsys.readouterr().out
    assert ["file", "old"] == sorted(each.name for each in tmp_path.iterdir())
    assert 0o600 == (tmp_path / "file").stat().st_mode & 0o777
    assert 0 == run("restore", "--state", tmp_path / "new", tmp_path / "file")
    assert f"'{tmp_path / 'new'}' has the 5 objects of" in capsys.readouterr().out
    assert {NAME, "objects.lock"} == {each.name for each in (tmp_path / "new").iterdir()}
    assert ["a"] == names_in(tmp_path / "new")


def test_after_a_restore_no_version_comes_again(tmp_path: Path) -> None:
    on(tmp_path / "state", making("a"))
    assert 0 == run("backup", f"--state={tmp_path / 'state'}", tmp_path / "file")
    on(tmp_path / "state", making("b"))
    versions = [durable.read(tmp_path / "state" / NAME).version]
    for _ in range(3):
        assert 0 == run("restore", f"--state={tmp_path / 'state'}", "--replace", tmp_path / "file")
        versions.append(durable.read(tmp_path / "state" / NAME).version)
        on(tmp_path / "state", making("c"))
    assert versions == sorted(set(versions))
    assert versions[1] > LATER_MS
    assert 0 == run("restore", f"--state={tmp_path / 'elsewhere'}", tmp_path / "file")
    assert ["a"] == names_in(tmp_path / "elsewhere")


def test_what_a_restore_replaces_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    on(state, making("a"))
    run("backup", f"--state={state}", tmp_path / "file")
    on(state, making("b"))
    before = durable.read(state / NAME)
    assert 1 == run("restore", f"--state={state}", tmp_path / "file")
    assert "has objects already: give another folder, or --replace" in capsys.readouterr().err
    assert before == durable.read(state / NAME)
    assert 0 == run("restore", f"--state={state}", "--replace", tmp_path / "file")
    (replaced,) = replaced_in(state)
    assert f"The former objects are kept as '{replaced}'" in capsys.readouterr().out
    assert before == durable.read(replaced)
    assert ["a"] == names_in(state)


def test_a_damaged_folder_can_be_restored(tmp_path: Path) -> None:
    state = tmp_path / "state"
    on(state, making("a"))
    run("backup", f"--state={state}", tmp_path / "file")
    (state / NAME).write_bytes(b"damaged")
    assert 0 == run("restore", f"--state={state}", "--replace", tmp_path / "file")
    assert ["a"] == names_in(state)
    assert [b"damaged"] == [each.read_bytes() for each in replaced_in(state)]


def test_two_restores_keep_what_each_has_replaced(tmp_path: Path) -> None:
    """Whoever restores the wrong backup restores another at once."""
    state = tmp_path / "state"
    on(state, making("a"))
    run("backup", f"--state={state}", tmp_path / "file")
    on(state, making("precious"))
    before = durable.read(state / NAME)
    for _ in range(2):
        assert 0 == run("restore", f"--state={state}", "--replace", tmp_path / "file")
    kept = [each for each in replaced_in(state) if durable.read(each) == before]
    assert (2, 1) == (len(replaced_in(state)), len(kept))
    assert 0 == run("restore", f"--state={state}", "--replace", kept[0])
    assert ["a", "precious"] == names_in(state)


CUT_OFF = """
import os, sys
sys.dont_write_bytecode = True  # which renames files, too
from pathlib import Path
from mooring.cli import mooring
steps = 0
def kill(event, args):
    global steps
    if event == "os.rename":
        steps += 1
        if steps > int(sys.argv[1]):
            os._exit(9)
sys.addaudithook(kill)
sys.exit(mooring.run(["apiserver", "restore", f"--state={sys.argv[2]}", "--replace", sys.argv[3]]))
"""


@pytest.mark.slow
@each_row(("steps", "result"), [(0, ["a", "b"]), (1, ["a"]), (2, ["a"]), (3, ["a"]), (4, ["a"])])
def test_a_restore_that_is_killed_goes_back_or_on(tmp_path: Path, steps: int, result: list[str]) -> None:
    """Before each of its renames. The objects that it replaces are in the journal alone."""
    state, whole = tmp_path / "state", tmp_path / "whole"
    on(whole, making("a"))
    run("backup", f"--state={whole}", tmp_path / "file")

    on(whole, making("b"))
    file = durable.ObjectFile(whole / NAME, durable.read(whole / NAME))
    before = durable.read(whole / NAME)
    file.append([DiskRow("x/y", "", "last", before.version + 1, 1.0, b"{}")])
    shutil.copytree(whole, state)
    file.close()
    before = durable.read(whole / NAME)
    code = [sys.executable, "-c", CUT_OFF, str(steps), str(state), str(tmp_path / "file")]
    assert (9 if steps < 4 else 0) == subprocess.run(code, check=False, timeout=30, capture_output=True).returncode
    assert result == names_in(state)
    assert [before] * (steps > 0) == [durable.read(each) for each in replaced_in(state)]
    assert not [each for each in state.rglob("*") if "begun" in each.name or "restored" in each.name]


def test_a_backup_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    on(tmp_path / "state", making("a"))
    (tmp_path / "file").write_bytes(b"mine")
    assert 1 == run("backup", f"--state={tmp_path / 'state'}", tmp_path / "file")
    assert "is there already, and a backup overwrites nothing" in capsys.readouterr().err
    assert b"mine" == (tmp_path / "file").read_bytes()


def test_a_folder_in_use_is_not_restored_into(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def restore(store: ObjectStore) -> None:
        assert 1 == run("backup", f"--state={tmp_path / 'nothing'}", tmp_path / "file")
        assert 0 == run("backup", f"--state={tmp_path / 'state'}", tmp_path / "file")
        assert 1 == run("restore", f"--state={tmp_path / 'state'}", "--replace", tmp_path / "file")

    on(tmp_path / "state", restore)
    said = capsys.readouterr().err
    assert f"mooring apiserver backup: '{tmp_path / 'nothing'}' has no {NAME}" in said
    assert "is in use by the API server of process" in said


@each_row("data", [None, b"", b"x" * 5000])
def test_a_file_that_is_no_backup_is_refused_before_anything_changes(
    tmp_path: Path, data: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    on(tmp_path / "state", making("a"))
    if data is not None:
        (tmp_path / "file").write_bytes(data)
    assert 1 == run("restore", f"--state={tmp_path / 'state'}", "--replace", tmp_path / "file")
    assert f"mooring apiserver restore: '{tmp_path / 'file'}' " in capsys.readouterr().err
    assert ["a"] == names_in(tmp_path / "state")


@each_row("words", [[], ["--state=x"], ["--state=x", "a", "b"], ["a"], ["--stat=x", "a"]])
@each_row("verb", ["backup", "restore"])
def test_words_that_are_missing_or_too_many(verb: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 != run(verb, *words)
    assert capsys.readouterr().err.startswith(f"mooring apiserver {verb}: ")
