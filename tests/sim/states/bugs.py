"""Worse parts, each of which some state of the quick share must show."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final
from unittest import mock

import msgspec
from msgspec import structs

from mooring.cluster.attachdetach import assemble
from mooring.cluster.binder.announcer import Announcer
from mooring.cluster.binder.ephemeral.controller import EphemeralVolumes
from mooring.cluster.binder.volumes import decide as binding
from mooring.cluster.binder.volumes.reasons import VolumeMissing
from mooring.cluster.nodehealth.podgc import controller as podgc
from mooring.cluster.nodehealth.podgc.decide import Kept
from mooring.cluster.workloads.jobs import reconcile as jobs
from mooring.cluster.workloads.statefulsets import decide as stateful_sets
from mooring.control.decision import Decision
from mooring.control.events import Correlator
from mooring.sidecars.attacher import decide as attacher_decide
from mooring.sidecars.attacher import view as attacher_view
from mooring.sidecars.attacher.reconcile import Telling
from mooring.sidecars.provisioner.capacity import view as capacity_view
from mooring.sidecars.provisioner.capacity.controller import CapacityPublisher
from tests.sim.bugs import BUGS as ATTACHERS
from tests.sim.planting import both, no_back_off
from tests.sim.states import snapshot_bugs, source_bugs, waking_bugs


@dataclasses.dataclass(frozen=True, slots=True)
class Bug:
    """room: where it is sought. found_by: the laws that tell of it."""

    room: str
    plant: Callable[[], contextlib.AbstractContextManager[Any]]
    found_by: AbstractSet[str]


def _attach_errors_are_not_shown() -> contextlib.AbstractContextManager[Any]:
    """A failure of the attacher stands in no status, and not in the log."""

    async def nothing(*_args: Any) -> None:
        pass

    return both(mock.patch.object(Telling, "_show", nothing), mock.patch("mooring.control.controller.Logger.error"))


def _nobody_is_reminded() -> contextlib.AbstractContextManager[Any]:
    """A pod that waits for its volume hears why once, and an Event lives for an hour."""

    return both(
        mock.patch("mooring.cluster.attachdetach.controller.REMIND_S", math.inf),
        mock.patch("mooring.cluster.attachdetach.decide.REMIND_S", 1e9),
        mock.patch("mooring.cluster.attachdetach.unresolved.REMIND_S", 1e9),
    )


def _missing_volumes_are_not_told() -> contextlib.AbstractContextManager[Any]:
    """A claim that names a volume which is not there is pending without a word, as in kube-controller-manager."""
    told = binding._told

    def untold(because: Any, *args: Any, **kwargs: Any) -> Any:
        return Decision(because, args) if isinstance(because, VolumeMissing) else told(because, *args, **kwargs)

    return mock.patch.object(binding, "_told", untold)


def _finished_holders_are_told_once() -> contextlib.AbstractContextManager[Any]:
    """A claim that an ended pod keeps says so once."""
    keep_telling = Announcer.keep_telling

    def once(self: Announcer, ref: Any, event: Any) -> float:
        again_s = keep_telling(self, ref, event)
        return 1e9 if event.reason == "ClaimInUse" else again_s

    return mock.patch.object(Announcer, "keep_telling", once)


def _orphaned_pods_stay() -> contextlib.AbstractContextManager[Any]:
    """The pods of a node that is gone stay as they are."""
    return mock.patch.object(podgc, "decide_pod", return_value=Decision(Kept()))


def _normal_events_starve_warnings() -> contextlib.AbstractContextManager[Any]:
    """All events of an object share one allowance."""
    may_speak = Correlator._may_speak
    return mock.patch.object(Correlator, "_may_speak", lambda self, about, now: may_speak(self, about[0], now))


def _handles_are_told_apart_by_volume() -> contextlib.AbstractContextManager[Any]:
    """Two PersistentVolumes of one handle are two volumes."""
    of_same_volume = attacher_view.View.of_same_volume

    def named_alike(self: Any, attachment: Any) -> Any:
        source = attachment.spec.source.persistent_volume_name
        return tuple(
            one for one in of_same_volume(self, attachment) if one.spec.source.persistent_volume_name == source
        )

    return mock.patch.object(attacher_view.View, "of_same_volume", named_alike)


def _single_nodes_are_shared() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(attacher_decide, "_held_elsewhere", return_value=None)


def _claims_are_not_made_anew() -> contextlib.AbstractContextManager[Any]:
    """A pod whose ephemeral volume has lost its claim is not looked at."""
    return mock.patch.object(EphemeralVolumes, "_claim_gone", return_value=())


def _room_is_asked_for_once() -> contextlib.AbstractContextManager[Any]:
    """Volumes that come and go make no difference to the capacity that is published."""
    return mock.patch.object(CapacityPublisher, "_items_at", return_value=())


def _vanished_places_stay() -> contextlib.AbstractContextManager[Any]:
    """The capacity of a place without nodes is kept up to date."""
    wanted = capacity_view.View.wanted

    def everywhere(self: Any, item: Any) -> Any:
        return wanted(msgspec.structs.replace(self, has_segment=lambda segment: True), item)

    return mock.patch.object(capacity_view.View, "wanted", everywhere)


def _partitions_count_from_zero() -> contextlib.AbstractContextManager[Any]:
    """A lost pod below the partition comes back with the new template, where the first number is another one than 0."""
    chosen = stateful_sets._template_for
    return mock.patch.object(
        stateful_sets,
        "_template_for",
        lambda view, ordinal: chosen(view, ordinal + view.stateful_set.spec.ordinals.start),
    )


def _jobs_fail_early() -> contextlib.AbstractContextManager[Any]:
    """One pod less may fail than the user allows."""
    decide = jobs.decide

    def sooner(job: Any, *args: Any) -> Any:
        return decide(
            structs.replace(job, spec=structs.replace(job.spec, backoff_limit=job.spec.backoff_limit - 1)), *args
        )

    return mock.patch.object(jobs, "decide", sooner)


def _failures_count_twice() -> contextlib.AbstractContextManager[Any]:
    """A pod that is marked as failed is marked once more before it is let go."""
    count = jobs.count

    def twice(job: Any, pods: Any, going: Any) -> Any:
        tally = count(job, pods, going)
        uncounted = structs.replace(tally.uncounted, failed=(tally.uncounted.failed or ()) * 2 or None)
        return msgspec.structs.replace(tally, uncounted=uncounted)

    return mock.patch.object(jobs, "count", twice)


def _nodes_unheard_of_have_nothing() -> contextlib.AbstractContextManager[Any]:
    """A Node that was gone before this process began had nothing mounted."""

    def is_mounted(unique: str, node: Any, record: Any) -> bool:
        return unique in ((record.last_in_use if node is None else node.status.volumes_in_use) or ())

    return mock.patch.object(assemble, "_is_mounted", is_mounted)


BUGS: Final[Mapping[str, Bug]] = {
    **{
        name: Bug(*one)
        for name, one in (*source_bugs.BUGS.items(), *waking_bugs.BUGS.items(), *snapshot_bugs.BUGS.items())
    },
    "attach-errors-unshown": Bug("attacher", _attach_errors_are_not_shown, {"silence"}),
    "single-nodes-shared": Bug("attacher", _single_nodes_are_shared, {"two-nodes"}),
    "release-before-unpublish": Bug("attacher", ATTACHERS["release-before-unpublish"].plant, {"finalizer-dropped"}),
    "publish-before-finalizer": Bug("attacher", ATTACHERS["publish-before-finalizer"].plant, {"publish-no-finalizer"}),
    "former-machines-forgotten": Bug(
        "attacher", ATTACHERS["former-machines-forgotten"].plant, {"finalizer-dropped", "published-unwanted"}
    ),
    "handles-told-apart": Bug("attacher", _handles_are_told_apart_by_volume, {"two-nodes", "unpublish-wanted"}),
    "no-back-off": Bug("attacher", no_back_off, {"hot-loop", "runs-hot"}),
    "nobody-reminded": Bug("nodes", _nobody_is_reminded, {"silence"}),
    "unheard-nodes-empty": Bug(
        "nodes",
        _nodes_unheard_of_have_nothing,
        {"deleted-unheard"},
    ),
    "orphaned-pods-stay": Bug("health", _orphaned_pods_stay, {"pod-left"}),
    "missing-volumes-untold": Bug("claims", _missing_volumes_are_not_told, {"silence"}),
    "finished-holders-told-once": Bug("claims", _finished_holders_are_told_once, {"claim-left"}),
    "warnings-starved": Bug("claims", _normal_events_starve_warnings, {"warning-lost", "no-rest"}),
    "claims-not-made-anew": Bug("ephemeral", _claims_are_not_made_anew, {"claim-missing"}),
    "room-asked-once": Bug("capacity", _room_is_asked_for_once, {"stale-capacity"}),
    "vanished-places-stay": Bug("capacity", _vanished_places_stay, {"published"}),
    "partitions-from-zero": Bug(
        "workloads",
        _partitions_count_from_zero,
        {"other-pods"},
    ),
    "jobs-fail-early": Bug("jobs", _jobs_fail_early, {"failed-early"}),
    "failures-count-twice": Bug("jobs", _failures_count_twice, {"miscounted", "beyond-limit", "failed-early"}),
}
