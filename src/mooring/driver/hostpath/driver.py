"""The reference driver: volumes are folders, files or file systems on this machine, and attaching is book-keeping with
a real disk's rules.

It is what `mooring dev` runs, and what drivers can be measured by: every call is idempotent, every answer is on the
disk before it is given (`hostpath/journal.py`), and a kill at any moment loses nothing that was answered
(`hostpath/statefile.py`). It serves volumes that it has created, and pods' own volumes; for a PersistentVolume made by
hand, call CreateVolume first and take the id as the volume's handle.

The controller's calls are in `volumes.py`, `attachments.py` and `snapshots.py`; the node's in `node/staging.py`,
`node/targets.py` and `node/figures.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

import mooring
from mooring.base.clock import Clock, LoopClock
from mooring.base.errors import ConfigError
from mooring.base.randomness import Random
from mooring.driver.capabilities import NODE, Capability, Expansion, NodeCapability, Service, left_out
from mooring.driver.hostpath.attachments import AttachmentCalls
from mooring.driver.hostpath.core import Core
from mooring.driver.hostpath.filling import Filling
from mooring.driver.hostpath.journal import StateJournal
from mooring.driver.hostpath.layout import NodeTopology, Segments, StorageLimits
from mooring.driver.hostpath.node.figures import Figures
from mooring.driver.hostpath.node.mount_mode import MountMode
from mooring.driver.hostpath.node.part import NodePart
from mooring.driver.hostpath.node.staging import StagingCalls
from mooring.driver.hostpath.node.targets import Targets
from mooring.driver.hostpath.node.volume_locks import CrossNodeLocks
from mooring.driver.hostpath.options import HostpathOptions
from mooring.driver.hostpath.snapshots import GroupSnapshots, Snapshots
from mooring.driver.hostpath.statefile import StateFolder, encoded
from mooring.driver.hostpath.volumes import QuestionCalls, VolumeCalls

DRIVER_NAME: Final = "hostpath.csi.mooring"
_GROUP_CALLS: Final = frozenset(
    {"create_volume_group_snapshot", "delete_volume_group_snapshot", "get_volume_group_snapshot"}
)


class NodeService(StagingCalls, Targets, Figures):
    """One node of a host-path driver, on a socket of its own: `HostPath.node` makes it."""

    def __init__(self, part: NodePart, driver: HostPath) -> None:
        self.name, self.vendor_version = driver.name, driver.vendor_version
        self.withheld, self.node_flags, self.volume_expansion = (
            driver.withheld,
            driver.node_flags,
            driver.volume_expansion,
        )
        self.plugin_flags = driver.plugin_flags
        self._node = part


class HostPath(VolumeCalls, AttachmentCalls, Snapshots, GroupSnapshots, QuestionCalls, StagingCalls, Targets, Figures):
    """A driver over one folder, with the first of its nodes; holds the folder until `close`.

    node_ids: the nodes that volumes can be published on. attach: False leaves out publishing, for a driver that needs
    no attach. topology: the segments of each node, all with the same keys; none for a driver without topology. without,
    without_on_nodes: numbers of omitted capabilities of the controller and of nodes. group_snapshots: False leaves them
    out. mutable_names: the accepted mutable parameters, none for all. snapshot_delay_s: until a new snapshot is ready.
    mount_mode: mounts or links. Raises ConfigError for a nonsensical topology or an unusable folder.
    """

    controller_flags: Collection[int] = (
        Capability.CLONE_VOLUME,
        Capability.PUBLISH_READONLY,
        Capability.LIST_VOLUMES_PUBLISHED_NODES,
        Capability.SINGLE_NODE_MULTI_WRITER,
        Capability.VOLUME_CONDITION,
    )
    node_flags: Collection[int] = (NodeCapability.VOLUME_CONDITION, NodeCapability.SINGLE_NODE_MULTI_WRITER)
    volume_expansion: Collection[int] = (Expansion.ONLINE,)

    def __init__(
        self,
        folder: Path,
        *,
        node_ids: Collection[str],
        randomness: Random,
        name: str = DRIVER_NAME,
        limits: StorageLimits | None = None,
        options: HostpathOptions | None = None,
        attach: bool = True,
        topology: Mapping[str, Segments] | None = None,
        without: Collection[int] = (),
        without_on_nodes: Collection[int] = (),
        group_snapshots: bool = True,
        mutable_names: Collection[str] = (),
        snapshot_delay_s: float = 0.0,
        mount_mode: MountMode | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.vendor_version = mooring.__version__
        layout = NodeTopology(node_ids, topology or {})
        if layout.has_topology:
            self.plugin_flags = (Service.VOLUME_ACCESSIBILITY_CONSTRAINTS,)
        lacking = {*without} if attach else {*without, Capability.PUBLISH_UNPUBLISH_VOLUME}
        options = options or HostpathOptions()
        self._leave_out(lacking, {*without_on_nodes}, options, group_snapshots=group_snapshots)
        options = dataclasses.replace(
            options,
            attach="controller_publish_volume" not in self.withheld,
            stages="node_stage_volume" not in self.withheld,
            grows_on_nodes="node_expand_volume" not in self.withheld,
        )
        self._folder, state = StateFolder.opened(folder)
        self._mount_mode = mount_mode or MountMode(self._folder.path)
        try:
            self._mount_mode.check(options)
        except ConfigError:
            self._folder.close()
            raise
        self._journal = StateJournal(state, self._folder.write)
        self._filling = Filling(self._journal, self._folder, self._mount_mode.held_still)
        self._core = Core(
            self._journal,
            self._folder,
            self._filling,
            layout,
            limits or StorageLimits(),
            frozenset(mutable_names),
            snapshot_delay_s,
            options,
            clock or LoopClock(),
            randomness,
        )
        self._node = NodePart(self._core, next(iter(node_ids)), self._mount_mode, CrossNodeLocks())
        self._mount_mode.thaw(self._folder.data(volume.id) for volume in state.volumes.values() if volume.is_image)

    def _leave_out(
        self, lacking: set[int], on_nodes: set[int], options: HostpathOptions, *, group_snapshots: bool
    ) -> None:
        """Withholds the methods, and drops the flags, of what this driver is to lack."""
        if Capability.EXPAND_VOLUME in lacking:
            self.volume_expansion = ()
        if Capability.SINGLE_NODE_MULTI_WRITER in lacking:
            on_nodes.add(NodeCapability.SINGLE_NODE_MULTI_WRITER)
        if options.mount_group:
            self.node_flags = (*self.node_flags, NodeCapability.VOLUME_MOUNT_GROUP)
        withheld, self.controller_flags = left_out(self.controller_flags, lacking)
        withheld_on_nodes, self.node_flags = left_out(self.node_flags, on_nodes, NODE)
        no_groups = not group_snapshots or Capability.CREATE_DELETE_SNAPSHOT in lacking
        self.withheld = withheld | withheld_on_nodes | (_GROUP_CALLS if no_groups else frozenset())

    @property
    def node_ids(self) -> tuple[str, ...]:
        return tuple(self._core.layout.nodes)

    def node(self, node_id: str) -> NodeService:
        """Another node of this driver, to be served on a socket of its own. Raises ConfigError for one that there is
        not.
        """
        if node_id not in self._core.layout.nodes:
            raise ConfigError(f"there is no node {node_id!r}: name it with node-id too")
        return NodeService(msgspec.structs.replace(self._node, node_id=node_id), self)

    def state_dump(self) -> bytes:
        """The driver's state, as it stands in its state file."""
        return encoded(self._journal.state)

    def close(self) -> None:
        """Cancels copies without waiters, and releases the folder. Mounts stay. Call it when no call is running any
        more.
        """
        self._filling.close()
        self._folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()
