"""OpenAPI v3: a document for each group version, with its kinds' schemas. For kubectl's explain, diff and trust in validation."""

from __future__ import annotations

from typing import Any, Final

from mooring.apiserver.discovery.groups import VERSION
from mooring.apiserver.discovery.openapi_schemas import PATCH, Schemas, reference
from mooring.apiserver.resource import Resource, Status
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
_QUERIES: Final = {"limit": "integer", "timeoutSeconds": "integer", "gracePeriodSeconds": "integer", "watch": "boolean", "force": "boolean"}
_METHODS: Final = {"get": "get", "list": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}

Json = dict[str, Any]


def openapi_roots(store: ObjectStore) -> dict[str, list[Resource]]:
    """The kinds of each document, by its path: `api/v1`, `apis/storage.k8s.io/v1`."""
    found: dict[str, list[Resource]] = {}
    for resource in store.resources:
        root = f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"
        found.setdefault(root, []).append(resource)
    return found


def openapi_document(root: str, resources: list[Resource]) -> Json:
    """`/openapi/v3/<root>`."""
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


def _operations(resource: Resource, wanted: dict[str, tuple[str, str]], verbs: tuple[str, ...], where: list[Json]) -> Json:
    """The path item: parameters, and an operation for each method that is served."""
    served = {method: _operation(resource, verb, schema) for method, (verb, schema) in wanted.items() if verb in verbs}
    return {**served, "parameters": [*where, _query("pretty")]}


def _operation(resource: Resource, verb: str, schema: str) -> Json:
    names = {"list": _READING, "deletecollection": (*_READING[:-1], *_WRITING[:1]), "get": (), "delete": ("dryRun", "gracePeriodSeconds")}
    told = names.get(verb, (*_WRITING, "force") if verb == "patch" else _WRITING)
    code = "201" if verb == "create" else "200"
    content = {media_type: {"schema": reference(schema)} for media_type in _TYPES}
    operation: Json = {
        "operationId": f"{verb}{resource.kind}",
        "description": f"{verb} {resource.kind}",
        "parameters": [_query(name) for name in told],
        "responses": {code: {"description": "OK", "content": content}},
        "x-kubernetes-action": "post" if verb == "create" else "put" if verb == "update" else verb,
        "x-kubernetes-group-version-kind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
    }
    if verb in ("create", "update"):
        operation["requestBody"] = {"content": {"*/*": {"schema": reference(schema)}}, "required": True}
    if verb == "patch":
        kinds = _PATCHES if resource.custom is None else _PATCHES[:-1]
        operation["requestBody"] = {"content": {kind: {"schema": reference(PATCH)} for kind in kinds}, "required": True}
    return operation


def _query(name: str) -> Json:
    return {"name": name, "in": "query", "schema": {"type": _QUERIES.get(name, "string"), "uniqueItems": True}}
