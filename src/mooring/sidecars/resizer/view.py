"""What the resizer reads, for both of its controllers: objects, their fields and indexes, and its memory.

A `View` is the input of a decision: the caches, the calls that are running, and what is remembered. It shows them live.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, Protocol

import msgspec

from mooring.api.binding import claims_of, is_finished
from mooring.api.core import PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec
from mooring.api.meta import Condition, Key, annotation, key_of
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
from mooring.sidecars.resizer.conditions import condition_of
from mooring.sidecars.resizer.options import ResizerOptions
from mooring.wire.grpc.codes import Code, go_name

BY_VOLUME: Final = "resizer/volume"
BY_CLASS: Final = "resizer/class"
BY_CLAIM: Final = "resizer/claim"

FAILED_PRECONDITION: Final = go_name(Code.FAILED_PRECONDITION)
"""The driver does not grow a volume in use."""
_NOT_FINAL: Final = frozenset({"", *map(go_name, NON_FINAL)})


# -- what this process remembers


class Record(msgspec.Struct, frozen=True):
    """What this process remembers of a claim for which it has marked or called something."""

    uid: str
    #: The code of the driver's last answer by its Go name, "" for success, None while it has not answered this process.
    error: str | None = None
    #: The size or class that the driver called infeasible, not tried again before slow_until.
    slow_target: str = ""
    slow_until: Instant = 0.0
    #: When the driver answered last, the version of the Secret that it had, and when that Secret was looked at since.
    refused_at: Instant = 0.0
    secret_version: str = ""
    looked_at: Instant = 0.0
    #: The version of the claim that this process has written its last mark to, "" for no mark.
    marked_from: str = ""


_NOTHING: Final = Record("")


class Memory:
    """The memory of one controller beside the caches. A claim made anew under an old name has no record.

    A restart loses it all: the last error is on the claim, too; a request that was refused is tried once more, before
    another one can take its place.
    """

    def __init__(self) -> None:
        self._records: dict[Key, Record] = {}

    def __len__(self) -> int:
        return len(self._records)

    def of(self, claim: PersistentVolumeClaim) -> Record:
        """The claim's record, an empty one where there is none."""
        record = self._records.get(key_of(claim), _NOTHING)
        return record if record.uid == claim.metadata.uid else Record(claim.metadata.uid)

    def change(self, claim: PersistentVolumeClaim, **changes: Any) -> None:
        self._records[key_of(claim)] = msgspec.structs.replace(self.of(claim), **changes)

    def forget(self, key: Key) -> None:
        """The claim is gone, or has all that it asks for."""
        self._records.pop(key, None)

    def hurry(self, key: Key) -> None:
        """An infeasible request of the claim may be feasible now."""
        if key in self._records:
            self._records[key] = msgspec.structs.replace(self._records[key], slow_target="")

    def driver_returned(self) -> list[Key]:
        """Forget refusals, since another release of the driver may answer by now. Return the claims to be tried again.

        A refusal of a volume in use is forgotten; where it still counts, the claim says so (`View.was_refused_in_use`).
        """
        refused = [key for key, one in self._records.items() if one.slow_target or one.error == FAILED_PRECONDITION]
        for key in refused:
            error = None if (record := self._records[key]).error == FAILED_PRECONDITION else record.error
            self._records[key] = msgspec.structs.replace(record, slow_target="", error=error)
        return refused


# -- the view


class Pods(Protocol):
    """The pods, once anybody has asked for them."""

    def users_of(self, claim: Key) -> tuple[str, ...] | None:
        """The names of the pods that use the claim; None as long as that is not known."""
        ...

    def want(self) -> None:
        """Watch the pods from now on."""

    @property
    def wanted_at(self) -> Instant | None:
        """When the pods were asked for first, None for not yet."""
        ...


class Calls(Protocol):
    """The calls to the driver that are running."""

    @property
    def in_flight(self) -> Mapping[str, str]:
        """The work that each call is for, as text, by volume handle."""
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

    def was_refused_in_use(self, claim: PersistentVolumeClaim) -> bool:
        """True when the driver's last answer about the claim's growth was FailedPrecondition: no pod must use it.

        Without an answer to this process the claim's condition counts, for a driver that grows volumes offline. One
        that announces ONLINE expansion may be a newer release than the one that refused: it is called once more.
        """
        known = self.memory.of(claim).error
        if known is not None:
            return known == FAILED_PRECONDITION
        condition = condition_of(claim, names.CONTROLLER_ERROR)
        return not self.driver.expands_online and condition is not None and condition.reason == FAILED_PRECONDITION

    def may_be_written_late(self, claim: PersistentVolumeClaim) -> bool:
        """True until a mark of this process has changed the claim: a write of the process before may be carried out
        still.

        All writes that mark or end a call are of the claim's version as its writer read it, so a newer one makes them
        conflicts.
        """
        return self.memory.of(claim).marked_from in ("", claim.metadata.resource_version)

    def is_idle(self, claim: PersistentVolumeClaim) -> bool:
        """True when the driver has told this very process that it is not at work for the claim any more, by its last
        error.

        A condition says nothing of that: the process before may have died in the call that followed.
        """
        return is_final_code(self.memory.of(claim).error or "")

    def was_infeasible(self, claim: PersistentVolumeClaim, codes: Container[str]) -> bool:
        """True when the driver's last answer to this process had one of these codes: a claim that does not show that is
        an old one.
        """
        return (self.memory.of(claim).error or "") in codes

    def csi_spec(self, pv: PersistentVolume) -> PersistentVolumeSpec:
        """The volume as CSI sees it. Raises TranslationError."""
        return pv.spec if pv.spec.csi is not None else translated(pv)


def is_claim_of(pv: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """True when the volume is bound to this very claim."""
    ref = pv.spec.claim_ref
    return ref is not None and (ref.namespace, ref.uid) == (claim.metadata.namespace, claim.metadata.uid)


def is_final_code(name: str) -> bool:
    """True for the Go name of an error's code after which the driver is for sure not at work."""
    return name not in _NOT_FINAL


# -- sizes


def quantity(text: str) -> Quantity:
    """Parse a quantity; "" is zero. Raises ValueError."""
    return parse_quantity(text) if text else Quantity(Decimal(0))


def bytes_text(count: int) -> str:
    """A count of bytes as a quantity, in powers of two."""
    return str(Quantity(Decimal(count), "binary"))


def storage(amounts: Mapping[str, str] | None) -> str:
    """The entry for storage of a claim's or volume's amounts, or of their steps; "" for none."""
    return (amounts or {}).get(names.STORAGE, "")


class Sizes(msgspec.Struct, frozen=True):
    """The sizes of a claim and its volume."""

    #: The claim's request, its capacity, and the capacity of its PersistentVolume.
    wanted: Quantity
    has: Quantity
    volume: Quantity
    #: The claim's allocatedResources: the size that the driver was asked for last. None where it was asked for none.
    allocated: Quantity | None = None
    #: The step of its allocatedResourceStatuses, "" for none.
    step: str = ""

    @property
    def begun(self) -> Quantity:
        return self.wanted if self.allocated is None else self.allocated

    @property
    def is_served(self) -> bool:
        """True for a claim that asks for no more than it has."""
        return self.wanted.value <= self.has.value

    @property
    def is_made(self) -> bool:
        """True when the volume has the size that was begun."""
        return self.volume.value >= self.begun.value

    @property
    def is_nodes_turn(self) -> bool:
        """True while the node may be at work on the size that the volume has."""
        return self.step in (names.NODE_PENDING, names.NODE_IN_PROGRESS) and self.is_made

    def is_allocated(self, size: Quantity) -> bool:
        return self.allocated is not None and self.allocated.value == size.value


def sizes_of(claim: PersistentVolumeClaim, pv: PersistentVolume) -> Sizes:
    """Raises ValueError."""
    status = claim.status
    allocated = storage(status.allocated_resources)
    return Sizes(
        wanted=quantity(storage(claim.spec.resources.requests)),
        has=quantity(storage(status.capacity)),
        volume=quantity(storage(pv.spec.capacity)),
        allocated=quantity(allocated) if allocated else None,
        step=storage(status.allocated_resource_statuses),
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
    """Keep only the driver's name of another driver's volume."""

    def keeps(pv: PersistentVolume) -> Part:
        owner = pv.spec.csi.driver if pv.spec.csi is not None else csi_driver_of(pv.spec)
        return VOLUME if owner == driver_name else _FOREIGN

    return keeps
