"""The objects, fields and indexes that the resizer reads, for both of its controllers.

A `View` is the input of a decision: the caches, the calls that are running, and what is remembered. It shows them live.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from mooring.api.binding import claims_of, is_finished
from mooring.api.core import PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec
from mooring.api.meta import Condition, Key, annotation
from mooring.api.migration import (
    AZURE_RESOURCE_GROUP,
    PORTWORX_SECRET_NAME,
    PORTWORX_SECRET_NAMESPACE,
    ZONE_LABELS,
    csi_driver_of,
    translated,
)
from mooring.api.pods import Pod
from mooring.api.quantity import Quantity, parse_quantity
from mooring.api.storage import VolumeAttributesClass
from mooring.base.clock import Instant
from mooring.control.slim import Part, items, only, slim
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.csi.errors import NON_FINAL
from mooring.kube.cache.reader import Reader
from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.memory import Memory
from mooring.sidecars.resizer.options import ResizerOptions
from mooring.wire.grpc.codes import go_name

BY_VOLUME: Final = "resizer/volume"
BY_CLASS: Final = "resizer/class"
BY_CLAIM: Final = "resizer/claim"

_NOT_FINAL: Final = frozenset({"", *map(go_name, NON_FINAL)})


class Pods(Protocol):
    """The pods, once anybody has asked for them."""

    def users_of(self, claim: Key) -> tuple[str, ...] | None:
        """The names of the pods that use the claim; None as long as that is not known."""
        ...

    def want(self) -> None:
        """From now on they are watched."""

    @property
    def wanted_at(self) -> Instant | None:
        """When they were asked for first, None for not yet."""
        ...


class Calls(Protocol):
    """The calls to the driver that are running."""

    @property
    def in_flight(self) -> Mapping[str, str]:
        """By volume handle, the work that they are for, as text."""
        ...


class View(msgspec.Struct, frozen=True):
    """The caches, the calls and the memory, live. memory: of the controller whose view it is."""

    driver: DriverCapabilities
    options: ResizerOptions
    claims: Reader[PersistentVolumeClaim]
    volumes: Reader[PersistentVolume]
    classes: Reader[VolumeAttributesClass]
    pods: Pods
    calls: Calls
    memory: Memory

    def claim(self, key: Key) -> PersistentVolumeClaim | None:
        return self.claims.get(key)

    def volume(self, pv_name: str) -> PersistentVolume | None:
        return self.volumes.get(Key("", pv_name))

    def attributes_class(self, name: str) -> VolumeAttributesClass | None:
        return self.classes.get(Key("", name))

    def is_ours(self, pv: PersistentVolume) -> bool:
        """True for a CSI volume of this driver."""
        return pv.spec.csi is not None and pv.spec.csi.driver == self.driver.name

    def is_migrated(self, pv: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
        """True for an in-tree volume whose driver this one is, and whose growth is left to it."""
        return csi_driver_of(pv.spec) == self.driver.name and annotation(claim, names.RESIZER) == self.driver.name

    def last_error(self, claim: PersistentVolumeClaim, kind: str) -> str:
        """The driver's last answer about this claim as a code's Go name, "" for success and for none that is known.

        Without an answer to this process it is the reason of the condition of this kind, where the process before it saved it: that one
        may have called once more since then, for a retry writes nothing.
        """
        known = self.memory.of(claim).error
        if known is not None:
            return known
        condition = condition_of(claim, kind)
        return condition.reason if condition is not None else ""

    def may_be_written_late(self, claim: PersistentVolumeClaim) -> bool:
        """True until a mark of this process has changed the claim: a write of the process before may be carried out still.

        All writes that mark or end a call are of the claim's version as its writer read it, so a newer one makes them conflicts.
        """
        return self.memory.of(claim).marked_from in ("", claim.metadata.resource_version)

    def is_idle(self, claim: PersistentVolumeClaim) -> bool:
        """True when the driver has told this very process that it is not at work for the claim any more, by its last error.

        A condition says nothing of that: the process before may have died in the call that followed.
        """
        return is_final_code(self.memory.of(claim).error or "")

    def was_infeasible(self, claim: PersistentVolumeClaim, codes: Container[str]) -> bool:
        """True when the driver's last answer to this process had one of these codes: a claim that does not show that is an old one."""
        return (self.memory.of(claim).error or "") in codes

    def csi_spec(self, pv: PersistentVolume) -> PersistentVolumeSpec:
        """The volume as CSI sees it. Raises TranslationError."""
        return pv.spec if pv.spec.csi is not None else translated(pv)


def is_claim_of(pv: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """True when the volume is bound to this very claim."""
    ref = pv.spec.claim_ref
    return ref is not None and (ref.namespace, ref.uid) == (claim.metadata.namespace, claim.metadata.uid)


def condition_of(claim: PersistentVolumeClaim, kind: str) -> Condition | None:
    return next((one for one in claim.status.conditions or () if one.type == kind), None)


def is_true(claim: PersistentVolumeClaim, kind: str) -> bool:
    """True when the claim has this condition, and it holds."""
    found = condition_of(claim, kind)
    return found is not None and found.status == "True"


def is_final_code(name: str) -> bool:
    """True for the Go name of an error's code after which the driver is for sure not at work."""
    return name not in _NOT_FINAL


# -- sizes


def quantity(text: str | None) -> Quantity:
    """Zero for none. Raises ValueError."""
    return parse_quantity(text) if text else Quantity(Decimal(0))


def bytes_text(count: int) -> str:
    """As a quantity, in powers of two."""
    return str(Quantity(Decimal(count), "binary"))


class Sizes(msgspec.Struct, frozen=True):
    """The sizes of a claim and its volume. allocated: None where none was. step: of its allocatedResourceStatuses, "" for none."""

    wanted: Quantity
    has: Quantity
    volume: Quantity
    allocated: Quantity | None = None
    step: str = ""


def sizes_of(claim: PersistentVolumeClaim, pv: PersistentVolume) -> Sizes:
    """Raises ValueError."""
    status = claim.status
    allocated = (status.allocated_resources or {}).get(names.STORAGE)
    return Sizes(
        wanted=quantity((claim.spec.resources.requests or {}).get(names.STORAGE)),
        has=quantity((status.capacity or {}).get(names.STORAGE)),
        volume=quantity((pv.spec.capacity or {}).get(names.STORAGE)),
        allocated=None if allocated is None else quantity(allocated),
        step=(status.allocated_resource_statuses or {}).get(names.STORAGE, ""),
    )


# -- indexes


def _classes_of(claim: PersistentVolumeClaim) -> set[str]:
    """The VolumeAttributesClasses that the claim is on its way to."""
    modification = claim.status.modify_volume_status
    target = modification.target_volume_attributes_class_name if modification is not None else ""
    return {claim.spec.volume_attributes_class_name or "", target} - {""}


CLAIM_INDEXES: Final[Mapping[str, Callable[[PersistentVolumeClaim], Iterable[str]]]] = {
    BY_VOLUME: lambda claim: (claim.spec.volume_name,) if claim.spec.volume_name else (),
    BY_CLASS: _classes_of,
}
POD_INDEXES: Final[Mapping[str, Callable[[Pod], Iterable[str]]]] = {
    BY_CLAIM: lambda pod: () if is_finished(pod) else tuple(map(str, claims_of(pod))),
}


# -- the kept parts of objects


def _is_known(condition: Condition) -> bool:
    return condition.type in names.CONDITIONS


CLAIM: Final = slim(
    metadata=slim(annotations=only(names.RESIZER, names.NOT_REQUIRED)),
    spec=slim("volume_name", "volume_attributes_class_name", resources=slim(requests=only(names.STORAGE))),
    status=slim(
        "phase",
        "current_volume_attributes_class_name",
        "modify_volume_status",
        "allocated_resources",
        "allocated_resource_statuses",
        capacity=only(names.STORAGE),
        conditions=items(_is_known),
    ),
)

_IN_TREE: Final = (
    "gce_persistent_disk",
    "aws_elastic_block_store",
    "cinder",
    "azure_disk",
    "azure_file",
    "vsphere_volume",
    "portworx_volume",
)
_NOTES: Final = (
    *(names.PRE_RESIZE, names.MODIFY_SECRET_NAME, names.MODIFY_SECRET_NAMESPACE),
    *(AZURE_RESOURCE_GROUP, PORTWORX_SECRET_NAME, PORTWORX_SECRET_NAMESPACE),
)
VOLUME: Final = slim(
    metadata=slim(labels=only(*ZONE_LABELS), annotations=only(*_NOTES)),
    spec=slim(
        *("access_modes", "volume_mode", "mount_options", "claim_ref", "volume_attributes_class_name", *_IN_TREE),
        capacity=only(names.STORAGE),
        csi=slim("driver", "volume_handle", "fs_type", "controller_expand_secret_ref"),
    ),
)
_FOREIGN: Final = slim(metadata=slim(), spec=slim(csi=slim("driver")))

POD: Final = slim(metadata=slim(), spec=slim("volumes"), status=slim("phase"))
ATTRIBUTES_CLASS: Final = slim("driver_name", "parameters", metadata=slim())


@functools.cache
def keeps_of_volume(driver_name: str) -> Callable[[PersistentVolume], Part]:
    """It keeps only that of another driver's volume."""

    def keeps(pv: PersistentVolume) -> Part:
        owner = pv.spec.csi.driver if pv.spec.csi is not None else csi_driver_of(pv.spec)
        return VOLUME if owner == driver_name else _FOREIGN

    return keeps


# -- a claim's conditions, which are joined by type, so that nobody else's is touched


Body: TypeAlias = dict[str, Any]
"""A strategic merge patch, or a part of one; {} for nothing."""


def condition_patch(
    claim: PersistentVolumeClaim, kind: str, now: str, *, reason: str = "", message: str = "", is_probed: bool = False
) -> Body | None:
    """The condition holds; None where it says so already, and keeps its time. now: RFC 3339. is_probed: with the time of the last look."""
    before = condition_of(claim, kind)
    if before is not None and (before.status, before.reason, before.message) == ("True", reason, message):
        return None
    told: Body = {"reason": reason or None, "message": message or None}
    if before is None:
        told = {name: text for name, text in told.items() if text is not None}
    if is_probed:
        told["lastProbeTime"] = now
    if before is None or (before.status, before.reason) != ("True", reason):
        told["lastTransitionTime"] = now
    return {"type": kind, "status": "True", **told}


def probe_patch(claim: PersistentVolumeClaim, kind: str, now: str) -> Body:
    """The condition says what it said. The time of the last look changes the claim, also within the second of the look before."""
    before = condition_of(claim, kind)
    return {"type": kind, "lastProbeTime": None if before is not None and before.last_probe_time == now else now}


def conditions_patch(claim: PersistentVolumeClaim, told: Iterable[Body | None], dropped: Iterable[str]) -> Body:
    """dropped: types that are to go, where they are."""
    gone = [{"$patch": "delete", "type": kind} for kind in dropped if condition_of(claim, kind) is not None]
    changes = [*(one for one in told if one is not None), *gone]
    return {"conditions": changes} if changes else {}


def no_conditions(kinds: Iterable[str]) -> Body:
    """They go, wherever they are: the claim in hand may lack one that was written, and whose answer was lost."""
    return {"conditions": [{"$patch": "delete", "type": kind} for kind in kinds]}


def patch_body(status: Mapping[str, Any], metadata: Mapping[str, Any]) -> Body:
    """{} when neither changes."""
    return {**({"metadata": metadata} if metadata else {}), **({"status": status} if status else {})}
