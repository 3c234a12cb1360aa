"""Every reason that growing a volume can have, in a user's words. The texts of `error` are external-resizer's where it has one."""

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


@reason("its phase is {phase}: only bound claims grow")
class NotBound:
    phase: str


@reason('PersistentVolume "{pv_name}" is not bound to this claim')
class NotItsVolume:
    pv_name: str


@reason("it has {has}, and asks for {wanted}: nothing to do")
class Served:
    has: str
    wanted: str


@reason("the volume has {size}, and the node has to do its part: the kubelet of a pod's node does it")
class NodesTurn:
    size: str


@reason("waits until {work} has ended: one call for a volume at a time")
class CallInFlight:
    """work: the one that calls the driver about this volume."""

    work: str


@reason("the driver refused it because the volume is in use: waits until it is known which pods use it")
class PodsUnknown:
    pass


@reason(
    "the driver holds {size} for infeasible ({error}): tried again in {seconds:.0f} s, or at once with another size"
)
class Infeasible:
    size: str
    error: str
    seconds: float


@reason("the volume grows to {size}: waiting for the driver")
class Growing:
    size: str


@reason("the volume grows to {size} on its node: the driver has no part of it on the controller")
class GrowingOnNode:
    size: str


# -- problems


@reason("{error}: waits until they end")
class InUse:
    """pods: the first few that use the claim."""

    claim: Key
    driver_name: str
    pods: tuple[str, ...]

    @property
    def error(self) -> str:
        why = f"CSI driver {self.driver_name} only supports offline expansion and volume is currently in-use"
        return f"Unable to expand {self.claim} because {why}"


@reason("{error}")
class BadRequest:
    """The objects can't be expressed as a CSI request."""

    error: str


@reason("{error}: the claim has to ask for less")
class TooLarge:
    size: str

    @property
    def error(self) -> str:
        return f"the size {self.size} is more than CSI can express (2^63-1 bytes)"
