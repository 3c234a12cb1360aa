"""Bugs to plant in the resizer, each of which the simulation must find."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final
from unittest import mock

from mooring.controllers.resizer import view
from mooring.controllers.resizer.event_handlers import EventHandlers
from mooring.controllers.resizer.expansion import reconcile
from mooring.controllers.resizer.expansion.decide_after import After, Expanded, decide_after
from mooring.controllers.resizer.expansion.reconcile import Reconciler as Expansion
from mooring.controllers.resizer.modification import patches
from mooring.controllers.resizer.modification.reconcile import Reconciler as Modification
from mooring.controllers.resizer.view import bytes_text
from tests.sim.planting import Bug, no_back_off


def _sizes_are_not_marked() -> contextlib.AbstractContextManager[Any]:
    """The driver is asked before the claim says so."""
    return mock.patch.object(Expansion, "_mark", mock.AsyncMock())


def _timeouts_are_final() -> contextlib.AbstractContextManager[Any]:
    """A driver that did not answer is taken for idle: another size overtakes the first."""
    return mock.patch.object(view, "is_final_code", bool)


def _answers_are_believed() -> contextlib.AbstractContextManager[Any]:
    """Also those that are smaller than asked, as external-resizer has it."""

    def after(asked_bytes: int, answer: Any) -> After:
        if isinstance(answer, Expanded):
            return After(bytes_text(answer.size_bytes), answer.node_required)
        return decide_after(asked_bytes, answer)

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
        now = self._writes.current(claim)
        await self._writes.claim(now, patches.done(class_name))
        pv = self._writes.current_volume(claim, pv_uid)
        await self._writes.volume(pv, patches.volume_class(pv, class_name))

    return mock.patch.object(Modification, "_save", save)


def _classes_wake_nobody() -> contextlib.AbstractContextManager[Any]:
    """A class that comes is not noticed by the claims that wait for it, as external-resizer has it."""
    return mock.patch.object(EventHandlers, "class_changed", return_value=None)


BUGS: Final[Mapping[str, Bug]] = {
    "sizes-unmarked": Bug(_sizes_are_not_marked, {"alloc-unwritten"}),
    "timeouts-final": Bug(_timeouts_are_final, {"overtaken", "quota-wrong"}),
    "answers-believed": Bug(_answers_are_believed, {"pv-shrank", "claim-shrank"}, first_seed=125),
    "nodes-forgotten": Bug(_nodes_have_no_part, {"claim-lies"}),
    "claims-done-first": Bug(_claims_are_done_first, {"class-differs"}),
    "classes-wake-nobody": Bug(_classes_wake_nobody, {"class-differs"}),
    "no-back-off": Bug(no_back_off, {"hot-loop"}),
}
