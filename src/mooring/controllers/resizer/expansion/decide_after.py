"""The second decision about a growth: what follows from the driver's answer. Pure.

    answer                                              state of the claim           the size may be changed      tried again
    OK, at least as large                               the node's turn, or done
    OK, smaller than asked                              in progress                  yes                          after its back-off
    InvalidArgument, OutOfRange, NotFound               infeasible                   yes                          after --retry-interval-max
    Canceled, DeadlineExceeded, Unavailable,            in progress                  no: the driver may           after its back-off
      ResourceExhausted, Aborted                                                     be at work
    any other                                           in progress                  yes                          after its back-off
    none: it was not called (a missing Secret)          in progress                  no, or as it was             after its back-off

Source: external-resizer 2.2, pkg/util/errors.go. Differs from it: an answer that is smaller than asked is a failure.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.controllers.resizer.view import bytes_text
from mooring.csi.codes import Code, DriverError, go_name

INFEASIBLE: Final = frozenset({Code.INVALID_ARGUMENT, Code.OUT_OF_RANGE, Code.NOT_FOUND})
INFEASIBLE_REASONS: Final = frozenset(map(go_name, INFEASIBLE))
TOO_SMALL: Final = "CapacityTooSmall"
"""In place of a code: the driver said OK, with a size that is none."""


@dataclasses.dataclass(frozen=True, slots=True)
class Expanded:
    """The driver's answer."""

    size_bytes: int
    node_required: bool


@dataclasses.dataclass(frozen=True, slots=True)
class After:
    """size: what the volume has now, "" after a failure. on_node: the node has its part to do still.

    error: the failure's text; reason: its code's Go name. is_final: the driver is not at work.
    is_infeasible: the same request will fail again.
    """

    size: str = ""
    on_node: bool = False
    error: str = ""
    reason: str = ""
    is_final: bool = True
    is_infeasible: bool = False


def decide_after(asked_bytes: int, answer: Expanded | DriverError) -> After:
    """What follows from the answer to a request for so many bytes."""
    if isinstance(answer, Expanded):
        if answer.size_bytes >= asked_bytes:
            return After(bytes_text(answer.size_bytes), answer.node_required)
        text = f"the driver answered a capacity of {answer.size_bytes} bytes to a request for {asked_bytes}"
        return After(error=text, reason=TOO_SMALL)
    is_infeasible = answer.code in INFEASIBLE
    return After(error=str(answer), reason=go_name(answer.code), is_final=answer.final, is_infeasible=is_infeasible)
