"""The content of the view as values: a row for each node, and for each volume on each node that has it or is to have
it; and the memory of what the API objects lack: the latest reasons, the mounts that calls have made, and since when a
row is as it is.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Final

import msgspec

from mooring.api.core import Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.pods import Pod
from mooring.api.snapshot import VolumeSnapshot
from mooring.api.storage import CSIDriver, CSINode, VolumeAttachment
from mooring.base.clock import Instant
from mooring.base.json_text import from_json
from mooring.control.result import Because
from mooring.driver.guard import CallRecord

READY: Final = "Ready"


class ObjectBoard(msgspec.Struct, frozen=True):
    """The API server's objects at one moment."""

    nodes: Collection[Node] = ()
    csi_nodes: Collection[CSINode] = ()
    pods: Collection[Pod] = ()
    claims: Collection[PersistentVolumeClaim] = ()
    volumes: Collection[PersistentVolume] = ()
    attachments: Collection[VolumeAttachment] = ()
    drivers: Collection[CSIDriver] = ()
    snapshots: Collection[VolumeSnapshot] = ()


class NodeRow(msgspec.Struct, frozen=True):
    """state: Ready, NotReady or Unknown. zone: "" for none. limit: volumes that the node takes, None for no limit.
    taints: without what all share. for_s: since when it is in this state, None for one that is well.
    """

    name: str
    state: str
    zone: str
    attached: int
    limit: int | None
    pods: int
    taints: tuple[str, ...] = ()
    for_s: float | None = None

    @property
    def is_well(self) -> bool:
        return self.state == READY and not self.taints


class VolumeRow(msgspec.Struct, frozen=True):
    """claim: with its namespace, unless that is `default`; "" for a volume without one. volume: the PersistentVolume.
    node: "" for none. text: the reason that it waits, else who uses it. for_s: since when it waits in this stage, None
    for one that does not wait.
    """

    claim: str
    volume: str
    node: str
    stage: str
    text: str = ""
    waits: bool = False
    for_s: float | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.claim, self.volume, self.node


class Board(msgspec.Struct, frozen=True):
    nodes: tuple[NodeRow, ...] = ()
    volumes: tuple[VolumeRow, ...] = ()

    @property
    def ticks(self) -> bool:
        """True where something waits: the time that it has waited grows."""
        return any(node.for_s is not None for node in self.nodes) or any(
            volume.for_s is not None for volume in self.volumes
        )


REASONS_MAX: Final = 20_000
"""Reasons that are kept; the one that was given the longest time ago goes first."""
_COUNTDOWNS: Final = ("in_s", "wait_s", "left_s")
"""Fields of reasons that hold the seconds left when the reason was given."""
_MOUNTS: Final = frozenset({"NodeStageVolume", "NodeUnstageVolume", "NodePublishVolume", "NodeUnpublishVolume"})


class ReasonBoard:
    """The latest reason of each key of each queue."""

    def __init__(self) -> None:
        self._latest: OrderedDict[tuple[str, str, Hashable], tuple[Because, Instant]] = OrderedDict()

    def note(self, who: str, queue: str, key: Hashable, because: Because, now: Instant) -> None:
        """who: the process part that has the queue, an agent's node for instance."""
        place = (who, queue, key)
        self._latest[place] = (because, now)
        self._latest.move_to_end(place)
        if len(self._latest) > REASONS_MAX:
            self._latest.popitem(last=False)

    def text(self, who: str, queue: str, key: Hashable, now: Instant) -> str:
        """A sentence, "" for none."""
        because, at = self._latest.get((who, queue, key), (None, now))
        return "" if because is None else str(_aged(because, now - at))


def _aged(because: Because, age_s: float) -> Because:
    """The reason as it would be given now, where it counts down."""
    left = {
        name: max(0.0, value - age_s)
        for name in _COUNTDOWNS
        if isinstance(value := getattr(because, name, None), float)
    }
    return msgspec.structs.replace(because, **left) if left else because  # type: ignore[type-var]


class MountedVolume(msgspec.Struct):
    """A volume on a node. targets: the paths where pods see it."""

    is_staged: bool = False
    targets: set[str] = msgspec.field(default_factory=set)


class MountBoard:
    """The work of the driver on each node, as its calls show it."""

    def __init__(self) -> None:
        self._of_handle: defaultdict[str, dict[str, MountedVolume]] = defaultdict(dict)

    def called(self, record: CallRecord, who: str) -> None:
        """who: the node."""
        if record.error is None and record.rpc in _MOUNTS:
            request = from_json(record.request)
            self._change(record.rpc, request.get("volume_id", ""), who, request.get("target_path", ""))

    def _change(self, rpc: str, handle: str, node: str, target: str) -> None:
        mounted = self._of_handle[handle].setdefault(node, MountedVolume())
        match rpc:
            case "NodePublishVolume":
                mounted.targets.add(target)
            case "NodeUnpublishVolume":
                mounted.targets.discard(target)
            case _:
                mounted.is_staged = rpc == "NodeStageVolume"
        if mounted == MountedVolume():
            del self._of_handle[handle][node]
        if not self._of_handle[handle]:
            del self._of_handle[handle]

    def lost(self, node: str) -> None:
        """Nothing is mounted on the node any more: its power was cut."""
        for mounted in self._of_handle.values():
            mounted.pop(node, None)

    def on_nodes(self, handle: str) -> Mapping[str, MountedVolume]:
        """By node, where anything of the volume is left."""
        return self._of_handle.get(handle, {})


class Since:
    """Since when each row is in its state."""

    def __init__(self) -> None:
        self._began: dict[Hashable, tuple[object, Instant]] = {}

    def ages(self, states: Iterable[tuple[Hashable, object]], now: Instant) -> dict[Hashable, float]:
        """Seconds, for all rows that there are; the others are forgotten."""
        began = {}
        for key, state in states:
            before = self._began.get(key)
            began[key] = before if before is not None and before[0] == state else (state, now)
        self._began = began
        return {key: now - at for key, (_, at) in began.items()}


_STATES: Final = {"True": READY, "False": "NotReady"}


def state_of(node: Node) -> str:
    """As kubectl shows it, but for a silent node: Unknown, which kubectl calls NotReady, too."""
    status = next((one.status for one in node.status.conditions or () if one.type == "Ready"), "")
    return _STATES.get(status, "Unknown")
