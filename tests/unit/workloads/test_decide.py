"""What is decided about workloads from the objects alone, row by row."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from mooring.api.meta import Condition
from mooring.api.pods import Pod
from mooring.api.workloads import Deployment, Job, ReplicaSet
from mooring.base.clock import parse_rfc3339
from mooring.cluster.workloads import conditions
from mooring.cluster.workloads.decision import CreatePods, DeletePod
from mooring.cluster.workloads.deployments import decide as deployments
from mooring.cluster.workloads.deployments import rollout
from mooring.cluster.workloads.deployments.revisions import (
    DESIRED,
    HASH_LABEL,
    HISTORY,
    MAX,
    REVISION,
    max_surge,
    max_unavailable,
)
from mooring.cluster.workloads.deployments.status import looked_at_again_s
from mooring.cluster.workloads.jobs import decide as job_status
from mooring.cluster.workloads.jobs import decide as jobs
from mooring.cluster.workloads.jobs import tally as tallies
from mooring.cluster.workloads.ownership import claim
from mooring.cluster.workloads.pods import available_in_s, first_to_go, share_of, template_hash
from mooring.cluster.workloads.replicasets import decide as replicasets
from mooring.cluster.workloads.statefulsets import decide as statefulsets
from mooring.cluster.workloads.statefulsets import identity
from mooring.control.decision import Decision
from tests.support.builders import APP, Json, a_claim, a_job, a_pod, a_template, a_workload, typed
from tests.support.rows import each_row

A = TypeVar("A")

CREATED = "2026-01-01T00:00:00Z"
NOW = parse_rfc3339("2026-01-01T01:00:00Z")
READY_AT = "2026-01-01T00:59:30Z"


def a_status(phase: str = "Running", ready: bool = True, since: str | None = READY_AT) -> Json:
    condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since}
    return {"phase": phase, "conditions": [condition]}


def the_pod(
    name: str,
    *,
    ready: bool = True,
    phase: str = "Running",
    node: str = "n1",
    since: str | None = READY_AT,
    **more: Any,
) -> Pod:
    body = a_pod(name, node=node, **{"uid": f"uid-{name}", "labels": APP, "creationTimestamp": CREATED, **more})
    found: Pod = typed({**body, "status": a_status(phase, ready, since)})
    return found


def actions_of(decision: Decision[Any], kind: type[A]) -> list[A]:
    return [action for action in decision.actions if isinstance(action, kind)]


# -- pods


@each_row(
    ("one", "other"),
    [
        (the_pod("no-node", node=""), the_pod("b")),
        (the_pod("pending", phase="Pending", ready=False), the_pod("b")),
        (the_pod("not-ready", ready=False), the_pod("b")),
        (the_pod("cheap", annotations={"controller.kubernetes.io/pod-deletion-cost": "-5"}), the_pod("b")),
        (the_pod("just-ready", since="2026-01-01T00:59:59Z"), the_pod("b")),
        (the_pod("young", creationTimestamp="2026-01-01T00:30:00Z"), the_pod("b")),
    ],
    ids=lambda pod: pod.metadata.name,
)
def test_the_pod_that_is_missed_least_goes_first(one: Pod, other: Pod) -> None:
    assert (one,) == first_to_go((other, one), 1)
    assert (one, other) == first_to_go((other, one), 2)


def test_a_crowded_node_loses_a_pod_first() -> None:
    lone, one, two = the_pod("a", node="n1"), the_pod("b", node="n2"), the_pod("c", node="n2")
    assert lone not in first_to_go((lone, one, two), 1)


@each_row(
    ("pod", "min_ready_s", "wait_s"),
    [
        (the_pod("ready"), 0, 0.0),
        (the_pod("for 30 s"), 45, 15.0),
        (the_pod("long enough"), 30, 0.0),
        (the_pod("not ready", ready=False), 0, None),
        (the_pod("without a time", since=None), 3600, 0.0),
        (the_pod("without a time, young", since=None), 3601, 1.0),
    ],
)
def test_a_pod_is_available_once_it_has_been_ready_long_enough(
    pod: Pod, min_ready_s: int, wait_s: float | None
) -> None:
    assert wait_s == available_in_s(pod, min_ready_s, NOW)


BEHIND = NOW - 7200.0
"""What a clock says that is two hours behind, and may be set right at any moment."""


def test_a_clock_that_is_behind_makes_nobody_wait_for_longer_than_it_takes() -> None:
    """The wait was as long as the clock was behind, also once that was right again: nothing else wakes a workload that
    waits for time.
    """
    assert 45.0 == available_in_s(the_pod("for 30 s"), 45, BEHIND)
    ended, late = (
        the_job(ENDED, ttlSecondsAfterFinished=100),
        the_job({"startTime": CREATED}, activeDeadlineSeconds=200),
    )
    after = [jobs.decide(job, (), (), tallies.count(job, (), ()), 0.0, BEHIND).after_s for job in (ended, late)]
    assert [100.0, 200.0] == after
    progress = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated", "lastUpdateTime": READY_AT}
    rollout_of = typed({**a_workload("Deployment", progressDeadlineSeconds=60), "status": {"conditions": [progress]}})
    assert 61.0 == looked_at_again_s(rollout_of, rollout_of.status, BEHIND)


def owned_by(uid: str, **labels: str) -> Pod:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": True}
    return the_pod(f"of-{uid}", ownerReferences=[owner], labels=labels or APP)


def test_pods_are_kept_adopted_and_released_by_owner_and_labels() -> None:
    mine, theirs, strayed, orphan = owned_by("me"), owned_by("another"), owned_by("me", app="other"), the_pod("orphan")
    stranger, going = the_pod("stranger", labels={"app": "other"}), the_pod("going", deleting=True)
    found = (mine, theirs, strayed, orphan, stranger, going)
    owner = typed(a_workload("ReplicaSet", uid="me"))
    claimed = claim(owner, owner.spec.selector, found)
    assert ((mine,), (orphan,), (strayed,)) == (claimed.mine, claimed.adopt, claimed.release)
    leaving = typed(a_workload("ReplicaSet", uid="me", deleting=True))
    assert ((mine,), (), ()) == msgspec.structs.astuple(claim(leaving, leaving.spec.selector, found))


# -- ReplicaSets


def made_by(decision: Decision[Any]) -> int:
    return sum(action.count for action in actions_of(decision, CreatePods))


def deleted_by(decision: Decision[Any]) -> list[Pod]:
    return [action.pod for action in actions_of(decision, DeletePod)]


@each_row(
    ("replicas", "pods", "going", "create", "delete"),
    [
        (2, [the_pod("a")], (), 1, 0),
        (2, [the_pod("a"), the_pod("b")], (), 0, 0),
        (1, [the_pod("a"), the_pod("b"), the_pod("c")], (), 0, 2),
        (2, [the_pod("a"), the_pod("failed", phase="Failed")], (), 1, 0),
        (2, [the_pod("a"), the_pod("going", deleting=True)], (), 1, 0),
        (2, [the_pod("a"), the_pod("b"), the_pod("c")], ("uid-c",), 0, 0),
        (600, [], (), 500, 0),
    ],
)
def test_a_replica_set_makes_what_lacks_and_deletes_what_is_too_much(
    replicas: int, pods: list[Pod], going: tuple[str, ...], create: int, delete: int
) -> None:
    decision = replicasets.decide(typed(a_workload("ReplicaSet", replicas=replicas)), pods, going)
    assert (create, delete) == (made_by(decision), len(deleted_by(decision)))
    assert str(decision.because)


def test_a_replica_set_that_is_deleted_does_nothing() -> None:
    decision = replicasets.decide(typed(a_workload("ReplicaSet", replicas=5, deleting=True)), (), ())
    assert () == decision.actions


def test_the_status_of_a_replica_set_counts_its_pods() -> None:
    replica_set: ReplicaSet = typed(a_workload("ReplicaSet", replicas=5, minReadySeconds=40))
    pods = (
        the_pod("a"),
        the_pod("old", since=CREATED),
        the_pod("b", ready=False, labels={}),
        the_pod("going", deleting=True),
    )
    status = replicasets.status_of(replica_set, pods, (), None, NOW)
    counts = (
        status.replicas,
        status.fully_labeled_replicas,
        status.ready_replicas,
        status.available_replicas,
        status.terminating_replicas,
    )
    assert (3, 2, 2, 1, 1) == counts


# -- Deployments


def a_deployment(replicas: int = 4, surge: int | str = 1, unavailable: int | str = 1, **fields: Any) -> Deployment:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    found: Deployment = typed(
        a_workload("Deployment", replicas=replicas, **{"strategy": strategy, "uid": "d", **fields})
    )
    return found


def a_set(
    image: str, size: int, available: int | None = None, *, desired: int = 4, limit: int = 5, **fields: Any
) -> ReplicaSet:
    """image: its number. available: as many as it has by default."""
    template = a_template(image=f"example.com/image:{image}", labels={**APP, HASH_LABEL: image})
    notes = {REVISION: image, DESIRED: str(desired), MAX: str(limit)}
    named = {"uid": image, "annotations": notes, "creationTimestamp": f"2026-01-01T00:00:0{image}Z"}
    body = a_workload("ReplicaSet", f"web-{image}", size, template, **{**named, **fields})
    count = size if available is None else available
    found: ReplicaSet = typed({**body, "status": {"replicas": size, "availableReplicas": count}})
    return found


def makes(decision: Decision[Any]) -> str:
    return "".join(
        f"makes one of {action.body['spec']['replicas']}" for action in actions_of(decision, deployments.Create)
    )


def sizes_in(decision: Decision[Any]) -> dict[str, int]:
    scales = [action.scale for action in actions_of(decision, deployments.Resize)]
    return {scale.replica_set.metadata.uid: scale.replicas for scale in scales}


@each_row(
    ("surge", "unavailable", "replicas", "bounds"),
    [
        ("25%", "25%", 4, (1, 1)),
        ("25%", "25%", 3, (1, 0)),
        ("25%", "25%", 10, (3, 2)),
        (0, "25%", 3, (0, 1)),
        (0, 5, 3, (0, 3)),
        ("100%", 0, 3, (3, 0)),
    ],
)
def test_the_bounds_of_a_rollout(
    surge: int | str, unavailable: int | str, replicas: int, bounds: tuple[int, int]
) -> None:
    deployment = a_deployment(replicas, surge, unavailable)
    assert bounds == (max_surge(deployment), max_unavailable(deployment))


NEW = {"template": a_template(image="example.com/image:2")}


@each_row(
    ("old", "new", "scales"),
    [
        ((4, 4), None, "makes one of 1"),
        ((4, 4), (1, 0), {"1": 3}),
        ((3, 3), (1, 0), {"2": 2}),
        ((3, 3), (2, 0), {}),
        ((3, 3), (2, 1), {"1": 2}),
        ((3, 1), (1, 0), {"2": 2}),
        ((4, 2), (1, 0), {"1": 3}),
        ((1, 1), (4, 4), {"1": 0}),
        ((0, 0), (4, 4), {}),
    ],
)
def test_a_rolling_update_step_by_step(
    old: tuple[int, int], new: tuple[int, int] | None, scales: dict[str, int] | str
) -> None:
    """Four replicas, one more and one fewer allowed. Each: size and available."""
    sets = [a_set("1", *old), *([a_set("2", *new)] if new else [])]
    decision = deployments.decide(a_deployment(**NEW), sets)
    assert scales == (makes(decision) or sizes_in(decision))
    assert str(decision.because)


@each_row(
    ("sets", "old_running", "outcome"),
    [
        ([a_set("1", 4)], (), {"1": 0}),
        ([a_set("1", 0)], ("1",), {}),
        ([a_set("1", 0)], (), "makes one of 4"),
        ([a_set("1", 0), a_set("2", 4)], (), {}),
    ],
)
def test_recreate_ends_the_old_before_the_new_begins(
    sets: list[ReplicaSet], old_running: tuple[str, ...], outcome: Any
) -> None:
    decision = deployments.decide(a_deployment(strategy={"type": "Recreate"}, **NEW), sets, old_running)
    assert outcome == (makes(decision) or sizes_in(decision))


def test_recreate_sizes_the_old_anew() -> None:
    """What a ReplicaSet was sized for while it could surge is not true any more."""
    decision = deployments.decide(a_deployment(strategy={"type": "Recreate"}, **NEW), [a_set("1", 4, limit=5)])
    assert [{DESIRED: "4", MAX: "4"}] == [action.sized for action in actions_of(decision, deployments.Resize)]


@each_row(
    ("replicas", "sizes", "shares"),
    [
        (10, (8, 2), {"1": 16, "2": 4}),
        (4, (5, 1), {"1": 7, "2": 1}),
        (0, (5, 1), {"1": 0, "2": 0}),
    ],
)
def test_a_scaling_in_the_midst_of_a_rollout_keeps_the_proportions(
    replicas: int, sizes: tuple[int, int], shares: dict[str, int]
) -> None:
    deployment = a_deployment(replicas, "100%", 0, **NEW)
    total = sum(sizes)
    sets = [a_set("1", sizes[0], desired=5, limit=total), a_set("2", sizes[1], 0, desired=5, limit=total)]
    decision = deployments.decide(deployment, sets)
    assert shares == sizes_in(decision)


@each_row(
    ("sets", "scales"),
    [
        ([a_set("1", 3), a_set("2", 3)], {"1": 3, "2": 3}),
        ([a_set("1", 3, limit=6), a_set("2", 3, limit=6)], {}),
        ([a_set("1", 4), a_set("2", 0)], {}),
    ],
    ids=["another surge", "the same surge", "one has it all"],
)
def test_several_sets_know_the_surge_that_they_are_sized_for(sets: list[ReplicaSet], scales: dict[str, int]) -> None:
    """The next scaling takes its proportions from it."""
    decision = deployments.decide(a_deployment(4, surge=2, paused=True, **NEW), sets)
    assert scales == sizes_in(decision)


def test_a_long_name_leaves_room_for_the_hash() -> None:
    deployment = a_deployment(**NEW)
    named = msgspec.structs.replace(deployment, metadata=msgspec.structs.replace(deployment.metadata, name="d" * 253))
    [made] = actions_of(deployments.decide(named, []), deployments.Create)
    name, digest = made.body["metadata"]["name"], made.body["metadata"]["labels"][HASH_LABEL]
    assert (253, True) == (len(name), name.endswith(f"d-{digest}"))


def test_a_long_history_loses_its_oldest_revisions() -> None:
    before = ",".join(str(number) for number in range(1000, 1400))
    new = a_set("2", 4, annotations={REVISION: "1400", HISTORY: before})
    decision = deployments.decide(a_deployment(**NEW), [new, a_set("3", 0, annotations={REVISION: "1401"})])
    [amend] = actions_of(decision, deployments.Amend)
    history = amend.change["metadata"]["annotations"][HISTORY]
    assert (True, "1001", "1400") == (len(history) <= 2000, history[:4], history[-4:])


def test_old_replica_sets_beyond_the_history_go_with_the_oldest_revision_first() -> None:
    sets = [a_set("1", 0), a_set("3", 0), a_set("4", 0), a_set("2", 4)]
    decision = deployments.decide(a_deployment(revisionHistoryLimit=1, **NEW), sets)
    assert ["1", "3"] == [action.replica_set.metadata.uid for action in actions_of(decision, deployments.Delete)]


def test_an_old_template_gets_the_next_revision() -> None:
    decision = deployments.decide(a_deployment(**NEW), [a_set("2", 4), a_set("3", 0)])
    annotations = {REVISION: "4", "deployment.kubernetes.io/revision-history": "2"}
    assert (
        deployments.Amend({"metadata": {"annotations": annotations}}),
        deployments.SetRevision("4"),
    ) == decision.actions


def test_a_paused_deployment_makes_nothing_new() -> None:
    decision = deployments.decide(a_deployment(paused=True, **NEW), [a_set("1", 4)])
    assert ("", {}) == (makes(decision), sizes_in(decision))


def test_unhealthy_old_replicas_go_first() -> None:
    old = [a_set("1", 2, 2), a_set("3", 2, 0)]
    scales = rollout.roll_old(a_deployment(**NEW), a_set("2", 1, 1), old)
    assert {"3": 0} == {one.replica_set.metadata.uid: one.replicas for one in scales}


@each_row(
    ("reason", "after_s"),
    [("ReplicaSetUpdated", 31.0), ("NewReplicaSetAvailable", None), ("ProgressDeadlineExceeded", None)],
)
def test_only_a_rollout_that_goes_on_is_looked_at_again_at_its_deadline(reason: str, after_s: float | None) -> None:
    """One that is too late would be looked at each second, for ever."""
    progress = {"type": "Progressing", "status": "True", "reason": reason, "lastUpdateTime": READY_AT}
    late = typed({**a_workload("Deployment", progressDeadlineSeconds=60), "status": {"conditions": [progress]}})
    assert after_s == looked_at_again_s(late, late.status, NOW)


# -- StatefulSets


def a_view(pods: list[Pod], replicas: int = 3, **fields: Any) -> statefulsets.View:
    stateful_set = typed(
        a_workload("StatefulSet", replicas=replicas, **{"podManagementPolicy": "OrderedReady", "uid": "s", **fields})
    )
    template = stateful_set.spec.template
    return statefulsets.View(
        stateful_set,
        tuple(pods),
        lambda _: None,
        (),
        (),
        statefulsets.Template("old", template),
        statefulsets.Template("new", template),
        NOW,
    )


def numbered(number: int, revision: str = "new", **more: Any) -> Pod:
    return the_pod(f"web-{number}", labels={**APP, identity.REVISION: revision}, **more)


@each_row(
    ("name", "ordinal"),
    [("web-7", 7), ("web-2147483647", 2147483647), ("web-20260101120000", None), ("web-a", None), ("web-db-1", None)],
)
def test_the_number_of_a_pod(name: str, ordinal: int | None) -> None:
    """A longer number is somebody's date: such a pod is not to be ended as one too many."""
    assert ordinal == identity.ordinal_of(a_view([]).stateful_set, the_pod(name))


ROLLING = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}
PARTED = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}
AT_ONCE = {"podManagementPolicy": "Parallel"}


@each_row(
    ("pods", "fields", "create", "delete"),
    [
        ([], {}, ["web-0"], []),
        ([numbered(0, ready=False)], {}, [], []),
        ([numbered(0)], {}, ["web-1"], []),
        ([], AT_ONCE, ["web-0", "web-1", "web-2"], []),
        ([numbered(1)], {}, ["web-0"], []),
        ([numbered(0, phase="Failed", ready=False), numbered(1)], {}, [], ["web-0"]),
        (
            [numbered(0, phase="Failed", ready=False), *(numbered(one, "old") for one in (1, 2))],
            {**AT_ONCE, **ROLLING},
            [],
            ["web-0"],
        ),
        ([numbered(0), numbered(1), numbered(2)], {}, [], []),
        ([*map(numbered, range(5))], {}, [], ["web-4"]),
        ([*map(numbered, range(5))], AT_ONCE, [], ["web-4", "web-3"]),
        ([*map(numbered, range(4)), numbered(4, deleting=True)], {}, [], []),
        ([numbered(0, ready=False), *map(numbered, range(1, 5))], {}, [], []),
        ([numbered(0, "old"), numbered(1, "old"), numbered(2, "old")], ROLLING, [], ["web-2"]),
        ([numbered(0, "old"), numbered(1, "old"), numbered(2, ready=False)], ROLLING, [], []),
        ([numbered(0, "old"), numbered(1, "old"), numbered(2)], ROLLING, [], ["web-1"]),
        ([numbered(0, "old"), numbered(1, "old"), numbered(2)], PARTED, [], []),
        (
            [numbered(0, "old"), numbered(1, "old"), numbered(2, "old")],
            {"updateStrategy": {"type": "OnDelete"}},
            [],
            [],
        ),
        ([], {"ordinals": {"start": 5}}, ["web-5"], []),
        ([numbered(0)], {"deleting": True}, [], []),
    ],
)
def test_a_stateful_set_takes_one_step(pods: list[Pod], fields: Json, create: list[str], delete: list[str]) -> None:
    decision = statefulsets.decide(a_view(pods, **fields))
    assert create == [one.pod["metadata"]["name"] for one in actions_of(decision, statefulsets.CreatePod)]
    assert delete == [pod.metadata.name for pod in deleted_by(decision)]
    assert str(decision.because)


def test_a_pod_gets_its_labels_back_before_the_next_one_is_made() -> None:
    decision = statefulsets.decide(a_view([numbered(0)]))
    assert [statefulsets.Label, statefulsets.CreatePod] == [type(action) for action in decision.actions]


@each_row(("ordinal", "revision"), [(0, "old"), (1, "old"), (2, "new")])
def test_below_the_partition_a_pod_is_made_of_the_former_template(ordinal: int, revision: str) -> None:
    pods = [numbered(number) for number in range(3) if number != ordinal]
    [made] = actions_of(statefulsets.decide(a_view(pods, **PARTED)), statefulsets.CreatePod)
    assert revision == made.pod["metadata"]["labels"][identity.REVISION]


@each_row(
    ("deleted", "scaled", "number", "owners"),
    [
        ("Retain", "Retain", 0, None),
        ("Delete", "Retain", 0, ["StatefulSet"]),
        ("Delete", "Retain", 7, ["StatefulSet"]),
        ("Retain", "Delete", 0, None),
        ("Retain", "Delete", 7, ["Pod"]),
        ("Delete", "Delete", 0, ["StatefulSet"]),
        ("Delete", "Delete", 7, ["Pod"]),
    ],
)
def test_who_owns_a_claim(deleted: str, scaled: str, number: int, owners: list[str] | None) -> None:
    policy = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": deleted, "whenScaled": scaled}}
    stateful_set = typed(a_workload("StatefulSet", replicas=3, uid="s", **policy))
    found = identity.claim_owners(stateful_set, numbered(number), typed(a_claim(f"data-web-{number}")))
    assert owners == (None if found is None else [one["kind"] for one in found])


def test_a_claim_of_another_controller_is_let_be() -> None:
    policy = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}}
    stateful_set = typed(a_workload("StatefulSet", uid="s", **policy))
    other = {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o", "controller": True}
    assert None is identity.claim_owners(
        stateful_set, numbered(0), typed(a_claim("data-web-0", ownerReferences=[other]))
    )


def test_a_claim_of_a_former_set_of_the_name_is_let_be() -> None:
    """It is the garbage collector's: an owner more would keep it after its pods were told that it goes."""
    policy = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}}
    stateful_set = typed(a_workload("StatefulSet", uid="s", **policy))
    former = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "former"}
    assert None is identity.claim_owners(
        stateful_set, numbered(0), typed(a_claim("data-web-0", ownerReferences=[former]))
    )


# -- Jobs


def the_job(status: Json | None = None, **spec: Any) -> Job:
    found: Job = typed({**a_job(**{"uid": "j", **spec}), "status": status or {}})
    return found


def run_of(name: str, phase: str = "Running", **more: Any) -> Pod:
    return the_pod(name, phase=phase, ready=False, finalizers=[tallies.TRACKING], **more)


def end_of(decision: Decision[Any]) -> jobs.End | None:
    return next(iter(actions_of(decision, jobs.End)), None)


TWO = {"completions": 3, "parallelism": 2}


@each_row(
    ("spec", "status", "pods", "waits_s", "outcome"),
    [
        (TWO, {}, [], 0.0, (2, 0, 0, "")),
        (TWO, {}, [run_of("a"), run_of("b")], 0.0, (0, 0, 0, "")),
        (TWO, {}, [run_of("a"), run_of("b"), run_of("c")], 0.0, (0, 0, 1, "")),
        (TWO, {"succeeded": 2}, [], 0.0, (1, 0, 0, "")),
        (TWO, {"succeeded": 3}, [], 0.0, (0, 0, 0, "CompletionsReached")),
        (TWO, {"succeeded": 2}, [run_of("a", "Succeeded"), run_of("b")], 0.0, (0, 0, 1, "CompletionsReached")),
        (TWO, {}, [run_of("a", "Succeeded"), run_of("b", "Succeeded")], 0.0, (1, 0, 0, "")),
        (TWO, {}, [run_of("a", "Failed")], 10.0, (0, 0, 0, "")),
        (TWO, {}, [run_of("a", "Failed")], 0.0, (2, 0, 0, "")),
        ({**TWO, "backoffLimit": 0}, {}, [run_of("a", "Failed"), run_of("b")], 0.0, (0, 1, 0, "BackoffLimitExceeded")),
        ({"parallelism": 2}, {"succeeded": 1}, [run_of("a")], 0.0, (0, 0, 0, "")),
        ({"parallelism": 2}, {"succeeded": 1}, [], 0.0, (0, 0, 0, "CompletionsReached")),
        ({**TWO, "suspend": True}, {}, [run_of("a")], 0.0, (0, 0, 1, "")),
        (
            {**TWO, "activeDeadlineSeconds": 10},
            {"startTime": CREATED},
            [run_of("a")],
            0.0,
            (0, 1, 0, "DeadlineExceeded"),
        ),
        (
            {**TWO, "activeDeadlineSeconds": 10, "suspend": True},
            {"startTime": CREATED},
            [run_of("a")],
            0.0,
            (0, 0, 1, ""),
        ),
        ({**TWO, "podReplacementPolicy": "Failed"}, {}, [run_of("a"), run_of("b", deleting=True)], 0.0, (0, 0, 0, "")),
        (TWO, {}, [run_of("a"), run_of("b", deleting=True)], 0.0, (1, 0, 0, "")),
        ({"completions": 999, "parallelism": 900}, {}, [], 0.0, (500, 0, 0, "")),
        (TWO, {"conditions": [{"type": "Complete", "status": "True"}]}, [], 0.0, (0, 0, 0, "")),
    ],
)
def test_a_job_runs_as_many_pods_as_it_needs(
    spec: Json, status: Json, pods: list[Pod], waits_s: float, outcome: tuple[int, int, int, str]
) -> None:
    job = the_job(status, **spec)
    decision = jobs.decide(job, pods, (), tallies.count(job, pods, ()), waits_s, NOW)
    end, gone = end_of(decision), deleted_by(decision)
    spared = [action.pod for action in actions_of(decision, jobs.Discount)]
    assert [] == [pod for pod in spared if pod not in gone]
    assert outcome == (made_by(decision), len(gone) - len(spared), len(spared), end.verdict.reason if end else "")
    assert str(decision.because)


def test_a_job_that_has_failed_and_is_suspended_then_has_failed_all_the_same() -> None:
    job = the_job({"failed": 3}, backoffLimit=2, suspend=True)
    tally = tallies.count(job, (), ())
    status = job_status.status_of(job, (), (), tally, end_of(jobs.decide(job, (), (), tally, 0.0, NOW)), NOW)
    assert [("FailureTarget", "True"), ("Failed", "True")] == [
        (one.type, one.status) for one in status.conditions or ()
    ]


ENDED = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": CREATED}]}


@each_row(
    ("ttl_s", "remove", "after_s"), [(None, False, None), (3601, False, 1.0), (3600, True, None), (0, True, None)]
)
def test_a_job_that_is_over_goes_when_its_time_is_up(ttl_s: int | None, remove: bool, after_s: float | None) -> None:
    job = the_job(ENDED, ttlSecondsAfterFinished=ttl_s)
    decision = jobs.decide(job, (), (), tallies.count(job, (), ()), 0.0, NOW)
    assert ((jobs.Remove(),) if remove else (), after_s) == (decision.actions, decision.after_s)


def test_an_ended_pod_is_marked_then_released_then_counted() -> None:
    pod = run_of("a", "Succeeded")
    marked = tallies.count(the_job(), [pod], ())
    assert (0, ("uid-a",), ()) == (marked.succeeded, marked.uncounted.succeeded, marked.release)
    after = the_job({"uncountedTerminatedPods": {"succeeded": ["uid-a"]}})
    released = tallies.count(after, [pod], ())
    assert (0, ("uid-a",), (pod,)) == (released.succeeded, released.uncounted.succeeded, released.release)
    counted = tallies.count(after, [the_pod("a", phase="Succeeded")], ())
    assert (1, None, ()) == (counted.succeeded, counted.uncounted.succeeded, counted.release)
    assert 1 == tallies.count(after, [], ()).succeeded, "also when the pod is gone by then"


def test_a_pod_that_is_deleted_counts_as_failed() -> None:
    tally = tallies.count(the_job(), [run_of("a", deleting=True)], ())
    assert (1, 0) == (tally.all_failed, tally.all_succeeded)


def test_the_back_off_follows_the_failures_since_the_last_success() -> None:
    def after(before: tallies.Failures | None, succeeded: int, failed: int, now: float) -> tallies.Failures:
        return tallies.seen_failures(
            before, tallies.count(the_job({"succeeded": succeeded, "failed": failed}), (), ()), now
        )

    first = after(None, 0, 0, 5.0)
    assert 0.0 == first.waits_s(5.0)
    second = after(after(first, 0, 1, 10.0), 0, 2, 20.0)
    assert (2, 15.0) == (second.in_a_row, second.waits_s(25.0))
    assert second == after(second, 0, 2, 26.0), "nothing new: the time runs on"
    assert (0, 1) == (after(second, 1, 2, 30.0).in_a_row, after(second, 1, 3, 30.0).in_a_row)
    assert 3 == after(None, 1, 3, 0.0).in_a_row, "a start of this program knows no more than the counters"


@each_row(("failures", "seconds"), [(0, 0.0), (1, 10.0), (2, 20.0), (3, 40.0), (7, 600.0), (50, 600.0)])
def test_the_backoff_doubles(failures: int, seconds: float) -> None:
    assert seconds == tallies.backoff_s(failures)


# -- parts


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    before = (Condition("A", "True", "One", "", "t1"), Condition("B", "True", "", "", "t1"))
    assert before == conditions.put(before, Condition("A", "True", "One", "other words", "t2"))
    assert "t1" == conditions.put(before, Condition("A", "True", "Two", "", "t2"))[-1].last_transition_time
    assert "t2" == conditions.put(before, Condition("A", "False", "Two", "", "t2"))[-1].last_transition_time


@each_row(
    ("share", "up", "number"), [(3, True, 3), ("25%", True, 2), ("25%", False, 1), ("0%", True, 0), (None, True, 0)]
)
def test_shares(share: int | str | None, up: bool, number: int) -> None:
    assert number == share_of(share, 5, up=up)


def test_a_hash_follows_the_template_and_the_collisions() -> None:
    one, other = a_template(), a_template(image="other")
    hashes = {template_hash(template, count) for template in (one, other) for count in (None, 1)}
    assert 4 == len(hashes)
    assert template_hash(dict(reversed(one.items())), None) == template_hash(one, None)
