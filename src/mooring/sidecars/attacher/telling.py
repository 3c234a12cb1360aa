"""Tells users about a failure: by an Event on the attachment, and in its status."""

from __future__ import annotations

from typing import Final

from mooring.api.core import ObjectReference
from mooring.api.meta import is_deleting
from mooring.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.base.clock import Clock, rfc3339
from mooring.base.log import logger
from mooring.base.text import shortened
from mooring.control.decision import Decision, Failed
from mooring.control.events import EventRecorder
from mooring.control.result import Stale
from mooring.sidecars.attacher.decision import (
    Action,
    AddFinalizer,
    AddVolumeFinalizer,
    EndUndo,
    LoadSecret,
    MarkAttached,
    Publish,
)
from mooring.sidecars.attacher.options import AttacherOptions
from mooring.sidecars.attacher.view import View
from mooring.sidecars.attacher.writes import Target, Writes

log = logger(__name__)

ERROR_BYTES_MAX: Final = 1024
"""For a VolumeError's message; the API server refuses more, and then nobody would see the error."""

ATTACH_FAILED: Final = "FailedAttachVolume"
DETACH_FAILED: Final = "FailedDetachVolume"
"""Reasons of events; of the same words as those that the attach/detach controller sends to pods and claims."""

_ATTACHES: Final = (AddVolumeFinalizer, AddFinalizer, Publish, MarkAttached)


class Telling:
    """events: of failures; None for none. Differs from external-attacher, which sends none."""

    def __init__(
        self, view: View, writes: Writes, events: EventRecorder | None, clock: Clock, options: AttacherOptions
    ) -> None:
        self._view, self._writes, self._events, self._clock, self._options = view, writes, events, clock, options

    async def show(self, name: str, decision: Decision[Action], failure: Failed) -> None:
        """The failure of a decision about the attachment."""
        text = shortened(str(failure), ERROR_BYTES_MAX)
        if self._undoes(name, decision):
            self._view.memory.undo_failed(name)
            await self._show_to_the_next(name, text)
            return
        attachment = Target(name, decision.uid).find(self._view)
        if attachment is not None:
            await self._show(attachment, self._detaches(name, decision), text, failure.code)

    def work(self, name: str, decision: Decision[Action]) -> str:
        """For the log."""
        if self._undoes(name, decision):
            return "undo a publish"
        return "detach" if self._detaches(name, decision) else "attach"

    def _undoes(self, name: str, decision: Decision[Action]) -> bool:
        """True where a publish is taken back whose attachment has vanished."""
        orphaned = self._view.memory.orphaned(name)
        is_its = orphaned is not None and orphaned.attachment.metadata.uid == decision.uid
        return is_its and any(isinstance(action, EndUndo | LoadSecret) for action in decision.actions[-1:])

    def _detaches(self, name: str, decision: Decision[Action]) -> bool:
        """True for an attachment that goes, unless the decision attaches: it may have been deleted since the decision."""
        attachment = self._view.attachment(name)
        attaches = any(isinstance(action, _ATTACHES) for action in decision.actions)
        return attachment is not None and is_deleting(attachment) and not attaches

    async def _show_to_the_next(self, name: str, text: str) -> None:
        """An attachment that has the name of a vanished one hears what it waits for."""
        attachment = self._view.attachment(name)
        if attachment is not None and attachment.spec.attacher == self._view.driver.name:
            waits = f"waits until what an earlier VolumeAttachment of this name left published is taken back: {text}"
            await self._show(attachment, is_deleting(attachment), shortened(waits, ERROR_BYTES_MAX), None)

    async def _show(self, attachment: VolumeAttachment, detaching: bool, text: str, code: int | None) -> None:
        field = "detachError" if detaching else "attachError"
        shown_code = code if self._options.report_error_codes and not detaching else None
        if self._events is not None:
            self._events.event(
                _reference_to(attachment), "Warning", DETACH_FAILED if detaching else ATTACH_FAILED, text
            )
        try:
            await self._writes.save_error(attachment, field, text, rfc3339(self._clock.wall_s()), shown_code)
        except (Failed, Stale) as error:
            log.error("could not save the error in the status", error=error, VolumeAttachment=attachment.metadata.name)


def _reference_to(attachment: VolumeAttachment) -> ObjectReference:
    """For events."""
    kind, meta = VOLUME_ATTACHMENTS, attachment.metadata
    return ObjectReference(kind.api_version, kind.name, "", meta.name, meta.uid, meta.resource_version)
