"""Kills the reference driver again and again, and judges what is left: a program, so that it may fork (grpc is never loaded).

    python -m tests.unit.driver.kill_rounds steps|times FOLDER ROUNDS SEED

steps: kills before the first, the second, ... change of the file system, until a run ends by itself. times: kills after random times.
Each round carries on with what the last one left. Prints how many rounds were judged; ends with a traceback when one went wrong.
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
from pathlib import Path
from typing import Any

from mooring.base.chance import Chance
from mooring.driver.hostpath import HostPath
from mooring.driver.state import State
from mooring.driver.statefile import StateFolder
from tests.unit.driver.calls import Mode, a_deletion, a_publication, an_unpublication, created

ABSENT = "absent"
LIFE = ("", "node-1", "node-1+node-2", "node-2", "", ABSENT)
"""Where a volume is after each step of its life: created, published, published, unpublished, unpublished, deleted."""
LONELY = 4
"""The step after which it is on no node and about to be deleted; a worker begins there, whatever it finds."""

CHANGES = {"open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "shutil.rmtree", "os.truncate"}


async def worker(driver: HostPath, name: str, answered: int, laps: int) -> None:
    """Takes one volume through its life, telling each answer as `name step id`."""
    volume_id = await created(driver, name)
    await driver.controller_unpublish_volume(an_unpublication(volume_id, ""))
    os.write(answered, f"{name} {LONELY} {volume_id}\n".encode())
    for step in itertools.islice(itertools.cycle(range(len(LIFE))), LONELY + 1, laps * len(LIFE)):
        if step == 0:
            volume_id = await created(driver, name)
        elif step in (1, 2):
            (driver._folder.volume(volume_id) / "data").write_text("data")
            await driver.controller_publish_volume(a_publication(volume_id, f"node-{step}", Mode.MULTI_NODE_MULTI_WRITER))
        elif step in (3, 4):
            await driver.controller_unpublish_volume(an_unpublication(volume_id, f"node-{step - 2}"))
        else:
            await driver.delete_volume(a_deletion(volume_id))
        os.write(answered, f"{name} {step} {volume_id}\n".encode())


async def work(folder: Path, answered: int, workers: int, laps: int, seed: int) -> None:
    with HostPath(folder, node_ids=["node-1", "node-2"], chance=Chance(seed)) as driver:
        async with asyncio.TaskGroup() as group:
            for number in range(workers):
                group.create_task(worker(driver, f"pvc-{number}", answered, laps), name=f"worker/{number}")


def run_until_killed(folder: Path, workers: int, laps: int, seed: int, *, step: int = 0, after_s: float = 0.0) -> tuple[list[str], bool]:
    """The answers that were told before the end, and whether the driver was killed. step: before which change of the file system."""
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
        reads_only = event == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if event in CHANGES and not reads_only and next(count) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def found(state: State) -> dict[str, tuple[str, str]]:
    """By name: the nodes a volume is on, and its id."""
    return {one.name: ("+".join(where.node_id for where in one.published), one.id) for one in state.volumes.values()}


def judge(folder: Path, before: dict[str, tuple[str, str]], answers: list[str]) -> dict[str, tuple[str, str]]:
    """Asserts that all that was answered is there, and folders and state agree; gives what is there."""
    opened, state = StateFolder.opened(folder)
    opened.close()
    assert sorted(state.volumes) == sorted(entry.name for entry in (folder / "volumes").iterdir()), "state and folders differ"
    after = found(state)
    last = {line.split()[0]: line.split()[1:] for line in answers}
    for name in last.keys() | before.keys() | after.keys():
        nodes, volume_id = after.get(name, (ABSENT, ""))
        if name not in last:  # it was on its way to LONELY from wherever it was
            assert nodes in {before.get(name, (ABSENT,))[0], LIFE[LONELY]}, f"{name}: was {before.get(name)}, is {after.get(name)}"
            continue
        step, told_id = int(last[name][0]), last[name][1]
        assert nodes in {LIFE[step], LIFE[(step + 1) % len(LIFE)]}, f"{name}: answered {last[name]}, is {after.get(name)}"
        if nodes != ABSENT:  # a deleted volume comes back as another one only
            assert (volume_id == told_id) is (LIFE[step] != ABSENT), f"{name}: answered {last[name]}, is {after.get(name)}"
    return after


def at_each_step(folder: Path, seed: int) -> int:
    for step in itertools.count(1):
        shutil.rmtree(folder, ignore_errors=True)
        answers, killed = run_until_killed(folder, workers=1, laps=3, seed=seed + step, step=step)
        judge(folder, {}, answers)
        if not killed:
            return step
    raise AssertionError


def at_random_times(folder: Path, rounds: int, seed: int) -> int:
    chance, before = random.Random(seed), dict[str, tuple[str, str]]()
    for number in range(rounds):
        answers, killed = run_until_killed(folder, workers=5, laps=10_000, seed=seed + number, after_s=chance.uniform(0.0, 0.05))
        assert killed
        before = judge(folder, before, answers)
    return rounds


if __name__ == "__main__":
    how, place, rounds, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    print(at_each_step(place, seed) if how == "steps" else at_random_times(place, rounds, seed))
