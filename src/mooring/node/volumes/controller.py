"""The volumes of one node's pods: which change wakes which pod and which volume.

Two queues. A pod is looked at when it changes: its volumes are resolved, and once all are there it counts as running. A volume is worked
on when a pod's wish for it changes, its driver comes or goes, the Node's status changes, or a step has ended.
Source: kubelet 1.36, pkg/kubelet/volumemanager. Differs: nothing is polled, and the report of volumes in use is written when it changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from mooring.api.core import NODES, Node, ObjectReference
from mooring.api.meta import Key, key_of
from mooring.api.pods import PODS, Pod
from mooring.api.storage import CSI_DRIVERS, VOLUME_ATTACHMENTS
from mooring.base.log import logger
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.queue import BackOff
from mooring.control.result import Result, Retry
from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretCache
from mooring.csi.codes import Code
from mooring.kube.cache.informer import Change
from mooring.kube.cluster import Patch, PatchType, Selection
from mooring.kube.errors import ApiError, NotFound
from mooring.node.layout import Layout, attachment_name
from mooring.node.plugins.drivers import Drivers
from mooring.node.volumes import reasons as why
from mooring.node.volumes.decide import Decision, Facts, Step, Waits, decide_volume
from mooring.node.volumes.desired import Desired
from mooring.node.volumes.found import find_volumes, remove_pod_folder
from mooring.node.volumes.in_use import InUseReport
from mooring.node.volumes.injected import Injector
from mooring.node.volumes.reconcile import FileSystemSteps
from mooring.node.volumes.reconcile_block import BlockSteps
from mooring.node.volumes.reconcile_growth import GrowthSteps
from mooring.node.volumes.requests import PodUse
from mooring.node.volumes.state import Publication, Stand, VolumeState
from mooring.node.volumes.stats import Asked
from mooring.node.volumes.step_tools import StepFailed, Surroundings
from mooring.node.volumes.view import Resolver, is_leaving
from mooring.node.volumes.volume import Volume

_log = logger(__name__)

WORKERS: Final = 64
"""Volumes worked on at once; most of that time they wait for drivers."""

POD_WORKERS: Final = 16
BACK_OFF: Final = BackOff(0.5, 10.0)
ATTACH_WAIT_S: Final = 123.0
"""How long pods wait for an attachment before that is told: the kubelet's limit of one wait for volumes."""

REPORTED: Final = "in-use-report"
COMPONENT: Final = "kubelet"
"""Of events, as the kubelet's."""


class NodeVolumes:
    """Pods and volumes of one node. on_full: told of a driver whose node takes no more volumes."""

    def __init__(
        self,
        runtime: Runtime,
        caches: Caches,
        node_name: str,
        layout: Layout,
        drivers: Drivers,
        events: EventRecorder,
        on_full: Callable[[str], None],
    ) -> None:
        self._on_full = on_full
        self._cluster, self._clock = runtime.cluster, runtime.clock
        self._node_name, self._layout, self._drivers, self._events = node_name, layout, drivers, events
        self._nodes = caches.of(NODES, selection=Selection(field_selector=f"metadata.name={node_name}"))
        self._pods = caches.of(PODS, selection=Selection(field_selector=f"spec.nodeName={node_name}"))
        self._csi_drivers = caches.of(CSI_DRIVERS)
        self._states: dict[str, VolumeState] = {}
        self._looked_at: dict[str, str] = {}  # by pod uid: the resource version that was resolved
        self._keys: dict[str, Key] = {}  # of pods, by uid
        self._announced: dict[tuple[str, str], str] = {}
        self._resolver = Resolver(runtime.cluster)
        self._desired = Desired(self._wish_changed)
        self.in_use = InUseReport(runtime.cluster, node_name, self._names_in_use, self._reported, clock=runtime.clock)
        around = Surroundings(
            node_name,
            layout,
            drivers,
            SecretCache(runtime.cluster, runtime.clock),
            Injector(runtime.cluster, self._csi_drivers, runtime.clock),
            self._csi_drivers,
            self._tell_pod,
            runtime.clock,
            runtime.chance,
        )
        self._threads = around.threads
        self._growth = GrowthSteps(around, runtime.cluster)
        self._file_system, self._block = FileSystemSteps(around), BlockSteps(around)
        self.volumes: Controller[str] = Controller(
            runtime, "node-volumes", self._reconcile_volume, workers=WORKERS, label="volume", log=_log
        )
        self.pods: Controller[Key] = Controller(
            runtime, "node-pods", self._reconcile_pod, workers=POD_WORKERS, backoff=BACK_OFF, label="pod", log=_log
        )
        self._pods.on_change(self._pod_changed)
        self._nodes.on_change(self._node_changed)
        self._csi_drivers.on_change(lambda change: self._wake(self._of_driver(change.key.name)))
        drivers.on_change(self._driver_changed)

    # -- the start

    async def prepare(self, node: Node) -> None:
        """Finds what an earlier agent, or a kubelet, has left on the disk. node: this node's, read anew. Raises OSError."""
        attached = _attached(node)
        known_names = {*attached, *(node.status.volumes_in_use or ())}
        for state in await asyncio.to_thread(find_volumes, self._layout):
            state.attachable = state.volume.unique in known_names
            self._states[state.volume.unique] = state
            self.volumes.add(state.volume.unique)
        self.in_use.begin(node.status.volumes_in_use or ())

    async def remove_orphans(self) -> None:
        """Removes the folders of pods that are no more, as far as nothing is in them. The pods are known."""
        published = {uid for state in self._states.values() for uid in state.publications}
        alive = {pod.metadata.uid for pod in self._pods.store.values()}
        for uid in await asyncio.to_thread(_names_in, self._layout):
            if uid not in published and uid not in alive:
                await self._remove_pod_folder(uid)

    def published(self) -> Iterator[Asked]:
        """Every volume that a pod has now, for its statistics."""
        for state in self._states.values():
            volume = state.volume
            for uid, publication in state.publications.items():
                use = self._desired.uses(volume.unique).get(uid)
                if publication.stand is Stand.DONE and use is not None:
                    path = self._layout.block_map(volume.spec_name) / uid if volume.is_block else self._layout.target(uid, volume.spec_name)
                    yield Asked(volume.driver, volume.handle, path, use.namespace, use.claim, use)

    def tell_abnormal(self, asked: Asked, text: str) -> None:
        """The driver says that a volume is not well."""
        self._tell_pod(asked.use, "Warning", "VolumeConditionAbnormal", f"Volume {asked.use.volume_name}: {text}")

    def close(self) -> None:
        self._threads.close()

    # -- what wakes what

    def _pod_changed(self, change: Change[Pod]) -> None:
        pod = change.object
        uid = pod.metadata.uid
        if change.new is None:
            self._forget_pod(uid)
        else:
            self._keys[uid] = change.key
            if not is_leaving(pod):
                self._desired.appeared(uid)
        self.pods.add(change.key)

    def _node_changed(self, change: Change[Node]) -> None:
        attached = _attached(change.object)
        self._wake(state for state in self._states.values() if state.attachable and state.volume.unique in attached)

    def _driver_changed(self, name: str) -> None:
        for state in self._of_driver(name):
            state.device_failure = None
            for publication in state.publications.values():
                publication.failure = None
            self.volumes.add(state.volume.unique)

    def _of_driver(self, name: str) -> list[VolumeState]:
        return [state for state in self._states.values() if state.volume.driver == name]

    def _wake(self, states: Iterable[VolumeState]) -> None:
        for state in states:
            self.volumes.add(state.volume.unique)

    def _wish_changed(self, unique: str) -> None:
        self.in_use.changed()
        self.volumes.add(unique)

    def _reported(self) -> None:
        self.volumes.tell(REPORTED)

    def _names_in_use(self) -> set[str]:
        wanted = {volume.unique for volume in self._desired.volumes if self._is_attachable(volume)}
        return wanted | {unique for unique, state in self._states.items() if state.attachable and not state.is_empty}

    def _forget_pod(self, uid: str) -> None:
        self._desired.gone(uid)
        self._looked_at.pop(uid, None)
        for unique, state in self._states.items():
            if uid in state.publications:
                self.volumes.add(unique)

    # -- pods

    async def _reconcile_pod(self, key: Key) -> Result:
        """Raises Retry, ApiError."""
        pod = self._pods.store.get(key)
        if pod is None:
            return Result(why.PodGone())
        if is_leaving(pod):
            return await self._leave(pod)
        if self._looked_at.get(pod.metadata.uid) != pod.metadata.resource_version:
            await self._look_at(pod)
        if pod.status.phase == "Running" or not self._has_all(pod.metadata.uid):
            return Result(why.PodWaits() if pod.status.phase != "Running" else why.PodRuns(), after_s=self._republish_s(pod.metadata.uid))
        await self._set_running(pod)
        return Result(why.PodRuns(), done="All volumes of the pod are there", after_s=self._republish_s(pod.metadata.uid))

    async def _look_at(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        wanted, problems = await self._resolver.resolve(pod)
        if problems:
            before = {unique: (volume, self._desired.uses(unique)[uid]) for unique, volume in self._wanted_by(uid).items()}
            self._desired.set(uid, {**before, **wanted})
            text = f"Unable to attach or mount volumes: failed to process volumes: {'; '.join(problems)}"
            self._announce(uid, "", text)
            raise Retry(text)
        self._announced.pop((uid, ""), None)
        is_first = uid not in self._looked_at
        self._desired.set(uid, wanted)
        self._looked_at[uid] = pod.metadata.resource_version
        if not is_first:
            self._outdate(uid)

    def _outdate(self, uid: str) -> None:
        """The pod was synced anew: volumes of drivers that want that are published again."""
        for unique, volume in self._wanted_by(uid).items():
            state = self._states.get(unique)
            if state is not None and uid in state.publications and self._republishes(volume):
                state.publications[uid].is_outdated = True
                self.volumes.add(unique)

    def _republishes(self, volume: Volume) -> bool:
        found = self._csi_drivers.store.get(Key("", volume.driver))
        return found is not None and bool(found.spec.requires_republish)

    def _republish_s(self, uid: str) -> float | None:
        return None if not any(self._republishes(volume) for volume in self._wanted_by(uid).values()) else 75.0

    def _wanted_by(self, uid: str) -> Mapping[str, Volume]:
        return {volume.unique: volume for volume in self._desired.volumes if uid in self._desired.uses(volume.unique)}

    def _has_all(self, uid: str) -> bool:
        """True when everything that the pod wants is published to it."""
        for unique in self._wanted_by(uid):
            state = self._states.get(unique)
            publication = state.publications.get(uid) if state is not None else None
            if publication is None or publication.stand is not Stand.DONE:
                return False
        return uid in self._looked_at

    async def _set_running(self, pod: Pod) -> None:
        now = {"status": "True"}
        conditions = [{"type": kind, **now} for kind in ("Initialized", "ContainersReady", "Ready")]
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"phase": "Running", "conditions": conditions}}
        key = key_of(pod)
        answer = await self._pods.write(
            key, self._cluster.patch(PODS, key.name, Patch(PatchType.STRATEGIC, patch), key.namespace, subresource="status")
        )
        self._looked_at[pod.metadata.uid] = answer.metadata.resource_version

    async def _leave(self, pod: Pod) -> Result:
        """Nothing runs in it any more: its volumes are taken away, then the object goes."""
        uid, key = pod.metadata.uid, key_of(pod)
        self._desired.gone(uid)
        self._looked_at.pop(uid, None)
        if any(one.stand is not Stand.ABSENT for state in self._states.values() if (one := state.publications.get(uid)) is not None):
            return Result(why.PodLeaves())
        await self._remove_pod_folder(uid)
        if pod.metadata.deletion_timestamp is None:
            return Result(why.PodFinished())
        try:
            await self._cluster.delete(PODS, key.name, key.namespace, uid=uid, grace_period_s=0)
        except NotFound:
            pass
        return Result(why.PodGone(), done="The pod's volumes are taken away, the pod is removed")

    async def _remove_pod_folder(self, uid: str) -> None:
        try:
            await asyncio.to_thread(remove_pod_folder, self._layout, uid)
        except OSError as error:
            _log.error("The folder of a pod that is gone can't be removed; look what is in it", error=error, pod_uid=uid)

    # -- volumes

    async def _reconcile_volume(self, unique: str) -> Result:
        state = self._state(unique)
        if state is None:
            return Result(why.Forgotten())
        decision = decide_volume(state, self._facts(state))
        self._tell_refused(state, decision)
        if decision.waits is Waits.ATTACHMENT:
            return Result(decision.because, after_s=await self._wait_for_attachment(state))
        state.unattached_since = None
        if decision.step is Step.NOTHING:
            topics = frozenset({REPORTED}) if decision.waits is Waits.REPORT else frozenset[str]()
            return Result(decision.because, waits_for=topics, after_s=decision.after_s)
        self.volumes.explain(unique, decision.because)
        await self._carry_out(state, decision)
        self.in_use.changed()
        return Result(decision.because, again=decision.step is not Step.FORGET)

    def _state(self, unique: str) -> VolumeState | None:
        state, wanted = self._states.get(unique), self._desired.volume(unique)
        if state is None and wanted is not None:
            state = self._states[unique] = VolumeState(wanted, attachable=self._is_attachable(wanted))
        elif state is not None and wanted is not None:
            if not state.volume.is_known:
                state.attachable = self._is_attachable(wanted)
            state.volume = wanted
        return state

    def _is_attachable(self, volume: Volume) -> bool:
        if volume.is_inline:
            return False
        found = self._csi_drivers.store.get(Key("", volume.driver))
        return found is None or found.spec.attach_required is not False

    def _facts(self, state: VolumeState) -> Facts:
        unique = state.volume.unique
        for uid in [uid for uid, one in state.publications.items() if one.stand is Stand.ABSENT and uid not in self._desired.uses(unique)]:
            del state.publications[uid]
        node = self._nodes.store.get(Key("", self._node_name))
        return Facts(
            wanted={uid: use.name for uid, use in self._desired.uses(unique).items()},
            unsure=frozenset(uid for uid in state.publications if self._desired.is_unsure(uid)),
            may_take_away=not self._desired.has_unsure,
            reported=self.in_use.has(unique),
            attached=node is not None and unique in _attached(node),
            has_driver=self._drivers.find(state.volume.driver) is not None,
            now=self._clock.now(),
            readers=frozenset(uid for uid, use in self._desired.uses(unique).items() if use.read_only),
        )

    async def _carry_out(self, state: VolumeState, decision: Decision) -> None:
        uid = decision.pod
        steps = self._steps(state)
        try:
            match decision.step:
                case Step.STAGE:
                    await self._attachment(state)
                    await steps.stage(state, self._any_use(state).fs_group)
                    state.device_failure = None
                case Step.PUBLISH:
                    await self._attachment(state)
                    await steps.publish(state, self._desired.uses(state.volume.unique)[uid])
                    state.publications[uid].failure = None
                    self._announced.pop((uid, state.volume.unique), None)
                    self._wake_pod(uid)
                case Step.UNPUBLISH:
                    await steps.unpublish(state, uid)
                    await self._after_unpublish(uid)
                case Step.UNSTAGE:
                    await steps.unstage(state)
                    state.device_failure = state.context = None
                case Step.EXPAND:
                    await self._growth.expand(state, self._desired.uses(state.volume.unique)[uid])
                case Step.FORGET:
                    del self._states[state.volume.unique]
        except StepFailed as error:
            self._failed(state, decision, error)

    def _failed(self, state: VolumeState, decision: Decision, error: StepFailed) -> None:
        if decision.step in (Step.STAGE, Step.UNSTAGE):
            failure = state.device_failure = self._steps(state).failure(state.device_failure, error)
            pods = list(self._desired.uses(state.volume.unique))
        elif decision.step is Step.EXPAND:
            failure = state.growth_failure = self._growth.failure(state.growth_failure, error)
            pods = [decision.pod]
            self._looked_at.pop(decision.pod, None)  # the claim is another one by now
            self._wake_pod(decision.pod)
        else:
            publication = state.publications.setdefault(decision.pod, Publication(state.volume.spec_name, Stand.ABSENT))
            failure = publication.failure = self._steps(state).failure(publication.failure, error)
            pods = [decision.pod]
        retry_in_s = round(failure.not_before - self._clock.now(), 3)
        _log.error("A step of a volume failed", step=error.step, volume=state.volume.unique, reason=str(error), retry_in_s=retry_in_s)
        for uid in pods:
            verb = "MapVolume" if state.volume.is_block else "MountVolume"
            text = f'{verb}.{error.step} failed for volume "{state.volume.spec_name}" : {error}'
            self._announce(uid, state.volume.unique, text, error.reason)

    async def _wait_for_attachment(self, state: VolumeState) -> float:
        """Seconds until the next look. A wait that is too long is told to the pods, with what the attacher says; a full node rejects them."""
        now, volume = self._clock.now(), state.volume
        if state.unattached_since is None:
            state.unattached_since = now
        left_s = state.unattached_since + ATTACH_WAIT_S - now
        if left_s > 0:
            return left_s
        state.unattached_since = now
        cause, code = await self._attach_error(volume)
        is_full = code == Code.RESOURCE_EXHAUSTED and self._is_refreshed(volume)
        if is_full:
            self._on_full(volume.driver)
        for uid, use in list(self._desired.uses(volume.unique).items()):
            lists = f"unmounted volumes=[{use.volume_name}], unattached volumes=[{use.volume_name}], failed to process volumes=[]"
            self._announce(uid, volume.unique, f"Unable to attach or mount volumes: {lists}: {cause}")
            if is_full:
                text = f"Node has reached its volume attachment limit, rejecting pod. {lists}: {cause}"
                await self._reject(uid, "VolumeAttachmentLimitExceeded", text)
        return ATTACH_WAIT_S

    async def _attach_error(self, volume: Volume) -> tuple[str, int | None]:
        """Why the volume is not attached, as far as its VolumeAttachment tells, and the driver's code."""
        name = attachment_name(volume.driver, volume.handle, self._node_name)
        try:
            error = (await self._cluster.get(VOLUME_ATTACHMENTS, name)).status.attach_error
        except ApiError as refusal:
            return str(refusal), None
        return (error.message, error.error_code) if error is not None else ("the attacher has not attached it yet", None)

    def _is_refreshed(self, volume: Volume) -> bool:
        found = self._csi_drivers.store.get(Key("", volume.driver))
        return found is not None and bool(found.spec.node_allocatable_update_period_seconds)

    async def _reject(self, uid: str, reason: str, message: str) -> None:
        if (key := self._keys.get(uid)) is None:
            return
        patch = {"metadata": {"uid": uid}, "status": {"phase": "Failed", "reason": reason, "message": message}}
        try:
            await self._cluster.patch(PODS, key.name, Patch(PatchType.STRATEGIC, patch), key.namespace, subresource="status")
        except ApiError as error:
            _log.error("A pod could not be rejected", error=error, pod=str(key))

    async def _attachment(self, state: VolumeState) -> None:
        """Reads what the attacher noted for the node, once for as long as the volume is here. Raises StepFailed."""
        if not state.attachable or state.context is not None:
            return
        name = attachment_name(state.volume.driver, state.volume.handle, self._node_name)
        try:
            attachment = await self._cluster.get(VOLUME_ATTACHMENTS, name)
        except ApiError as error:
            raise StepFailed("WaitForAttach", str(error)) from None
        if attachment.metadata.deletion_timestamp is not None:
            raise StepFailed("WaitForAttach", "volume attachment is being deleted")
        if not attachment.status.attached:
            error_text = attachment.status.attach_error.message if attachment.status.attach_error is not None else ""
            raise StepFailed("WaitForAttach", error_text or f"volume {state.volume.handle} is not attached: {name} does not say so")
        state.context = attachment.status.attachment_metadata or {}

    def _steps(self, state: VolumeState) -> FileSystemSteps | BlockSteps:
        return self._block if state.volume.is_block else self._file_system

    def _any_use(self, state: VolumeState) -> PodUse:
        return next(iter(self._desired.uses(state.volume.unique).values()))

    async def _after_unpublish(self, uid: str) -> None:
        key = self._keys.get(uid)
        if key is not None and (pod := self._pods.store.get(key)) is not None and pod.metadata.uid == uid:
            self.pods.add(key)
        elif not any(uid in state.publications for state in self._states.values()):
            self._keys.pop(uid, None)
            await self._remove_pod_folder(uid)

    def _tell_pod(self, use: PodUse, type: str, reason: str, text: str) -> None:
        key = self._keys.get(use.uid)
        if key is not None and (pod := self._pods.store.get(key)) is not None:
            self._events.event(_reference(pod), type, reason, text)

    def _wake_pod(self, uid: str) -> None:
        if (key := self._keys.get(uid)) is not None:
            self.pods.add(key)

    def _tell_refused(self, state: VolumeState, decision: Decision) -> None:
        for uid, because in decision.refused.items():
            text = f'MountVolume.NewMounter initialization failed for volume "{state.volume.spec_name}" : {because}'
            self._announce(uid, state.volume.unique, text)

    def _announce(self, uid: str, unique: str, text: str, reason: str = "FailedMount") -> None:
        """A Warning for the pod's users, once for each text."""
        key = self._keys.get(uid)
        pod = self._pods.store.get(key) if key is not None else None
        if pod is None or self._announced.get((uid, unique)) == text:
            return
        self._announced[uid, unique] = text
        self._events.event(_reference(pod), "Warning", reason, text)


def _reference(pod: Pod) -> ObjectReference:
    meta = pod.metadata
    return ObjectReference("v1", "Pod", meta.namespace, meta.name, meta.uid, meta.resource_version)


def _attached(node: Node) -> set[str]:
    return {volume.name for volume in node.status.volumes_attached or ()}


def _names_in(layout: Layout) -> list[str]:
    return sorted(entry.name for entry in layout.pods.iterdir()) if layout.pods.is_dir() else []
