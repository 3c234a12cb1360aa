"""Decides about one registration socket, and finds the version of CSI that a plugin and this node have in common. Pure.

Source: kubelet 1.36, pkg/volume/csi.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from typing import Final

from mooring.control.decision import Decision
from mooring.control.result import Because
from mooring.node.plugins import reasons as why

Version = tuple[int, ...]

_VERSION: Final = re.compile(r"v?(\d+)((?:\.\d+)*)(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")
MAJOR: Final = 1


class Step(enum.Enum):
    """A step for a plugin. The value is the line for the log once it is done."""

    REGISTER = "Plugin registered"
    UNREGISTER = "Plugin unregistered"


def decide_plugin(present: int | None, registered: int | None, *, grace_left_s: float = 0.0) -> Decision[Step]:
    """present: the generation of the socket in the folder, None where there is none. registered: of the one that was
    registered last.

    grace_left_s: how long what is registered stays while its socket is gone, or nobody answers at the one that took its
    place.
    """
    if registered is not None and registered != present and grace_left_s > 0:
        if present is None:
            return Decision(why.SocketMayComeBack(), after_s=grace_left_s)
        return _done(Step.REGISTER, why.SocketMadeAnew())
    if registered is not None and registered != present:
        return _done(Step.UNREGISTER, why.SocketGone() if present is None else why.SocketMadeAnew())
    if present is not None and registered is None:
        return _done(Step.REGISTER, why.NewSocket())
    return Decision(why.Registered() if registered is not None else why.NoSocket())


def _done(step: Step, because: Because) -> Decision[Step]:
    return Decision(because, (step,), again=True, done=step.value)


def highest_supported(versions: Iterable[str]) -> Version | None:
    """The highest of a plugin's versions that this node speaks, as numbers; None for none. Texts that are no versions
    are passed over.
    """
    known = [version for text in versions if (version := _numbers(text)) is not None and version[0] <= MAJOR]
    best = max(known, default=None)
    return best if best is not None and best[0] == MAJOR else None


def _numbers(text: str) -> Version | None:
    found = _VERSION.fullmatch(text)
    if found is None:
        return None
    return (int(found[1]), *(int(part) for part in found[2].split(".")[1:]))
