"""The server about itself: health, version, discovery, OpenAPI. All but health is kept from the first request until
kinds change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mooring.apiserver.discovery import groups, openapi
from mooring.apiserver.discovery.groups import HEALTH
from mooring.apiserver.discovery.openapi import openapi_document, openapi_roots, openapi_tag
from mooring.apiserver.resource import Resource
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.web.messages import JSON, TEXT, HttpReply, HttpRequest, packed

_NOT_MODIFIED: Final = 304
_DOCUMENTS: Final = ("openapi", "v3")
_AGGREGATED: Final = "aggregated"
_PACKED: Final = "packed"
_OWN: Final = {_AGGREGATED: groups.AGGREGATED, _PACKED: openapi.V2_PROTOBUF}
"""How answers in another form are kept, and their media type. In a URL these names mean nothing."""


class _Made(msgspec.Struct, frozen=True):
    reply: HttpReply
    tag: str


class About:
    """Answers by path. A client that says which answer it has (If-None-Match) is told when that is still the one."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._kept: dict[tuple[str, ...], _Made] = {}
        store.kinds.on_change(self._forget)

    def answer(self, request: HttpRequest) -> HttpReply | None:
        """The answer at a path about the server; None for any other path."""
        path, accept = request.path, request.headers.get("accept", "")
        if path[0] in _OWN:
            return None
        if path in (("api",), ("apis",)) and groups.is_aggregated_wanted(accept):
            path = (_AGGREGATED, *path)
        elif path == ("openapi", "v2") and openapi.wants_packed_v2(accept):
            path = (_PACKED, *path)
        made = self._made(path)
        if made is None:
            return None
        if request.headers.get("if-none-match") == f'"{made.tag}"':
            return msgspec.structs.replace(made.reply, status=_NOT_MODIFIED, body=b"")
        return packed(made.reply, request.headers.get("accept-encoding", ""))

    def _forget(self) -> None:
        """A thread that is still making something of the former kinds puts it into the former dict."""
        self._kept = {}

    def _made(self, path: tuple[str, ...]) -> _Made | None:
        kept = self._kept
        if path not in kept:
            documented = self._documented(path)
            value = openapi_document("/".join(path[2:]), documented) if documented else self._value(path)
            if value is None:
                return None
            body = value if isinstance(value, bytes) else msgspec.json.encode(value)
            tag = openapi_tag(documented) or hashlib.sha256(body).hexdigest().upper()
            kept[path] = _Made(
                HttpReply(200, body, _OWN.get(path[0], JSON), headers=(("ETag", f'"{tag}"'), ("Vary", "Accept"))), tag
            )
        return kept[path]

    def _value(self, path: tuple[str, ...]) -> Mapping[str, Any] | bytes | None:
        match path:
            case ("",):
                return groups.paths(self._store)
            case ("version",):
                return groups.VERSION
            case ("api",):
                return groups.core_versions()
            case ("apis",):
                return groups.groups(self._store)
            case ("aggregated", "api"):
                return groups.aggregated_core(self._store)
            case ("aggregated", "apis"):
                return groups.aggregated_groups(self._store)
            case ("apis", group):
                return groups.group(self._store, group)
            case ("api", version):
                return groups.resources(self._store, "", version)
            case ("apis", group, version) if group:
                return groups.resources(self._store, group, version)
            case ("openapi", "v2"):
                return openapi.openapi_v2_document(self._store)
            case ("packed", "openapi", "v2"):
                return openapi.packed_v2_document(self._store)
            case ("openapi", "v3"):
                return self._index()
        return None

    def _documented(self, path: tuple[str, ...]) -> list[Resource]:
        """The kinds of an OpenAPI document; none at any other path."""
        if path[:2] != _DOCUMENTS or path == _DOCUMENTS:
            return []
        return openapi_roots(self._store).get("/".join(path[2:]), [])

    def _index(self) -> dict[str, Any]:
        """Each document with its hash in the address, by which clients cache it."""
        index = {}
        for root, resources in openapi_roots(self._store).items():
            tag = openapi_tag(resources) or self._made_tag((*_DOCUMENTS, *root.split("/")))
            if tag:  # (the kinds may have gone since)
                index[root] = {"serverRelativeURL": f"/openapi/v3/{root}?hash={tag}"}
        return {"paths": index}

    def _made_tag(self, path: tuple[str, ...]) -> str:
        made = self._made(path)
        return "" if made is None else made.tag


def is_health(path: tuple[str, ...]) -> bool:
    """True for paths that need no credentials: all checks, or one of them, as /readyz/ping."""
    return len(path) <= 2 and path[0] in HEALTH


def health(path: tuple[str, ...], query: Mapping[str, str], failure: str) -> HttpReply | None:
    """path: begins with one of HEALTH. failure: what is wrong with the storage; "" while nothing is. None for a check
    that isn't there.
    """
    which, *rest = path
    checks = {"ping": "", "log": "", "storage": failure if which != "livez" else ""}
    if rest:
        if len(rest) != 1 or rest[0] not in checks:
            return None
        checks = {rest[0]: checks[rest[0]]}
    excluded = query.get("exclude", "")
    lines = [_line(name, "" if name == excluded else why, is_excluded=name == excluded) for name, why in checks.items()]
    name = "/".join(path)
    if any(why for check, why in checks.items() if check != excluded):
        return HttpReply(500, f"{''.join(lines)}{name} check failed\n".encode(), TEXT)
    if "verbose" in query:
        return HttpReply(200, f"{''.join(lines)}{name} check passed\n".encode(), TEXT)
    return HttpReply(200, b"ok", TEXT)


def _line(name: str, why: str, *, is_excluded: bool) -> str:
    if is_excluded:
        return f"[+]{name} excluded: ok\n"
    return f"[-]{name} failed: {why}\n" if why else f"[+]{name} ok\n"
