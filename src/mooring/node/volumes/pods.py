"""The pods of one node: each is looked at when it changes, runs once its volumes are there, and goes once they are gone.

Nothing runs in them: a pod whose volumes are all there counts as running, one that is deleted has ended at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Key, key_of
from mooring.api.pods import PODS, Pod
from mooring.api.storage import CSIDriver
from mooring.base.log import logger
from mooring.control.controller import Controller
from mooring.control.queue import BackOff
from mooring.control.result import Result, Retry
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change, Informer
from mooring.kube.errors import NotFound
from mooring.kube.patch import strategic_patch
from mooring.node.drivers import Drivers
from mooring.node.layout import Layout
from mooring.node.metrics import NodeMetrics
from mooring.node.records import BadRecord
from mooring.node.volumes import reasons as why
from mooring.node.volumes.actual import ActualState
from mooring.node.volumes.desired import beside_what_is_kept
from mooring.node.volumes.expansion import is_the_nodes_turn
from mooring.node.volumes.files import LeftOver
from mooring.node.volumes.found import Found, find_in_pod
from mooring.node.volumes.in_use import REPORTED, Unread
from mooring.node.volumes.pod_folders import pod_folders, remove_pod_folder
from mooring.node.volumes.requests import EXPANDS
from mooring.node.volumes.running import (
    ended_containers,
    is_kept_unended,
    is_said_unready,
    lacks_containers,
    running_conditions,
    running_containers,
)
from mooring.node.volumes.selinux import Labels
from mooring.node.volumes.view import Resolver, claims_of, is_leaving

_log = logger(__name__)

WORKERS: Final = 16
BACK_OFF: Final = BackOff(0.5, 10.0)
AGAIN_S: Final = 75.0
"""Between two looks at a running pod whose volumes may have grown, or are to be published again; the kubelet takes 60 to 90 s."""
FOLDER_BACK_OFF: Final = BackOff(5.0, 600.0)
NOT_STARTED: Final = ("", "Pending")
"""Phases of a pod in which nothing runs yet."""

_FOLDER_STAYS: Final = "The folder of a pod that is gone can't be removed, and is tried again; look what is in it"


class NodePods:
    """wake: called with the name of a volume that is to be looked at.

    adopt: called with what is found in the folder of a pod that is gone. is_reported: whether the Node says that this volume is in use.
    """

    def __init__(
        self,
        runtime: Runtime,
        actual: ActualState,
        layout: Layout,
        labels: Labels,
        drivers: Drivers,
        wake: Callable[[str], None],
        adopt: Callable[[Found], None],
        unread: Unread,
        is_reported: Callable[[str], bool],
    ) -> None:
        self._cluster, self._clock = runtime.cluster, runtime.clock
        self._metrics = runtime.metrics.once(NodeMetrics)
        self._actual, self._desired, self._layout, self._wake = actual, actual.desired, layout, wake
        self._drivers, self._adopt, self._unread, self._is_reported = drivers, adopt, unread, is_reported
        self._resolver = Resolver(runtime.cluster, labels)
        self._looked_at: dict[str, tuple[str, float]] = {}  # by uid: the resource version that was resolved, and when
        self._deleted: set[str] = set()  # uids, until the cache shows that they are gone
        self.controller: Controller[Key] = Controller(
            runtime, "node-pods", self._reconcile, workers=WORKERS, backoff=BACK_OFF, label="pod", log=_log
        )
        self.folders: Controller[str] = Controller(
            runtime, "node-pod-folders", self._clean_up, workers=1, backoff=FOLDER_BACK_OFF, label="pod_uid", log=_log
        )
        self.controller.watch(actual.pods, self._changed)
        self.controller.watch(actual.csi_drivers, self._csi_driver_changed)

    def watch_claims(self, claims: Informer[PersistentVolumeClaim]) -> None:
        """Where the node may watch them: a pod is looked at as soon as a claim of its is to grow here."""
        self.controller.watch(claims, self._claim_changed)

    def look_again(self, uid: str) -> None:
        """What its claims say has changed."""
        self._looked_at.pop(uid, None)
        self.wake(uid)

    def wake(self, uid: str) -> None:
        """Something was done with one of its volumes."""
        if (key := self._actual.keys.get(uid)) is not None:
            self.controller.add(key)

    async def step_ended(self, uid: str) -> None:
        """Something was done with a volume of the pod, or has failed; with the last volume of a pod that is gone its folder goes, too."""
        if self._actual.pod(uid) is not None and uid not in self._deleted:
            self.wake(uid)
        elif not any(self._actual.states_of_pod(uid)):
            self._actual.forget_pod(uid)
            await self._remove_folder(uid)

    async def remove_orphans(self) -> None:
        """Removes the folders of pods that are no more, as far as nothing is in them. The pods are known."""
        orphans = [
            uid
            for uid in await asyncio.to_thread(pod_folders, self._layout)
            if self._actual.pod(uid) is None and not any(self._actual.states_of_pod(uid))
        ]
        left = [uid for uid in orphans if not await self._remove_folder(uid)]
        self._metrics.orphans(len(orphans), len(left))

    def _changed(self, change: Change[Pod]) -> Iterable[Key]:
        uid = change.object.metadata.uid
        if change.new is None:
            self._gone(uid)
        else:
            self._actual.keys[uid] = change.key
            if not is_leaving(change.object):
                self._desired.appeared(uid)
        return (change.key,)

    def _csi_driver_changed(self, change: Change[CSIDriver]) -> Iterator[Key]:
        """The pods of a driver that has come to want its volumes published again and again."""
        if change.new is None or not change.new.spec.requires_republish or (change.old and change.old.spec.requires_republish):
            return
        for state in self._actual.states_of_driver(change.key.name):
            yield from (key for uid in state.publications if (key := self._actual.keys.get(uid)) is not None)

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> Iterator[Key]:
        if change.new is None or not is_the_nodes_turn(change.old, change.new):
            return
        for pod in self._actual.pods.store.values():
            if change.key in claims_of(pod):
                self._looked_at.pop(pod.metadata.uid, None)
                yield key_of(pod)

    def _gone(self, uid: str) -> None:
        self._desired.gone(uid)
        self._looked_at.pop(uid, None)
        left = list(self._actual.states_of_pod(uid))
        for state in left:
            self._wake(state.volume.unique)
        if not left:
            self._actual.forget_pod(uid)
            if uid not in self._deleted:  # somebody else has removed it, and no step is left whose end would
                self.folders.add(uid)
        self._deleted.discard(uid)

    async def _reconcile(self, key: Key) -> Result:
        """Raises Retry, ApiError."""
        self._desired.begin()
        pod = self._actual.pods.store.get(key)
        if pod is None:
            return Result(why.PodGone())
        if is_leaving(pod):
            return await self._leave(pod)
        uid = pod.metadata.uid
        if not self._is_up_to_date(pod):
            await self._look_at(pod)
        if not self._actual.has_all(uid):
            return Result(why.PodWaits())
        done = ""
        if pod.status.phase != "Running" or is_said_unready(pod) or lacks_containers(pod):
            await self._set_running(pod)
            done = "All volumes of the pod are there"
        return Result(why.PodRuns(), done=done, after_s=AGAIN_S if self._is_looked_at_again(uid) else None)

    def _is_up_to_date(self, pod: Pod) -> bool:
        version, at = self._looked_at.get(pod.metadata.uid, ("", 0.0))
        if version != pod.metadata.resource_version:
            return False
        return not self._is_looked_at_again(pod.metadata.uid) or self._clock.now() - at < AGAIN_S

    async def _look_at(self, pod: Pod) -> None:
        """Finds out what the pod wants. Earlier knowledge stays as long as something can't be found out. Raises Retry."""
        uid = pod.metadata.uid
        wanted, problems = await self._resolver.resolve(pod)
        if self._actual.pod(uid) is None:
            return  # it has gone meanwhile, and wants nothing
        before = {unique: (volume, self._desired.uses(unique)[uid]) for unique, volume in self._desired.of_pod(uid).items()}
        here, has_started = self._actual.states_of_pod(uid), pod.status.phase not in NOT_STARTED
        wanted, kept = beside_what_is_kept(uid, wanted, before, here, has_started=has_started, is_whole=not problems)
        if problems := [*problems, *kept]:
            self._desired.set(uid, {**before, **wanted}, is_complete=False)
            text = f"Unable to attach or mount volumes: failed to process volumes: {'; '.join(problems)}"
            self._actual.announce(uid, "", text)
            raise Retry(text)
        self._actual.announced_no_more(uid, "")
        is_first = uid not in self._looked_at
        self._desired.set(uid, wanted)
        self._looked_at[uid] = pod.metadata.resource_version, self._clock.now()
        if not is_first:
            self._outdate(uid)

    def _outdate(self, uid: str) -> None:
        """Volumes of drivers that want to be asked again are published again."""
        for state in self._actual.states_of_pod(uid):
            if self._actual.driver_spec(state.volume.driver).requires_republish:
                if (publication := state.publications.get(uid)) is not None:
                    publication.is_outdated = True
                self._wake(state.volume.unique)

    def _is_looked_at_again(self, uid: str) -> bool:
        """A node may get claims, and not watch them: that one has grown shows itself at the next look only."""
        return any(
            self._actual.driver_spec(volume.driver).requires_republish
            or (not volume.is_inline and self._drivers.may_be_able(volume.driver, EXPANDS))
            for volume in self._desired.of_pod(uid).values()
        )

    async def _set_running(self, pod: Pod) -> None:
        """It says nothing about a pod that has changed since: it may have ended."""
        now = self._clock.wall_s()
        status = {"phase": "Running", "conditions": running_conditions(pod, now), **running_containers(pod, now)}
        patch = strategic_patch({"metadata": {"resourceVersion": pod.metadata.resource_version}, "status": status}, of=pod)
        key = key_of(pod)
        answer = await self._cluster.patch(PODS, key.name, patch, key.namespace, subresource="status")
        self._actual.pods.wrote(answer)
        self._looked_at[pod.metadata.uid] = answer.metadata.resource_version, self._clock.now()

    async def _leave(self, pod: Pod) -> Result:
        """Its volumes are taken away, then the object goes."""
        uid, key = pod.metadata.uid, key_of(pod)
        self._desired.gone(uid)
        self._looked_at.pop(uid, None)
        if left := list(self._actual.states_of_pod(uid)):
            for state in left:
                self._wake(state.volume.unique)
            return Result(why.PodLeaves())
        if uid in self._deleted:
            return Result(why.PodGone())
        await self._remove_folder(uid)
        if pod.metadata.deletion_timestamp is None:
            return Result(why.PodFinished())
        if not all(map(self._is_reported, self._actual.here)):  # without pods and reports, what is staged here would be detached
            return Result(why.PodUnreported(), waits_for=frozenset({REPORTED}))
        try:
            if is_kept_unended(pod):
                status = {"phase": "Failed", **ended_containers(pod, self._clock.wall_s())}
                patch = strategic_patch({"status": status}, of=pod)
                await self._cluster.patch(PODS, key.name, patch, key.namespace, subresource="status")
            await self._cluster.delete(PODS, key.name, key.namespace, uid=uid, grace_period_s=0)
        except NotFound:
            pass
        if self._actual.pod(uid) is not None:
            self._deleted.add(uid)
        return Result(why.PodGone(), done="The pod's volumes are taken away, the pod is removed")

    async def _remove_folder(self, uid: str) -> bool:
        """True when it is gone; else it is tried again."""
        try:
            await asyncio.to_thread(remove_pod_folder, self._layout, uid)
        except (OSError, BadRecord, LeftOver) as error:
            _log.error(_FOLDER_STAYS, error=error, pod_uid=uid)
            self.folders.add_after(uid, FOLDER_BACK_OFF.base_s)
            return False
        self._unread.pod_was_read(uid, {})
        return True

    async def _clean_up(self, uid: str) -> Result:
        """Tries once more to remove the folder of a pod that is gone. What records tell of by now is taken back. Raises Retry."""
        pod = self._actual.pod(uid)
        if (pod is not None and not is_leaving(pod)) or any(self._actual.states_of_pod(uid)):
            return Result(why.PodRuns())
        try:
            found = await asyncio.to_thread(find_in_pod, self._layout, uid)
            self._adopt(found)
            self._unread.pod_was_read(uid, found.unread.in_pods)
            if found.states:
                return Result(why.PodLeaves())
            await asyncio.to_thread(remove_pod_folder, self._layout, uid)
        except (OSError, BadRecord, LeftOver) as error:
            raise Retry(f"{_FOLDER_STAYS}: {error}") from None
        return Result(why.PodGone())
