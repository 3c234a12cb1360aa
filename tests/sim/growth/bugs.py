"""Bugs to plant in the resizer, each of which the simulation must find."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final
from unittest import mock

import msgspec

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.control.object_writer import ObjectWriter
from mooring.csi.errors import DriverError
from mooring.kube.cache.store import Store
from mooring.sidecars.resizer import view
from mooring.sidecars.resizer.controller import ClaimController
from mooring.sidecars.resizer.expansion import decide as expansion_decide
from mooring.sidecars.resizer.expansion import reconcile
from mooring.sidecars.resizer.expansion.decide import After, decide_after
from mooring.sidecars.resizer.expansion.reconcile import Reconciler as Expansion
from mooring.sidecars.resizer.modification import reconcile as modification
from mooring.sidecars.resizer.modification.reconcile import Reconciler as Modification
from mooring.sidecars.resizer.reconcile import ClaimReconciler
from mooring.sidecars.resizer.view import bytes_text
from tests.sim.planting import Bug, answers_show_nothing, both, no_back_off, set_backs_are_not_noticed


def _sizes_are_not_marked() -> contextlib.AbstractContextManager[Any]:
    """The driver is asked before the claim says so."""
    return mock.patch.object(Expansion, "_mark", mock.AsyncMock())


def _timeouts_are_final() -> contextlib.AbstractContextManager[Any]:
    """A driver that did not answer is taken for idle: another size overtakes the first."""
    return mock.patch.object(view, "is_final_code", bool)


def _answers_are_believed() -> contextlib.AbstractContextManager[Any]:
    """Also those that are smaller than asked, as external-resizer has it."""

    def after(asked_bytes: int, answer: Any) -> After:
        if isinstance(answer, DriverError):
            return decide_after(asked_bytes, answer)
        return After(bytes_text(answer.capacity_bytes), answer.node_expansion_required)

    return mock.patch.object(reconcile, "decide_after", after)


def _nodes_have_no_part() -> contextlib.AbstractContextManager[Any]:
    """A claim is done as soon as the driver's controller is."""

    def after(asked_bytes: int, answer: Any) -> After:
        found = decide_after(asked_bytes, answer)
        return After(found.size) if found.size else found

    return mock.patch.object(reconcile, "decide_after", after)


def _claims_are_done_first() -> contextlib.AbstractContextManager[Any]:
    """A claim says that its class is applied before its volume does: a failure in between is never mended."""

    async def save(self: Modification, claim: Any, pv_uid: str, class_name: str) -> None:
        await self._write(self._claims.current(claim), modification.done(class_name))
        await self._write_volume(claim, pv_uid, lambda pv: modification.volume_class(pv, class_name))

    return mock.patch.object(Modification, "_save", save)


def _classes_wake_nobody() -> contextlib.AbstractContextManager[Any]:
    """A class that comes is not noticed by the claims that wait for it, as external-resizer has it."""
    return mock.patch.object(ClaimController, "class_changed", return_value=())


def _sizes_are_held_up() -> contextlib.AbstractContextManager[Any]:
    """A refusal of what was begun before counts against what the claim asks for now."""
    return mock.patch.object(ClaimReconciler, "_is_overtaken", return_value=False)


def _volumes_are_written_late() -> contextlib.AbstractContextManager[Any]:
    """What a call came to is written whatever the objects are like by then."""
    patch = ObjectWriter.patch

    async def loose(self: Any, *args: Any, strictly: bool = False, **options: Any) -> Any:
        return await patch(self, *args, strictly=strictly and self._kind is not PERSISTENT_VOLUMES, **options)

    return mock.patch.object(ObjectWriter, "patch", loose)


def _failures_are_written_on_what_is_done() -> contextlib.AbstractContextManager[Any]:
    """A claim that has its class by now gets the conditions of a failure; it is not looked at before the call."""
    return both(_lost_answers_are_forgotten(), mock.patch.object(modification, "_is_over", return_value=False))


def _answers_prove_nothing() -> contextlib.AbstractContextManager[Any]:
    """How far the server was is known from whole lists and the watch alone, not from own writes, and lists that broke
    off.
    """
    return both(mock.patch.object(Store, "known", lambda self: self.version), answers_show_nothing())


def _lost_answers_are_forgotten() -> contextlib.AbstractContextManager[Any]:
    """The driver is called again for a claim whose last write was not answered, and may have said that all is done."""
    return mock.patch.object(ObjectWriter, "settle", mock.AsyncMock())


def _volumes_are_believed() -> contextlib.AbstractContextManager[Any]:
    """A PersistentVolume that has all by what the cache says is not looked at."""
    return mock.patch.object(ClaimReconciler, "_look_at", mock.AsyncMock())


def _nodes_get_no_size() -> contextlib.AbstractContextManager[Any]:
    """The node's turn comes without the size that was asked for."""
    node_next = reconcile.node_next

    def without(*args: Any, **options: Any) -> Any:
        body = node_next(*args, **options)
        body.get("status", {}).pop("allocatedResources", None)
        return body

    return mock.patch.object(reconcile, "node_next", without)


def _sizes_need_no_step() -> contextlib.AbstractContextManager[Any]:
    """A claim that shows the size is not marked again, though it does not say that the driver is asked for it."""
    mark = expansion_decide._mark

    def unmarked(view: Any, claim: Any, sizes: Any, size: Any) -> Any:
        marks = mark(view, claim, sizes, size)
        is_same = sizes.allocated is not None and sizes.allocated.value == size.value
        if (
            sizes.step
            or not is_same
            or not view.options.recover
            or view.was_infeasible(claim, expansion_decide.INFEASIBLE_REASONS)
        ):
            return marks
        return tuple(msgspec.structs.replace(one, anew=False) for one in marks)

    return mock.patch.object(expansion_decide, "_mark", unmarked)


def _marks_come_late() -> contextlib.AbstractContextManager[Any]:
    """The first call of a process writes nothing where the claim shows the size or class already, whoever has said so.

    Nor does a mark change a claim that says all of it already.
    """
    return both(
        mock.patch.object(view.View, "may_be_written_late", return_value=False),
        mock.patch.object(reconcile, "probe_patch", return_value=None),
        mock.patch.object(modification, "probe_patch", return_value=None),
    )


def _with_late_marks(
    plant: Callable[[], contextlib.AbstractContextManager[Any]],
) -> Callable[[], contextlib.AbstractContextManager[Any]]:
    """Of the lives 0 to 4805 none in which the server is set back shows the bug where marks do not come late."""
    return lambda: both(plant(), _marks_come_late())


_NOT_WELL: Final = {"unserved", "sizes-differ", "class-differs", "state-left", "unsettled"}

BUGS: Final[Mapping[str, Bug]] = {
    "nodes-without-size": Bug(_with_late_marks(_nodes_get_no_size), {"node-overridden"}),
    "steps-unwritten": Bug(_with_late_marks(_sizes_need_no_step), {"overtaken"}),
    "sizes-unmarked": Bug(_sizes_are_not_marked, {"alloc-unwritten"}),
    "timeouts-final": Bug(_timeouts_are_final, {"overtaken", "quota-wrong"}),
    "answers-believed": Bug(_answers_are_believed, {"pv-shrank", "claim-shrank"}),
    "nodes-forgotten": Bug(_nodes_have_no_part, {"claim-lies"}),
    "claims-done-first": Bug(_claims_are_done_first, {"class-differs"}),
    "classes-wake-nobody": Bug(_classes_wake_nobody, {"class-differs"}),
    "sizes-held-up": Bug(_sizes_are_held_up, {"held-up"}),
    "volumes-late": Bug(_volumes_are_written_late, {"pv-shrank", "sizes-differ"}),
    "failures-late": Bug(_failures_are_written_on_what_is_done, {"state-left"}),
    "lost-answers-forgotten": Bug(_lost_answers_are_forgotten, {"overtaken", "node-overridden", "hot-loop"}),
    "volumes-believed": Bug(_volumes_are_believed, {"class-differs", "sizes-differ", "node-overridden"}),
    "marks-late": Bug(_marks_come_late, {"overtaken"}),
    "set-back-unnoticed": Bug(set_backs_are_not_noticed, _NOT_WELL),
    "answers-prove-nothing": Bug(_answers_prove_nothing, _NOT_WELL),
    "no-back-off": Bug(no_back_off, {"hot-loop"}),
}
