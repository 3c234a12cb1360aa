"""The laws of workloads: what their controllers must not do, whatever they have been shown. At rest
`workload_checkers.py` judges.

| law            | broken when |
| --- | --- |
| two-of-ordinal | a StatefulSet's pod goes while it runs on its machine, by no hand and no node health |
| claim-astray   | a StatefulSet's pod is made that names another pod's claim |
| claim-lost     | a StatefulSet's claim is deleted by no hand, and its retention policy never said so |
| owner-astray   | a claim is given an owner that the retention policy does not give it |
| wanted-deleted | a StatefulSet's pod is deleted that is wished for, has not ended, and is of the newest template |

What a controller decides follows from what it has been shown; users may have changed their minds since. So each law
asks whether any state of the workload would do, from the one that the process was shown for sure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from mooring.api.pods import PODS
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import StoredChange
from mooring.kube.cluster import Request, Verb
from tests.sim.laws import WRITING
from tests.sim.plane.claim_laws import HAND
from tests.sim.plane.line import HEALTH, WORKLOADS, PlaneWrite
from tests.sim.plane.stands import FINISHED, Json, is_alive, node_of
from tests.sim.plane.workload_counts import CountLaws
from tests.sim.plane.workload_hands import NOTE
from tests.sim.plane.workload_stands import KINDS, controller_of, ordinals_of, phase_of, pod_names
from tests.sim.server import LATE

GONE: Final = "gone"


class WorkloadLaws(CountLaws):
    """is_mounted: whether a node's machine runs the pod of a uid."""

    def __init__(self, laws: Any, now: Callable[[], float], fail: Callable[[str, str], None]) -> None:
        super().__init__(now, fail)
        self._laws = laws
        self.is_mounted: Callable[[str, str], bool] = lambda node, uid: False
        self._sets: dict[str, Json] = {}  # by name, as they are, or were at last
        self._condemned: set[str] = set()  # uids of claims of which the policy has said that they go

    # -- changes

    def changed(self, resource: Resource, change: StoredChange) -> None:
        """The store has changed. Told of every change, at once."""
        self._passes(change.rv)
        old = None if change.old is None else change.old.whole()
        new = None if change.new is None else change.new.whole()
        uid = (new or old or {})["metadata"]["uid"]
        if resource.kind in KINDS:
            self._workload_changed(change.rv, new, uid)
        elif resource.plural == PODS.plural:
            self._pod_stands(change.rv, new, uid)
            if new is None and old is not None:
                self._is_removed(old)
        if resource.kind == "Job":
            self._job_changed(new)
        elif resource.kind == "StatefulSet":
            self._policy_changed(old, new)
        elif resource.kind == "PersistentVolumeClaim":
            self._claim_changed(old, new)

    def _is_removed(self, pod: Json) -> None:
        """From the API server. Hands do so by force, node health for a node that is out of service, agents once nothing
        runs any more.
        """
        owner, write = controller_of(pod), WRITING.get()
        by_right = HAND.get() or LATE.get() or (isinstance(write, PlaneWrite) and write.who == HEALTH)
        has_ended = phase_of(pod) in FINISHED
        if owner is None or owner["kind"] != "StatefulSet" or by_right or has_ended:
            return
        if self.is_mounted(node_of(pod), pod["metadata"]["uid"]):
            self._fail(
                "two-of-ordinal",
                f"pod {pod['metadata']['name']} is removed while it runs on {node_of(pod)}, and another one may follow",
            )

    # -- requests

    def begins(self, write: PlaneWrite) -> None:
        """A program sends a write."""
        request = write.request
        if write.who != WORKLOADS or request is None:
            return
        what = request.verb, request.kind.plural
        if what == (Verb.CREATE, "pods"):
            self._makes(write, request.body)
        elif what == (Verb.DELETE, "pods"):
            self._deletes(write, request)
        elif what == (Verb.PATCH, "persistentvolumeclaims"):
            self._owns(write, request)

    def _makes(self, write: PlaneWrite, pod: Json) -> None:
        owner, name = controller_of(pod), pod["metadata"].get("name", "")
        if owner is not None and owner["kind"] != "StatefulSet":
            self._makes_one(write, owner)
        if owner is None or owner["kind"] != "StatefulSet":
            return
        for volume in pod["spec"].get("volumes") or ():
            if volume["persistentVolumeClaim"]["claimName"] != f"{volume['name']}-{name}":
                self._fail("claim-astray", f"pod {name} is made with {volume['persistentVolumeClaim']['claimName']}")

    def _deletes(self, write: PlaneWrite, request: Request) -> None:
        pod = self._laws.pods.get(request.uid)
        owner = None if pod is None else controller_of(pod)
        if pod is None or owner is None or phase_of(pod) in FINISHED:
            return
        if owner["kind"] == "ReplicaSet" and is_alive(pod):
            self._deletes_one(write, owner)
        if owner["kind"] == "StatefulSet":
            states = self.since(owner["uid"], self.known(write, "statefulsets"))
            if all(state is not None and _wants(state, pod) for state in states):
                self._fail("wanted-deleted", f"pod {request.name} is deleted, which its StatefulSet wants as it is")

    def _owns(self, write: PlaneWrite, request: Request) -> None:
        claim = self._laws.claims.get((request.namespace, request.name))
        had = {one["uid"] for one in (claim or {"metadata": {}})["metadata"].get("ownerReferences") or ()}
        for owner in request.body.body["metadata"].get("ownerReferences") or ():
            if owner["uid"] not in had and not any(self._gives(write, owner)):
                self._fail(
                    "owner-astray",
                    f"claim {request.name} is given to {owner['kind']} {owner['name']}, no policy says so",
                )

    def _gives(self, write: PlaneWrite, owner: Json) -> Iterator[bool]:
        """Whether the policy gives claims to this owner, in each state that may count."""
        pod = self.pods.get(owner["uid"])
        for uid in {owner["uid"]} if pod is None else pod.owners:
            for state in self.since(uid, self.known(write, "statefulsets")):
                if state is not None:
                    yield _is_owner(state, owner)

    # -- claims

    def _policy_changed(self, old: Json | None, new: Json | None) -> None:
        self._sets[(new or old or {})["metadata"]["name"]] = new or {**(old or {}), GONE: True}
        for claim in self._laws.claims.values():
            self._may_go(claim)

    def _claim_changed(self, old: Json | None, new: Json | None) -> None:
        claim = new or old or {}
        self._may_go(claim)
        begins_to_go = (new is None or "deletionTimestamp" in new["metadata"]) and "deletionTimestamp" not in (
            old or claim
        )["metadata"]
        if old is None or not begins_to_go or HAND.get() or LATE.get():
            return
        name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
        if self._set_of(name) is not None and uid not in self._condemned:
            self._fail("claim-lost", f"claim {name} is deleted, and the retention policy never said so")

    def _may_go(self, claim: Json) -> None:
        """Remembers of a claim that the policy says by now that it goes."""
        name = claim["metadata"]["name"]
        stateful_set = self._set_of(name)
        if stateful_set is not None and _goes(stateful_set, name):
            self._condemned.add(claim["metadata"]["uid"])

    def _set_of(self, claim: str) -> Json | None:
        """The StatefulSet of whose claims this is one by its name."""
        return self._sets.get(claim.rpartition("-")[0].partition("-")[2])


def _wants(stateful_set: Json, pod: Json) -> bool:
    """As it is."""
    names = pod_names(stateful_set)
    rolls = stateful_set["spec"]["updateStrategy"]["type"] == "RollingUpdate"
    rolling = stateful_set["spec"]["updateStrategy"].get("rollingUpdate") or {}
    stays = pod["metadata"]["name"] in names[: rolling.get("partition", 0)]
    is_newest = stateful_set["spec"]["template"]["metadata"]["annotations"][NOTE] == pod["metadata"]["annotations"].get(
        NOTE
    )
    return pod["metadata"]["name"] in names and (is_newest or stays or not rolls)


def _goes(stateful_set: Json, claim: str) -> bool:
    policy = stateful_set["spec"]["persistentVolumeClaimRetentionPolicy"]
    is_beyond = int(claim.rpartition("-")[2]) not in ordinals_of(stateful_set)
    is_over = GONE in stateful_set or "deletionTimestamp" in stateful_set["metadata"]
    return (policy["whenScaled"] == "Delete" and is_beyond) or (policy["whenDeleted"] == "Delete" and is_over)


def _is_owner(stateful_set: Json, owner: Json) -> bool:
    policy = stateful_set["spec"]["persistentVolumeClaimRetentionPolicy"]
    if owner["kind"] == "StatefulSet":
        return bool(policy["whenDeleted"] == "Delete")
    names = pod_names(stateful_set)
    return policy["whenScaled"] == "Delete" and owner["name"] not in names
