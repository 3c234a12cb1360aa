"""What one look shows: the driver's volumes, and whatever in the cluster names volumes. Records only."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mooring.api.core import NodeSelector
from mooring.api.migration import in_tree_name
from mooring.controllers.provisioner.intents.intent import Intent


@dataclasses.dataclass(frozen=True, slots=True)
class Volume:
    """As the driver lists it. size_bytes: 0 when it does not say. words: of its context, where drivers put names."""

    handle: str
    size_bytes: int = 0
    words: tuple[str, ...] = ()
    published_on: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Object:
    """A PersistentVolume. claim: `namespace/name`, "" without one. words: its volumeAttributes' values.

    provisioned: made by its driver, so its handle is spelt as the driver spells it. nodes: from where it can be reached, None for all.
    """

    name: str
    driver: str
    handle: str
    size: str = ""
    claim: str = ""
    claim_uid: str = ""
    phase: str = ""
    created_wall_s: float | None = None
    words: tuple[str, ...] = ()
    provisioned: bool = False
    nodes: NodeSelector | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Attachment:
    """A VolumeAttachment. volume_name: of a PersistentVolume, "" for one that names its volume itself, by handle."""

    name: str
    attacher: str
    volume_name: str = ""
    handle: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim. volume_name: "" when it has none yet. was_bound: also when its PersistentVolume is gone since.

    provisioner: who makes or made its volume, "" for nobody so far and when nobody can tell.
    """

    uid: str
    key: str
    volume_name: str = ""
    was_bound: bool = False
    provisioner: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """One look. objects_before: the PersistentVolumes before the driver was asked; objects: after.

    place: the segments of the driver's own node, {} when it does not say. snapshots: handle -> the snapshot content that is to be taken
    from it. pods: handle -> the pod whose own volume it is. idle: uids of the intents whose journal nobody has written to for long.
    """

    driver: str
    volumes: tuple[Volume, ...]
    objects_before: tuple[Object, ...]
    objects: tuple[Object, ...]
    place: Mapping[str, str] = dataclasses.field(default_factory=dict)
    attachments: tuple[Attachment, ...] = ()
    claims: tuple[Claim, ...] = ()
    snapshots: Mapping[str, str] = dataclasses.field(default_factory=dict)
    pods: Mapping[str, str] = dataclasses.field(default_factory=dict)
    intents: tuple[Intent, ...] = ()
    idle: frozenset[str] = frozenset()

    @property
    def provisioners(self) -> frozenset[str]:
        """The driver's name, and that of the in-tree plugin that it took over from."""
        return frozenset({self.driver, in_tree_name(self.driver) or self.driver})
