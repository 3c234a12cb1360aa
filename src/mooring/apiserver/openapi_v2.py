"""OpenAPI v2, as much of it as clients still ask for: which kinds are patched, and with which parameters. The schemas are in v3.

kubectl takes a manifest that is a `List` only after it has found here that the server validates fields, and it asks for the document
as protobuf alone. So there are both forms: JSON, and the messages of `openapi.v2.Document` that hold these few things.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mooring.apiserver.codecs import protowire
from mooring.apiserver.discovery.groups import VERSION
from mooring.apiserver.resource import Resource
from mooring.apiserver.store import ObjectStore

PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_ASKED: Final = ("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", PROTOBUF)
_QUERIES: Final = ("dryRun", "fieldManager", "fieldValidation", "force")
_GVK: Final = "x-kubernetes-group-version-kind"

Json = dict[str, Any]


def wants_protobuf(accept: str) -> bool:
    """True for a client that asks for that form first."""
    return accept.partition(",")[0].partition(";")[0].strip() in _ASKED


def document(store: ObjectStore) -> Json:
    """`/openapi/v2`."""
    patched = sorted((resource for resource in store.resources if "patch" in resource.verbs), key=lambda one: (one.api_version, one.plural))
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    return {"swagger": "2.0", "info": info, "paths": {_path(resource): {"patch": _operation(resource)} for resource in patched}}


def packed_document(store: ObjectStore) -> bytes:
    """The same as an `openapi.v2.Document`."""
    told = document(store)
    paths = b"".join(_named(2, path, _message(8, _packed_operation(item["patch"]))) for path, item in told["paths"].items())
    info = _text(1, told["info"]["title"]) + _text(2, told["info"]["version"])
    return _text(1, told["swagger"]) + _message(2, info) + _message(8, paths)


def _path(resource: Resource) -> str:
    root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    place = "namespaces/{namespace}/" if resource.namespaced else ""
    return f"{root}/{place}{resource.plural}/{{name}}"


def _operation(resource: Resource) -> Json:
    return {
        "operationId": f"patch{resource.kind}",
        "parameters": [{"name": name, "in": "query", "type": "boolean" if name == "force" else "string"} for name in _QUERIES],
        "responses": {"200": {"description": "OK"}},
        _GVK: {"group": resource.group, "version": resource.version, "kind": resource.kind},
    }


def _packed_operation(operation: Json) -> bytes:
    """An `openapi.v2.Operation`. A parameter lies in three wrappers: inline, not a body, of the query."""
    queries = (_text(2, each["in"]) + _text(4, each["name"]) + _text(6, each["type"]) for each in operation["parameters"])
    parameters = b"".join(_message(8, _message(1, _message(2, _message(3, query)))) for query in queries)
    responses = b"".join(
        _named(1, code, _message(1, _text(1, response["description"]))) for code, response in operation["responses"].items()
    )
    kind = _named(13, _GVK, _text(2, msgspec.json.encode(operation[_GVK]).decode()))  # (an extension is YAML; JSON is, too)
    return _text(5, operation["operationId"]) + parameters + _message(9, responses) + kind


def _named(number: int, name: str, value: bytes) -> bytes:
    return _message(number, _text(1, name) + _message(2, value))


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _message(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | protowire.BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
