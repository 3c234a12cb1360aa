"""Worse parts that show themselves only where writes come late, processes stand still, or a server is set back
(`slow_world.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, Final
from unittest import mock

from mooring.api.meta import Key
from mooring.cluster.binder.writes import Whole
from mooring.kube.cache.relist import Relist
from mooring.kube.cache.store import Store
from mooring.sidecars.provisioner.claims import provision
from tests.sim import bugs_of_habits
from tests.sim.planting import Bug

_NOT_WELL: Final = {"claim-pending", "claim-left", "volume-left", "intent-left", "unsettled"}
_Plant = contextlib.AbstractContextManager[Any]


def _claims_are_written_by_name() -> _Plant:
    """The binder writes what it has decided over whatever has the name by now."""
    replace = Whole._replace

    async def written(self: Whole[Any], key: Key, body: dict[str, Any], subresource: str) -> Any:
        left = {name: value for name, value in body["metadata"].items() if name not in ("uid", "resourceVersion")}
        return await replace(self, key, {**body, "metadata": left}, subresource)

    return mock.patch.object(Whole, "_replace", written)


def _unanswered_tries_are_over() -> _Plant:
    """A refused object takes its volume along at once, though an earlier try may still be carried out."""
    return mock.patch.object(provision, "LATE_S_MAX", 0.0)


def _unfinished_lists_are_forgotten() -> _Plant:
    """The first pages of a list that was never completed stay, whatever a server that was set back shows later."""
    page = Relist.page

    def taken(self: Relist[Any], objects: Iterable[Any], version: str) -> Any:
        ahead = self._store._ahead
        changes = page(self, objects, version)
        self._store._ahead = ahead
        return changes

    return mock.patch.object(Relist, "page", taken)


def _ended_objects_stay_ended() -> _Plant:
    """What an own write has ended is gone, also where a list that was asked for later shows it."""
    return mock.patch.object(Store, "_exhume")


BUGS: Final[Mapping[str, Bug]] = {
    "unanswered-tries-over": Bug(_unanswered_tries_are_over, {"deleted-in-use"}),
    "ended-stay-ended": Bug(_ended_objects_stay_ended, {*_NOT_WELL, "hot-loop"}),
    "fence-stays-open": Bug(bugs_of_habits.BUGS["fence-stays-open"].plant, {"no-lease"}),
    "set-back-unnoticed": Bug(bugs_of_habits.BUGS["set-back-unnoticed"].plant, _NOT_WELL),
    "unfinished-lists-forgotten": Bug(_unfinished_lists_are_forgotten, _NOT_WELL),
    "claims-written-by-name": Bug(_claims_are_written_by_name, {"late-astray"}),
}
