"""A driver as a program: its output, its ends, and that nothing of it outlives who started it."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mooring.base import ending, supervisor
from mooring.base.clock import LoopClock
from mooring.base.ending import Ending
from mooring.base.errors import ConfigError
from mooring.dev import driver_program
from mooring.dev.driver_program import DriverProgram
from mooring.dev.screen import PlainScreen
from mooring.dev.story import Story
from tests.support.rows import each_row
from tests.support.waiting import eventually


class Telling:
    """A program, and what is told of it."""

    def __init__(self, *words: str, socket: Path = Path("/nowhere"), clock: LoopClock | None = None) -> None:
        self.shown = io.StringIO()
        self.ending = Ending()
        story = Story(PlainScreen(self.shown), LoopClock())
        self.program = DriverProgram(words, dict(os.environ), socket, story, clock or LoopClock(), self.ending)

    async def minded_until(self, text: str) -> None:
        """Until this was told."""
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            minding = group.create_task(self.program.mind(), name="mind")
            await asyncio.to_thread(eventually, lambda: text in self.shown.getvalue(), 9, text)
            minding.cancel()


def children_of(group: int) -> list[int]:
    """The processes of a group."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(folder.name))
    return found


async def test_its_lines_are_told_whatever_is_in_them() -> None:
    telling = Telling("printf", r"one\r\ntwo \033[2J\377\nthree")
    await telling.program.start()
    with pytest.raises(ConfigError):
        async with asyncio.timeout(10):
            await telling.program.mind()
    lines = [line.split("output")[1].strip() for line in telling.shown.getvalue().splitlines()]
    assert ["one", r"two \x1b[2J\xff", "three"] == lines


@each_row(
    ("words", "problem"),
    [
        (("sh", "-c", "echo broken >&2; exit 3"), "driver: sh ended with exit code 3 before it answered\n  broken"),
        (("false",), "driver: false ended with exit code 1 before it answered; it said nothing"),
        (
            ("./nowhere",),
            "driver: ./nowhere ended with exit code 127 before it answered\n  ./nowhere: No such file",
        ),
    ],
)
async def test_an_end_before_it_answered_is_told_with_its_last_words(words: tuple[str, ...], problem: str) -> None:
    telling = Telling(*words)
    await telling.program.start()
    with pytest.raises(ConfigError) as caught:
        async with asyncio.timeout(10):
            await telling.program.mind()
    assert str(caught.value).startswith(problem)
    await telling.program.close()


async def test_one_that_was_up_is_started_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(driver_program, "AGAIN_EARLY_S", 0.02)
    count = tmp_path / "count"
    telling = Telling(
        "sh",
        "-c",
        f"echo x >> {count}; echo run $(wc -l < {count}); test $(wc -l < {count}) -gt 1 && exec sleep 60; exit 5",
    )
    telling.program.is_up = True
    await telling.program.start()
    await telling.minded_until("run 2")
    assert "the driver ended with exit code 5: started again in 0.02 s" in telling.shown.getvalue()
    await telling.program.close()


class HastyClock(LoopClock):
    """Notes how long it was to sleep, and does not."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, delay_s: float) -> None:
        self.slept.append(delay_s)


async def test_one_that_ends_at_each_start_is_started_again_within_two_seconds(tmp_path: Path) -> None:
    """Its author mends it meanwhile, a socket that it left for example, and has half a minute to wait where the delay
    grows.
    """
    clock, count = HastyClock(), tmp_path / "count"
    telling = Telling("sh", "-c", f"echo x >> {count}; echo run $(wc -l < {count}); exit 1", clock=clock)
    telling.program.is_up = True
    await telling.program.start()
    await telling.minded_until("run 8")
    await telling.program.close()
    assert {2.0} == set(clock.slept[:6])
    told = [line.split("warning")[1].strip() for line in telling.shown.getvalue().splitlines() if "warning" in line]
    assert "the driver ended with exit code 1: started again in 2 s" == told[0]
    assert told[1].startswith("the driver ended with exit code 1  → again, 2nd time, see ")


@each_row(("at_start", "is_told"), [("", True), ("rm -f {0};", False)], ids=["left", "removed"])
async def test_a_socket_that_it_left_and_does_not_remove_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, at_start: str, is_told: bool
) -> None:
    """B: it can't listen there again, and its own words ("address already in use") do not say whose fault that is."""
    monkeypatch.setattr(driver_program, "AGAIN_EARLY_S", 0.02)
    socket, count = tmp_path / "csi.sock", tmp_path / "count"
    there = f"{at_start.format(socket)} test -e {socket} || touch {socket}"
    telling = Telling("sh", "-c", f"{there}; echo x >> {count}; echo run $(wc -l < {count}); exit 1", socket=socket)
    telling.program.is_up = True
    await telling.program.start()
    await telling.minded_until("run 3")
    first, second, *_ = [line for line in telling.shown.getvalue().splitlines() if "ended with exit code" in line]
    assert (False, is_told) == (driver_program.LEFT_SOCKET in first, driver_program.LEFT_SOCKET in second)
    await telling.program.close()


async def test_its_end_is_asked_for_and_then_enforced_with_all_that_it_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ending, "ENDING_S_MAX", 0.3)
    pid = tmp_path / "pid"
    telling = Telling(
        "sh",
        "-c",
        f"trap 'echo told' TERM; sleep 1000 & sleep 1000 & echo $$ > {pid}; echo ready; while :; do wait; done",
    )
    await telling.program.start()
    await telling.minded_until("ready")
    group = int(pid.read_text())
    assert 3 == len(children_of(group))
    await telling.program.close()
    assert "told" in telling.shown.getvalue()
    eventually(lambda: not children_of(group), 10, "all of it is gone")  # killed together, they end one by one


async def test_without_power_it_is_gone_at_once_with_all_that_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    telling = Telling(
        "sh", "-c", f"trap 'echo told' TERM; sleep 1000 & echo $$ > {pid}; echo ready; while :; do wait; done"
    )
    await telling.program.start()
    await telling.minded_until("ready")
    group = int(pid.read_text())
    assert 2 == len(children_of(group))
    await telling.program.kill()
    assert [] == children_of(group)
    assert "told" not in telling.shown.getvalue()


async def test_it_is_ended_from_any_thread_while_the_event_loop_is_held(tmp_path: Path) -> None:
    """B1 of what hurt drivers' authors."""
    pid = tmp_path / "pid"
    telling = Telling(
        "sh", "-c", f"trap 'echo told' TERM; sleep 1000 & echo $$ > {pid}; echo ready; while :; do wait; done"
    )
    await telling.program.start()
    await telling.minded_until("ready")
    group = int(pid.read_text())
    assert 2 == len(children_of(group))
    ending = threading.Thread(target=telling.program.kill_now)
    ending.start()
    ending.join(20)  # and nobody else runs here meanwhile
    assert not ending.is_alive()
    assert group not in children_of(group)
    eventually(lambda: not children_of(group), 10, "what it has started is gone, too")
    telling.program.kill_now()
    await telling.program.close()


def test_nothing_of_it_outlives_who_started_it_even_by_kill_9(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    inner = f"sleep 1000 & echo $$ > {pid}; wait"
    starter = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-I', '-S', *sys.argv[1:]], "
        "stdin=subprocess.PIPE,"
        " start_new_session=True); p.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", starter, supervisor.__file__, "sh", "-c", inner]) as parent:
        eventually(lambda: pid.exists() and pid.read_text().strip(), 10, "it runs")
        group = int(pid.read_text())
        assert 2 == len(children_of(group))
        parent.send_signal(signal.SIGKILL)
    eventually(lambda: not children_of(group), 10, "all of it is gone")


async def test_what_a_driver_prints_goes_into_a_file_where_that_is_asked_for() -> None:
    shown, log, clock = io.StringIO(), io.StringIO(), LoopClock()
    story = Story(PlainScreen(shown), clock)
    story.driver_log = log
    program = DriverProgram(
        ("sh", "-c", "echo much; exit 3"), dict(os.environ), Path("/nowhere"), story, clock, Ending()
    )
    await program.start()
    with pytest.raises(ConfigError, match="much"):
        await program.mind()
    assert ("", "much\n") == (shown.getvalue(), log.getvalue())
