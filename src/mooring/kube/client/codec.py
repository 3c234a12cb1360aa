"""JSON of the API server to typed objects, decoded directly into each kind's struct.

Decoders are made once per type. An object that can't be decoded in a list or a watch is skipped and logged: one bad
object must not blind a controller to all others. But it is there: a page names it, so that nobody takes it for deleted.
Where it nests deeper than C skips, about a thousand levels, it can't be told from the others, and the whole answer is
refused.
"""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

import msgspec

from mooring.api.meta import Kind
from mooring.base.json_text import JsonDecoder, TooDeep
from mooring.base.log import logger
from mooring.kube.cluster import EventType, Page, Row, UnreadItem, WatchEvent
from mooring.kube.errors import ApiError, Gone, ServerError, from_status

_log = logger(__name__)
T = TypeVar("T")

TOLD_MAX: Final = 10
"""Objects of one page, or of one piece of a watch, that the log names; a server may send hundreds of thousands."""
ODD_MAX: Final = 20_000
"""Items of one page that can't be read: with more of them it is no list. Pages are asked for by five hundred."""

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class _ListMeta(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _ListOf(msgspec.Struct, Generic[T]):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: tuple[T, ...] | None = None


class _Column(msgspec.Struct):
    name: str = ""


class _TableRow(msgspec.Struct):
    cells: tuple[Any, ...] = ()


class _Table(msgspec.Struct, rename="camel"):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    column_definitions: tuple[_Column, ...] = ()
    rows: tuple[_TableRow, ...] | None = None


class _Line(msgspec.Struct, Generic[T]):
    type: str
    object: T


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Named(msgspec.Struct):
    """The part of any object that names it."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _Resource(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    """An APIResourceList."""

    resources: tuple[_Resource, ...] = ()


class Codec(Generic[T]):
    """Decodes one type in the forms it arrives in: alone, in a list, on a watch line.

    A kind's struct says by `has_json` (`ApiStruct`) whether it keeps JSON of any shape; a dict always does.
    """

    def __init__(self, struct: type[T]) -> None:
        is_open = getattr(struct, "has_json", True)
        self._object = JsonDecoder[T](struct, is_open=is_open)
        self._list = JsonDecoder[_ListOf[T]](_ListOf[struct], is_open=is_open)  # type: ignore[valid-type]
        self._line = JsonDecoder[_Line[T]](_Line[struct], is_open=is_open)  # type: ignore[valid-type]
        self._is_whole = struct is dict

    def object(self, body: bytes) -> T:
        """Raises ValueError."""
        return self._object.decode(body)

    def page(self, kind: Kind[T], body: bytes) -> Page[T]:
        """A list with its broken items apart. Raises ValueError when it is no list at all."""
        try:
            found = self._list.decode(body)
        except ValueError:
            return self._page_by_item(kind, body)
        return Page(found.items or (), found.metadata.resource_version, found.metadata.continue_)

    def event(self, kind: Kind[T], line: bytes, *, is_told: bool = True) -> WatchEvent[T] | None:
        """A watch line, None when it has to be skipped; is_told: the log says so.

        Raises the error of an ERROR line; ValueError for what is no JSON.
        """
        try:
            found = self._line.decode(line)
            event_type = _OBJECT_EVENTS.get(found.type)
        except (msgspec.ValidationError, UnicodeDecodeError, TooDeep):
            return self._odd_event(kind, line, is_told)
        if event_type is None:
            return self._odd_event(kind, line, is_told)
        return WatchEvent(event_type, found.object, self._resource_version(found.object))

    def _page_by_item(self, kind: Kind[T], body: bytes) -> Page[T]:
        found = _RAW_LIST.decode(body)
        items: list[T] = []
        unread: list[UnreadItem] = []
        for raw in found.items or ():
            try:
                items.append(self._object.decode(raw))
            except ValueError as error:
                unread.append(_report(kind, raw, error, is_told=len(unread) < TOLD_MAX))
                if len(unread) > ODD_MAX:
                    raise ValueError(
                        f"more than {ODD_MAX} of its items can't be read, the last one since: {error}"
                    ) from None
        if len(unread) > TOLD_MAX:
            _log.error(
                "More objects that can't be decoded were skipped", resource=kind.resource, count=len(unread) - TOLD_MAX
            )
        return Page(tuple(items), found.metadata.resource_version, found.metadata.continue_, tuple(unread))

    def _odd_event(self, kind: Kind[T], line: bytes, is_told: bool) -> WatchEvent[T] | None:
        """Decode a line that is no plain change: a bookmark, an error, a broken object, a type unknown to us."""
        found = _RAW_LINE.decode(line)
        if found.type == "ERROR":
            raise _watch_error(found.object)
        if found.type == "BOOKMARK":
            meta = _NAMED.decode(found.object).metadata
            ended = (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true"
            return WatchEvent(EventType.BOOKMARK, None, meta.resource_version, ended)
        try:
            self._object.decode(found.object)
        except ValueError as error:
            one = _report(kind, found.object, error, is_told=is_told)
            if found.type == EventType.DELETED.value:
                raise Gone(
                    f"{kind.resource} {one.name[:300]} was deleted, and can't be read: all are listed again"
                ) from None
        else:
            if is_told:
                _log.error("A watch event of unknown type was skipped", resource=kind.resource, type=found.type[:40])
        return None

    def _resource_version(self, obj: Any) -> str:
        if not self._is_whole:
            return str(obj.metadata.resource_version)
        metadata = obj.get("metadata")
        return str(metadata.get("resourceVersion") or "") if isinstance(metadata, dict) else ""


def rows_of(body: bytes) -> Page[Row]:
    """A Table. Raises ValueError."""
    table = _TABLE.decode(body)
    names = [column.name for column in table.column_definitions]
    rows = tuple(Row(dict(zip(names, row.cells, strict=True))) for row in table.rows or ())
    return Page(rows, table.metadata.resource_version, table.metadata.continue_)


_TABLE: Final = JsonDecoder[_Table](_Table)
_OBJECT_EVENTS: Final = {event.value: event for event in (EventType.ADDED, EventType.MODIFIED, EventType.DELETED)}
_RAW_LIST: Final = JsonDecoder[_ListOf[msgspec.Raw]](_ListOf[msgspec.Raw], is_open=False)
_RAW_LINE: Final = JsonDecoder[_Line[msgspec.Raw]](_Line[msgspec.Raw], is_open=False)
_NAMED: Final = JsonDecoder[_Named](_Named, is_open=False)
_STATUS: Final = JsonDecoder[dict[str, Any]](dict[str, Any])
_RESOURCES: Final = JsonDecoder[_Resources](_Resources, is_open=False)


_codecs: dict[type, Codec[Any]] = {}


def codec_of(struct: type[T]) -> Codec[T]:
    codec: Codec[T] | None = _codecs.get(struct)
    if codec is None:
        codec = _codecs[struct] = Codec(struct)
    return codec


def status_of(body: bytes) -> dict[str, Any] | None:
    """A `Status` object, None when the body is anything else."""
    try:
        status = _STATUS.decode(body)
    except ValueError:
        return None
    return status if status.get("kind") == "Status" else None


def plurals_of(body: bytes) -> frozenset[str]:
    """The kinds of an APIResourceList, for one version of a group; sub-resources as `pods/status`. Raises
    ValueError.
    """
    return frozenset(resource.name for resource in _RESOURCES.decode(body).resources)


def _watch_error(raw: msgspec.Raw) -> ApiError:
    try:
        status = _STATUS.decode(raw)
    except ValueError:
        status = {}
    code = status.get("code")
    if not isinstance(code, int):
        return ServerError("the watch ended with an error that can't be read")
    return from_status(status, code)


def _report(kind: Kind[Any], raw: msgspec.Raw, error: Exception, *, is_told: bool) -> UnreadItem:
    """Log an object that can't be decoded. msgspec's words name a path and two types, never a value: safe to log."""
    try:
        meta = _NAMED.decode(raw).metadata
    except ValueError:
        meta = _Meta()
    if is_told:
        _log.error(
            "An object that can't be decoded was skipped",
            error=error,
            resource=kind.resource,
            namespace=meta.namespace,
            name=meta.name[:300],
        )
    return UnreadItem(meta.namespace, meta.name, meta.uid)
