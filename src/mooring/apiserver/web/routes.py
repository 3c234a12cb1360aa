"""URLs of resources: `/api/v1/...` and `/apis/<group>/<version>/...` into kind, namespace, name and sub-resource."""

from __future__ import annotations

import dataclasses

from mooring.apiserver.resource import Resource, Status
from mooring.apiserver.store import ObjectStore


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """namespace: None where the URL names none. name: "" for a collection."""

    resource: Resource
    namespace: str | None
    name: str = ""
    subresource: str = ""

    @property
    def is_collection(self) -> bool:
        return not self.name


def route_of(path: tuple[str, ...], store: ObjectStore) -> Route | None:
    """None for a URL that no kind has. A slash at its end means nothing."""
    while path and not path[-1]:
        path = path[:-1]
    match path:
        case ("api", "v1", *rest):
            group, version = "", "v1"
        case ("apis", group, version, *rest) if group:
            pass
        case _:
            return None
    return _namespaced(group, version, rest, store) or _plain(group, version, rest, store)


def _namespaced(group: str, version: str, rest: list[str], store: ObjectStore) -> Route | None:
    match rest:
        case ["namespaces", namespace, plural, *place] if len(place) <= 2:
            resource = store.resource(group, version, plural)
            if resource is not None and resource.namespaced:
                return _placed(resource, namespace, place)
    return None


def _plain(group: str, version: str, rest: list[str], store: ObjectStore) -> Route | None:
    match rest:
        case [plural, *place] if len(place) <= 2:
            resource = store.resource(group, version, plural)
            if resource is not None and not (resource.namespaced and place):
                return _placed(resource, None, place)
    return None


def _placed(resource: Resource, namespace: str | None, place: list[str]) -> Route | None:
    name, subresource = (*place, "", "")[:2]
    if "" in place:
        return None
    if (subresource and not _has(resource, subresource)) or (name and resource.answer is not None):
        return None
    action = resource.action(subresource)
    return Route(action.part if action is not None and action.part is not None else resource, namespace, name, subresource)


def _has(resource: Resource, subresource: str) -> bool:
    return resource.status is not Status.NONE if subresource == "status" else resource.action(subresource) is not None
