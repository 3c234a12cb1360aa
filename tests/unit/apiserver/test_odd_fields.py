"""Each field of each kind absent, null, of another type, huge: the server answers, with no error of its own, and within
its effort.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pytest

from mooring.apiserver.resource import Resource
from mooring.apiserver.rules import RESOURCES
from tests.support.rows import each_row
from tests.support.samples import samples
from tests.unit.apiserver.test_service import Client

Json = dict[str, Any]
Place = tuple[Any, ...]

ABSENT: Final = object()
ODD: Final = (
    ABSENT,
    None,
    "",
    "x",
    "x" * 3000,
    "\0\ud83d\ude00/%",
    -1,
    0,
    2**31,
    2**63,
    -(2**70),
    1e308,
    0.5,
    True,
    [],
    [None],
    [[]],
    [{}],
    [{"name": None}],
    ["x"] * 300,
    {},
    {"": ""},
    {"x": None},
    {"name": {"name": {}}},
)


VALUES: Final = 6
"""Of the odd ones, for each place."""


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Every value's place, of lists the first item."""
    if place:
        yield place
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from places(inner, (*place, name))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*place, 0))


def changed(body: Json, place: Place, odd: Any) -> Json:
    whole: Any = copy.deepcopy(body)
    holder = whole
    for step in place[:-1]:
        holder = holder[step]
    if odd is not ABSENT:
        holder[place[-1]] = odd
    elif isinstance(holder, dict):
        del holder[place[-1]]
    else:
        holder.clear()
    return dict(whole)


def ask(client: Client, resource: Resource, method: str, body: Json, name: str = "", dry_run: str = "All") -> int:
    prefix = f"/apis/{resource.group}" if resource.group else "/api"
    space = "/namespaces/default" if resource.namespaced else ""
    path = f"{prefix}/{resource.version}{space}/{resource.plural}{name and f'/{name}'}"
    data = json.dumps(body).encode()
    reply = client.ask(method, path, data, "application/json", query={"dryRun": dry_run} if dry_run else {})
    assert reply.status < 500, (method, path, data[:2000], reply.body[:500])
    return reply.status


SCHEMA: Final[Json] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "description": "d",
            "x-kubernetes-validations": [
                {"rule": "self.a > 0", "message": "m", "reason": "FieldValueInvalid", "fieldPath": ".a"}
            ],
            "properties": {
                "a": {"type": "integer", "format": "int32", "default": 1, "minimum": 0, "maximum": 9, "multipleOf": 1},
                "b": {
                    "type": "string",
                    "pattern": "^a+$",
                    "enum": ["a"],
                    "minLength": 1,
                    "maxLength": 9,
                    "nullable": True,
                },
                "c": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
                },
                "d": {
                    "type": "object",
                    "additionalProperties": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}]},
                },
                "e": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "f": {
                    "type": "string",
                    "oneOf": [{"pattern": "a"}],
                    "not": {"pattern": "b"},
                    "allOf": [{"minLength": 1}],
                },
            },
        },
    },
}
DEFINITION: Final[Json] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.odd.test", "labels": {"a": "b"}},
    "spec": {
        "group": "odd.test",
        "scope": "Namespaced",
        "names": {
            "plural": "things",
            "singular": "thing",
            "kind": "Thing",
            "listKind": "Things",
            "shortNames": ["t"],
            "categories": ["all"],
        },
        "conversion": {"strategy": "None"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "deprecated": True,
                "deprecationWarning": "old",
                "schema": {"openAPIV3Schema": SCHEMA},
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a"},
                },
                "additionalPrinterColumns": [{"name": "A", "type": "integer", "jsonPath": ".spec.a", "priority": 0}],
                "selectableFields": [{"jsonPath": ".spec.b"}],
            }
        ],
    },
}


def bodies(resource: Resource) -> list[Json]:
    if resource.kind == "CustomResourceDefinition":
        return [DEFINITION]
    return [sample.make("a-name") for sample in samples(resource)]


def each_place(resource: Resource) -> Iterator[tuple[Json, Place]]:
    """Each place of each sample."""
    return ((body, place) for body in bodies(resource) for place in places(body))


def each_new_place(resource: Resource) -> Iterator[tuple[Json, Place]]:
    """Each place once, in the first sample that has it."""
    seen: set[Place] = set()
    for body, place in each_place(resource):
        if place not in seen:
            seen.add(place)
            yield body, place


def tried(resource: Resource, where: Iterable[tuple[Json, Place]], number: int) -> None:
    """The bodies of creations, and of updates where there is something to update. number: which of the odd values."""
    client, choice = Client(), random.Random(resource.plural)
    first = bodies(resource)[0]
    is_there = resource.answer is None and ask(client, resource, "POST", first, dry_run="") == 201
    for body, place in where:
        wrong = changed(body, place, choice.sample(ODD, VALUES)[number])
        ask(client, resource, "POST", wrong)
        if is_there:
            ask(client, resource, "PUT", wrong, first["metadata"]["name"])


def name_of(resource: Resource) -> str:
    return f"{resource.group or 'core'}-{resource.version}-{resource.plural}"


@each_row("resource", RESOURCES, ids=name_of)
def test_an_odd_field_is_answered(resource: Resource) -> None:
    tried(resource, each_new_place(resource), 0)


@pytest.mark.long
@pytest.mark.parametrize("number", range(VALUES))
@each_row("resource", RESOURCES, ids=name_of)
def test_an_odd_field_of_each_sample_is_answered(resource: Resource, number: int) -> None:
    tried(resource, each_place(resource), number)
