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
    because: Because
    step: Step


def decide_plugin(present: int | None, registered: int | None) -> Decision:
    """present: the generation of the socket in the folder, None where there is none. registered: of the one that was registered last."""
    if registered is not None and registered != present:
        return Decision(why.SocketGone() if present is None else why.SocketMadeAnew(), Step.UNREGISTER)
    if present is not None and registered is None:
        return Decision(why.NewSocket(), Step.REGISTER)
    return Decision(why.Registered() if registered is not None else why.NoSocket(), Step.NOTHING)
