"""The volumes of one node: which change wakes which volume, and its next step.

A volume is worked on when a pod's wish for it changes, its driver comes or goes, the Node's status changes, or a step
has ended. Source: kubelet 1.36, pkg/kubelet/volumemanager. Differs: nothing is polled, and the report of volumes in use
is written when it changes.
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
from mooring.control.manager import Worker
from mooring.control.result import Because, Result, Retry
from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretCache
from mooring.kube.cache.informer import Change
from mooring.node.drivers import Drivers
from mooring.node.layout import KubeletLayout
from mooring.node.metrics import NodeMetrics
from mooring.node.options import AgentOptions
from mooring.node.volumes import reasons as why
from mooring.node.volumes.decide import Await, Do, Facts, decide_volume, do_of
from mooring.node.volumes.leftovers import PodFolders, UnreadDevices, UnremovedFolders
from mooring.node.volumes.pods.controller import NodePods
from mooring.node.volumes.pods.selinux import default_context
from mooring.node.volumes.pods.wishes import Wishes
from mooring.node.volumes.state.actual import ActualState, Stand, Step, VolumeState, attached_to
from mooring.node.volumes.state.desired import DesiredState
from mooring.node.volumes.state.in_use import REPORTED, InUseReport, NamesInUse, UnreadPlaces
from mooring.node.volumes.state.on_disk import OnDisk, find_volumes, remove_unrecorded
from mooring.node.volumes.stats import StatsTarget, asked_of
from mooring.node.volumes.steps.announcements import Announcements
from mooring.node.volumes.steps.attachment import Attachments
from mooring.node.volumes.steps.requests import Injector
from mooring.node.volumes.steps.run import MountSlots, Steps, StepTasks
from mooring.node.volumes.steps.tools import StepContext

_log = logger(__name__)

WORKERS: Final = 16
"""Volumes decided on at once; their steps wait for drivers in tasks of their own."""

PODS_KNOWN: Final = "pods-known"
COMPONENT: Final = "kubelet"
"""The component that Events name, as the kubelet's do."""


class NodeVolumes:
    """on_full: told of a driver whose node takes no more volumes."""

    def __init__(
        self,
        runtime: Runtime,
        caches: Caches,
        options: AgentOptions,
        drivers: Drivers,
        events: EventRecorder,
        on_full: Callable[[str], None],
    ) -> None:
        self._clock, self._drivers = runtime.clock, drivers
        self._node_name, self._layout = options.node_name, KubeletLayout(options.root)
        self._metrics = runtime.metrics.once(NodeMetrics)
        self._desired = DesiredState(self._wish_changed, self._pods_known)
        actual = self._actual = ActualState(caches, self._node_name, self._desired)
        self._announcements = Announcements(events, actual, runtime.clock)
        self._unread = UnreadPlaces(self._pods_known)
        self._names = NamesInUse(actual, self._unread, lambda unique: self.unremoved_folders.has_of(unique))
        self.in_use = InUseReport(runtime, actual.nodes, self._node_name, self._names.all, self._in_use_reported)
        self._attachments = Attachments(
            runtime.cluster,
            actual,
            self._announcements,
            runtime.clock,
            on_full,
            attaches=not options.controller_attaches,
        )
        self.controller: Controller[str] = Controller(
            runtime, "node-volumes", self._reconcile, workers=WORKERS, label="volume", log=_log
        )
        self._tasks = StepTasks(
            lambda unique: self.controller.apply_result(unique, Retry("a step failed unexpectedly"))
        )
        self._slots = MountSlots(options.mounts_max, self.controller.add)
        context = self._context = self._step_context(runtime)
        self._steps = Steps(
            context,
            actual,
            self._announcements,
            self._attachments,
            self._tasks,
            self._slots,
            self._step_ended,
            self.controller.goes_round,
        )
        self._wishes = Wishes(runtime.cluster, actual.driver_spec, drivers, labels_all=options.labels_all)
        self.pod_folders = PodFolders(runtime, self._layout, actual, self._unread, self._adopt)
        self.pods = NodePods(
            runtime, actual, self._announcements, self._wishes, self.pod_folders, self.in_use, self.controller.add
        )
        self.unread_devices = UnreadDevices(runtime, self._layout, self._unread, self._adopt)
        self.unremoved_folders = UnremovedFolders(runtime, self._layout, self._desired, actual, self.in_use.changed)
        self.controller.watch(actual.nodes, actual.concerned_by_node)
        self.controller.watch(actual.csi_drivers, self._csi_driver_changed)
        drivers.on_change(self._driver_changed)

    def _step_context(self, runtime: Runtime) -> StepContext:
        return StepContext(
            node_name=self._node_name,
            layout=self._layout,
            drivers=self._drivers,
            cluster=runtime.cluster,
            secrets=SecretCache(runtime.cluster, runtime.clock),
            injector=Injector(runtime.cluster, self._actual.csi_drivers, runtime.clock),
            csi_drivers=self._actual.csi_drivers,
            tell=self._announcements.tell,
            tell_claim=self._announcements.tell_claim,
            clock=runtime.clock,
            randomness=runtime.randomness,
            metrics=self._metrics,
        )

    # -- the start and the end

    async def prepare(self, node: Node) -> None:
        """Finds the volumes that an earlier agent, or a kubelet, has left on the disk. node: this node's, read anew.
        Raises OSError.
        """
        known_names = {*attached_to(node), *(node.status.volumes_in_use or ())}
        self._wishes.default_label = await asyncio.to_thread(default_context)
        self.unremoved_folders.begin(await asyncio.to_thread(remove_unrecorded, self._layout))
        found = await asyncio.to_thread(find_volumes, self._layout, known_names)
        self._metrics.reconstructed(found.records_count, found.unread_count)
        self._metrics.count_volumes(
            self._node_name, lambda: len(self._desired.volumes), lambda: len(self._actual.states)
        )
        for state in found.states:
            state.attachable = state.volume.unique in known_names
            state.attachment = self._attachments.of_found(state)
            self._actual.states[state.volume.unique] = state
            self.controller.add(state.volume.unique)
        for unique, left in self._attachments.left(node, self._actual.states):
            self._actual.states[unique] = left
            self.controller.add(unique)
        self._unread.begin(found.unread)
        self.unread_devices.begin()
        self.pod_folders.begin(sorted(found.unread.unlisted_pods))
        self._names.before = frozenset(node.status.volumes_in_use or ())
        self.in_use.begin(self._names.before)

    def _adopt(self, found: OnDisk) -> None:
        """Volumes were found only now; those of pods that are gone are taken back."""
        for new in found.states:
            state = self._actual.states.setdefault(new.volume.unique, new)
            for uid, publication in new.publications.items():
                state.publications.setdefault(uid, publication)
            if not state.volume.spec_name:
                state.volume = new.volume  # what is staged tells no name
            if state is new:
                state.attachable = new.volume.unique in self._actual.attached or self.in_use.has(new.volume.unique)
                state.attachment = self._attachments.of_found(state)
            self._wish_changed(new.volume.unique)

    def start(self) -> None:
        """The pods of the node can be counted: the volumes in use are reported from now on."""
        self._desired.begin()  # a pod that comes to a node without any is none of those that were there
        self.in_use.start()

    def stop_walks(self) -> None:
        """The next agent finishes the groups that are being set: the end does not wait for them."""
        self._steps.stop_walks()

    def close(self) -> None:
        self._context.threads.close()

    @property
    def workers(self) -> tuple[Worker, ...]:
        """All that runs once the caches are filled."""
        folders = (self.pod_folders.controller, self.unremoved_folders.controller, self.unread_devices.controller)
        return (self.pods.controller, *folders, self._tasks, self.controller)

    # -- for statistics

    def published(self) -> Iterator[StatsTarget]:
        """Every volume that a pod has now."""
        return asked_of(self._actual, self._layout)

    def tell_abnormal(self, asked: StatsTarget, text: str) -> None:
        """The driver says that a volume is not well."""
        self._announcements.tell(
            asked.use, "Warning", "VolumeConditionAbnormal", f"Volume {asked.use.volume_name}: {text}"
        )

    # -- what wakes what

    def _driver_changed(self, name: str) -> None:
        """Tries at once the steps that failed for the driver's absence."""
        for state in self._actual.states_of_driver(name):
            state.driver_returned()
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
        found = self._actual.states.get(unique)
        if found is not None and (under_way := found.step_alone) is not None:
            return Result(under_way.because)  # its end brings the volume here again
        state = self._actual.state(unique, self._unread.settle)
        if state is None:
            return Result(why.Forgotten())
        facts = self._facts(state)
        for uid in self._actual.let_start(state):
            self._announcements.announced_no_more(uid, unique)
            self.pods.wake(uid)
        decision = decide_volume(state, facts)
        self._steps.watch.wanted(unique, (uid for uid in facts.wanted if not state.has(uid)))
        look_again_s = self._announcements.refused(state, decision)
        do, pods_known = do_of(decision), frozenset({PODS_KNOWN}) if facts.is_unsure else frozenset[str]()
        if Await.ATTACHMENT in decision.actions:
            state.context = None  # that of an attachment which is over
            wait_s = await self._attachments.wait(state)
            after_s = wait_s if decision.after_s is None else min(wait_s, decision.after_s)
            return Result(decision.because, waits_for=pods_known, after_s=after_s)
        if do is None or do.step is not Step.ATTACH:
            state.unattached_since = None
        if Await.SLOT in decision.actions:
            self._slots.wait(state.volume.driver, unique)
        if do is None:
            return Result(decision.because, waits_for=pods_known | decision.waits_for, after_s=look_again_s)
        if do.step is Step.FORGET:
            del self._actual.states[unique]
            self._names.forget(unique)
            self.in_use.changed()
        elif self._tasks.is_open:
            self._begin(state, do, decision.because)
        return Result(decision.because, again=do.step is Step.UNPUBLISH)  # another pod may be left at the same time

    def _begin(self, state: VolumeState, do: Do, because: Because) -> None:
        self.controller.explain(state.volume.unique, because)
        self._steps.begin(state, do, because)

    async def _step_ended(self, state: VolumeState, do: Do, has_failed: bool) -> None:
        if has_failed and do.step is Step.EXPAND:
            self.pods.look_again(do.pod)  # the claim is another one by now
        if do.pod:
            await self.pods.step_ended(do.pod)
        self.in_use.changed()
        self.controller.add(state.volume.unique)

    def _facts(self, state: VolumeState) -> Facts:
        unique, uses = state.volume.unique, self._desired.uses(state.volume.unique)
        state.publications = {
            uid: one for uid, one in state.publications.items() if uid in uses or one.stand is not Stand.ABSENT
        }
        return Facts(
            wanted={uid: use.name for uid, use in uses.items()},
            unsure=frozenset(uid for uid in state.publications if self._desired.is_unsure(uid)),
            may_take_away=not self._desired.has_unseen,
            reported=self.in_use.has(unique),
            attached=unique in self._actual.attached,
            attaches=self._attachments.attaches,
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
