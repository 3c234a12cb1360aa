"""Bugs to plant in the plane, each of which the simulation must find: its own parts, replaced by worse ones for a
while.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from unittest import mock

import msgspec

from mooring.base.clock import Instant
from mooring.cluster.attachdetach import (
    assemble,
    decide,
    decide_report,
    multi_attach,
    reconcile,
    release,
    reports,
    silence,
    view,
)
from mooring.cluster.attachdetach.facts import Place, Volume
from mooring.cluster.attachdetach.memory import NodeRecord
from mooring.cluster.attachdetach.release import Hold, Rules
from mooring.cluster.binder.scheduling import event_handlers
from mooring.cluster.nodehealth.podgc import decide as podgc
from mooring.control.decision import Decision, Failed
from mooring.control.result import Result
from mooring.csi.errors import NON_FINAL
from mooring.kube.cache.informer import Informer
from mooring.sidecars.attacher.reconcile import Reconciler as AttacherReconciler
from tests.sim import bugs_of_habits
from tests.sim.node import bugs as node_bugs
from tests.sim.node.bugs import LEFT
from tests.sim.plane.harm_bugs import HARM_BUGS
from tests.sim.plane.mend_bugs import MEND_BUGS
from tests.sim.plane.workload_bugs import WORKLOAD_BUGS
from tests.sim.planting import Bug, failures_are_final
from tests.sim.provisioning import bugs as claim_bugs

Planted = contextlib.AbstractContextManager[Any]


@contextlib.contextmanager
def _together(*plants: Planted) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for plant in plants:
            stack.enter_context(plant)
        yield


def _with_places(change: Callable[[Place], Place]) -> Planted:
    """Decisions are made on other facts than are known."""

    def decided(volume: Volume, rules: Rules, now: Instant) -> Decision[Any]:
        rivals = tuple(change(place) for place in volume.rivals)
        return decide.decide(msgspec.structs.replace(volume, place=change(volume.place), rivals=rivals), rules, now)

    return mock.patch.object(reconcile, "decide", decided)


def _mounts_are_not_checked() -> Planted:
    """A volume that no pod wants is detached, whatever its node has mounted."""
    return _together(*(mock.patch.object(module, "hold_of", return_value=Hold()) for module in (decide, release)))


def _reports_are_not_awaited() -> Planted:
    """An attachment is deleted while its Node still lists it."""
    return _with_places(
        lambda place: msgspec.structs.replace(place, reported=False, node_record=_NeverWritten(place.node_record))
    )


class _NeverWritten:
    """A NodeRecord that no write of the report is under way for."""

    unsure = writing = False

    def __init__(self, record: NodeRecord) -> None:
        object.__setattr__(self, "_record", record)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._record, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._record, name, value)


def _only_the_attached_block() -> Planted:
    """A volume goes to another node while an attachment is on its way, or on its way out."""

    def is_held(self: Place) -> bool:
        return self.attachment is not None and self.attachment.status.attached and not self.is_ending

    return mock.patch.object(Place, "is_held", property(is_held))


def _own_writes_are_forgotten() -> Planted:
    """The caches learn of our own writes from the watch alone."""

    async def write(self: Informer[Any], key: Any, request: Any) -> Any:
        return await request

    return mock.patch.object(Informer, "write", write)


def _uncertain_detaches_are_final() -> Planted:
    """A call whose driver left open how it ended is taken for done."""
    unpublish = AttacherReconciler._unpublish

    async def hopeful(self: AttacherReconciler, *args: Any) -> None:
        try:
            await unpublish(self, *args)
        except Failed as failure:
            if failure.code not in NON_FINAL:
                raise

    return mock.patch.object(AttacherReconciler, "_unpublish", hopeful)


def _force_comes_early() -> Planted:
    """Half of the time has to do."""
    wait_s = Rules.wait_s
    return mock.patch.object(Rules, "wait_s", lambda self, volume: wait_s(self, volume) / 2)


def _force_takes_the_living() -> Planted:
    """Nodes that are ready count as silent, too."""
    silent = mock.patch.object(silence, "is_ready", return_value=False)
    facts = mock.patch.object(assemble, "is_ready", return_value=False)
    return _together(silent, facts)


def _recovery_forgets_attachments() -> Planted:
    """Attachments that no pod wants, and that this process has not known otherwise, are nobody's business."""
    attachments_on = assemble._attachments_on

    def known(shown: view.View, identity: Any, pvs: Any, pods: Any, node: str) -> Any:
        found = attachments_on(shown, identity, pvs, pods, node)
        is_known = pods.wishes or pods.doubts or shown.memory.find(identity.unique, node) is not None
        return found if is_known else assemble._Attachments(None, [])

    return mock.patch.object(assemble, "_attachments_on", known)


def _reports_follow_wishes() -> Planted:
    """A volume is listed as soon as its attachment is there."""

    def is_to_be_reported(volume: Volume, rules: Rules) -> bool:
        return bool(volume.handle) and volume.place.attachment is not None and volume.place.is_wanted

    return _together(
        *(mock.patch.object(module, "is_to_be_reported", is_to_be_reported) for module in (decide, decide_report))
    )


def _reports_are_stale() -> Planted:
    """What happens to a node's volumes within a second of a write of its report is forgotten."""
    reconcile = reports.Reports.reconcile

    async def forgetting(self: reports.Reports, name: str) -> Result:
        record = self._view.memory.node(name)
        if self._clock.now() < record.gathers_until + 1.0:
            record.take_stale()
        return await reconcile(self, name)

    return mock.patch.object(reports.Reports, "reconcile", forgetting)


def _foreign_attachments_are_ours() -> Planted:
    """Whatever attaches the volume is taken for an attachment of the controller's own."""
    attachments_on = assemble._attachments_on

    def greedy(shown: view.View, *args: Any) -> Any:
        found = attachments_on(shown, *args)
        if found.ours is not None or not found.foreign:
            return found
        return assemble._Attachments(shown.attachment(found.foreign[0]), [])

    return mock.patch.object(assemble, "_attachments_on", greedy)


def _taints_are_ignored() -> Planted:
    """A node that is out of service is one like others."""
    return mock.patch.object(assemble, "is_out_of_service", return_value=False)


def _taints_are_enough() -> Planted:
    """Pods of a node that is ready are removed by force for its taint."""
    return mock.patch.object(podgc, "readiness", return_value="Unknown")


def _names_are_told() -> Planted:
    """Whoever waits hears of all pods by name."""

    def used_by(volume: Volume, wish: Any, *_: Any) -> str:
        others = [
            other.ref.name
            for place in (volume.place, *volume.rivals)
            for other in place.wishes
            if other.ref.uid != wish.ref.uid
        ]
        return f"Volume is already used by pod(s) {', '.join(sorted(others))}" if others else multi_attach.EXCLUSIVE

    return mock.patch.object(multi_attach, "used_by", used_by)


def _reports_run_hot() -> Planted:
    """A report that stands there is written again each time."""
    return mock.patch.object(reports, "is_current", return_value=False)


def _pods_do_not_hear_of_claims() -> Planted:
    """A pod that waits for its claims to be bound waits for something else to wake it."""
    return _together(*(mock.patch.object(event_handlers, name, return_value=()) for name in ("of_claim", "of_volume")))


BUGS: Final[Mapping[str, Bug]] = {
    **HARM_BUGS,
    **MEND_BUGS,
    **WORKLOAD_BUGS,
    "mounts-unchecked": Bug(_mounts_are_not_checked, {"I3", "I6"}),
    "reports-unawaited": Bug(_reports_are_not_awaited, {"I4"}),
    "only-attached-block": Bug(_only_the_attached_block, {"I1", "I2"}),
    "own-writes-forgotten": Bug(_own_writes_are_forgotten, {"I1", "I2", "I4", "I10"}),
    "intents-in-memory": Bug(claim_bugs.BUGS["intents-in-memory"].plant, {"create-unwritten", "leaked"}),
    "uncertain-detaches-final": Bug(_uncertain_detaches_are_final, {"I2", "I6", "I9"}),
    "force-early": Bug(_force_comes_early, {"I11"}),
    "force-on-living": Bug(_force_takes_the_living, {"I3", "I11", "class-word"}),
    "recovery-forgets": Bug(_recovery_forgets_attachments, {"I1", "I2", "I7", "I8", "I9"}),
    "reports-follow-wishes": Bug(_reports_follow_wishes, {"I5"}),
    "reports-stale": Bug(_reports_are_stale, {"I5", "I7", "I8", "I9", "leaked"}),
    "foreign-is-ours": Bug(_foreign_attachments_are_ours, {"others"}),
    "taints-ignored": Bug(_taints_are_ignored, {"I7", "I8"}),
    "taints-enough": Bug(_taints_are_enough, {"pod-gc"}),
    "names-told": Bug(_names_are_told, {"I12"}, disorderly=True),
    "reports-hot": Bug(_reports_run_hot, {"I10"}),
    "agent-forgets-mounts": Bug(node_bugs.BUGS["only-pods-reported"].plant, {"not-in-use", "I6"}),
    "agent-stages-unattached": Bug(
        node_bugs.BUGS["attachments-unawaited"].plant, {"not-attached", "context-wrong", "I6"}
    ),
    "agent-finds-nothing": Bug(node_bugs.BUGS["nothing-found"].plant, {"pod-dropped", "not-in-use", "I6", *LEFT}),
    "scheduler-deaf": Bug(_pods_do_not_hear_of_claims, {"I7"}),
    "fence-stays-open": Bug(bugs_of_habits.BUGS["fence-stays-open"].plant, {"no-lease"}),
    "failures-final": Bug(failures_are_final, {"I7", "I8", "I9", "pod-left"}),
}
