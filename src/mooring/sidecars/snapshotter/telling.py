"""Tells users about a content: failures by Events and in its status, warnings by Events and in the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from mooring.api.core import ObjectReference
from mooring.base.clock import Clock, rfc3339
from mooring.base.log import logger
from mooring.base.text import shortened
from mooring.control.decision import Failed
from mooring.control.event_once import EventOnce
from mooring.control.events import EventRecorder
from mooring.control.result import Stale
from mooring.kube.cluster import Patch
from mooring.kube.patch import set_fields
from mooring.sidecars.snapshotter.decide_after import as_json
from mooring.sidecars.snapshotter.decision import Failure, Tell
from mooring.sidecars.snapshotter.kinds import Content, Row
from mooring.sidecars.snapshotter.view import is_going, is_ready

log = logger(__name__)

ERROR_BYTES_MAX: Final = 1024


class Contents(Protocol):
    """The contents of one kind, as they are now."""

    def find(self, name: str, uid: str) -> Any: ...

    async def patch(self, content: Content, patch: Patch, subresource: str = "", *, strictly: bool = False) -> None: ...


class Telling:
    """For contents of one kind."""

    def __init__(self, row: Row, events: EventRecorder, clock: Clock, contents: Contents) -> None:
        self._row, self._events, self._clock, self._contents = row, events, clock, contents
        self._once = EventOnce(events, clock)

    def forget(self, uid: str) -> None:
        """The content is gone."""
        self._once.forget(uid)

    async def show(self, name: str, uid: str, failure: Failure) -> None:
        """Tells the failure by an Event and, if it is to be saved, in the status. One that stands there is told once by each process: the
        one that wrote it may have died before its Event was sent. Raises Stale where the snapshot has turned ready since it was judged.
        """
        content = self._contents.find(name, uid)
        if is_ready(content) and not is_going(content):
            raise Stale(name)
        text = shortened(failure.error, ERROR_BYTES_MAX)
        if failure.saved:
            status = as_json(content.status) or {}
            is_new = (status.get("error") or {}).get("message") != text or status.get("readyToUse") is not False
            if is_new:
                error = {"time": rfc3339(self._clock.wall_s()), "message": text}
                try:
                    await self._save_error(content, {**status, "error": error, "readyToUse": False})
                except Failed as problem:
                    log.error("could not save the error in the status", error=problem, **{self._row.kind.name: name})
            if is_ready(self._contents.find(name, uid)) and not is_going(content):
                raise Stale(name)  # the answer shows that an earlier write has made it so
            if not is_new and self._once.left_s(uid, text) > 0:
                return
        self._once.tell(self._reference(content), failure.event, text, anew=True)

    async def _save_error(self, content: Content, status: Mapping[str, Any]) -> None:
        """On the content as it was read: an error says nothing of one that has turned ready."""
        patch = set_fields(content, "status", as_json(content.status), status)
        if patch is not None:
            await self._contents.patch(content, patch, "status", strictly=True)

    def refused(self, name: str, uid: str, error: BaseException) -> None:
        """A write that the API server refuses, and may refuse for ever."""
        self.tell(self._contents.find(name, uid), self._row.check_failed, f"{self._row.check_text}{error}")

    def warn(self, content: Content, tells: Tell) -> None:
        """Once by each process, in the log, too."""
        if self._once.note(content.metadata.uid, tells.message, about="warning"):
            log.warning(tells.message, **{self._row.kind.name: content.metadata.name})
            self.tell(content, tells.reason, tells.message)

    def tell(self, content: Content, reason: str, message: str) -> None:
        self._events.event(self._reference(content), "Warning", reason, message)

    def _reference(self, content: Content) -> ObjectReference:
        meta, kind = content.metadata, self._row.kind
        return ObjectReference(kind.api_version, kind.name, "", meta.name, meta.uid, meta.resource_version)
