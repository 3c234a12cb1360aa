"""Every reason that source protection can have, in a user's words."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason("it has no finalizer of source protection: nothing to do")
class NotProtected:
    pass


@reason("its volume is another driver's, or this one makes no clones: its finalizer is not ours to take off")
class OfAnother:
    pass


@reason("it is not being deleted: the finalizer stays for the next clone")
class NotDeleted:
    pass


@reason("volumes are being made from it, for {shown}")
class InUse:
    """claims: those that need it, by name."""

    claims: tuple[str, ...]

    @property
    def shown(self) -> str:
        return f"{', '.join(self.claims[:3])}{' and others' * (len(self.claims) > 3)}"


@reason("no volume is being made from it: the finalizer goes")
class Unused:
    pass


@reason("no claim needs it; its finalizer goes if that holds for {grace_s:g} s")
class Stray:
    """A finalizer that some process left behind, or has just put there for a claim that is not known here as yet."""

    grace_s: float


@reason('no claim needs it; first the driver of its content "{content_name}" is looked up')
class LookingUp:
    content_name: str
