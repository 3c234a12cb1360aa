"""What clients ask first: versions, groups, resources. All in one answer: `aggregated.py`."""

from __future__ import annotations

from typing import Any, Final

from mooring.apiserver.resource import Action, Resource, Status
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.web.health import WHICH

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
STATUS_VERBS: Final = ["get", "patch", "update"]


def paths(store: ObjectStore) -> dict[str, Any]:
    """`/`: what else there is to ask for."""
    versions = {f"/apis/{resource.api_version}" for resource in store.resources if resource.group}
    found = {"/api", "/api/v1", "/apis", "/metrics", "/openapi/v2", "/openapi/v3", "/version", *(f"/{which}" for which in WHICH)}
    return {"paths": sorted(found | versions | {version.rpartition("/")[0] for version in versions})}


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
    found = [entry for resource in sorted(served, key=lambda one: one.plural) for entry in _entries(resource)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": served[0].api_version, "resources": found}


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
        below.append({**common, "name": f"{resource.plural}/status", "verbs": STATUS_VERBS})
    return [entry, *sorted(below, key=lambda found: str(found["name"]))]


def _action(action: Action) -> dict[str, Any]:
    """What a sub-resource takes, where it is not the object's own kind."""
    told: dict[str, Any] = {"verbs": list(action.verbs)}
    other = action.asks or action.part
    if other is not None and "/" in other.api_version:
        told["group"], _, told["version"] = other.api_version.partition("/")
    kind = other.kind if other is not None else action.kind
    return {**told, "kind": kind} if kind else told
