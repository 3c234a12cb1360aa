"""Worse parts, each of which some state of the quick share must show."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final
from unittest import mock

from msgspec import structs

from mooring.control.event_correlation import Correlator
from mooring.controllers.attachdetach import assemble
from mooring.controllers.attachdetach.memory import Record
from mooring.controllers.attacher import decide as attacher_decide
from mooring.controllers.attacher import view as attacher_view
from mooring.controllers.attacher.controller import Attacher
from mooring.controllers.binder.ephemeral.controller import EphemeralVolumes
from mooring.controllers.binder.protection import controller as protection
from mooring.controllers.binder.volumes.reasons import VolumeMissing
from mooring.controllers.nodehealth.podgc import controller as podgc
from mooring.controllers.nodehealth.podgc.decide import Decision as GcDecision
from mooring.controllers.nodehealth.podgc.reasons import Kept
from mooring.controllers.provisioner.capacity import view as capacity_view
from mooring.controllers.provisioner.capacity.controller import CapacityPublisher
from mooring.controllers.resizer.modification import decide as modification
from mooring.controllers.snapshot_controller import decide as snapshot_decide
from mooring.controllers.snapshot_controller import decide_content, decide_deletion
from mooring.controllers.snapshot_controller import writes as snapshot_writes
from mooring.controllers.snapshot_controller.decision import Decision
from mooring.controllers.snapshot_controller.groups import decide as group_decide
from mooring.controllers.snapshot_controller.groups import decide_deletion as group_deletion
from mooring.controllers.snapshot_controller.groups import objects as group_objects
from mooring.controllers.snapshot_controller.reasons import ContentDeleting
from mooring.controllers.snapshotter import decide as snapshotter_decide
from mooring.controllers.snapshotter.decision import Decision as SnapshotterDecision
from mooring.controllers.snapshotter.groups import decide as snapshotter_groups
from mooring.controllers.snapshotter.groups import reconcile as group_reconcile
from mooring.controllers.snapshotter.groups.decision import Unmark
from mooring.controllers.snapshotter.groups.requests import GroupHandles
from mooring.controllers.snapshotter.reasons import Foreign
from mooring.controllers.snapshotting.writes import annotate
from mooring.controllers.workloads.jobs import reconcile as jobs
from mooring.controllers.workloads.statefulsets import decide as stateful_sets
from mooring.kube.cluster import Patch
from mooring.kube.patch import add, json_patch, test
from tests.sim.bugs import BUGS as ATTACHERS
from tests.sim.planting import both, no_back_off
from tests.sim.provisioning.bugs import BUGS as PROVISIONERS
from tests.sim.snapshots.bugs import BUGS as SNAPSHOTS
from tests.sim.states import source_bugs, waking_bugs


@dataclasses.dataclass(frozen=True, slots=True)
class Bug:
    """room: where it is sought. found_by: the laws that may find it. first_state: the id at which a search of the quick share starts."""

    room: str
    plant: Callable[[], contextlib.AbstractContextManager[Any]]
    found_by: AbstractSet[str]
    first_state: str = ""


def _attach_errors_are_not_shown() -> contextlib.AbstractContextManager[Any]:
    """A failure of the attacher stands in no status, and not in the log."""

    async def nothing(*_args: Any) -> None:
        pass

    return both(mock.patch.object(Attacher, "_show", nothing), mock.patch("mooring.control.controller.Logger.error"))


def _nobody_is_reminded() -> contextlib.AbstractContextManager[Any]:
    """A pod that waits for its volume hears why once, and an Event lives for an hour."""

    def has_told(self: Record, subject: str, mark: str, now: float) -> bool:
        return subject in self.told and self.told[subject][0] == mark

    return both(
        mock.patch.object(Record, "has_told", has_told),
        mock.patch("mooring.controllers.attachdetach.memory.REMIND_S", math.inf),
        mock.patch("mooring.controllers.attachdetach.reconcile.REMIND_S", 1e9),
        mock.patch("mooring.controllers.attachdetach.unresolved.REMIND_S", 1e9),
    )


def _missing_volumes_are_not_told() -> contextlib.AbstractContextManager[Any]:
    """A claim that names a volume which is not there is pending without a word, as in kube-controller-manager."""
    return mock.patch.object(VolumeMissing, "event", None)


def _finished_holders_are_told_once() -> contextlib.AbstractContextManager[Any]:
    """A claim that an ended pod keeps says so once."""
    return mock.patch.object(protection, "REMIND_S", 1e9)


def _contents_forsaken_in_silence() -> contextlib.AbstractContextManager[Any]:
    """A content whose snapshot is gone waits for a word that nobody will say."""
    return mock.patch.object(decide_content, "_waits_for_snapshot", return_value=Decision(ContentDeleting()))


def _group_contents_forsaken_in_silence() -> contextlib.AbstractContextManager[Any]:
    rooms = (group_decide, group_deletion)
    return both(*(mock.patch.object(room, "tell_forsaken_of_group", return_value=()) for room in rooms))


def _deletions_wait_in_silence() -> contextlib.AbstractContextManager[Any]:
    """A snapshot that is to go never says that it waits for its content."""
    return mock.patch.object(decide_deletion, "WAITS_S", 1e9)


def _foreign_classes_are_not_told() -> contextlib.AbstractContextManager[Any]:
    """A content whose class is another driver's is looked at by nobody, and nobody says so."""

    def decide(view: Any, content: Any, found: Any, now: float) -> SnapshotterDecision:
        return SnapshotterDecision(Foreign(found.metadata.name))

    return mock.patch.object(snapshotter_decide, "_decide_foreign", decide)


def _marks_hold_nothing() -> contextlib.AbstractContextManager[Any]:
    """A content may vanish from under the call that makes its snapshots."""
    return mock.patch.object(group_reconcile, "mark_as_judged", lambda obj, name, finalizer: annotate(obj, name, "yes"))


def _classes_of_others_are_taken() -> contextlib.AbstractContextManager[Any]:
    """A driver gets the parameters of another driver's class."""

    def decide(view: Any, *args: Any, **kwargs: Any) -> Any:
        asked = view.attributes_class

        def ours(name: str) -> Any:
            found = asked(name)
            return None if found is None else structs.replace(found, driver_name=view.driver.name)

        with mock.patch.object(type(view), "attributes_class", lambda self, name: ours(name)):
            return original(view, *args, **kwargs)

    original = modification._decide_target
    return mock.patch.object(modification, "_decide_target", decide)


def _orphaned_pods_stay() -> contextlib.AbstractContextManager[Any]:
    """The pods of a node that is gone stay as they are."""
    return mock.patch.object(podgc, "decide_pod", return_value=GcDecision(Kept()))


def _normal_events_starve_warnings() -> contextlib.AbstractContextManager[Any]:
    """All events of an object share one allowance."""
    may_speak = Correlator._may_speak
    return mock.patch.object(Correlator, "_may_speak", lambda self, about, now: may_speak(self, about[0], now))


def _classes_are_not_compared() -> contextlib.AbstractContextManager[Any]:
    """A snapshot binds a content whose class is another driver's."""
    return mock.patch.object(snapshot_decide, "_foreign_class", return_value=None)


def _empty_uids_are_tested() -> contextlib.AbstractContextManager[Any]:
    """A content is bound by a patch that tests for the uid to be missing, and not for the version of the object."""

    def tested(obj: Any, metadata: Any, spec: Any = None) -> Patch:
        steps = [test("/metadata/uid", obj.metadata.uid), test("/spec/volumeSnapshotRef/uid", None)]
        steps += [add(f"/spec/volumeSnapshotRef/{key}", value) for key, value in (spec or {}).get("volumeSnapshotRef", {}).items()]
        return json_patch(steps)

    return mock.patch.object(snapshot_writes, "as_judged", tested)


def _handles_are_told_apart_by_volume() -> contextlib.AbstractContextManager[Any]:
    """Two PersistentVolumes of one handle are two volumes."""
    of_same_volume = attacher_view.View.of_same_volume

    def named_alike(self: Any, attachment: Any) -> Any:
        source = attachment.spec.source.persistent_volume_name
        return tuple(one for one in of_same_volume(self, attachment) if one.spec.source.persistent_volume_name == source)

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
        return wanted(dataclasses.replace(self, has_segment=lambda segment: True), item)

    return mock.patch.object(capacity_view.View, "wanted", everywhere)


def _partitions_count_from_zero() -> contextlib.AbstractContextManager[Any]:
    """A lost pod below the partition comes back with the new template, where the first number is another one than 0."""
    chosen = stateful_sets._template_for
    return mock.patch.object(
        stateful_sets, "_template_for", lambda view, ordinal: chosen(view, ordinal + view.stateful_set.spec.ordinals.start)
    )


def _jobs_fail_early() -> contextlib.AbstractContextManager[Any]:
    """One pod less may fail than the user allows."""
    decide = jobs.decide

    def sooner(job: Any, *args: Any) -> Any:
        return decide(structs.replace(job, spec=structs.replace(job.spec, backoff_limit=job.spec.backoff_limit - 1)), *args)

    return mock.patch.object(jobs, "decide", sooner)


def _failures_count_twice() -> contextlib.AbstractContextManager[Any]:
    """A pod that is marked as failed is marked once more before it is let go."""
    count = jobs.count

    def twice(job: Any, pods: Any, going: Any) -> Any:
        tally = count(job, pods, going)
        uncounted = structs.replace(tally.uncounted, failed=(tally.uncounted.failed or ()) * 2 or None)
        return dataclasses.replace(tally, uncounted=uncounted)

    return mock.patch.object(jobs, "count", twice)


def _nodes_unheard_of_have_nothing() -> contextlib.AbstractContextManager[Any]:
    """A Node that was gone before this process began had nothing mounted."""

    def is_mounted(unique: str, node: Any, record: Any) -> bool:
        return unique in ((record.last_in_use if node is None else node.status.volumes_in_use) or ())

    return mock.patch.object(assemble, "_is_mounted", is_mounted)


def _members_are_free() -> contextlib.AbstractContextManager[Any]:
    """One snapshot of a group can be deleted alone."""
    return mock.patch.object(group_objects, "IN_GROUP_FINALIZER", group_objects.AS_SOURCE_FINALIZER)


def _groups_go_without_secret() -> contextlib.AbstractContextManager[Any]:
    real = GroupHandles.delete_request
    return mock.patch.object(GroupHandles, "delete_request", lambda self, secrets: real(self, {}))


def _groups_are_made_again() -> contextlib.AbstractContextManager[Any]:
    """A content keeps the mark of its creation when its group is deleted."""
    decide = snapshotter_groups._decide_deletion

    def marked(*args: Any) -> Any:
        decision = decide(*args)
        return dataclasses.replace(decision, actions=tuple(one for one in decision.actions if not isinstance(one, Unmark)))

    return mock.patch.object(snapshotter_groups, "_decide_deletion", marked)


BUGS: Final[Mapping[str, Bug]] = {
    **{name: Bug(*one) for name, one in (*source_bugs.BUGS.items(), *waking_bugs.BUGS.items())},
    "attach-errors-unshown": Bug("attacher", _attach_errors_are_not_shown, {"silence"}),
    "single-nodes-shared": Bug("attacher", _single_nodes_are_shared, {"two-nodes"}),
    "release-before-unpublish": Bug("attacher", ATTACHERS["release-before-unpublish"].plant, {"finalizer-dropped"}),
    "publish-before-finalizer": Bug("attacher", ATTACHERS["publish-before-finalizer"].plant, {"publish-no-finalizer"}),
    "former-machines-forgotten": Bug("attacher", ATTACHERS["former-machines-forgotten"].plant, {"finalizer-dropped", "published-unwanted"}),
    "handles-told-apart": Bug("attacher", _handles_are_told_apart_by_volume, {"two-nodes"}),
    "no-back-off": Bug("attacher", no_back_off, {"hot-loop", "runs-hot"}),
    "nobody-reminded": Bug("nodes", _nobody_is_reminded, {"silence"}),
    "unheard-nodes-empty": Bug(
        "nodes",
        _nodes_unheard_of_have_nothing,
        {"deleted-unheard"},
        "pod=runs,va=attached,node=absent,claim=former,va2=attached",
    ),
    "orphaned-pods-stay": Bug("health", _orphaned_pods_stay, {"pod-left"}),
    "missing-volumes-untold": Bug("claims", _missing_volumes_are_not_told, {"silence"}),
    "finished-holders-told-once": Bug("claims", _finished_holders_are_told_once, {"claim-left"}),
    "warnings-starved": Bug("claims", _normal_events_starve_warnings, {"warning-lost", "no-rest"}),
    "imports-unseen": Bug("claims", PROVISIONERS["imports-unseen"].plant, {"shared-volume"}, "claim=unknown-phase,pv=imported,pod=ended"),
    "empty-uids-tested": Bug("snapshots", _empty_uids_are_tested, {"silence"}, "snap=imports,content=blank,claim=absent,backend=made"),
    "classes-uncompared": Bug("snapshots", _classes_are_not_compared, {"silence"}),
    "strangers-taken": Bug("snapshots", SNAPSHOTS["strangers-taken"].plant, {"deleted-strange", "strange-taken"}),
    "contents-forsaken": Bug("snapshots", _contents_forsaken_in_silence, {"silence"}),
    "deletions-wait": Bug(
        "snapshots",
        _deletions_wait_in_silence,
        {"silence"},
        "snap=deleting-ready,content=deleting-free,class=retain,claim=held,twin=retained,backend=made",
    ),
    "foreign-classes-untold": Bug("snapshots", _foreign_classes_are_not_told, {"silence"}),
    "creations-unmarked": Bug("snapshots", SNAPSHOTS["creations-unmarked"].plant, {"create-unmarked"}),
    "policies-unread": Bug("snapshots", SNAPSHOTS["policies-unread"].plant, {"deleted-kept"}),
    "marks-stay": Bug("snapshots", SNAPSHOTS["marks-stay"].plant, {"mark-left"}),
    "group-contents-forsaken": Bug("groups", _group_contents_forsaken_in_silence, {"silence"}),
    "members-free": Bug("groups", _members_are_free, {"member-free"}),
    "groups-without-secret": Bug("groups", _groups_go_without_secret, {"secret-left-out"}),
    "groups-made-again": Bug("groups", _groups_are_made_again, {"made-again"}),
    "marks-hold-nothing": Bug(
        "groups",
        _marks_hold_nothing,
        {"leaked"},
        "group=deleting,content=free,class=retain,claims=lost,members=strange",
    ),
    "claims-not-made-anew": Bug("ephemeral", _claims_are_not_made_anew, {"claim-missing"}),
    "room-asked-once": Bug("capacity", _room_is_asked_for_once, {"stale-capacity"}),
    "vanished-places-stay": Bug("capacity", _vanished_places_stay, {"published"}),
    "partitions-from-zero": Bug(
        "workloads",
        _partitions_count_from_zero,
        {"other-pods"},
        "way=partition-from-two,replicas=1,change=template-and-first-lost,restart=at-once",
    ),
    "jobs-fail-early": Bug("jobs", _jobs_fail_early, {"failed-early"}),
    "failures-count-twice": Bug("jobs", _failures_count_twice, {"miscounted", "beyond-limit", "failed-early"}),
    "classes-of-others": Bug("resizer", _classes_of_others_are_taken, {"foreign-parameters"}),
}
