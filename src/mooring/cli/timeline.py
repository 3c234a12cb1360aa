"""`mooring timeline`: what happened when to one object's chain, with the waits and whose move it was. Reads only.

| exit code | when |
|---|---|
| 0 | shown |
| 1 | it could not look, or the object does not exist |
| 2 | a command line that is wrong |
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TextIO

from mooring.base.flagkinds import DURATION, NAMESPACE, word_of
from mooring.base.flags import Parsed, flag
from mooring.cli.objects import object_named
from mooring.cli.people import answer_of, check_output, run_for_people, width_of, words_and_flags
from mooring.cli.process import Command, Machine
from mooring.cli.tables import AsKubectlFlags, ProcessFlags

if TYPE_CHECKING:
    from mooring.base.clock import Clock
    from mooring.inspect.timeline.story import Timeline
    from mooring.kube.cluster import Cluster

CANNOT: Final = 1
OUTPUTS: Final = ("text", "json", "yaml", "html")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TimelineFlags(AsKubectlFlags, ProcessFlags):
    namespace: str = flag("namespace", NAMESPACE, "", "The object's namespace. Empty: the kubeconfig's.")
    n: str = flag("n", NAMESPACE, "", "The same as --namespace.")
    output: str = flag("output", word_of(*OUTPUTS), "text", "text, json, yaml or html: one page that needs no network.")
    o: str = flag("o", word_of(*OUTPUTS), "", "The same as --output.")
    gap: float = flag("gap", DURATION, 5.0, "Show waits that are longer, and always the longest.")


def _check(parsed: Parsed[TimelineFlags]) -> None:
    check_output(parsed.flags.o or parsed.flags.output, *OUTPUTS)


COMMAND: Final[Command[TimelineFlags]] = Command(
    TimelineFlags,
    check=_check,
    epilog="\nExit codes: 0 shown; 1 it could not look, or the object does not exist; 2 the\ncommand line is wrong.\n",
    about="Says what happened when to an object and to all that its volumes need: who did what, how long nothing "
    "happened, and whose move "
    "it was then. Reads only, on any cluster.",
    example="mooring timeline --namespace=shop pod/web-0",
)


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """argv: the words after `mooring timeline`: the object, as `pod/web-0` or `pod web-0`, and flags. Gives the exit
    code.
    """
    words, flags = words_and_flags(TimelineFlags, argv)
    return run_for_people(
        COMMAND, flags, prog, lambda given: answer_of(_on_the_network(words, given, machine or Machine()), prog, CANNOT)
    )


async def _on_the_network(words: Sequence[str], flags: TimelineFlags, machine: Machine) -> int:
    from mooring.base.clock import LoopClock
    from mooring.cli.clusters import client_for_people, load_config_as_kubectl

    clock = LoopClock()
    config = load_config_as_kubectl(flags.kubeconfig, machine)
    async with client_for_people("mooring-timeline", flags.kubeconfig, machine, clock=clock) as cluster:
        return await ShowTimeline(flags, words, cluster, clock, config.namespace, sys.stdout).run()


class ShowTimeline:
    """The command on its ports. words: the object. home: the namespace where none is named."""

    def __init__(
        self, flags: TimelineFlags, words: Sequence[str], cluster: Cluster, clock: Clock, home: str, stdout: TextIO
    ) -> None:
        self._flags, self._words, self._cluster, self._clock, self._home, self._stdout = (
            flags,
            words,
            cluster,
            clock,
            home,
            stdout,
        )

    async def run(self) -> int:
        """Gives the exit code. Raises ConfigError, and ApiError for a server that does not answer."""
        from mooring.inspect.timeline.lanes import TracedChain
        from mooring.inspect.timeline.story import timeline

        kind, key = object_named(self._words, self._flags.namespace or self._flags.n or self._home, "mooring timeline")
        chain = TracedChain(self._cluster, self._clock.wall_s())
        await chain.read(kind, key)
        line = timeline(f"{kind} {key}", kind, chain.scene, chain.lanes, self._flags.gap)
        if any(gap.is_open for gap in line.gaps):
            line = line.blocked_by(await chain.blocked_by(kind, key))
        self._stdout.write(self._printed(line))
        return 0

    def _printed(self, line: Timeline) -> str:
        from mooring.inspect.printing import as_json, as_yaml
        from mooring.inspect.timeline.page import as_page
        from mooring.inspect.timeline.render import as_text, as_values

        match self._flags.o or self._flags.output:
            case "json":
                return as_json(as_values(line))
            case "yaml":
                return as_yaml(as_values(line))
            case "html":
                return as_page(line)
            case _:
                return as_text(line, width_of(self._stdout))
