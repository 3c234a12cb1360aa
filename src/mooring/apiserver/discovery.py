"""What clients ask first: versions, groups, resources; and the OpenAPI that lets kubectl trust the server's validation."""

from __future__ import annotations

from typing import Any, Final

from mooring.apiserver.actions import Action
from mooring.apiserver.resource import Resource, Status
from mooring.apiserver.store import ObjectStore

VERSION: Final = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0+mooring",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
_STATUS_VERBS: Final = ["get", "patch", "update"]


def core_versions() -> dict[str, Any]:
    """`/api`."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def groups(store: ObjectStore) -> dict[str, Any]:
    """`/apis`."""
    names = dict.fromkeys(resource.group for resource in store.resources if resource.group)
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(store, name) for name in names]}


def group(store: ObjectStore, name: str) -> dict[str, Any] | None:
    """`/apis/<group>`; None for one that is not served."""
    if not name or not any(resource.group == name for resource in store.resources):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(store, name)}


def resources(store: ObjectStore, group_name: str, version: str) -> dict[str, Any] | None:
    """`/api/v1` and `/apis/<group>/<version>`; None for one that is not served."""
    served = _served(store, group_name, version)
    if not served:
        return None
    found = [entry for resource in served for entry in _entries(resource)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": served[0].api_version, "resources": found}


def openapi_index(store: ObjectStore) -> dict[str, Any]:
    """`/openapi/v3`."""
    roots = dict.fromkeys(_root(resource) for resource in store.resources)
    return {"paths": {root: {"serverRelativeURL": f"/openapi/v3/{root}"} for root in roots}}


def openapi(store: ObjectStore, root: str) -> dict[str, Any] | None:
    """`/openapi/v3/<root>`, root like `apis/storage.k8s.io/v1`: only what says that PATCH knows fieldValidation."""
    served = [resource for resource in store.resources if _root(resource) == root]
    if not served:
        return None
    paths = {f"/{root}/{_place(resource)}": {"patch": _patch_operation(resource)} for resource in served}
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]}, "paths": paths}


def _group(store: ObjectStore, name: str) -> dict[str, Any]:
    versions = dict.fromkeys(resource.version for resource in store.resources if resource.group == name)
    told = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": told, "preferredVersion": told[0]}


def _served(store: ObjectStore, group_name: str, version: str) -> list[Resource]:
    return [resource for resource in store.resources if (resource.group, resource.version) == (group_name, version)]


def _entries(resource: Resource) -> list[dict[str, Any]]:
    common = {"singularName": "", "namespaced": resource.namespaced, "kind": resource.kind}
    entry = {**common, "name": resource.plural, "singularName": resource.singular, "verbs": list(resource.verbs)}
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    below = [{**common, "name": f"{resource.plural}/{action.name}", **_action(action)} for action in resource.actions]
    if resource.status is not Status.NONE:
        below.append({**common, "name": f"{resource.plural}/status", "verbs": _STATUS_VERBS})
    return [entry, *sorted(below, key=lambda found: str(found["name"]))]


def _action(action: Action) -> dict[str, Any]:
    """What a sub-resource takes, where it is not the object's own kind."""
    told: dict[str, Any] = {"verbs": list(action.verbs)}
    if action.asks is not None and action.asks.group:
        told.update(group=action.asks.group, version=action.asks.version)
    kind = action.asks.kind if action.asks is not None else action.kind
    return {**told, "kind": kind} if kind else told


def _root(resource: Resource) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _place(resource: Resource) -> str:
    return f"namespaces/{{namespace}}/{resource.plural}/{{name}}" if resource.namespaced else f"{resource.plural}/{{name}}"


def _patch_operation(resource: Resource) -> dict[str, Any]:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    parameter = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
    return {"x-kubernetes-group-version-kind": kind, "parameters": [parameter], "responses": {}}
