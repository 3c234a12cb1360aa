"""The pods of one node: each is looked at when it changes, runs once its volumes are there, and goes once they are
gone.

Nothing runs in them: a pod whose volumes are all there counts as running, one that is deleted has ended at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Key, finalizers_of, key_of
from mooring.api.nodes import FALSE, READY, TRUE
from mooring.api.pods import PODS, Container, Pod
from mooring.api.storage import CSIDriver
from mooring.base.clock import rfc3339
from mooring.base.log import logger
from mooring.control.controller import Controller
from mooring.control.queue import BackOff
from mooring.control.result import Result, Retry
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change, Informer
from mooring.kube.errors import NotFound
from mooring.kube.patch import strategic_patch
from mooring.node.volumes import reasons as why
from mooring.node.volumes.leftovers import PodFolders
from mooring.node.volumes.pods.wishes import Wishes, beside_what_is_kept, claims_of
from mooring.node.volumes.state.actual import FINISHED, ActualState, Stand, is_leaving
from mooring.node.volumes.state.desired import is_the_nodes_turn
from mooring.node.volumes.state.in_use import REPORTED, InUseReport
from mooring.node.volumes.steps.announcements import Announcements

_log = logger(__name__)

WORKERS: Final = 16
BACK_OFF: Final = BackOff(0.5, 10.0)
AGAIN_S: Final = 75.0
"""Seconds between two looks at a pod that waits for its volumes, or whose volumes may have grown or are to be published
again; the kubelet takes 60 to 90 s for one that runs, and up to 138 s for one that waits.
"""
NOT_STARTED: Final = ("", "Pending")
"""Phases of a pod in which nothing runs yet."""
_KINDS: Final = ("Initialized", "ContainersReady", READY)


class NodePods:
    """wake: called with the name of a volume that is to be looked at."""

    def __init__(
        self,
        runtime: Runtime,
        actual: ActualState,
        announcements: Announcements,
        wishes: Wishes,
        folders: PodFolders,
        in_use: InUseReport,
        wake: Callable[[str], None],
    ) -> None:
        self._cluster, self._clock = runtime.cluster, runtime.clock
        self._actual, self._desired, self._announcements = actual, actual.desired, announcements
        self._wishes, self._folders, self._in_use, self._wake = wishes, folders, in_use, wake
        self._looked_at: dict[str, tuple[str, float]] = {}  # by uid: the resource version that was resolved, and when
        self._deleted: set[str] = set()  # uids, until the cache shows that they are gone
        self.controller: Controller[Key] = Controller(
            runtime, "node-pods", self._reconcile, workers=WORKERS, backoff=BACK_OFF, label="pod", log=_log
        )
        self.controller.watch(actual.pods, self._changed)
        self.controller.watch(actual.csi_drivers, self._csi_driver_changed)

    def watch_claims(self, claims: Informer[PersistentVolumeClaim]) -> None:
        """Look at a pod as soon as a claim of its is to grow here, where the node may watch claims."""
        self.controller.watch(claims, self._claim_changed)

    def look_again(self, uid: str) -> None:
        """Looks at the pod again: its claims have changed."""
        self._looked_at.pop(uid, None)
        self.wake(uid)

    def wake(self, uid: str) -> None:
        """Something was done with one of its volumes."""
        if (key := self._actual.keys.get(uid)) is not None:
            self.controller.add(key)

    async def step_ended(self, uid: str) -> None:
        """Something was done with a volume of the pod, or has failed; with the last volume of a pod that is gone its
        folder goes, too.
        """
        if self._actual.pod(uid) is not None and uid not in self._deleted:
            self.wake(uid)
        elif not any(self._actual.states_of_pod(uid)):
            self._forget(uid)
            await self._folders.remove(uid)

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
        if (
            change.new is None
            or not change.new.spec.requires_republish
            or (change.old and change.old.spec.requires_republish)
        ):
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
            self._forget(uid)
            if uid not in self._deleted:  # somebody else has removed it, and no step is left whose end would
                self._folders.controller.add(uid)
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
            return Result(why.PodWaits(), after_s=AGAIN_S)
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
        """Finds out what the pod wants. Earlier knowledge stays as long as something can't be found out. Raises
        Retry.
        """
        uid = pod.metadata.uid
        wanted, problems = await self._wishes.resolve(pod)
        if self._actual.pod(uid) is None:
            return  # it has gone meanwhile, and wants nothing
        before = {
            unique: (volume, self._desired.uses(unique)[uid]) for unique, volume in self._desired.of_pod(uid).items()
        }
        here, has_started = self._actual.states_of_pod(uid), pod.status.phase not in NOT_STARTED
        wanted, kept = beside_what_is_kept(uid, wanted, before, here, has_started=has_started, is_whole=not problems)
        if problems or kept:
            self._desired.set(uid, {**before, **wanted}, is_complete=False)
            lists, lacks = self._waiting(uid, problems)
            text = f"Unable to attach or mount volumes: {lists}: {'; '.join([*problems.values(), *kept])}"
            if kept or lacks:
                self._announcements.announce(uid, "", text)
                raise Retry(text)
            # The pod has all that it uses. A claim that somebody has removed since, or an API server that does not
            # answer for a moment, is no failed mount, and keeps nobody from saying that the pod is ready.
            _log.info(2, "A claim of a pod that has its volumes can't be used", reason=text, pod=str(key_of(pod)))
            return
        self._announcements.announced_no_more(uid, "")
        is_first = uid not in self._looked_at
        self._desired.set(uid, wanted)
        self._looked_at[uid] = pod.metadata.resource_version, self._clock.now()
        if not is_first:
            self._outdate(uid)

    def _waiting(self, uid: str, problems: Mapping[str, str]) -> tuple[str, bool]:
        """The pod's volumes that it does not have, as the kubelet lists them in its event, and whether there are any.

        problems: of those that could not be found out, by their names in the pod.
        """
        unmounted, unattached, known = set(problems), set(), set()
        for unique, volume in self._desired.of_pod(uid).items():
            name, state = self._desired.uses(unique)[uid].volume_name, self._actual.states.get(unique)
            known.add(name)
            (unmounted.discard if state is not None and state.has(uid) else unmounted.add)(name)
            is_here = unique in self._actual.attached or (state is not None and not state.is_empty)
            if self._actual.is_attachable(volume) and not is_here:
                unattached.add(name)
        lists = (("unmounted", unmounted), ("unattached", unattached), ("failed to process", problems.keys() - known))
        return ", ".join(f"{what} volumes=[{' '.join(sorted(names))}]" for what, names in lists), bool(unmounted)

    def _outdate(self, uid: str) -> None:
        """Volumes of drivers that want to be asked again are published again."""
        for state in self._actual.states_of_pod(uid):
            if self._actual.driver_spec(state.volume.driver).requires_republish:
                publication = state.publications.get(uid)
                if publication is not None and publication.stand is Stand.DONE:
                    publication.stand = Stand.OUTDATED
                self._wake(state.volume.unique)

    def _is_looked_at_again(self, uid: str) -> bool:
        """True for a pod of which no event tells what has become of its claims and PersistentVolumes.

        A pod that waits is one of them: its users may have corrected a mount option by which its mount fails.
        """
        if self._desired.is_unsure(uid) or not self._actual.has_all(uid):
            return True
        return any(map(self._wishes.may_change, self._desired.of_pod(uid).values()))

    def _forget(self, uid: str) -> None:
        self._actual.forget_pod(uid)
        self._announcements.forget_pod(uid)

    async def _set_running(self, pod: Pod) -> None:
        """Write that the pod runs, unless it has changed since it was read: it may have ended."""
        now = self._clock.wall_s()
        status = {"phase": "Running", "conditions": running_conditions(pod, now), **running_containers(pod, now)}
        patch = strategic_patch(
            {"metadata": {"resourceVersion": pod.metadata.resource_version}, "status": status}, of=pod
        )
        key = key_of(pod)
        answer = await self._cluster.patch(PODS, key.name, patch, key.namespace, subresource="status")
        self._actual.pods.wrote(answer)
        self._looked_at[pod.metadata.uid] = answer.metadata.resource_version, self._clock.now()

    async def _leave(self, pod: Pod) -> Result:
        """Take away the pod's volumes, then its object."""
        uid, key = pod.metadata.uid, key_of(pod)
        self._desired.gone(uid)
        self._looked_at.pop(uid, None)
        if left := list(self._actual.states_of_pod(uid)):
            for state in left:
                self._wake(state.volume.unique)
            return Result(why.PodLeaves())
        if uid in self._deleted:
            return Result(why.PodGone())
        await self._folders.remove(uid)
        if pod.metadata.deletion_timestamp is None:
            return Result(why.PodFinished())
        if not all(
            map(self._in_use.has, self._actual.here)
        ):  # without pods and reports, what is staged here would be detached
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


# -- a pod's status, for one that has all its volumes, and one that was deleted


def is_said_unready(pod: Pod) -> bool:
    """True where somebody else has said so, mostly node health while the node was silent: no kubelet leaves it at
    that.
    """
    return any(one.type == READY and one.status == FALSE for one in pod.status.conditions or ())


def is_kept_unended(pod: Pod) -> bool:
    """True for a deleted pod that stays for its finalizers, and does not say that it has ended: whoever holds it may
    wait for that.

    A kubelet says so of each pod that it has ended; one that nobody holds goes in the next moment.
    """
    return bool(finalizers_of(pod)) and pod.status.phase not in FINISHED


def lacks_containers(pod: Pod) -> bool:
    """True where nothing is said of the containers of a pod that has some: it counts as not ready, 0/1 to kubectl."""
    return bool(pod.spec.containers) and not pod.status.container_statuses


def running_containers(pod: Pod, now: float) -> dict[str, list[dict[str, Any]]]:
    """The statuses of containers that run and are ready; init containers have ended, but for sidecars. {} where others
    have said more.
    """
    if not lacks_containers(pod):
        return {}
    runs = {"running": {"startedAt": rfc3339(now)}}
    ended = _ended(0, "Completed", now)
    before = [_of(one, runs if one.restart_policy == "Always" else ended) for one in pod.spec.init_containers or ()]
    return _statuses([_of(one, runs) for one in pod.spec.containers or ()], before)


def ended_containers(pod: Pod, now: float) -> dict[str, list[dict[str, Any]]]:
    """The statuses of containers that have ended with their pod."""
    killed = _ended(137, "Error", now)
    before = [
        _of(one, killed if one.restart_policy == "Always" else _ended(0, "Completed", now))
        for one in pod.spec.init_containers or ()
    ]
    return _statuses([_of(one, killed) for one in pod.spec.containers or ()], before)


def _statuses(
    containers: Iterable[dict[str, Any]], before: Iterable[dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    found = {"containerStatuses": list(containers), "initContainerStatuses": list(before)}
    return {field: statuses for field, statuses in found.items() if statuses}


def _of(container: Container, state: Mapping[str, Any]) -> dict[str, Any]:
    is_well = "running" in state or state["terminated"]["exitCode"] == 0
    status = {"name": container.name, "image": container.image, "imageID": "", "restartCount": 0}
    return {**status, "ready": is_well, "started": "running" in state, "state": state, "lastState": {}}


def _ended(code: int, reason: str, now: float) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": rfc3339(now)}}


def running_conditions(pod: Pod, now: float) -> list[dict[str, str]]:
    """The conditions of a pod that runs; one that was not True says since when. now: seconds since the epoch."""
    changed = {one.type for one in pod.status.conditions or () if one.status != TRUE}
    return [
        {"type": kind, "status": TRUE, **({"lastTransitionTime": rfc3339(now)} if kind in changed else {})}
        for kind in _KINDS
    ]
