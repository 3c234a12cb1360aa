"""The volumes of one node: which change wakes which volume, and the steps of one.

A volume is worked on when a pod's wish for it changes, its driver comes or goes, the Node's status changes, or a step has ended.
Source: kubelet 1.36, pkg/kubelet/volumemanager. Differs: nothing is polled, and the report of volumes in use is written when it changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from mooring.api.core import Node
from mooring.api.storage import CSIDriver
from mooring.base.log import logger
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.result import Result, Retry
from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretCache
from mooring.kube.cache.informer import Change
from mooring.node.drivers import Drivers
from mooring.node.layout import BadName, Layout
from mooring.node.metrics import NodeMetrics
from mooring.node.volumes import reasons as why
from mooring.node.volumes.actual import ActualState, attached_to
from mooring.node.volumes.announcements import Announcements, StepWatch
from mooring.node.volumes.attachment import Attachments
from mooring.node.volumes.decide import MOUNTS, Decision, Facts, Step, Waits, decide_volume
from mooring.node.volumes.desired import DesiredState
from mooring.node.volumes.found import Found, find_volumes, remove_unrecorded
from mooring.node.volumes.in_use import REPORTED, InUseReport, NamesInUse, Unread
from mooring.node.volumes.left_folders import LeftFolders
from mooring.node.volumes.pods import FOLDER_BACK_OFF, NodePods
from mooring.node.volumes.reconcile import FileSystemSteps
from mooring.node.volumes.reconcile_block import BlockSteps
from mooring.node.volumes.reconcile_growth import GrowthSteps
from mooring.node.volumes.self_attach import SelfAttachment
from mooring.node.volumes.selinux import Labels, default_context
from mooring.node.volumes.state import Publication, Stand, VolumeState
from mooring.node.volumes.stats import Asked, asked_of
from mooring.node.volumes.step_tasks import MountSlots, StepTasks
from mooring.node.volumes.step_tools import Injector, StepFailed, Surroundings
from mooring.node.volumes.unread_devices import UnreadDevices

_log = logger(__name__)

WORKERS: Final = 16
"""Volumes decided on at once; their steps wait for drivers in tasks of their own."""

PODS_KNOWN: Final = "pods-known"
COMPONENT: Final = "kubelet"
"""For events, as the kubelet's."""


class NodeVolumes:
    """on_full: told of a driver whose node takes no more volumes. labels_all: as in Labels. mounts_max: as limit in MountSlots.

    attaches: no controller attaches volumes to the node, it does so itself.
    """

    def __init__(
        self,
        runtime: Runtime,
        caches: Caches,
        node_name: str,
        layout: Layout,
        drivers: Drivers,
        events: EventRecorder,
        on_full: Callable[[str], None],
        *,
        labels_all: bool = False,
        mounts_max: int = 0,
        attaches: bool = False,
    ) -> None:
        self._clock, self._layout, self._drivers, self._caches = runtime.clock, layout, drivers, caches
        self._metrics = runtime.metrics.once(NodeMetrics)
        self._node_name = node_name
        self._desired = DesiredState(self._wish_changed, self._pods_known)
        actual = self._actual = ActualState(caches, node_name, self._desired, events, runtime.clock)
        self._announcements = Announcements(actual)
        self._unread = Unread(self._pods_known)
        self._names = NamesInUse(actual, self._unread, lambda unique: self.left_folders.has_of(unique))
        self.in_use = InUseReport(runtime.cluster, actual.nodes, node_name, self._names.all, self._in_use_reported, clock=runtime.clock)
        self._attachments = Attachments(runtime.cluster, actual, runtime.clock, on_full)
        self._self_attachment = SelfAttachment(runtime.cluster, node_name, runtime.clock, attaches=attaches)
        around = Surroundings(
            node_name,
            layout,
            drivers,
            SecretCache(runtime.cluster, runtime.clock),
            Injector(runtime.cluster, actual.csi_drivers, runtime.clock),
            actual.csi_drivers,
            actual.tell,
            actual.tell_claim,
            runtime.clock,
            runtime.randomness,
        )
        self._threads = around.threads
        self._labels = Labels(actual.driver_spec, for_all=labels_all)
        self._watch = StepWatch(self._metrics, runtime.clock, self._announcements.slow)
        self._growth = GrowthSteps(around, runtime.cluster)
        self._file_system, self._block = FileSystemSteps(around), BlockSteps(around)
        self.controller: Controller[str] = Controller(runtime, "node-volumes", self._reconcile, workers=WORKERS, label="volume", log=_log)
        self.steps = StepTasks(lambda unique: self.controller.apply_result(unique, Retry("a step failed unexpectedly")))
        self._slots = MountSlots(mounts_max, self.controller.add)
        self.pods = NodePods(
            runtime, actual, layout, self._labels, drivers, self.controller.add, self._adopt, self._unread, self.in_use.has
        )
        self.unread_devices = UnreadDevices(runtime, layout, self._unread, self._adopt)
        self.left_folders = LeftFolders(runtime, layout, self._desired, actual, self.in_use.changed)
        self.controller.watch(actual.nodes, actual.concerned_by_node)
        self.controller.watch(actual.csi_drivers, self._csi_driver_changed)
        drivers.on_change(self._driver_changed)

    # -- the start and the end

    async def prepare(self, node: Node) -> None:
        """Finds the volumes that an earlier agent, or a kubelet, has left on the disk. node: this node's, read anew. Raises OSError."""
        known_names = {*attached_to(node), *(node.status.volumes_in_use or ())}
        self._labels.default = await asyncio.to_thread(default_context)
        self.left_folders.begin(await asyncio.to_thread(remove_unrecorded, self._layout))
        found = await asyncio.to_thread(find_volumes, self._layout, known_names)
        self._metrics.reconstructed(found.records_count, found.unread_count)
        self._metrics.count_volumes(self._node_name, lambda: len(self._desired.volumes), lambda: len(self._actual.states))
        for state in found.states:
            state.attachable = state.volume.unique in known_names
            state.attachment = self._self_attachment.of_found(state)
            self._actual.states[state.volume.unique] = state
            self.controller.add(state.volume.unique)
        for unique, left in self._self_attachment.left(node, self._actual.states):
            self._actual.states[unique] = left
            self.controller.add(unique)
        self._unread.begin(found.unread)
        self.unread_devices.begin()
        for uid in found.unlisted_pods:
            self.pods.folders.add_after(uid, FOLDER_BACK_OFF.base_s)
        self._names.before = frozenset(node.status.volumes_in_use or ())
        self.in_use.begin(self._names.before)

    def _adopt(self, found: Found) -> None:
        """Volumes were found only now; those of pods that are gone are taken back."""
        for new in found.states:
            state = self._actual.states.setdefault(new.volume.unique, new)
            for uid, publication in new.publications.items():
                state.publications.setdefault(uid, publication)
            if not state.volume.spec_name:
                state.volume = new.volume  # what is staged tells no name
            if state is new:
                state.attachable = new.volume.unique in self._actual.attached or self.in_use.has(new.volume.unique)
                state.attachment = self._self_attachment.of_found(state)
            self._wish_changed(new.volume.unique)

    async def report(self) -> None:
        """Reports the volumes in use until cancelled, once the pods of the node can be counted."""
        await self._caches.synced()
        self._desired.begin()  # a pod that comes to a node without any is none of those that were there
        await self.in_use.run()

    def stop_walks(self) -> None:
        """The next agent finishes the groups that are being set: the end does not wait for them."""
        self._file_system.stop_walks()

    def close(self) -> None:
        self._threads.close()

    # -- for statistics

    def published(self) -> Iterator[Asked]:
        """Every volume that a pod has now."""
        return asked_of(self._actual, self._layout)

    def tell_abnormal(self, asked: Asked, text: str) -> None:
        """The driver says that a volume is not well."""
        self._actual.tell(asked.use, "Warning", "VolumeConditionAbnormal", f"Volume {asked.use.volume_name}: {text}")

    # -- what wakes what

    def _driver_changed(self, name: str) -> None:
        """What failed for the driver's absence is tried at once."""
        for state in self._actual.states_of_driver(name):
            state.device_failure = state.attach_wait = None
            for publication in state.publications.values():
                publication.failure = None
            self.controller.add(state.volume.unique)

    def _csi_driver_changed(self, change: Change[CSIDriver]) -> list[str]:
        self.in_use.changed()  # its volumes may have come to be attached
        return [state.volume.unique for state in self._actual.states_of_driver(change.key.name)]

    def _wish_changed(self, unique: str) -> None:
        self.in_use.changed()
        self.controller.add(unique)

    def _pods_known(self) -> None:
        self.in_use.changed()
        self.controller.tell(PODS_KNOWN)

    def _in_use_reported(self) -> None:
        self.controller.tell(REPORTED)
        self.pods.controller.tell(REPORTED)

    # -- one volume

    async def _reconcile(self, unique: str) -> Result:
        try:
            return await self._next_step(unique)
        finally:
            self._slots.pass_on()

    async def _next_step(self, unique: str) -> Result:
        if (found := self._actual.states.get(unique)) is not None and found.is_alone:
            return Result(next(iter(found.at_work.values())))  # its end brings the volume here again
        state = self._actual.state(unique, self._unread.settle)
        if state is None:
            return Result(why.Forgotten())
        facts = self._facts(state)
        for uid in self._actual.let_start(state):
            self.pods.wake(uid)
        decision = decide_volume(state, facts)
        self._watch.wanted(unique, (uid for uid in facts.wanted if not state.has(uid)))
        look_again_s = self._announcements.refused(state, decision)
        pods_known = frozenset({PODS_KNOWN}) if facts.is_unsure else frozenset[str]()
        if decision.waits is Waits.ATTACHMENT:
            state.context = None  # that of an attachment which is over
            wait_s = await self._attachments.wait(state)
            after_s = wait_s if decision.after_s is None else min(wait_s, decision.after_s)
            return Result(decision.because, waits_for=pods_known, after_s=after_s)
        if decision.step is not Step.ATTACH:
            state.unattached_since = None
        if decision.waits is Waits.SLOT:
            self._slots.wait(state.volume.driver, unique)
        if decision.step is Step.NOTHING:
            waits_for = pods_known | ({REPORTED} if decision.waits is Waits.REPORT else set())
            return Result(decision.because, waits_for=waits_for, after_s=look_again_s)
        if decision.step is Step.FORGET:
            del self._actual.states[unique]
            self._names.forget(unique)
            self.in_use.changed()
        elif self.steps.is_open:
            self._begin(state, decision)
        return Result(decision.because, again=decision.step is Step.UNPUBLISH)  # another pod may be left at the same time

    def _begin(self, state: VolumeState, decision: Decision) -> None:
        unique = state.volume.unique
        self.controller.explain(unique, decision.because)
        state.at_work[decision.pod] = decision.because  # so it stays reported in use, and the object of a pod stays that goes meanwhile
        state.is_alone = decision.step is not Step.UNPUBLISH
        if decision.step in MOUNTS:
            self._slots.take(state.volume.driver)
        self.steps.begin(unique, decision.step.value, lambda: self._do(state, decision))

    async def _do(self, state: VolumeState, decision: Decision) -> None:
        try:
            async with self._watch.around(state, decision):
                await self._carry_out(state, decision)
        except StepFailed as error:
            self._failed(state, decision, error)
        except BadName as error:
            self._failed(state, decision, StepFailed("NewMounter initialization", str(error)))
        finally:
            del state.at_work[decision.pod]
            state.is_alone = False
            if decision.step in MOUNTS:
                self._slots.give_back(state.volume.driver)
            self._slots.pass_on()
        if decision.pod:
            await self.pods.step_ended(decision.pod)
        self.in_use.changed()
        self.controller.add(state.volume.unique)

    def _facts(self, state: VolumeState) -> Facts:
        unique, uses = state.volume.unique, self._desired.uses(state.volume.unique)
        state.publications = {uid: one for uid, one in state.publications.items() if uid in uses or one.stand is not Stand.ABSENT}
        return Facts(
            wanted={uid: use.name for uid, use in uses.items()},
            unsure=frozenset(uid for uid in state.publications if self._desired.is_unsure(uid)),
            may_take_away=not self._desired.has_unseen,
            reported=self.in_use.has(unique),
            attached=unique in self._actual.attached,
            attaches=self._self_attachment.attaches,
            has_driver=self._drivers.find(state.volume.driver) is not None,
            now=self._clock.now(),
            in_reach=self._actual.is_in_reach(state.volume),
            leaving=frozenset(state.at_work),
            has_slot=self._slots.has_free(state.volume.driver),
            may_be_unread=self._names.may_be_unread(unique),
            clashing=self._desired.clashing(state.volume),
            labels={uid: use.label for uid, use in uses.items() if use.label},
            readers=frozenset(uid for uid, use in uses.items() if use.read_only),
        )

    async def _carry_out(self, state: VolumeState, decision: Decision) -> None:
        """Raises StepFailed."""
        uid, uses = decision.pod, self._desired.uses(state.volume.unique)
        steps = self._block if state.volume.is_block else self._file_system
        match decision.step:
            case Step.ATTACH | Step.DETACH:
                await self._self_attachment.carry_out(state, is_attach=decision.step is Step.ATTACH)
            case Step.STAGE:
                await self._attachments.read(state)
                if (use := uses.get(decision.first)) is not None:  # it may have gone during the read
                    await steps.stage(state, use)
                    state.device_failure = None
            case Step.PUBLISH:
                await self._attachments.read(state)
                volume = self._desired.volume_of(state.volume.unique, uid)
                if volume is None or (use := uses.get(uid)) is None:  # gone during the read
                    return
                await steps.publish(state, volume, use)
                state.publications[uid].failure = None
                self._actual.announced_no_more(uid, state.volume.unique)
            case Step.UNPUBLISH:
                await steps.unpublish(state, uid)
            case Step.UNSTAGE:
                await steps.unstage(state)
                state.device_failure = state.context = None
                state.may_not_grow = False
            case Step.EXPAND if uid in uses:  # else the pod has gone just now
                await self._growth.expand(state, uses[uid])

    def _failed(self, state: VolumeState, decision: Decision, error: StepFailed) -> None:
        """Remembers when the step may be tried again, and tells the users of the pods that it keeps waiting."""
        volume = state.volume
        if decision.step in (Step.STAGE, Step.PUBLISH):
            state.context = None  # read anew for the next try: the volume may have been attached anew
            state.attachment = self._self_attachment.of_found(state)
        if decision.step in (Step.ATTACH, Step.DETACH):
            failure = state.attach_wait = self._self_attachment.wait_after(state.attach_wait, str(error))
        elif decision.step in (Step.STAGE, Step.UNSTAGE):
            failure = state.device_failure = self._growth.failure(state.device_failure, error)
        elif decision.step is Step.EXPAND:
            failure = state.growth_failure = self._growth.failure(state.growth_failure, error)
            self.pods.look_again(decision.pod)  # the claim is another one by now
        else:
            own = self._desired.volume_of(volume.unique, decision.pod) or volume
            publication = state.publications.setdefault(decision.pod, Publication(own.spec_name, Stand.ABSENT))
            failure = publication.failure = self._growth.failure(publication.failure, error)
        retry_in_s = round(failure.not_before - self._clock.now(), 3)
        _log.error("A step of a volume failed", step=error.step, volume=volume.unique, reason=str(error), retry_in_s=retry_in_s)
        self._announcements.failed(state, decision, error)
