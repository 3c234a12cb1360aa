"""Every reason of the protections, in a user's words."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason("protection: {step}")
class Protection:
    """step: the next one for the finalizer."""

    step: str


@reason("still used by {holder}{over}")
class InUse:
    """holder: keeps the object from being deleted. finished: it is a pod that has ended."""

    holder: str
    finished: bool = False

    @property
    def over(self) -> str:
        return ", which is finished and counts until it is deleted" if self.finished else ""
