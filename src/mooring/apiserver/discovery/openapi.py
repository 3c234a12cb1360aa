"""OpenAPI v3: a document for each group version, with its kinds' schemas, for kubectl's explain, diff and validation.

And v2, the part that clients still ask for: the kinds that can be patched, and the parameters. kubectl takes a manifest
that is a `List` only after it has found there that the server validates fields, and it asks for the document as
protobuf alone. So v2 has two forms: JSON, and the messages of `openapi.v2.Document` with these few fields.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

import mooring
from mooring.apiserver.codecs import protowire
from mooring.apiserver.discovery.groups import VERSION
from mooring.apiserver.discovery.openapi_schemas import PATCH, Schemas, reference
from mooring.apiserver.resource import Json, Resource, Status
from mooring.apiserver.store import ObjectStore

_NAME: Final = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}
_NAMESPACE: Final = {**_NAME, "name": "namespace"}
_TYPES: Final = ("application/json", "application/yaml")
_PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_READING: Final = (
    "fieldSelector",
    "labelSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
    "watch",
)
_WRITING: Final = ("dryRun", "fieldManager", "fieldValidation")
_QUERIES: Final = {
    "limit": "integer",
    "timeoutSeconds": "integer",
    "gracePeriodSeconds": "integer",
    "watch": "boolean",
    "force": "boolean",
}
_METHODS: Final = {"get": "get", "list": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}


def openapi_roots(store: ObjectStore) -> dict[str, list[Resource]]:
    """The kinds of each document, by its path: `api/v1`, `apis/storage.k8s.io/v1`."""
    found: dict[str, list[Resource]] = {}
    for resource in store.resources:
        root = f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"
        found.setdefault(root, []).append(resource)
    return found


def openapi_tag(resources: list[Resource]) -> str:
    """Changes whenever a document of custom kinds does; to make all documents for their hashes would take seconds. ""
    for built-in ones.
    """
    if not any(resource.custom is not None for resource in resources):
        return ""
    tag = hashlib.sha256(f"{mooring.__version__} {VERSION['gitVersion']}".encode())
    for resource in sorted(resources, key=lambda one: one.plural):
        tag.update(msgspec.json.encode(_said(resource)))
    return tag.hexdigest().upper()


def _said(resource: Resource) -> list[Any]:
    """The part of the document about a kind."""
    schema = None if resource.custom is None else resource.custom.schema
    shape = [resource.namespaced, resource.status is Status.NONE, resource.answer is None, resource.verbs]
    return [resource.group, resource.version, resource.plural, resource.kind, resource.list_kind, *shape, schema]


def openapi_document(root: str, resources: list[Resource]) -> Json:
    schemas, paths = Schemas(), dict[str, Json]()
    for resource in sorted(resources, key=lambda one: one.plural):
        paths.update(_paths(f"/{root}", resource, schemas))
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas.all()}}


def _paths(root: str, resource: Resource, schemas: Schemas) -> dict[str, Json]:
    place = f"{root}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
    where = [_NAMESPACE] if resource.namespaced else []
    one, many = schemas.kind(resource), "" if resource.answer is not None else schemas.list(resource)
    verbs = resource.verbs
    collection = {"get": ("list", many), "post": ("create", one), "delete": ("deletecollection", many)}
    single = {"get": ("get", one), "put": ("update", one), "patch": ("patch", one), "delete": ("delete", one)}
    found = {
        place: _operations(resource, collection, verbs, where),
        f"{place}/{{name}}": _operations(resource, single, verbs, [_NAME, *where]),
    }
    if resource.namespaced and "list" in verbs:
        found[f"{root}/{resource.plural}"] = _operations(resource, {"get": ("list", many)}, verbs, [])
    if resource.status is not Status.NONE:
        status = {method: single[method] for method in ("get", "put", "patch")}
        found[f"{place}/{{name}}/status"] = _operations(resource, status, verbs, [_NAME, *where])
    return {path: operations for path, operations in found.items() if len(operations) > 1}


def _operations(
    resource: Resource, wanted: dict[str, tuple[str, str]], verbs: tuple[str, ...], where: list[Json]
) -> Json:
    """The path item: parameters, and an operation for each method that is served."""
    served = {method: _operation(resource, verb, schema) for method, (verb, schema) in wanted.items() if verb in verbs}
    return {**served, "parameters": [*where, _query("pretty")]}


def _operation(resource: Resource, verb: str, schema: str) -> Json:
    names = {
        "list": _READING,
        "deletecollection": (*_READING[:-1], *_WRITING[:1]),
        "get": (),
        "delete": ("dryRun", "gracePeriodSeconds"),
    }
    parameters = names.get(verb, (*_WRITING, "force") if verb == "patch" else _WRITING)
    code = "201" if verb == "create" else "200"
    content = {media_type: {"schema": reference(schema)} for media_type in _TYPES}
    operation: Json = {
        "operationId": f"{verb}{resource.kind}",
        "description": f"{verb} {resource.kind}",
        "parameters": [_query(name) for name in parameters],
        "responses": {code: {"description": "OK", "content": content}},
        "x-kubernetes-action": "post" if verb == "create" else "put" if verb == "update" else verb,
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        },
    }
    if verb in ("create", "update"):
        operation["requestBody"] = {"content": {"*/*": {"schema": reference(schema)}}, "required": True}
    if verb == "patch":
        kinds = _PATCHES if resource.custom is None else _PATCHES[:-1]
        operation["requestBody"] = {"content": {kind: {"schema": reference(PATCH)} for kind in kinds}, "required": True}
    return operation


def _query(name: str) -> Json:
    return {"name": name, "in": "query", "schema": {"type": _QUERIES.get(name, "string"), "uniqueItems": True}}


V2_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_V2_ASKED: Final = ("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", V2_PROTOBUF)
_V2_QUERIES: Final = ("dryRun", "fieldManager", "fieldValidation", "force")
_GVK: Final = "x-kubernetes-group-version-kind"


def wants_packed_v2(accept: str) -> bool:
    """True for a client that asks for that form first."""
    return accept.partition(",")[0].partition(";")[0].strip() in _V2_ASKED


def openapi_v2_document(store: ObjectStore) -> Json:
    patched = sorted(
        (resource for resource in store.resources if "patch" in resource.verbs),
        key=lambda one: (one.api_version, one.plural),
    )
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    return {
        "swagger": "2.0",
        "info": info,
        "paths": {_v2_path(resource): {"patch": _v2_operation(resource)} for resource in patched},
    }


def packed_v2_document(store: ObjectStore) -> bytes:
    """The same as an `openapi.v2.Document`."""
    document = openapi_v2_document(store)
    paths = b"".join(
        _named(2, path, _message(8, _packed_operation(item["patch"]))) for path, item in document["paths"].items()
    )
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    return _text(1, document["swagger"]) + _message(2, info) + _message(8, paths)


def _v2_path(resource: Resource) -> str:
    root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    place = "namespaces/{namespace}/" if resource.namespaced else ""
    return f"{root}/{place}{resource.plural}/{{name}}"


def _v2_operation(resource: Resource) -> Json:
    return {
        "operationId": f"patch{resource.kind}",
        "parameters": [
            {"name": name, "in": "query", "type": "boolean" if name == "force" else "string"} for name in _V2_QUERIES
        ],
        "responses": {"200": {"description": "OK"}},
        _GVK: {"group": resource.group, "version": resource.version, "kind": resource.kind},
    }


def _packed_operation(operation: Json) -> bytes:
    """An `openapi.v2.Operation`. A parameter lies in three wrappers: inline, not a body, of the query."""
    queries = (
        _text(2, each["in"]) + _text(4, each["name"]) + _text(6, each["type"]) for each in operation["parameters"]
    )
    parameters = b"".join(_message(8, _message(1, _message(2, _message(3, query)))) for query in queries)
    responses = b"".join(
        _named(1, code, _message(1, _text(1, response["description"])))
        for code, response in operation["responses"].items()
    )
    kind = _named(
        13, _GVK, _text(2, msgspec.json.encode(operation[_GVK]).decode())
    )  # (an extension is YAML; JSON is, too)
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
