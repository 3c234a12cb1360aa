"""Requests that no client sends: bodies, types, paths and parameters that are none."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from tests.differential.steps import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from tests.differential.subjects import Json, Subject

Query = list[tuple[str, Any]]
Request = tuple[str, str, Query, Json]
"""Method, path, query, and what else a step says."""

_DRY: Final[Query] = [("dryRun", "All")]
_BODIES: Final = (
    b"",
    b"{",
    b"null",
    b"[]",
    b"5",
    b'"x"',
    b"{}",
    b"\xff\xfe",
    b'{"a":1,"a":2}',
    b"{}{}",
    b"a: b: c",
    b"\x00",
)
_PATCHES: Final = (
    b"",
    b"{",
    b"null",
    b"[]",
    b"5",
    b'"x"',
    b"{}",
    b"[{}]",
    b"[null]",
    b'{"a":1,"a":2}',
    b'[{"op":"remove"}]',
    b"\xff",
)
_TYPES: Final = (
    *(
        "text/plain",
        "application/xml",
        "",
        "application/json; charset=utf-8",
        "application/yaml",
        MERGE_PATCH,
        "x",
        "APPLICATION/JSON",
    ),
)
_PATCH_TYPES: Final = (MERGE_PATCH, STRATEGIC_PATCH, JSON_PATCH, APPLY_PATCH, "application/json", "x", "")
_ACCEPTED: Final = (
    *("text/html", "application/yaml", "*/*", "application/*", "", "text/*", "application/json;stream=watch", "x"),
    *("application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=Nothing;v=v1;g=meta.k8s.io"),
    *("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/json;q=0.1,text/html"),
)
_WRONG: Final = (
    *(("dryRun", "x"), ("fieldValidation", "x"), ("fieldManager", "x" * 129), ("fieldManager", "a\nb")),
    *(("force", "true"), ("pretty", "x"), ("dryRun", "")),
)
_ENDS: Final = ("/x", "/status", "/scale", "/status/x", "/", "//", "/%2e%2e", "/log", "/a/b/c")
_PLACES: Final = (
    *(
        "/api/v1/nosuch",
        "/apis/storage.k8s.io/v9/volumeattachments",
        "/api/v1/namespaces/three/secrets",
        "/apis/x/v1/y",
    ),
    *("/api/v1/namespaces//secrets", "/nosuch", "/apis/storage.k8s.io/v1/watch/volumeattachments/a/b/c"),
)
_NAMES: Final = ("UPPER", "a%20b", "%C3%BC", "x" * 300, "..", ".", "a:b", "none", "a%25b")


def request(randomness: random.Random, subject: Subject, collection: str, name: str, obj: Json) -> Request:
    """obj: a valid object of that name. Nothing of it is written but where the servers refuse it."""
    where = _Where(randomness, subject, collection, f"{collection}/{name}", obj)
    return randomness.choice(_KINDS)(where)


class _Where:
    """What the requests are about."""

    def __init__(self, randomness: random.Random, subject: Subject, collection: str, path: str, obj: Json) -> None:
        self.some, self.subject, self.collection, self.path, self.obj = (
            randomness.choice,
            subject,
            collection,
            path,
            obj,
        )


def _body(where: _Where) -> Request:
    return where.some(("POST", "PUT")), where.some((where.collection, where.path)), _DRY, {"body": where.some(_BODIES)}


def _type(where: _Where) -> Request:
    return "POST", where.collection, _DRY, {"body": where.obj, "content_type": where.some(_TYPES)}


def _patch(where: _Where) -> Request:
    more = {"body": where.some(_PATCHES), "content_type": where.some(_PATCH_TYPES)}
    return "PATCH", where.path, [*_DRY, ("fieldManager", "m")], more


def _end(where: _Where) -> Request:
    method = where.some(("POST", "PUT", "PATCH", "DELETE", "GET", "HEAD"))
    return method, where.path + where.some(_ENDS), _DRY, {} if method in ("GET", "HEAD") else {"body": where.obj}


def _everywhere(where: _Where) -> Request:
    return where.some(("POST", "PATCH", "PUT", "DELETE", "GET")), where.subject.everywhere(), _DRY, {"body": where.obj}


def _accept(where: _Where) -> Request:
    return "GET", where.some((where.path, where.collection)), [], {"headers": (("Accept", where.some(_ACCEPTED)),)}


def _parameter(where: _Where) -> Request:
    wrong = where.some(_WRONG)
    query = [wrong] if wrong[0] == "dryRun" else [wrong, *_DRY]
    return where.some(("POST", "PUT")), where.some((where.collection, where.path)), query, {"body": where.obj}


def _place(where: _Where) -> Request:
    return where.some(("GET", "POST", "DELETE", "PUT")), where.some(_PLACES), _DRY, {"body": where.obj}


def _name(where: _Where) -> Request:
    method = where.some(("GET", "DELETE", "PATCH", "PUT"))
    body = {"PUT": {**where.obj, "metadata": {"name": "x"}}, "PATCH": {}}.get(method)
    more = {"body": body, "content_type": MERGE_PATCH if method == "PATCH" else JSON}
    return method, f"{where.collection}/{where.some(_NAMES)}", _DRY, more


_KINDS: Final[tuple[Callable[[_Where], Request], ...]] = (
    _body,
    _type,
    _patch,
    _end,
    _everywhere,
    _accept,
    _parameter,
    _place,
    _name,
)
