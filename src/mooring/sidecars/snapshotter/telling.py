"""Tells users about a content: failures by Events and in its status, warnings by Events and in the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from mooring.api.core import ObjectReference, reference_to
from mooring.api.snapshot_kinds import Content, Row, is_content_ready
from mooring.base.clock import Clock, rfc3339
from mooring.base.log import logger
from mooring.base.text import shortened
from mooring.control.decision import Failed
from mooring.control.events import EventOnce, EventRecorder
from mooring.control.result import Retry, Stale
from mooring.kube.cluster import Patch
from mooring.kube.patch import set_fields
from mooring.sidecars.snapshotter.decide_after import as_json
from mooring.sidecars.snapshotter.decision import Failure
from mooring.sidecars.snapshotter.view import is_going

log = logger(__name__)

ERROR_BYTES_MAX: Final = 1024


class Contents(Protocol):
    """The contents of one kind, as they are now."""

    def find(self, name: str, uid: str) -> Any: ...

    async def patch(self, content: Content, patch: Patch, subresource: str = "", *, strictly: bool = False) -> None: ...


class Telling:
    """Tells users about the contents of one kind."""

    def __init__(self, row: Row, events: EventRecorder, clock: Clock, contents: Contents) -> None:
        self._row, self._events, self._clock, self._contents = row, events, clock, contents
        self._once = EventOnce(events, clock)

    def forget(self, uid: str) -> None:
        """The content is gone."""
        self._once.forget(uid)

    async def show(self, name: str, uid: str, failure: Failure) -> None:
        """Tells the failure by an Event and, if it is to be saved, in the status. One that stands there is told once by
        each process: the one that wrote it may have died before its Event was sent. Raises Stale where the snapshot has
        turned ready since it was judged; Retry, after telling, where the status could not be written.
        """
        content = self._contents.find(name, uid)
        if is_content_ready(content) and not is_going(content):
            raise Stale(name)
        text, unsaved = shortened(failure.error, ERROR_BYTES_MAX), None
        if failure.saved:
            status = as_json(content.status) or {}
            is_new = (status.get("error") or {}).get("message") != text or status.get("readyToUse") is not False
            if is_new:
                error = {"time": rfc3339(self._clock.wall_s()), "message": text}
                try:
                    await self._save_error(content, {**status, "error": error, "readyToUse": False})
                except Failed as problem:
                    unsaved = problem
            if is_content_ready(self._contents.find(name, uid)) and not is_going(content):
                raise Stale(name)  # the answer shows that an earlier write has made it so
            if not is_new and self._once.left_s(uid, text) > 0:
                return
        self._once.tell(self._reference(content), failure.event, text, anew=True)
        if unsaved is not None:
            raise Retry(f"could not save the error in the status: {unsaved}") from unsaved

    async def _save_error(self, content: Content, status: Mapping[str, Any]) -> None:
        """Save only on the content as it was read: an error says nothing of one that has turned ready."""
        patch = set_fields(content, "status", as_json(content.status), status)
        if patch is not None:
            await self._contents.patch(content, patch, "status", strictly=True)

    def refused(self, name: str, uid: str, error: BaseException) -> None:
        """Tell of a write that the API server refuses, and may refuse for ever."""
        text = f"Failed to check and update {self._row.noun} content: {error}"
        self.tell(self._contents.find(name, uid), f"{self._row.title}ContentCheckandUpdateFailed", text)

    def tell(self, content: Content, reason: str, message: str) -> None:
        self._events.event(self._reference(content), "Warning", reason, message)

    def _reference(self, content: Content) -> ObjectReference:
        return reference_to(content, self._row.contents)
