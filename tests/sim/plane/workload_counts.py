"""The laws of workloads that count: ReplicaSets, Deployments and Jobs. A part of those of `workload_laws.py`, whose
table names them too.

| law           | broken when |
| --- | --- |
| too-many-made | a pod is made of a ReplicaSet or a Job that is known to have as many as it wishes for |
| too-few-left  | a ReplicaSet's pod is deleted, and no more live than are wished for |
| surge         | more pods of a Deployment live than its surge allows, for longer than SURGE_S |
| counted-wrong | a Job says that more pods have succeeded than have |
| silent        | a ReplicaSet or StatefulSet has too few pods for long, and no event or log says why |
| job-lies      | a Job is Complete with fewer successes than its completions |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final

from mooring.kube.cluster import Verb
from tests.sim.plane.line import WORKLOADS, PlaneWrite
from tests.sim.plane.silence import SILENT_S
from tests.sim.plane.stands import Json
from tests.sim.plane.workload_stands import WorkloadStands, controller_of

SURGE_S: Final = 400.0
"""Longer than what a server refuses for a while."""


class CountLaws(WorkloadStands):
    def __init__(self, now: Callable[[], float], fail: Callable[[str, str], None]) -> None:
        super().__init__(now)
        self._fail = fail
        self.writes_count = 0
        self._short_since: dict[str, float] = {}  # by uid of a StatefulSet or ReplicaSet
        self._beyond_since: dict[str, float] = {}  # by uid of a Deployment
        self._made: dict[int, set[str]] = defaultdict(set)  # by process, uids of pods that it has made, as it was told
        self._deleted: dict[int, set[str]] = defaultdict(set)  # the same of those that it has deleted

    # -- requests

    def answered(self, write: PlaneWrite) -> None:
        """It knows what it has done."""
        if write.who == WORKLOADS and write.request is not None and write.request.kind.plural != "events":
            self.writes_count += 1
        if (
            write.who != WORKLOADS
            or write.request is None
            or write.request.kind.plural != "pods"
            or write.change is None
        ):
            return
        stored = write.change.new or write.change.old
        if stored is not None and write.request.verb in (Verb.CREATE, Verb.DELETE):
            own = self._made if write.request.verb is Verb.CREATE else self._deleted
            own[write.process].add(stored.uid)

    def _makes_one(self, write: PlaneWrite, owner: Json) -> None:
        """A pod of a ReplicaSet or a Job is about to be made."""
        kind, uid = owner["kind"], owner["uid"]
        known = self.known(write, "pods")
        states = list(self.since(uid, self.known(write, f"{kind.lower()}s")))
        pods = [pod for pod in self.pods_of(uid) if pod.made <= known or pod.uid in self._made[write.process]]
        living = sum(pod.lives_for(uid) for pod in pods)
        if kind == "ReplicaSet":
            most = max((_replicas(state) for state in states if state is not None), default=0)
            if living >= most:
                self._fail(
                    "too-many-made",
                    f"ReplicaSet {owner['name']} makes one more, {living} live, and {most} are wished for",
                )
            return
        succeeded = sum(pod.done is not None and pod.done <= known for pod in pods)
        if not any(_has_place(state, living, succeeded) for state in states if state is not None):
            self._fail(
                "too-many-made", f"Job {owner['name']} makes one more, {living} live, and {succeeded} have succeeded"
            )

    def _deletes_one(self, write: PlaneWrite, owner: Json) -> None:
        """A living pod of a ReplicaSet is about to be deleted."""
        known = self.known(write, "pods")
        states = list(self.since(owner["uid"], self.known(write, "replicasets")))
        pods, own = (
            self.pods_of(owner["uid"]),
            self._deleted[write.process],
        )  # what others have done to those that it made it may not know
        living = sum(
            pod.lives_for(owner["uid"]) if pod.uid in own else pod.lived_for(owner["uid"], known) for pod in pods
        )
        if all(state is not None and living <= _replicas(state) for state in states):
            self._fail("too-few-left", f"ReplicaSet {owner['name']} deletes a pod, and no more than {living} live")

    # -- changes

    def _job_changed(self, new: Json | None) -> None:
        if new is None:
            return
        name, status, pods = new["metadata"]["name"], new.get("status", {}), self.pods_of(new["metadata"]["uid"])
        succeeded = sum(pod.succeeded is not None for pod in pods)
        told = status.get("succeeded", 0) + len((status.get("uncountedTerminatedPods") or {}).get("succeeded") or ())
        if told > succeeded:
            self._fail("counted-wrong", f"Job {name} says that {told} have succeeded, and {succeeded} have")
        is_complete = any(
            one["type"] == "Complete" and one["status"] == "True" for one in status.get("conditions") or ()
        )
        if is_complete and succeeded < new["spec"].get("completions", 1):
            self._fail("job-lies", f"Job {name} is complete, and {succeeded} have succeeded")

    # -- every now and then

    def listen(self, owners: Iterable[Json], is_told: Callable[[float, set[str], set[str]], bool]) -> None:
        """owners: StatefulSets and ReplicaSets. is_told: since when, by uids or names."""
        short = {owner["metadata"]["uid"]: owner for owner in owners if self._is_short(owner)}
        self._short_since = {uid: self._short_since.get(uid, self._now()) for uid in short}
        for uid, owner in short.items():
            name, began = owner["metadata"]["name"], self._short_since[uid]
            if self._now() > began + SILENT_S and not is_told(began, {uid}, {name}):
                self._fail("silent", f"{owner['kind']} {name} has too few pods since {began:.3f}, and nobody says why")

    def _is_short(self, owner: Json) -> bool:
        """Whether there are fewer pods than are wished for, and none that others would wait for: of a pod that waits is
        told elsewhere.
        """
        meta, pods = owner["metadata"], self.pods_of(owner["metadata"]["uid"])
        is_held = any(not pod.is_gone and (pod.ended is not None or not pod.ready) for pod in pods)
        living = sum(pod.lives_for(meta["uid"]) for pod in pods)
        return not is_held and "deletionTimestamp" not in meta and living < _replicas(owner)

    def look(self, deployments: Iterable[Json]) -> None:
        for deployment in deployments:
            uid, most = deployment["metadata"]["uid"], _most(deployment)
            living = sum(pod.lives_for(one) for one in self._sets_of(uid) for pod in self.pods_of(one))
            if living <= most:
                self._beyond_since.pop(uid, None)
            elif self._now() > self._beyond_since.setdefault(uid, self._now()) + SURGE_S:
                self._fail(
                    "surge", f"Deployment {deployment['metadata']['name']} has {living} pods, and {most} at the most"
                )

    def _sets_of(self, deployment: str) -> list[str]:
        """Uids of its ReplicaSets."""
        found = []
        for uid, states in self.states.items():
            last = states[-1][1]
            owner = None if last is None or last["kind"] != "ReplicaSet" else controller_of(last)
            if owner is not None and owner["uid"] == deployment:
                found.append(uid)
        return found


def _replicas(state: Json) -> int:
    return int(state["spec"].get("replicas", 1))


def _has_place(job: Json, living: int, succeeded: int) -> bool:
    spec: dict[str, Any] = job["spec"]
    completions = spec.get("completions")
    if spec.get("suspend") or (completions is not None and living + succeeded >= completions):
        return False
    return living < int(spec.get("parallelism", 1)) and not (completions is None and succeeded)


def _most(deployment: Json) -> int:
    replicas = _replicas(deployment)
    rolling = deployment["spec"].get("strategy", {}).get("rollingUpdate") or {}
    surge = rolling.get("maxSurge", 0)
    return replicas + (surge if isinstance(surge, int) else -(-replicas * int(surge.removesuffix("%")) // 100))
