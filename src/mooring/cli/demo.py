"""`mooring demo`: the life of a volume, step by step. Exit code 0 only if everything really happened."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mooring.base.flagkinds import BOOL
from mooring.base.flags import flag
from mooring.cli.people import INTERRUPTED, check_server_parts, run_for_people, say_gone, story_log
from mooring.cli.process import Command
from mooring.cli.tables import ProcessFlags

if TYPE_CHECKING:
    from mooring.mounts.namespace import MountSpace


@dataclasses.dataclass(frozen=True, kw_only=True)
class DemoFlags(ProcessFlags):
    plain: bool = flag("plain", BOOL, False, "Plain lines, also on a terminal.")


COMMAND: Final[Command[DemoFlags]] = Command(
    DemoFlags,
    about="Takes a volume through its life, step by step, on an API server, a driver and two nodes of its own: it is "
    "created, bound, "
    "mounted for pods on both nodes, freed from a dead node, grown, snapshotted, restored and deleted. Nothing "
    "is left behind.",
    example="mooring demo",
)


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring demo`. Gives the exit code."""
    return run_for_people(COMMAND, argv, prog, lambda flags: _run(flags, prog))


def _run(flags: DemoFlags, prog: str) -> int:
    """Enters the mount namespace first, while this process has one thread: the event loop starts others."""
    check_server_parts()
    from mooring.mounts.namespace import enter_private_mounts

    return asyncio.run(_demo(flags, prog, enter_private_mounts()))


async def _demo(flags: DemoFlags, prog: str, space: MountSpace) -> int:
    from mooring.base.clock import SharedClock
    from mooring.base.randomness import Random
    from mooring.base.stopping import terminals_end, unless_stopped
    from mooring.dev.polling import DemoFailed
    from mooring.dev.run import run_demo
    from mooring.dev.screen import PlainScreen, screen_for
    from mooring.dev.story import Story

    lost = False

    def when_gone(error: OSError) -> None:
        nonlocal lost
        lost = not isinstance(error, BrokenPipeError)  # whoever closes a pipe has seen enough
        say_gone(prog, error, "the exit code tells how it ends")

    clock = SharedClock()  # a thread tells of a driver that holds the loop
    with PlainScreen(sys.stdout, when_gone) if flags.plain else screen_for(sys.stdout, when_gone) as screen:
        story = Story(screen, clock)
        try:
            with story_log(story, flags):
                finished = await unless_stopped(run_demo(space, story, clock, Random()), *terminals_end())
        except DemoFailed as error:
            story.failed(str(error))
            return 1
        if not finished:
            story.failed("interrupted")
            return INTERRUPTED
    return 1 if lost else 0
