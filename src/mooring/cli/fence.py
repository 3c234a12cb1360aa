"""`mooring fence`: states that a node's machine is off, once that is proved. `mooring unfence` has its base here.

| exit code | when |
|---|---|
| 0 | the node is fenced |
| 3 | it could be fenced, but for `--dry-run` |
| 2 | a command line that is wrong |
| 1 | it could not look, it refused, or somebody said no |
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TextIO, TypeVar

import msgspec

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, DURATION, STRING, word_of
from mooring.base.flags import Parsed, UsageError, flag
from mooring.base.text import visible
from mooring.cli.people import answer_of, check_output, run_for_people, typed, width_of, words_and_flags
from mooring.cli.process import Command, Machine
from mooring.cli.tables import AsKubectlFlags, ProcessFlags

if TYPE_CHECKING:
    from mooring.api.core import Node
    from mooring.base.clock import Clock
    from mooring.inspect.fencing.fence import Outcome
    from mooring.inspect.fencing.judge import ProverAnswer
    from mooring.inspect.points import Point
    from mooring.kube.cluster import Cluster

DONE, CANNOT, LEFT = 0, 1, 3
OUTPUTS: Final = ("text", "json", "yaml")
OFF_OR_CUT_OFF: Final = (
    "The API server can't tell a machine that is off from one that it does not reach. If this one still runs, "
    "two nodes may write to "
    "one volume."
)

EXIT_CODES: Final = """
Exit codes: 0 the node is {done}; 3 it is possible, and
--dry-run has written nothing; 2 the command line is wrong; 1 it could not
look, it refused, or the question was answered with no.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeFlags(AsKubectlFlags, ProcessFlags):
    output: str = flag("output", word_of(*OUTPUTS), "text", "text, json or yaml.")
    o: str = flag("o", word_of(*OUTPUTS), "", "The same as --output.")
    dry_run: bool = flag("dry-run", BOOL, False, "Only show what is proved, and what speaks against it.")
    yes: bool = flag("yes", BOOL, False, "Do not ask.")


F = TypeVar("F", bound=NodeFlags)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FenceFlags(NodeFlags):
    reason: str = flag("reason", STRING, "", "Why, for those who come after you: kept on the Node, and in an Event.")
    prover: str = flag(
        "prover",
        STRING,
        "",
        "A command that ends with exit code 0 if the machine is off; {node} stands for the node's name.",
    )
    prover_timeout_s: float = flag("prover-timeout", DURATION, 60.0, "How long the prover may take.")
    yes: bool = flag("yes", BOOL, False, "Do not ask. Only with --prover: somebody has to say that the machine is off.")


def check_node_flags(parsed: Parsed[Any]) -> None:
    flags = parsed.flags
    check_output(flags.o or flags.output, *OUTPUTS)
    if flags.yes and flags.dry_run:
        raise ConfigError("--yes goes without --dry-run", exit_code=2)


def _check_fence(parsed: Parsed[FenceFlags]) -> None:
    check_node_flags(parsed)
    flags = parsed.flags
    if flags.yes and not flags.prover:
        raise ConfigError(
            "--yes: needs --prover: without a question, a command has to say that the machine is off", exit_code=2
        )
    if flags.prover_timeout_s <= 0:
        raise ConfigError("--prover-timeout: must be greater than zero", exit_code=2)


COMMAND: Final[Command[FenceFlags]] = Command(
    FenceFlags,
    check=_check_fence,
    epilog=EXIT_CODES.format(done="fenced"),
    about="States that a node's machine is off, by the out-of-service taint, once its Lease, its condition Ready and "
    "a prover show that: "
    "its pods are deleted then, and its volumes go to other nodes.",
    example="mooring fence --prover='./is-off {node}' --reason='power supply burnt' n1",
)


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """argv: the words after `mooring fence`: the node, and flags. Gives the exit code."""
    words, flags = words_and_flags(FenceFlags, argv)
    return run_for_people(
        COMMAND, flags, prog, lambda given: serve(FenceCommand, words, given, prog, machine or Machine())
    )


def serve(command: type[NodeCommand[F]], words: Sequence[str], flags: F, prog: str, machine: Machine) -> int:
    """Gives the exit code. Raises ConfigError."""
    return answer_of(_on_the_network(command, words, flags, machine), prog, CANNOT)


async def _on_the_network(command: type[NodeCommand[F]], words: Sequence[str], flags: F, machine: Machine) -> int:
    from mooring.base.clock import LoopClock
    from mooring.cli.clusters import client_for_people

    clock = LoopClock()
    async with client_for_people("mooring-fence", flags.kubeconfig, machine, clock=clock) as cluster:
        return await command(flags, words, cluster, clock, (sys.stdin, sys.stdout, sys.stderr)).run()


class NodeCommand(Generic[F]):
    """One statement about a node, on the ports: looks, shows, asks, writes. words: the node. streams: stdin, stdout,
    stderr.
    """

    done = ""
    """The state of the node afterwards."""

    def __init__(
        self, flags: F, words: Sequence[str], cluster: Cluster, clock: Clock, streams: tuple[TextIO, TextIO, TextIO]
    ) -> None:
        from mooring.inspect.fencing.fence import Fence

        self._flags = flags
        self._stdin, self._stdout, self._stderr = streams
        self._name = node_named(words)
        self._fence = Fence(cluster, clock, self._name, self._say)
        self._next = ""
        self._already: Node | None = None

    async def run(self) -> int:
        """Gives the exit code. Raises MooringError."""
        from mooring.inspect.points import objections_in

        points = await self._look()
        if points is None or objections_in(points) or self._flags.dry_run:
            self._next = self._next_line() if points is not None and not objections_in(points) else ""
            self._show(points, self.done if points is None else "")
            return DONE if points is None else CANNOT if objections_in(points) else LEFT
        if not self._flags.yes:
            self._stderr.write(self._text(points, "", width_of(self._stderr)))
            if not self._is_confirmed():
                self._say("nothing is written without the node's name")
                self._show(points, "")
                return CANNOT
        outcome = await self._write()
        if outcome.untold:
            self._say(f"no Event was left: {outcome.untold}")
        self._show(points, "" if outcome.problem else self.done, outcome.problem)
        return CANNOT if outcome.problem else DONE

    async def _look(self) -> tuple[Point, ...] | None:
        """None where it is so already."""
        raise NotImplementedError

    async def _write(self) -> Outcome:
        raise NotImplementedError

    def _question(self) -> str:
        raise NotImplementedError

    def _next_line(self) -> str:
        """The command that does what a dry run has shown."""
        raise NotImplementedError

    def _is_confirmed(self) -> bool:
        self._say(self._question())
        self._stderr.write(f"Type the node's name: {visible(self._name)}\n> ")
        self._stderr.flush()
        return typed(self._stdin) == self._name

    # -- telling

    def _show(self, points: tuple[Point, ...] | None, done: str, problem: str = "") -> None:
        from mooring.inspect.fencing.judge import is_ours, record_of
        from mooring.inspect.fencing.render import as_values
        from mooring.inspect.printing import as_json, as_yaml

        output = self._flags.o or self._flags.output
        if output == "text":
            self._stdout.write(self._text(points or (), done, width_of(self._stdout), problem))
            return
        record = record_of(self._already) if self._already is not None and is_ours(self._already) else {}
        values = as_values(self._name, points or (), done, problem, record, self._next)
        self._stdout.write(as_json(values) if output == "json" else as_yaml(values))

    def _text(self, points: tuple[Point, ...], done: str, width: int, problem: str = "") -> str:
        from mooring.inspect.fencing.judge import fence_rows
        from mooring.inspect.fencing.render import as_text

        rows = fence_rows(self._already) if self._already is not None else ()
        return as_text(self._name, points, done, problem, width, rows, self._next)

    def _say(self, text: str) -> None:
        self._stderr.write(f"{visible(text)}\n")


class FenceCommand(NodeCommand[FenceFlags]):
    done = "fenced"

    def __init__(self, *ports: Any) -> None:
        super().__init__(*ports)
        self._answer: ProverAnswer | None = None

    async def _look(self) -> tuple[Point, ...] | None:
        from mooring.inspect.fencing.judge import fence_points, is_fenced

        node = await self._fence.node()
        if is_fenced(node):
            self._already = node
            return None
        facts = await self._fence.facts(None)
        await self._ask()
        return fence_points(msgspec.structs.replace(facts, prover=self._answer))

    async def _ask(self) -> None:
        """The prover speaks last: machines are switched on while a Lease is watched, and while a question waits for its
        answer.
        """
        from mooring.inspect.fencing.prover import asked

        if self._flags.prover:
            self._answer = await asked(self._flags.prover, self._name, self._flags.prover_timeout_s)

    async def _write(self) -> Outcome:
        if not self._flags.yes:
            await self._ask()
        return await self._fence.fence(self._answer, self._flags.reason)

    def _question(self) -> str:
        return "Its pods are deleted, and its volumes go to other nodes." if self._flags.prover else OFF_OR_CUT_OFF

    def _next_line(self) -> str:
        given = (("--prover", self._flags.prover), ("--reason", self._flags.reason))
        return line_of("fence", self._name, given, self._flags.kubeconfig)


def line_of(command: str, node: str, given: Sequence[tuple[str, str]], kubeconfig: str) -> str:
    """To type. given: flags with their values, left out where these are empty."""
    flags = [f"{name}={value}" for name, value in (*given, ("--kubeconfig", kubeconfig)) if value]
    return shlex.join(["mooring", command, node, *flags])


def node_named(words: Sequence[str]) -> str:
    """words: `n1` or `node/n1`. Raises UsageError."""
    kind, _, name = words[0].rpartition("/") if len(words) == 1 else ("", "", "")
    if not name or kind not in ("", "node", "nodes", "no"):
        raise UsageError(f"give one NODE, as in n1; got {' '.join(words)!r}")
    return name
