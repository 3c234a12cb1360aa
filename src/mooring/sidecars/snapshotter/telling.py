"""Tells users about a content: failures by Events and in its status, warnings by Events and in the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from mooring.api.core import ObjectReference
from mooring.base.clock import Clock, rfc3339
from mooring.base.log import logger
from mooring.base.text import shortened
from mooring.control.events import EventRecorder
from mooring.control.object_writes import as_read
from mooring.control.result import Stale
from mooring.control.told import Told
from mooring.kube.cluster import Patch
from mooring.kube.errors import ApiError
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

    async def patch(self, content: Content, patch: Patch, subresource: str = "") -> None: ...


class Telling:
    """For contents of one kind."""

    def __init__(self, row: Row, events: EventRecorder, clock: Clock, contents: Contents) -> None:
        self._row, self._events, self._clock, self._contents = row, events, clock, contents
        self._told, self._warned = Told(), Told()

    def forget(self, uid: str) -> None:
        """The content is gone."""
        self._told.forget(uid)
        self._warned.forget(uid)

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
                except ApiError as problem:
                    log.error("could not save the error in the status", error=problem, **{self._row.kind.name: name})
            if is_ready(self._contents.find(name, uid)) and not is_going(content):
                raise Stale(name)  # the answer shows that an earlier write has made it so
            if not self._told.note(uid, text, self._clock.now()) and not is_new:
                return
        self.tell(content, failure.event, text)

    async def _save_error(self, content: Content, status: Mapping[str, Any]) -> None:
        """On the content as it was read: an error says nothing of one that has turned ready."""
        patch = set_fields(content, "status", as_json(content.status), status)
        if patch is not None:
            await self._contents.patch(content, as_read(content, patch), "status")

    def refused(self, name: str, uid: str, error: ApiError) -> None:
        """A write that the API server refuses, and may refuse for ever."""
        self.tell(self._contents.find(name, uid), self._row.check_failed, f"{self._row.check_text}{error}")

    def warn(self, content: Content, tells: Tell) -> None:
        """Once by each process, in the log, too."""
        if self._warned.note(content.metadata.uid, tells.message, self._clock.now()):
            log.warning(tells.message, **{self._row.kind.name: content.metadata.name})
            self.tell(content, tells.reason, tells.message)

    def tell(self, content: Content, reason: str, message: str) -> None:
        meta, kind = content.metadata, self._row.kind
        ref = ObjectReference(kind.api_version, kind.name, "", meta.name, meta.uid, meta.resource_version)
        self._events.event(ref, "Warning", reason, message)
