"""The second decision about a modification: what follows from the driver's refusal. Pure.

    answer                                              state of the claim     another class        tried again
    InvalidArgument                                     Infeasible             at once              after --retry-interval-max
    Canceled, DeadlineExceeded, Unavailable,            InProgress             has to wait          after its back-off
      ResourceExhausted, Aborted
    any other                                           InProgress             at once              after its back-off

Source: external-resizer 2.2, pkg/modifycontroller/modify_volume.go.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.csi.codes import Code, DriverError, go_name

INFEASIBLE: Final = frozenset({Code.INVALID_ARGUMENT})
INFEASIBLE_REASONS: Final = frozenset(map(go_name, INFEASIBLE))


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """reason: the code's Go name. message: the driver's. told: the event's text. condition: the message of ModifyingVolume.

    is_infeasible: the same request will fail again.
    """

    reason: str
    message: str
    told: str
    condition: str
    is_infeasible: bool = False


def decide_after(class_name: str, error: DriverError) -> Refused:
    """What follows from the refusal of this class."""
    reason, told = go_name(error.code), str(error)
    if not error.final:
        still = f'Modifying volume to "{class_name}" is still in progress.'
        return Refused(reason, error.message, f"{told}. Still modifying to VAC {class_name}", still)
    waiting = f'Modifying volume to "{class_name}" failed. Waiting for retry.'
    return Refused(reason, error.message, told, waiting, is_infeasible=error.code in INFEASIBLE)
