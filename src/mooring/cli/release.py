"""`mooring release`: what the attacher of a removed driver still holds, and the end of that on demand.

| exit code | when |
|---|---|
| 0 | nothing is held any more |
| 3 | something is left |
| 2 | a command line that is wrong |
| 1 | it could not look, it refused to release anything, or somebody said no |
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TextIO

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, STRING, word_of
from mooring.base.flags import Parsed, flag
from mooring.base.text import visible
from mooring.cli.people import answer_of, run_for_people, typed
from mooring.cli.process import Command, Machine
from mooring.cli.tables import ProcessFlags

if TYPE_CHECKING:
    from mooring.base.clock import Clock
    from mooring.inspect.left_behind import HeldObject, LeftBehind
    from mooring.inspect.removed_driver import Search
    from mooring.kube.cluster import Cluster

CLEAN, CANNOT, LEFT = 0, 1, 3

_EXIT_CODES: Final = """
Exit codes: 0 nothing is held any more; 3 something is left; 2 the command
line is wrong; 1 it could not look, it refused to release anything, or the
question was answered with no.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReleaseFlags(ProcessFlags):
    kubeconfig: str = flag("kubeconfig", STRING, "", "The cluster. Empty: $KUBECONFIG, or the pod's own.")
    driver: str = flag("driver", STRING, "", "The name of the driver that was removed, as in csi.example.com.")
    output: str = flag("o", word_of("table", "json"), "table", "table or json.")
    remove: bool = flag(
        "remove", BOOL, False, "Remove the finalizers, once you have typed the driver's name, and after another look."
    )
    yes: bool = flag("yes", BOOL, False, "With --remove: do not ask.")
    detached: str = flag(
        "detached",
        STRING,
        "",
        "VolumeAttachments, with commas between, whose volumes you have detached by the storage's own means.",
    )


def _check(parsed: Parsed[ReleaseFlags]) -> None:
    flags = parsed.flags
    if not flags.driver:
        raise ConfigError("--driver: name the driver that was removed", exit_code=2)
    if flags.output not in ("table", "json"):
        raise ConfigError(f"-o: must be table or json, got {flags.output!r}", exit_code=2)
    if flags.yes and not flags.remove:
        raise ConfigError("--yes goes with --remove", exit_code=2)


COMMAND: Final[Command[ReleaseFlags]] = Command(
    ReleaseFlags,
    check=_check,
    epilog=_EXIT_CODES,
    about="Finds the objects that wait for ever for the attacher of a driver that was removed. Changes nothing without --remove.",
    example="mooring release --driver=csi.example.com --kubeconfig=$HOME/.kube/config",
)


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """argv: the words after `mooring release`. Gives the exit code."""
    return run_for_people(
        COMMAND, argv, prog, lambda flags: answer_of(_on_the_network(flags, machine or Machine()), prog, CANNOT)
    )


async def _on_the_network(flags: ReleaseFlags, machine: Machine) -> int:
    from mooring.base.clock import LoopClock
    from mooring.cli.clusters import client_for_people

    clock = LoopClock()
    async with client_for_people("mooring-release", flags.kubeconfig, machine, clock=clock) as cluster:
        return await ReleaseCommand(flags, cluster, clock, sys.stdin, sys.stdout, sys.stderr).run()


class ReleaseCommand:
    """The command on its port."""

    def __init__(
        self, flags: ReleaseFlags, cluster: Cluster, clock: Clock, stdin: TextIO, stdout: TextIO, stderr: TextIO
    ) -> None:
        self._flags, self._cluster, self._clock = flags, cluster, clock
        self._stdin, self._stdout, self._stderr = stdin, stdout, stderr
        self._detached = frozenset(name.strip() for name in flags.detached.split(",") if name.strip())
        self._outcomes: dict[tuple[str, str], str] = {}
        self._search: Search | None = None

    async def run(self) -> int:
        """Gives the exit code. Raises MooringError."""
        report = await self._look()
        self._check_detached(report)
        if self._flags.remove and (refusal := self._refusal(report)):
            self._show(report)
            self._say(f"nothing is released{refusal}")
            return CANNOT
        try:
            if self._flags.remove:
                await self._release(report.free())
        finally:
            self._show(report)
        return LEFT if any(self._outcomes.get(one.key, "not asked for") for one in report.held) else CLEAN

    def _check_detached(self, report: LeftBehind) -> None:
        unknown = self._detached - {one.name for one in report.held if one.node}
        if unknown:
            raise ConfigError(f"--detached: no VolumeAttachment that is held has the name {', '.join(sorted(unknown))}")

    def _refusal(self, report: LeftBehind) -> str:
        """The end of a sentence, "" for none."""
        if not report.held:
            return ""
        if report.obstacles:
            return ": the driver is not gone"
        if not report.free():
            return ": the report says what keeps each object"
        return "" if self._is_confirmed(report.free()) else " without the driver's name"

    async def _look(self) -> LeftBehind:
        from mooring.inspect.left_behind import judged
        from mooring.inspect.removed_driver import Search

        if self._search is None:
            self._search = Search(self._cluster, self._clock, self._flags.driver, self._say)
        return judged(await self._search.look(), self._detached)

    def _is_confirmed(self, chosen: Sequence[HeldObject]) -> bool:
        from mooring.inspect.left_behind import finalizer_of
        from mooring.inspect.render import counted

        if self._flags.yes:
            return True
        for one in chosen:
            self._say(f"  {one.kind} {one.name}")
        self._say(
            f"{counted(len(chosen), 'object')} without {finalizer_of(self._flags.driver)}: nobody will detach their volumes any more."
        )
        self._stderr.write(f"Type the driver's name to release them: {visible(self._flags.driver)}\n> ")
        self._stderr.flush()
        return typed(self._stdin) == self._flags.driver

    async def _release(self, chosen: Sequence[HeldObject]) -> None:
        """Raises MooringError; what was done until then is in the outcomes."""
        from mooring.inspect.removed_driver import FinalizerRelease

        async for one, problem in FinalizerRelease(self._cluster, self._clock, self._look).run(chosen):
            self._outcomes[one.key] = problem
            self._say(f"{one.kind} {one.name}: {problem or 'released'}")

    def _show(self, report: LeftBehind) -> None:
        from mooring.inspect.render_left_behind import as_json, as_table

        shown = as_json if self._flags.output == "json" else as_table
        self._stdout.write(shown(report, self._outcomes))

    def _say(self, text: str) -> None:
        self._stderr.write(f"{visible(text)}\n")
