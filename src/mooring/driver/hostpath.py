"""The reference driver: volumes are folders or files on this machine, and attaching is book-keeping with the rules of a real disk.

It is what `mooring dev` runs, and what drivers can be measured by: every call is idempotent, every answer is on the disk before it
is given (`driver/journal.py`), and a kill at any moment loses nothing that was answered (`driver/statefile.py`). It serves volumes
that it has created, and no others: who wants a PersistentVolume made by hand creates the volume with CreateVolume first and takes
the id as the volume's handle. Identity and controller services; the node's come later.

The calls are in `volumes.py`, `attachments.py`, `snapshots.py` and `questions.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import mooring
from mooring.base.clock import Clock, LoopClock
from mooring.base.randomness import Random
from mooring.driver.attachments import Attachments
from mooring.driver.capabilities import Capability, Expansion, Service, left_out
from mooring.driver.core import Core
from mooring.driver.filling import Filling
from mooring.driver.journal import Journal
from mooring.driver.layout import Layout, Limits, Segments
from mooring.driver.questions import Questions
from mooring.driver.snapshots import Snapshots
from mooring.driver.statefile import StateFolder
from mooring.driver.volumes import Volumes

DRIVER_NAME: Final = "hostpath.csi.mooring"


class HostPath(Volumes, Attachments, Snapshots, Questions):
    """A driver over one folder; holds the folder until `close`.

    node_ids: the nodes that volumes can be published on. attach: False leaves out publishing, for a driver that needs no attach. topology:
    the segments of each node, all with the same keys; none for a driver without topology. without: numbers of omitted controller
    capabilities. mutable_names: the accepted mutable parameters, none for all. snapshot_delay_s: until a new snapshot is ready. Raises
    ConfigError for a nonsensical topology or an unusable folder.
    """

    controller_flags: Collection[int] = (
        Capability.CLONE_VOLUME,
        Capability.PUBLISH_READONLY,
        Capability.LIST_VOLUMES_PUBLISHED_NODES,
        Capability.SINGLE_NODE_MULTI_WRITER,
        Capability.VOLUME_CONDITION,
    )
    volume_expansion: Collection[int] = (Expansion.ONLINE,)

    def __init__(
        self,
        folder: Path,
        *,
        node_ids: Collection[str],
        randomness: Random,
        name: str = DRIVER_NAME,
        limits: Limits | None = None,
        attach: bool = True,
        topology: Mapping[str, Segments] | None = None,
        without: Collection[int] = (),
        mutable_names: Collection[str] = (),
        snapshot_delay_s: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.vendor_version = mooring.__version__
        layout = Layout(node_ids, topology or {})
        if layout.has_topology:
            self.plugin_flags = (Service.VOLUME_ACCESSIBILITY_CONSTRAINTS,)
        lacking = {*without} if attach else {*without, Capability.PUBLISH_UNPUBLISH_VOLUME}
        self.withheld, self.controller_flags = left_out(self.controller_flags, lacking)
        if Capability.EXPAND_VOLUME in lacking:
            self.volume_expansion = ()
        self._folder, state = StateFolder.opened(folder)
        self._journal = Journal(state, self._folder.write)
        self._filling = Filling(self._journal, self._folder)
        self._core = Core(
            self._journal,
            self._folder,
            self._filling,
            layout,
            limits or Limits(),
            frozenset(mutable_names),
            snapshot_delay_s,
            clock or LoopClock(),
            randomness,
        )

    def close(self) -> None:
        """Cancels copies without waiters, and releases the folder. Call it when no call is running any more."""
        self._filling.close()
        self._folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None) -> None:
        self.close()
