"""Every reason that changing a volume's class can have, in a user's words. The texts of `error` are external-resizer's where it has one."""

from __future__ import annotations

from mooring.api.meta import Key
from mooring.control.reasons import reason


@reason('claim "{key}" does not exist: nothing to do')
class Gone:
    key: Key


@reason("it has no volume yet")
class NoVolume:
    pass


@reason('waits for PersistentVolume "{pv_name}"')
class VolumeMissing:
    pv_name: str


@reason("its volume is not driver {driver_name}'s: not this resizer's business")
class Foreign:
    driver_name: str


@reason("its phase is {phase}: only the volumes of bound claims are modified")
class NotBound:
    phase: str


@reason("it has the class that it asks for: {shown}")
class Applied:
    """class_name: "" for no class."""

    class_name: str

    @property
    def shown(self) -> str:
        return f'"{self.class_name}"' if self.class_name else "none"


@reason("it asks for no class any more: nothing to do")
class TakenBack:
    pass


@reason("it asks for no class any more: the modification is cancelled")
class Cancelling:
    pass


@reason("waits until {work} has ended: one call for a volume at a time")
class CallInFlight:
    """work: the one that calls the driver about this volume."""

    work: str


@reason(
    'the driver holds the class "{class_name}" for infeasible: tried again in {seconds:.0f} s, or at once with another class'
)
class Infeasible:
    class_name: str
    seconds: float


@reason('the volume is modified to the class "{class_name}"{pinned}: waiting for the driver')
class Modifying:
    """is_pinned: the claim asks for another class by now; the driver may be at work on this one, and has to end first."""

    class_name: str
    is_pinned: bool = False

    @property
    def pinned(self) -> str:
        return ", which the driver may be at work on" if self.is_pinned else ""


# -- problems


@reason("{error} Its arrival wakes this claim")
class ClassMissing:
    class_name: str

    @property
    def error(self) -> str:
        return f'VAC "{self.class_name}" does not exist.'


@reason("{error}; a change of the class wakes this claim")
class ForeignClass:
    """Its parameters mean something else, or nothing, to the volume's driver."""

    class_name: str
    class_driver: str
    driver_name: str

    @property
    def error(self) -> str:
        return f'VAC "{self.class_name}" is for driver "{self.class_driver}", and the volume is one of "{self.driver_name}".'


@reason("{error}")
class BadRequest:
    """The objects can't be expressed as a CSI request."""

    error: str
