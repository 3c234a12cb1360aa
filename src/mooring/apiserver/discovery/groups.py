"""Discovery: versions, groups and resources, one document each, or all in one answer (aggregated)."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import Any, Final

from mooring.apiserver.resource import Action, Resource, Status
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
HEALTH: Final = ("healthz", "livez", "readyz")
STATUS_VERBS: Final = ["get", "patch", "update"]


def paths(store: ObjectStore) -> dict[str, Any]:
    """`/`: what else there is to ask for."""
    versions = {f"/apis/{resource.api_version}" for resource in store.resources if resource.group}
    found = {
        "/api",
        "/api/v1",
        "/apis",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/version",
        *(f"/{which}" for which in HEALTH),
    }
    return {"paths": sorted(found | versions | {version.rpartition("/")[0] for version in versions})}


def core_versions() -> dict[str, Any]:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def groups(store: ObjectStore) -> dict[str, Any]:
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(name, served) for name, served in _by_group(store).items() if name],
    }


def group(store: ObjectStore, name: str) -> dict[str, Any] | None:
    """`/apis/<group>`; None for one that is not served."""
    served = [resource for resource in store.resources if resource.group == name]
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, served)} if name and served else None


def resources(store: ObjectStore, group_name: str, version: str) -> dict[str, Any] | None:
    """`/api/v1` and `/apis/<group>/<version>`; None for one that is not served."""
    served = [resource for resource in store.resources if (resource.group, resource.version) == (group_name, version)]
    if not served:
        return None
    found = [entry for resource in sorted(served, key=lambda one: one.plural) for entry in _entries(resource)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": served[0].api_version, "resources": found}


def _by_group(store: ObjectStore) -> dict[str, list[Resource]]:
    found: dict[str, list[Resource]] = {}
    for resource in store.resources:
        found.setdefault(resource.group, []).append(resource)
    return found


def _group(name: str, served: list[Resource]) -> dict[str, Any]:
    versions = dict.fromkeys(resource.version for resource in served)
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _entries(resource: Resource) -> list[dict[str, Any]]:
    common = {"singularName": "", "namespaced": resource.namespaced, "kind": resource.kind}
    entry = {
        **common,
        "name": resource.plural,
        "singularName": resource.singular,
        "verbs": list(resource.verbs),
        **_aliases(resource),
        **_storage_hash(resource),
    }
    below = [{**common, "name": f"{resource.plural}/{action.name}", **_action(action)} for action in resource.actions]
    if resource.status is not Status.NONE:
        below.append({**common, "name": f"{resource.plural}/status", "verbs": STATUS_VERBS})
    return [entry, *sorted(below, key=lambda found: str(found["name"]))]


def _storage_hash(resource: Resource) -> dict[str, str]:
    """The kind and version in which the server stores objects, as migrators compare it."""
    if resource.answer is not None:
        return {}
    group, version, _ = resource.storage
    stored_as = f"{group}/{resource.custom.stored_in if resource.custom is not None else version}/{resource.kind}"
    return {"storageVersionHash": b64encode(sha256(stored_as.encode()).digest()[:8]).decode()}


def _aliases(resource: Resource) -> dict[str, list[str]]:
    given = {"shortNames": resource.short_names, "categories": resource.categories}
    return {name: list(values) for name, values in given.items() if values}


def _action(action: Action) -> dict[str, Any]:
    """The kind that a sub-resource takes, where it is not the object's own."""
    described: dict[str, Any] = {"verbs": list(action.verbs)}
    other = action.asks or action.part
    if other is not None and "/" in other.api_version:
        described["group"], _, described["version"] = other.api_version.partition("/")
    kind = other.kind if other is not None else action.kind
    return {**described, "kind": kind} if kind else described


AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_AGGREGATED: Final = {"g": "apidiscovery.k8s.io", "v": "v2", "as": "APIGroupDiscoveryList"}


def is_aggregated_wanted(accept: str) -> bool:
    """True when the client takes this form. The older v2beta1 is not made: such a client gets the plain form, as from a
    1.36 server.
    """
    for clause in accept.split(","):
        media_type, *rest = (part.strip() for part in clause.split(";"))
        given = {name: value for name, _, value in (part.partition("=") for part in rest)}
        if media_type == "application/json" and _AGGREGATED.items() <= given.items():
            return True
    return False


def aggregated_core(store: ObjectStore) -> dict[str, Any]:
    """`/api`. One item, the group without a name."""
    return _aggregated_list([_aggregated_group("", _by_group(store)[""])])


def aggregated_groups(store: ObjectStore) -> dict[str, Any]:
    """`/apis`."""
    return _aggregated_list([_aggregated_group(name, served) for name, served in _by_group(store).items() if name])


def _aggregated_list(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_group(name: str, served: list[Resource]) -> dict[str, Any]:
    by_version: dict[str, list[Resource]] = {}
    for resource in served:
        by_version.setdefault(resource.version, []).append(resource)
    versions = [_aggregated_version(version, found) for version, found in by_version.items()]
    return {"metadata": {"name": name} if name else {}, "versions": versions}


def _aggregated_version(version: str, served: list[Resource]) -> dict[str, Any]:
    found = [_aggregated_resource(resource) for resource in sorted(served, key=lambda one: one.plural)]
    return {"version": version, "resources": found, "freshness": "Current"}


def _aggregated_resource(resource: Resource) -> dict[str, Any]:
    """The same as the plain form says, with the sub-resources inside of their kind."""
    entry, *below = _entries(resource)
    described: dict[str, Any] = {
        "resource": entry["name"],
        "responseKind": _response_kind(resource, entry),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": entry["singularName"],
        "verbs": entry["verbs"],
        **_aliases(resource),
    }
    if below:
        described["subresources"] = [
            {
                "subresource": each["name"].partition("/")[2],
                "responseKind": _response_kind(resource, each),
                "verbs": each["verbs"],
            }
            for each in below
        ]
    return described


def _response_kind(resource: Resource, entry: dict[str, Any]) -> dict[str, str]:
    """Group and version stand empty where they are the list's own; for custom kinds they are said all the same."""
    group, version = (resource.group, resource.version) if resource.custom is not None else ("", "")
    return {"group": entry.get("group", group), "version": entry.get("version", version), "kind": entry["kind"]}
