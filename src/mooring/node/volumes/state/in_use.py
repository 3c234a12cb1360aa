"""Reports which volumes the node uses in node.status.volumesInUse: the attach/detach controller detaches none of them.

A volume's name is in the list from before its first step until after its last: as long as a pod wants the volume, as it
is here (`ActualState.in_use`), or as it may be here still (`NamesInUse`). `InUseReport` writes the list, one write for
all that changed within a moment.

A place on the disk whose record can't be read is in doubt: any volume may be there that is not known to be elsewhere.
Such a volume is not unstaged, and stays in the list, until the record can be read, the place is empty, or a pod that
wants a volume there shows which one it is. Where a pod's folder can't be listed, and nothing is mounted in it, a call
of a killed agent may mount a volume there yet: one that the pod wants. Of a pod that tells no more what it wanted, it
may be any that was reported before the start and is not found elsewhere.

A write is valid for one version of the Node only. So a write whose answer was lost, and which is carried out late,
removes no name that was added since. As long as there may be such a write, the next one notes the version in an
annotation: otherwise a write of the same names would change nothing, not even the version, and the late write would
still be valid.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

import msgspec

from mooring.api.core import NODES, Node
from mooring.api.meta import Key
from mooring.base.log import logger
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision, Failed
from mooring.control.object_writer import ObjectWriter
from mooring.control.queue import BackOff
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change, Informer
from mooring.kube.patch import strategic_patch
from mooring.node.layout import escaped
from mooring.node.volumes import reasons as why
from mooring.node.volumes.state.actual import ActualState, Device, Publication, Stand, VolumeState
from mooring.node.volumes.state.desired import PodUse

_log = logger(__name__)

REPORTED_OVER: Final = "mooring.dev/volumes-in-use-over"
"""An annotation: the version of the Node that the report was written over which shut out others."""

REPORTED: Final = "in-use-report"
"""The topic of steps that wait for a report."""

GATHER_S: Final = 0.05
BACK_OFF: Final = BackOff(1.0, 1.0, jitter=0.0)


class InUseReport:
    """names: all that the node uses now. reported: called once the Node says what is in use, after each change."""

    def __init__(
        self,
        runtime: Runtime,
        nodes: Informer[Node],
        node_name: str,
        names: Callable[[], Collection[str]],
        reported: Callable[[], None],
    ) -> None:
        self._nodes, self._node_name, self._names, self._reported = nodes, node_name, names, reported
        self._writer = ObjectWriter(runtime.cluster, NODES, nodes)
        self._has_started = False
        self._is_awaited = False
        self._reports: frozenset[str] | None = (
            None  # what the Node says, None while that is not known; certain to be there
        )
        self._is_unsure = False  # a write is on its way, or its answer was lost
        how = Deciding(self._decide, self._perform, _tell_nobody, work="report the volumes in use")
        self.controller: Controller[str] = Controller(
            runtime, "node-in-use", how, workers=1, backoff=BACK_OFF, label="node", log=_log
        )
        self.controller.watch(nodes, self._node_changed)

    def start(self) -> None:
        """The pods of the node can be counted: from now on it reports."""
        self._has_started = True
        self.changed()

    def begin(self, present: Collection[str]) -> None:
        """present: what the Node's status says at the start."""
        self._reports = frozenset(present)
        self.changed()

    def changed(self) -> None:
        """The names may be others now."""
        if self._has_started and not self._is_awaited:
            self._is_awaited = True
            self.controller.add_after(self._node_name, GATHER_S)

    def has(self, name: str) -> bool:
        """True once the API server has stored that this volume is in use."""
        return self._reports is not None and name in self._reports

    def _node_changed(self, change: Change[Node]) -> None:
        """The report does not depend on the writer of the Node: a report that was changed, or lost with the Node, is
        made again.
        """
        present = frozenset(change.new.status.volumes_in_use or ()) if change.new is not None else frozenset[str]()
        if self._reports is not None and self._is_unsure:
            present &= self._reports  # the Node as it was before our write
        if self._reports is not None and present != self._reports:
            self._reports = present
            self.changed()
            self._reported()

    def _decide(self, _: str) -> Decision[frozenset[str]]:
        """The names to report, if the Node does not say them already."""
        self._is_awaited = False
        if self._reports is None:
            return Decision(why.NotReported())
        wanted = frozenset(self._names())
        if wanted == self._reports and not self._is_unsure:
            return Decision(why.InUseReported())
        return Decision(why.ReportsInUse(), (wanted,))

    async def _perform(self, _: str, decision: Decision[frozenset[str]]) -> None:
        """Raises Stale, Failed."""
        for wanted in decision.actions:
            was_unsure = self._is_unsure
            assert self._reports is not None
            self._reports &= (
                wanted  # what this write takes away is in use no more from here on, whatever becomes of its answer
            )
            self._is_unsure = True
            try:
                await self._write(wanted, was_unsure=was_unsure)
            except Failed:
                self._is_awaited = True  # its back-off ends before any change is looked at
                raise
            self._reports, self._is_unsure = wanted, False
        if self._reports is not None:
            self._reported()  # also to those that waited for the report of a volume that has gone meanwhile

    async def _write(self, wanted: Collection[str], *, was_unsure: bool) -> None:
        """Only over the Node that is known: a report that is carried out late would take away what a later one has
        named.
        """
        node = self._nodes.store.get(Key("", self._node_name))
        if node is None:
            raise Failed("there is no Node")
        noted = {"metadata": {"annotations": {REPORTED_OVER: node.metadata.resource_version}}} if was_unsure else {}
        patch = strategic_patch({"status": {"volumesInUse": sorted(wanted) or None}, **noted}, of=node)
        await self._writer.patch(node, patch, "status", strictly=True)


async def _tell_nobody(*_: object) -> None:
    """Tell nobody: nobody can do anything about it, and the log says it."""


class Places(msgspec.Struct):
    """in_pods: by a pod's uid, names of volumes' folders. unlisted_pods: uids of pods whose folders could not be
    listed. devices: by the name of a raw device's folder, the pods it may be mapped for.
    """

    in_pods: dict[str, frozenset[str]] = msgspec.field(default_factory=dict)
    unlisted_pods: set[str] = msgspec.field(default_factory=set)
    devices: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class UnreadPlaces:
    """changed: called when a place is no doubt any more."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._places, self._changed = Places(), changed

    @property
    def unlisted_pods(self) -> Collection[str]:
        """Uids of pods whose folders could not be listed."""
        return self._places.unlisted_pods

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of raw devices' folders."""
        return tuple(self._places.devices)

    def begin(self, places: Places) -> None:
        self._places = places

    def pod_was_read(self, uid: str, found: Mapping[str, frozenset[str]]) -> None:
        """The pod's folder was looked at again. found: what is in doubt there now."""
        if uid in self._places.unlisted_pods:
            self._places.unlisted_pods.discard(uid)
            self._changed()
        self._doubt(uid, found.get(uid, frozenset()))

    def _doubt(self, uid: str, folders: frozenset[str]) -> None:
        """Note which volumes are in doubt now in the pod's folder."""
        if folders != self._places.in_pods.pop(uid, frozenset()):
            self._changed()
        if folders:
            self._places.in_pods[uid] = folders

    def device_was_read(self, folder: str) -> None:
        """The raw device's record can be read by now, or nothing of it is left."""
        if self._places.devices.pop(folder, None) is not None:
            self._changed()

    def may_hold(self, spec_names: Collection[str], *, is_block: bool | None = None) -> bool:
        """True while some place may be a volume's of these names. spec_names: empty for one of which no name is known;
        it may be any.

        is_block: None for a volume of which that is not known.
        """
        folders = {escaped(name) for name in spec_names}
        return any(not folders or folder in folders for folder in self._folders(is_block))

    def settle(self, state: VolumeState, uses: Mapping[str, PodUse]) -> None:
        """Pods tell whose volume is in the places of its name: it counts as found there, under their label. uses: by
        the pod's uid.
        """
        if state.volume.is_block:
            self._settle_device(state)
            return
        for uid, use in uses.items():
            folders, folder = self._places.in_pods.get(uid, frozenset()), escaped(use.spec_name)
            if folder in folders or uid in self._places.unlisted_pods:
                state.label = use.label if state.is_empty else state.label
                state.publications.setdefault(uid, Publication(use.spec_name, Stand.FOUND))
            if folder in folders:
                self._doubt(uid, folders - {folder})

    def _settle_device(self, state: VolumeState) -> None:
        spec_name = state.volume.spec_name
        if (pods := self._places.devices.get(escaped(spec_name))) is None:
            return
        if state.device is not Device.STAGED:
            state.device = Device.UNCERTAIN
        for uid in pods:
            state.publications.setdefault(uid, Publication(spec_name, Stand.FOUND))
        self.device_was_read(escaped(spec_name))

    def _folders(self, is_block: bool | None) -> Iterator[str]:
        if is_block is not True:
            for folders in self._places.in_pods.values():
                yield from folders
        if is_block is not False:
            yield from self._places.devices


class NamesInUse:
    """before: volumes that the Node reported before the start and that may still be here.

    has_folder: whether a folder of this volume is left without a record: a call that a killed agent has sent may mount
    there.
    """

    def __init__(self, actual: ActualState, unread: UnreadPlaces, has_folder: Callable[[str], bool]) -> None:
        self._actual, self._unread, self._has_folder = actual, unread, has_folder
        self.before = frozenset[str]()

    def all(self) -> set[str]:
        """A volume reported before the start stays until every pod was looked at, and while a record can't be read or
        its folder is left; and while the folder of a pod can't be listed that does not tell what may be there.
        """
        desired = self._actual.desired
        if not desired.has_unseen and all(map(desired.tells, self._unread.unlisted_pods)):
            self.before = frozenset(name for name in self.before if self.may_be_unread(name) or self._has_folder(name))
        return self._actual.in_use | self.before

    def forget(self, unique: str) -> None:
        """Forget a volume with which nothing was done, or all was undone."""
        if not self._has_folder(unique):
            self.before -= {unique}

    def may_be_unread(self, unique: str) -> bool:
        """True while the volume may be in a place of which no record can be read."""
        state = self._actual.states.get(unique)
        if state is None:
            return self._unread.may_hold(())
        return self._unread.may_hold(state.spec_names, is_block=state.volume.is_block)
