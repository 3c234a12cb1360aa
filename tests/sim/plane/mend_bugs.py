"""Defects of attach/detach, node health, binder and writes that were once there, planted again."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final
from unittest import mock

from mooring.cluster.attachdetach.view import View
from mooring.cluster.binder.volumes import decide as binding
from mooring.control import object_writer
from mooring.control.controller import Controller
from mooring.control.object_writer import ObjectWriter
from mooring.control.result import Stale
from mooring.kube.cluster import Patch
from mooring.kube.errors import ApiError
from tests.sim.planting import Bug, both

Planted = contextlib.AbstractContextManager[Any]


def _refusals_are_moves() -> Planted:
    """Every refusal of a write counts as an object that has moved, and nobody hears of those."""

    async def refused(self: ObjectWriter[Any], obj: Any, error: ApiError, failing: str) -> Stale:
        return self._moved(obj, error)

    def quiet(self: Controller[Any], key: Any, why: Any) -> None:
        self._queue.retry(key)

    return both(
        mock.patch.object(ObjectWriter, "_refused", refused), mock.patch.object(Controller, "_stayed_stale", quiet)
    )


def _taints_go_by_place() -> Planted:
    """A taint is removed by its place, whatever stands there by then."""
    of_version = object_writer._of_version

    def of_any(obj: Any, patch: Patch) -> Patch:
        is_of_taints = any(step["path"].startswith("/spec/taints") for step in patch.body if isinstance(step, dict))
        return patch if is_of_taints else of_version(obj, patch)

    return mock.patch.object(object_writer, "_of_version", of_any)


def _names_say_whose_a_volume_is() -> Planted:
    """A claimRef whose names are damaged is no claim's."""
    return mock.patch.object(binding, "_bound_to", return_value=None)


def _volumes_are_made_for_nobody() -> Planted:
    """A volume whose claimRef was taken is not bound to the claim that it was made for, which waits for its node's
    volume.
    """
    return mock.patch.object(binding, "_made_for", return_value=None)


def _former_names_are_foreign() -> Planted:
    """An attachment that was made when its PersistentVolume named another volume counts as made by somebody else."""
    return mock.patch.object(View, "is_name_unused", return_value=False)


def _drops_wake_themselves() -> Planted:
    """A pod that gives up its plan is told of that as those are who wait for it, and tries again without a back-off."""
    tell = Controller.tell

    def told(self: Controller[Any], *topics: str, anew: bool = False, by: object = None) -> None:
        tell(self, *topics, anew=anew)

    return mock.patch.object(Controller, "tell", told)


MEND_BUGS: Final[Mapping[str, Bug]] = {
    "drops-wake-themselves": Bug(_drops_wake_themselves, {"hot-loop"}),
    "former-names-foreign": Bug(_former_names_are_foreign, {"I8", "leaked"}),
    "refusals-are-moves": Bug(_refusals_are_moves, {"silent"}),
    "taints-by-place": Bug(_taints_go_by_place, {"others"}),
    "names-say-whose": Bug(_names_say_whose_a_volume_is, {"bound-lost", "deleted-wanted"}),
    "made-for-nobody": Bug(_volumes_are_made_for_nobody, {"I7"}),
}
