"""The next steps of a StatefulSet, one pod after the other. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, TypeAlias

import msgspec

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Key, is_deleting
from mooring.api.pods import Pod
from mooring.api.workloads import StatefulSet
from mooring.cluster.workloads.decision import DeletePod
from mooring.cluster.workloads.ownership import without_owner
from mooring.cluster.workloads.pods import FINISHED, is_available, is_going
from mooring.cluster.workloads.statefulsets import reasons as why
from mooring.cluster.workloads.statefulsets.identity import (
    DELETE,
    claim_bodies,
    claim_names,
    claim_owners,
    goes_with_former,
    is_disputed,
    lost_labels,
    ordinal_of,
    ordinals,
    pod_body,
    revision_of,
)
from mooring.control.decision import Decision

Json = dict[str, Any]
ClaimOf = Callable[[Key], PersistentVolumeClaim | None]


class Template(msgspec.Struct, frozen=True):
    """A template, and the name of its revision."""

    revision: str
    template: Json


class View(msgspec.Struct, frozen=True):
    """claim_of: from the cache. owned: the claims that go with the set. going: the uids of pods that we have deleted.

    now: seconds since the epoch.
    """

    stateful_set: StatefulSet
    pods: tuple[Pod, ...]
    claim_of: ClaimOf
    owned: tuple[PersistentVolumeClaim, ...]
    going: Collection[str]
    current: Template
    update: Template
    now: float

    def is_terminating(self, pod: Pod) -> bool:
        return is_going(pod, self.going)

    def is_healthy(self, pod: Pod) -> bool:
        """True for a running pod that is ready for long enough, and not about to go."""
        available = is_available(pod, self.stateful_set.spec.min_ready_seconds, self.now)
        return pod.status.phase == "Running" and available and not self.is_terminating(pod)


class TellHeld(msgspec.Struct, frozen=True):
    """Tell that a pod is not made before a claim of its name is gone, which somebody has deleted."""

    pod_name: str
    claim_name: str


class TellDisputed(msgspec.Struct, frozen=True):
    """Tell that a claim belongs to others, whatever the retention policy says."""

    claim_name: str


class Label(msgspec.Struct, frozen=True):
    """Give a pod the labels that it has lost."""

    pod: Pod
    labels: dict[str, str]


class Own(msgspec.Struct, frozen=True):
    """Set the owners of a claim."""

    claim: PersistentVolumeClaim
    owners: list[Json]


class TellUpdated(msgspec.Struct, frozen=True):
    """Tell that the claims of a pod have other owners."""

    pod_name: str


class CreateClaims(msgspec.Struct, frozen=True):
    """Create the claims that a pod lacks, and waits for."""

    pod_name: str
    claims: tuple[Json, ...]


class CreatePod(msgspec.Struct, frozen=True):
    """Create the pod, after the claims that it lacks."""

    pod: Json
    claims: tuple[Json, ...] = ()


Action: TypeAlias = TellHeld | TellDisputed | Label | Own | TellUpdated | CreateClaims | CreatePod | DeletePod

ORDER: Final = (TellHeld, TellDisputed, Label, Own, TellUpdated, CreateClaims, CreatePod, DeletePod)
"""The order in which actions are carried out."""


def decide(view: View) -> Decision[Action]:
    """Decide about the set. In order: one pod at a time, from the first to the last; surplus pods go from the end, once
    all others are well.
    """
    stateful_set = view.stateful_set
    if is_deleting(stateful_set):
        return Decision(why.Deleting())
    found = {ordinal: pod for pod in view.pods if (ordinal := ordinal_of(stateful_set, pod)) is not None}
    started = chosen = _started(view, found)
    is_idle = not any(isinstance(action, CreatePod | DeletePod) for action in started.actions)
    if is_idle and _may_go_on(view, found):
        chosen = _condemned(view, found) or _updated(view, found) or started
    actions: list[Action] = [*started.actions, *_unlabelled(view, found), *_owned(view), *_disputed(view)]
    if chosen is not started:
        actions += chosen.actions
    return Decision(chosen.because, tuple(sorted(actions, key=lambda action: ORDER.index(type(action)))))


def _is_ordered(view: View) -> bool:
    return view.stateful_set.spec.pod_management_policy != "Parallel"


def _started(view: View, found: dict[int, Pod]) -> Decision[Action]:
    """The steps for pods that are missing or unwell; in order, only that of the first such pod."""
    steps: list[Decision[Action]] = []
    for ordinal in ordinals(view.stateful_set):
        step = _step(view, ordinal, found.get(ordinal))
        if step is None:
            continue
        steps.append(step)
        if _is_ordered(view):
            break
    because = steps[-1].because if steps else why.AllThere(view.stateful_set.spec.replicas)
    return Decision(because, tuple(action for step in steps for action in step.actions))


def _step(view: View, ordinal: int, pod: Pod | None) -> Decision[Action] | None:
    """The next step for the pod of this number, None where it is well."""
    name = f"{view.stateful_set.metadata.name}-{ordinal}"
    if pod is None:
        return _held_up(view, name) or Decision(why.Missing(name), (_created(view, ordinal),))
    if pod.status.phase in FINISHED and not view.is_terminating(pod):
        return Decision(why.Ended(name), (DeletePod(pod),))
    if view.is_healthy(pod):
        return None
    claims = _missing_claims(view, name) if pod.status.phase == "Pending" else ()
    return Decision(why.WaitsFor(name), (CreateClaims(name, claims),) if claims else ())


def _may_go_on(view: View, found: dict[int, Pod]) -> bool:
    """True where pods may be deleted: in order, only once all that are to stay are well."""
    wanted = [found.get(ordinal) for ordinal in ordinals(view.stateful_set)]
    return not _is_ordered(view) or all(
        pod is not None and not view.is_terminating(pod) and view.is_healthy(pod) for pod in wanted
    )


def _created(view: View, ordinal: int) -> CreatePod:
    stateful_set = view.stateful_set
    chosen = _template_for(view, ordinal)
    body = pod_body(stateful_set, chosen.template, chosen.revision, ordinal)
    return CreatePod(body, _missing_claims(view, body["metadata"]["name"]))


def _missing_claims(view: View, pod_name: str) -> tuple[Json, ...]:
    namespace, claims = view.stateful_set.metadata.namespace, claim_bodies(view.stateful_set, pod_name)
    return tuple(claim for claim in claims if view.claim_of(Key(namespace, claim["metadata"]["name"])) is None)


def _template_for(view: View, ordinal: int) -> Template:
    """The template for the pod of this number: below the partition pods stay what they were."""
    strategy = view.stateful_set.spec.update_strategy
    partition = strategy.rolling_update.partition if strategy.rolling_update is not None else 0
    below = ordinal < view.stateful_set.spec.ordinals.start + partition
    return view.current if strategy.type == "RollingUpdate" and below else view.update


def _held_up(view: View, pod_name: str) -> Decision[Action] | None:
    """The decision to wait, where a claim has to be gone before the pod is made anew; None for no such claim."""
    claims = _claims_of(view, pod_name)
    for claim in claims:
        if goes_with_former(view.stateful_set, claim, pod_name):
            return Decision(why.ClaimGoes(pod_name, claim.metadata.name))
    for claim in claims:
        if is_deleting(claim):
            return Decision(why.ClaimGoes(pod_name, claim.metadata.name), (TellHeld(pod_name, claim.metadata.name),))
    return None


def _claims_of(view: View, pod_name: str) -> list[PersistentVolumeClaim]:
    """The pod's claims that exist."""
    namespace, names = view.stateful_set.metadata.namespace, claim_names(view.stateful_set, pod_name).values()
    return [claim for name in names if (claim := view.claim_of(Key(namespace, name))) is not None]


def _condemned(view: View, found: dict[int, Pod]) -> Decision[Action] | None:
    """Delete the pods beyond the number wished for, from the end; in order, an unwell one only when those before it are
    well.
    """
    stay = ordinals(view.stateful_set)
    beyond = [found[ordinal] for ordinal in sorted(found, reverse=True) if ordinal not in stay]
    if not beyond:
        return None
    if not _is_ordered(view):
        chosen = tuple(pod for pod in beyond if not view.is_terminating(pod))
        return Decision(why.TooMany(chosen[0].metadata.name), tuple(map(DeletePod, chosen))) if chosen else None
    last, unwell = beyond[0], [pod for pod in beyond if not view.is_healthy(pod)]
    if view.is_terminating(last):
        return Decision(why.WaitsForEnd(last.metadata.name))
    if last in unwell[:-1]:
        return Decision(why.WaitsFor(unwell[-1].metadata.name))
    return Decision(why.TooMany(last.metadata.name), (DeletePod(last),))


def _updated(view: View, found: dict[int, Pod]) -> Decision[Action] | None:
    """Delete the last pod of an old template, once those after it are well."""
    strategy = view.stateful_set.spec.update_strategy
    if strategy.type != "RollingUpdate":
        return None
    partition = strategy.rolling_update.partition if strategy.rolling_update is not None else 0
    for ordinal in reversed(ordinals(view.stateful_set)[partition:]):
        pod = found.get(ordinal)
        if pod is None:
            return None
        if revision_of(pod) != view.update.revision and not view.is_terminating(pod):
            return Decision(why.Outdated(pod.metadata.name), (DeletePod(pod),))
        if not view.is_healthy(pod):
            return Decision(why.WaitsFor(pod.metadata.name))
    return None


def _owned(view: View) -> list[Own | TellUpdated]:
    """Set the owners of claims that are not those of the retention policy. Users are not told of a pod that is new, or
    surplus.
    """
    found: list[Own] = []
    updated: dict[str, None] = {}
    for pod in view.pods:
        stays = ordinal_of(view.stateful_set, pod) in ordinals(view.stateful_set)
        for claim in _claims_of(view, pod.metadata.name):
            owners = claim_owners(view.stateful_set, pod, claim)
            if owners is not None:
                found.append(Own(claim, owners))
                if stays and pod.status.phase != "Pending":
                    updated[pod.metadata.name] = None
    return [*found, *_let_go(view), *map(TellUpdated, updated)]


def _let_go(view: View) -> list[Own]:
    """Release the claims without a pod that an earlier retention policy made go with the set. Upstream leaves them so,
    and they go.
    """
    if view.stateful_set.spec.persistent_volume_claim_retention_policy.when_deleted == DELETE:
        return []
    with_pods = {name for pod in view.pods for name in claim_names(view.stateful_set, pod.metadata.name).values()}
    uid = view.stateful_set.metadata.uid
    return [Own(claim, without_owner(claim, uid)) for claim in view.owned if claim.metadata.name not in with_pods]


def _disputed(view: View) -> list[TellDisputed]:
    """The disputed claims of pods that have not begun: users are told once, when the pod is made."""
    new = (pod for pod in view.pods if pod.status.phase == "Pending")
    return [
        TellDisputed(claim.metadata.name)
        for pod in new
        for claim in _claims_of(view, pod.metadata.name)
        if is_disputed(view.stateful_set, pod, claim)
    ]


def _unlabelled(view: View, found: dict[int, Pod]) -> list[Label]:
    staying = (found[ordinal] for ordinal in ordinals(view.stateful_set) if ordinal in found)
    return [
        Label(pod, labels)
        for pod in staying
        if not view.is_terminating(pod) and (labels := lost_labels(view.stateful_set, pod))
    ]
