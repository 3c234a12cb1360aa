"""Kills the reference driver again and again, and judges what is left: a program, so that it may fork (grpc is never
loaded).

    python -m tests.unit.driver.kill_rounds steps|times FOLDER ROUNDS SEED

steps: kills before the first, the second, ... change of the file system, until a run ends by itself. times: kills after
random times. Each round carries on with what the last one left. Prints how many rounds were judged; ends with a
traceback when one went wrong.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mooring.base.randomness import Random
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.driver import HostPath
from mooring.driver.hostpath.state import State
from mooring.driver.hostpath.statefile import StateFolder
from tests.unit.driver.calls import Mode, a_deletion, a_publication, an_unpublication, created, snapshotted

Seen = frozenset[str]
"""What there is of a volume: itself, its snapshot, what was restored from that, and the nodes it is on."""

VOLUME, SNAPSHOT, RESTORED = "volume", "snapshot", "restored"
ABSENT: Seen = frozenset()


def life() -> Iterator[Seen]:
    """What there is after each step: a snapshot is taken while the volume is in use, restored, and all goes again."""
    now: set[str] = set()
    for change in (VOLUME, "node-1", "node-2", SNAPSHOT, RESTORED, "node-1", "node-2", RESTORED, SNAPSHOT, VOLUME):
        now ^= {change}
        yield frozenset(now)


LIFE = tuple(life())
LONELY = len(LIFE) - 2
"""The step after which there is the volume alone, about to be deleted; a worker begins there, whatever it finds."""

FILES = {"data": "data", "inner/more": "more data"}
CHANGES = {"open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.link", "os.truncate", "ctypes.dlopen"}


async def worker(driver: HostPath, name: str, answered: int, laps: int) -> None:
    """Takes one volume through its life, telling each answer as `name step id`."""
    ids = {VOLUME: await created(driver, name)}
    await driver.controller_unpublish_volume(an_unpublication(ids[VOLUME], ""))
    known = driver._journal.state
    for gone in (known.named(f"{name}-{RESTORED}"), known.snapshot_named(f"{name}-{SNAPSHOT}")):
        await delete(driver, "" if gone is None else gone.id)
    os.write(answered, f"{name} {LONELY} {ids[VOLUME]}\n".encode())
    for step in itertools.islice(itertools.cycle(range(len(LIFE))), LONELY + 1, laps * len(LIFE)):
        (change,) = LIFE[step] ^ LIFE[step - 1]
        if change not in LIFE[step]:
            await leave(driver, change, ids)
        elif change == VOLUME:
            ids[VOLUME] = await created(driver, name)
        elif change == SNAPSHOT:
            write_files(driver._folder.data(ids[VOLUME]))
            ids[SNAPSHOT] = await snapshotted(driver, ids[VOLUME], f"{name}-{SNAPSHOT}")
        elif change == RESTORED:
            content = {"volume_content_source": {"snapshot": {"snapshot_id": ids[SNAPSHOT]}}}
            ids[RESTORED] = await created(driver, f"{name}-{RESTORED}", **content)
        else:
            await driver.controller_publish_volume(a_publication(ids[VOLUME], change, Mode.MULTI_NODE_MULTI_WRITER))
        os.write(answered, f"{name} {step} {ids[VOLUME]}\n".encode())


async def leave(driver: HostPath, change: str, ids: dict[str, str]) -> None:
    if change in ids:
        await delete(driver, ids[change])
    else:
        await driver.controller_unpublish_volume(an_unpublication(ids[VOLUME], change))


async def delete(driver: HostPath, record_id: str) -> None:
    if record_id.startswith("snap-"):
        await driver.delete_snapshot(csi.DeleteSnapshotRequest(snapshot_id=record_id))
    elif record_id:
        await driver.delete_volume(a_deletion(record_id))


def write_files(folder: Path) -> None:
    (folder / "inner").mkdir(exist_ok=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)


async def work(folder: Path, answered: int, workers: int, laps: int, seed: int) -> None:
    with HostPath(folder, node_ids=["node-1", "node-2"], randomness=Random(seed)) as driver:
        async with asyncio.TaskGroup() as group:
            for number in range(workers):
                group.create_task(worker(driver, f"pvc-{number}", answered, laps), name=f"worker/{number}")


def run_until_killed(
    folder: Path, workers: int, laps: int, seed: int, *, step: int = 0, after_s: float = 0.0
) -> tuple[list[str], bool]:
    """The answers that were told before the end, and whether the driver was killed. step: before which change of the
    file system.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        if step:
            kill_before(step)
        asyncio.run(work(folder, writing, workers, laps, seed))
        os._exit(0)
    os.close(writing)
    if after_s:
        time.sleep(after_s)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reading) as told:
        lines = told.read().splitlines()
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0, "the driver failed"
    return lines, os.WIFSIGNALED(status)


def kill_before(step: int) -> None:
    count = itertools.count(1)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        reads_only = event == "open" and not (
            isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        if event in CHANGES and not reads_only and next(count) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def found(state: State) -> dict[str, tuple[Seen, str]]:
    """By name: what there is of a volume, and its id."""
    seen = {one.name: ({VOLUME, *(where.node_id for where in one.published)}, one.id) for one in state.volumes.values()}
    for part, names in ((SNAPSHOT, state.snapshots), (RESTORED, state.volumes)):
        for one in names.values():
            if one.name.endswith(part):
                seen.pop(one.name, None)
                seen[one.name.removesuffix(f"-{part}")][0].add(part)
    return {name: (frozenset(there), volume_id) for name, (there, volume_id) in seen.items()}


def judge(folder: Path, before: dict[str, tuple[Seen, str]], answers: list[str]) -> dict[str, tuple[Seen, str]]:
    """Asserts that all that was answered is there, and data and state agree; gives what is there."""
    opened, state = StateFolder.opened(folder)
    opened.close()
    for part, records in (("volumes", state.volumes), ("snapshots", state.snapshots)):
        assert sorted(records) == sorted(entry.name for entry in (folder / part).iterdir()), f"state and {part} differ"
        for one in records.values():
            if one.source_id:
                copied = {name: (folder / part / one.id / name).read_text() for name in FILES}
                assert FILES == copied, f"{one.name}: half a copy"
    after = found(state)
    last = {line.split()[0]: line.split()[1:] for line in answers}
    for name in last.keys() | before.keys() | after.keys():
        there, volume_id = after.get(name, (ABSENT, ""))
        if name not in last:  # it was on its way to LONELY from wherever it was
            allowed = {VOLUME} | before.get(name, (ABSENT, ""))[0]
            assert there <= allowed, f"{name}: was {before.get(name)}, is {after.get(name)}"
            continue
        step, told_id = int(last[name][0]), last[name][1]
        assert there in {LIFE[step], LIFE[(step + 1) % len(LIFE)]}, (
            f"{name}: answered {last[name]}, is {after.get(name)}"
        )
        if VOLUME in there:  # a deleted volume comes back as another one only
            assert (volume_id == told_id) is (VOLUME in LIFE[step]), (
                f"{name}: answered {last[name]}, is {after.get(name)}"
            )
    return after


def at_each_step(folder: Path, seed: int) -> int:
    for step in itertools.count(1):
        shutil.rmtree(folder, ignore_errors=True)
        answers, killed = run_until_killed(folder, workers=1, laps=2, seed=seed + step, step=step)
        judge(folder, {}, answers)
        if not killed:
            return step
    raise AssertionError


def at_random_times(folder: Path, rounds: int, seed: int) -> int:
    randomness, before = random.Random(seed), dict[str, tuple[Seen, str]]()
    for number in range(rounds):
        answers, killed = run_until_killed(
            folder, workers=5, laps=10_000, seed=seed + number, after_s=randomness.uniform(0.0, 0.05)
        )
        assert killed
        before = judge(folder, before, answers)
    return rounds


if __name__ == "__main__":
    how, place, rounds, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    print(at_each_step(place, seed) if how == "steps" else at_random_times(place, rounds, seed))
