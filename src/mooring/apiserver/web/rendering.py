"""Makes bytes of objects, of their metadata or of rows of a table, as Accept asks. Stored objects are JSON already:
they are joined.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

import msgspec

from mooring.apiserver.codecs.schema import decode
from mooring.apiserver.effort import TooMuch
from mooring.apiserver.printers.column import Column
from mooring.apiserver.printers.kinds import columns_of, empty_rows_of, row_conditions_of
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import Stored
from mooring.kube.errors import NotAcceptable

_encode: Final = msgspec.json.encode
_EMPTY_CELLS: Final = {"boolean": False, "integer": 0, "number": 0}


class _Head(msgspec.Struct):
    metadata: msgspec.Raw


_head: Final = msgspec.json.Decoder(_Head)


class Rendering(Protocol):
    """now: seconds since the epoch, for ages. meta: a list's metadata."""

    def one(self, resource: Resource, stored: Stored, now: float) -> bytes: ...

    def many(self, resource: Resource, meta: dict[str, Any], items: tuple[Stored, ...], now: float) -> bytes: ...

    def event(self, resource: Resource, stored: Stored, now: float, *, first: bool) -> bytes:
        """The object of a watch event. first: of this watch."""

    def bookmark(self, resource: Resource, meta: dict[str, Any], *, first: bool) -> bytes:
        """The object of a BOOKMARK."""


class WholeRendering(msgspec.Struct, frozen=True):
    def one(self, _resource: Resource, stored: Stored, _now: float) -> bytes:
        return stored.body

    def many(self, resource: Resource, meta: dict[str, Any], items: tuple[Stored, ...], _now: float) -> bytes:
        """Items of built-in kinds do not say their kind, as in the real server; those of custom kinds do."""
        if resource.custom is not None:
            return _listed(
                resource.list_kind, resource.api_version, {"continue": "", **meta}, [stored.body for stored in items]
            )
        head = b'{"apiVersion":%s,"kind":%s,' % (_encode(resource.api_version), _encode(resource.kind))
        bodies = [b"{" + stored.body[len(head) :] if stored.body.startswith(head) else stored.body for stored in items]
        return _listed(resource.list_kind, resource.api_version, meta, bodies)

    def event(self, _resource: Resource, stored: Stored, _now: float, *, first: bool) -> bytes:
        return stored.body

    def bookmark(self, resource: Resource, meta: dict[str, Any], *, first: bool) -> bytes:
        empty = decode(resource.message, {}, []) if resource.custom is None else {}
        return _encode({"kind": resource.kind, "apiVersion": resource.api_version, **empty, "metadata": meta})


class Metadata(msgspec.Struct, frozen=True):
    """The metadata alone. is_list: that a list was asked for, so nothing else can be answered."""

    version: str
    is_list: bool

    def one(self, resource: Resource, stored: Stored, _now: float) -> bytes:
        if self.is_list:
            raise _mismatch(
                f"you requested PartialObjectMetadataList, but the requested object is not a list ({resource.kind})"
            )
        return _partial(self.version, stored)

    def many(self, resource: Resource, meta: dict[str, Any], items: tuple[Stored, ...], _now: float) -> bytes:
        if not self.is_list:
            raise _mismatch(
                f"you requested PartialObjectMetadata, but the requested object is a list ({resource.list_kind})"
            )
        return _listed(
            "PartialObjectMetadataList",
            self.version,
            meta,
            [_partial(self.version, stored) for stored in items],
            empty=b"null",
        )

    def event(self, _resource: Resource, stored: Stored, _now: float, *, first: bool) -> bytes:
        return _partial(self.version, stored)

    def bookmark(self, _resource: Resource, meta: dict[str, Any], *, first: bool) -> bytes:
        return _partial_of(self.version, _encode(meta))


class TableRendering(msgspec.Struct, frozen=True):
    """Rows of cells, as kubectl prints them. include: what each row has beside: Metadata, Object or None."""

    version: str
    include: str

    def one(self, resource: Resource, stored: Stored, now: float) -> bytes:
        return self._table(resource, _version_of(stored), [stored], now, defined=True)

    def many(self, resource: Resource, meta: dict[str, Any], items: tuple[Stored, ...], now: float) -> bytes:
        return self._table(resource, meta, items, now, defined=True)

    def event(self, resource: Resource, stored: Stored, now: float, *, first: bool) -> bytes:
        """A watch has no error for cells that are too much work: they stay empty."""
        try:
            return self._table(resource, _version_of(stored), [stored], now, defined=first)
        except TooMuch:
            return self._blank(resource, _version_of(stored), self._object(stored), first=first)

    def bookmark(self, resource: Resource, meta: dict[str, Any], *, first: bool) -> bytes:
        return self._blank(
            resource,
            {"resourceVersion": meta["resourceVersion"]},
            _partial_of(self.version, _encode(meta)),
            first=first,
        )

    def _blank(self, resource: Resource, meta: dict[str, Any], obj: bytes, *, first: bool) -> bytes:
        columns = columns_of(resource)
        cells = [_EMPTY_CELLS.get(column.type, "") for column in columns]
        row = b'{"cells":%s,"object":%s}' % (_encode(cells), obj)
        return self._whole(meta, columns if first else None, [row])

    def _table(
        self, resource: Resource, meta: dict[str, Any], items: Iterable[Stored], now: float, *, defined: bool
    ) -> bytes:
        columns = columns_of(resource)
        cells, conditions_of = [column.cell for column in columns], row_conditions_of(resource)
        rows = []
        for stored in items:
            obj = stored.whole()
            conditions = conditions_of(obj)
            encoded = b',"conditions":%s' % _encode(conditions) if conditions else b""
            rows.append(
                b'{"cells":%s%s,"object":%s}'
                % (_encode([cell(obj, now) for cell in cells]), encoded, self._object(stored))
            )
        return self._whole(meta, columns if defined else None, rows, empty=empty_rows_of(resource))

    def _whole(
        self, meta: dict[str, Any], columns: tuple[Column, ...] | None, rows: list[bytes], *, empty: bytes = b"[]"
    ) -> bytes:
        defined = None if columns is None else [column.to_json() for column in columns]
        head = _encode({"kind": "Table", "apiVersion": self.version, "metadata": meta, "columnDefinitions": defined})
        return _ended(head, b"rows", rows, empty)

    def _object(self, stored: Stored) -> bytes:
        if self.include == "Object":
            return stored.body
        return _partial(self.version, stored) if self.include == "Metadata" else b"null"


WHOLE: Final = WholeRendering()


def _version_of(stored: Stored) -> dict[str, Any]:
    return {"resourceVersion": str(stored.rv)} if stored.rv else {}


def _partial(version: str, stored: Stored) -> bytes:
    return _partial_of(version, _head.decode(stored.body).metadata)


def _partial_of(version: str, metadata: bytes | msgspec.Raw) -> bytes:
    return b'{"kind":"PartialObjectMetadata","apiVersion":"%s","metadata":%s}' % (version.encode(), bytes(metadata))


def _listed(kind: str, api_version: str, meta: dict[str, Any], items: list[bytes], *, empty: bytes = b"[]") -> bytes:
    head = _encode({"kind": kind, "apiVersion": api_version, "metadata": meta})
    return _ended(head, b"items", items, empty)


def _ended(head: bytes, name: bytes, parts: list[bytes], empty: bytes) -> bytes:
    """The object with one more member, a list. empty: what stands for it where it has nothing."""
    if not parts:
        return b'%b,"%b":%b}' % (head[:-1], name, empty)
    return b'%b,"%b":[%b]}' % (head[:-1], name, b",".join(parts))


def _mismatch(text: str) -> NotAcceptable:
    return NotAcceptable(text, reason="NotAcceptable")
