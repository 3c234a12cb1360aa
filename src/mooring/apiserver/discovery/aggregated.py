"""Discovery in one answer: every group, version and resource, for clients that ask for it by their Accept header."""

from __future__ import annotations

from typing import Any, Final

from mooring.apiserver.discovery.groups import STATUS_VERBS
from mooring.apiserver.resource import Action, Resource, Status
from mooring.apiserver.store import ObjectStore

MEDIA_TYPE: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_WANTED: Final = {"g": "apidiscovery.k8s.io", "v": "v2", "as": "APIGroupDiscoveryList"}


def is_wanted(accept: str) -> bool:
    """True when the client takes this form. The older v2beta1 is not made: such a client gets the plain form, as from a 1.36 server."""
    for clause in accept.split(","):
        media_type, *rest = (part.strip() for part in clause.split(";"))
        given = {name: value for name, _, value in (part.partition("=") for part in rest)}
        if media_type == "application/json" and _WANTED.items() <= given.items():
            return True
    return False


def core(store: ObjectStore) -> dict[str, Any]:
    """`/api`. One item, the group without a name."""
    return _list([_group(store, "")])


def groups(store: ObjectStore) -> dict[str, Any]:
    """`/apis`."""
    names = dict.fromkeys(resource.group for resource in store.resources if resource.group)
    return _list([_group(store, name) for name in names])


def _list(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _group(store: ObjectStore, name: str) -> dict[str, Any]:
    served = [resource for resource in store.resources if resource.group == name]
    versions = [_version(version, served) for version in dict.fromkeys(resource.version for resource in served)]
    return {"metadata": {"name": name} if name else {}, "versions": versions}


def _version(version: str, served: list[Resource]) -> dict[str, Any]:
    found = sorted((resource for resource in served if resource.version == version), key=lambda one: one.plural)
    return {"version": version, "resources": [_resource(resource) for resource in found], "freshness": "Current"}


def _resource(resource: Resource) -> dict[str, Any]:
    told: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": _kind(resource, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        told["shortNames"] = list(resource.short_names)
    if resource.categories:
        told["categories"] = list(resource.categories)
    below = [_action(resource, action) for action in resource.actions]
    if resource.status is not Status.NONE:
        below.append({"subresource": "status", "responseKind": _kind(resource, resource.kind), "verbs": STATUS_VERBS})
    if below:
        told["subresources"] = sorted(below, key=lambda found: str(found["subresource"]))
    return told


def _action(resource: Resource, action: Action) -> dict[str, Any]:
    other = action.asks or action.part
    if other is not None and "/" in other.api_version:
        group, _, version = other.api_version.partition("/")
        kind = {"group": group, "version": version, "kind": other.kind}
    else:
        kind = _kind(resource, action.asks.kind if action.asks is not None else action.kind or resource.kind)
    return {"subresource": action.name, "responseKind": kind, "verbs": list(action.verbs)}


def _kind(resource: Resource, kind: str) -> dict[str, str]:
    """Group and version stand empty where they are the list's own; for custom kinds they are said all the same."""
    own = {"group": resource.group, "version": resource.version} if resource.custom is not None else {"group": "", "version": ""}
    return {**own, "kind": kind}
