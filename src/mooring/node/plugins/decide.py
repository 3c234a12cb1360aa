"""What is to be done about one registration socket. Pure."""

from __future__ import annotations

import dataclasses
import enum

from mooring.control.result import Because
from mooring.node.plugins import reasons as why


class Step(enum.Enum):
    NOTHING = "nothing"
    REGISTER = "register"
    UNREGISTER = "unregister"


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """after_s: when to look again, None for no time."""

    because: Because
    step: Step
    after_s: float | None = None


def decide_plugin(present: int | None, registered: int | None, *, grace_left_s: float = 0.0, stays: bool = False) -> Decision:
    """present: the generation of the socket in the folder, None where there is none. registered: of the one that was registered last.

    grace_left_s: how long a socket that is gone may still come back. stays: what is registered stays while a new socket takes its place.
    """
    if registered is not None and present is None and grace_left_s > 0:
        return Decision(why.SocketMayComeBack(), Step.NOTHING, grace_left_s)
    if registered is not None and present is not None and registered != present and stays:
        return Decision(why.SocketMadeAnew(), Step.REGISTER)
    if registered is not None and registered != present:
        return Decision(why.SocketGone() if present is None else why.SocketMadeAnew(), Step.UNREGISTER)
    if present is not None and registered is None:
        return Decision(why.NewSocket(), Step.REGISTER)
    return Decision(why.Registered() if registered is not None else why.NoSocket(), Step.NOTHING)
