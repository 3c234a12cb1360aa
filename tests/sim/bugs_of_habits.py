"""More bugs to plant in the attacher and below it: those that show themselves under the world's habits alone
(`habits.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final
from unittest import mock

from mooring.api.storage import VolumeAttachment
from mooring.control.lease.elector import LeaderElector
from mooring.kube.cache import reflector
from mooring.kube.cache.reflector import Reflector
from mooring.sidecars.attacher import decide, writes
from mooring.sidecars.attacher.reconcile import Telling
from mooring.sidecars.attacher.view import BY_VOLUME, View, volume_of
from tests.sim.planting import Bug, both, set_backs_are_not_noticed


def _fence_stays_open() -> contextlib.AbstractContextManager[Any]:
    """Who leads sends as long as it runs, also after it stood still."""
    return mock.patch.object(LeaderElector, "_fence_of_term", return_value=lambda: "")


def _standby_begins_behind() -> contextlib.AbstractContextManager[Any]:
    """Who wins the Lease begins with what its watch has told so far, however late that is."""

    async def at_once(self: Reflector[Any]) -> None:
        """Nothing is caught up with."""

    return mock.patch.object(Reflector, "caught_up", at_once)


def _undos_silence_the_next() -> contextlib.AbstractContextManager[Any]:
    """A publish is taken back before the next attachment of the name has its turn, and that one hears nothing of it."""

    async def shows_nothing(self: Telling, name: str, text: str) -> None:
        """Tells nobody."""

    superseded = mock.patch.object(decide, "_supersedes", return_value=False)
    return both(superseded, mock.patch.object(Telling, "_show_to_the_next", shows_nothing))


def _namesakes_are_strangers() -> contextlib.AbstractContextManager[Any]:
    """Two PersistentVolumes of one handle are two volumes."""

    def of_same_name(self: View, attachment: VolumeAttachment) -> Iterator[VolumeAttachment]:
        yield from self.attachments.by(BY_VOLUME, volume_of(attachment))

    return mock.patch.object(View, "of_same_volume", of_same_name)


def _contexts_are_kept() -> contextlib.AbstractContextManager[Any]:
    """Where the driver gives no publish context, that of an earlier publish stays."""
    status = writes._status

    def kept(attachment: VolumeAttachment, *without: str, **changes: Any) -> dict[str, Any]:
        return status(attachment, *(field for field in without if field != "attachmentMetadata"), **changes)

    return mock.patch.object(writes, "_status", kept)


def _lists_are_not_proved() -> contextlib.AbstractContextManager[Any]:
    """A watch begins from a list however long ago that was asked for."""
    return mock.patch.object(reflector, "LISTED_S", 1e9)


_NOT_WELL: Final = {
    "wanted-unattached",
    "wanted-missing",
    "wanted-unpublished",
    "unwanted-left",
    "published-unwanted",
    "volume-left",
    "unsettled",
}

BUGS: Final[Mapping[str, Bug]] = {
    "lists-unproved": Bug(_lists_are_not_proved, _NOT_WELL),
    "fence-stays-open": Bug(_fence_stays_open, {"no-lease"}),
    "standby-begins-behind": Bug(_standby_begins_behind, {"empty-write", "finalizer-twice", *_NOT_WELL}),
    "set-back-unnoticed": Bug(set_backs_are_not_noticed, _NOT_WELL),
    "undos-silence-the-next": Bug(_undos_silence_the_next, {"silent"}),
    "namesakes-are-strangers": Bug(_namesakes_are_strangers, {"two-nodes", "unpublish-wanted"}),
    "contexts-kept": Bug(_contexts_are_kept, {"metadata-wrong"}),
}
