"""`mooring unfence`: takes back what `mooring fence` has stated. Its exit codes are the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mooring.base.flagkinds import BOOL
from mooring.base.flags import flag
from mooring.cli.fence import EXIT_CODES, NodeCommand, NodeFlags, check_node_flags, line_of, serve
from mooring.cli.people import run_for_people, words_and_flags
from mooring.cli.process import Command, Machine

if TYPE_CHECKING:
    from mooring.inspect.fencing.fence import Outcome
    from mooring.inspect.points import Point


@dataclasses.dataclass(frozen=True, kw_only=True)
class UnfenceFlags(NodeFlags):
    not_ready: bool = flag("not-ready", BOOL, False, "Also while the node is not Ready.")


COMMAND: Final[Command[UnfenceFlags]] = Command(
    UnfenceFlags,
    check=check_node_flags,
    epilog=EXIT_CODES.format(done="not fenced any more"),
    about="Takes back what mooring fence has stated: removes the out-of-service taint, once the node is Ready.",
    example="mooring unfence n1",
)


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """argv: the words after `mooring unfence`: the node, and flags. Gives the exit code."""
    words, flags = words_and_flags(UnfenceFlags, argv)
    return run_for_people(
        COMMAND, flags, prog, lambda given: serve(UnfenceCommand, words, given, prog, machine or Machine())
    )


class UnfenceCommand(NodeCommand[UnfenceFlags]):
    done = "not fenced"

    async def _look(self) -> tuple[Point, ...] | None:
        from mooring.inspect.fencing.judge import is_fenced, unfence_points

        node = await self._fence.node()
        return unfence_points(node, also_not_ready=self._flags.not_ready) if is_fenced(node) else None

    async def _write(self) -> Outcome:
        return await self._fence.unfence(also_not_ready=self._flags.not_ready)

    def _question(self) -> str:
        return "The scheduler may place pods on the node again."

    def _next_line(self) -> str:
        return line_of(
            "unfence", self._name, (("--not-ready", "true"),) if self._flags.not_ready else (), self._flags.kubeconfig
        )
