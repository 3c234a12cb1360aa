"""Definitions of custom kinds, and the waiting that a real server needs before it serves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.rest import Answer, Rest
from tests.support.waiting import eventually

Json = dict[str, Any]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "kinds.mooring.test"


def a_version(schema: Json, name: str = "v1", **more: Any) -> Json:
    """It is served; the storage version where it is v1."""
    return {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}, **more}


def a_definition(plural: str, *versions: Json, **spec: Any) -> Json:
    """A cluster-wide kind. The kind is the plural with a capital and without its s."""
    names = {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].capitalize()}
    full = {"group": GROUP, "scope": "Cluster", "names": names, "versions": list(versions), **spec}
    return {"metadata": {"name": f"{plural}.{GROUP}"}, "spec": full}


def spec_of(**properties: Json) -> Json:
    """A schema with these properties in its spec."""
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


def an_object(plural: str, name: str, version: str = "v1", **fields: Any) -> Json:
    return {"apiVersion": f"{GROUP}/{version}", "kind": plural[:-1].capitalize(), "metadata": {"name": name}, **fields}


def path_of(plural: str, version: str = "v1") -> str:
    return f"/apis/{GROUP}/{version}/{plural}"


def installed(api: Rest, definition: Json) -> str:
    """The path of the kind's storage version, once it is served. A definition that is there already is taken as it
    is.
    """
    made = api.post(DEFINITIONS, definition)
    assert made.status in (201, 409), made
    spec = definition["spec"]
    paths = [path_of(spec["names"]["plural"], version["name"]) for version in spec["versions"]]
    eventually(lambda: all(api.get(path).status == 200 for path in paths), 30, f"{paths[0]} is served")
    return paths[0]


def changed(api: Rest, name: str, change: Callable[[Json], Any], patience: int = 20) -> Answer:
    """The definition with a change, written with its version; tried again where the server itself was quicker."""
    for _ in range(patience):
        body = api.get(f"{DEFINITIONS}/{name}").ok()
        change(body)
        answer = api.put(f"{DEFINITIONS}/{name}", body)
        if answer.status != 409:
            return answer
    raise AssertionError(f"the server kept changing {name}")
