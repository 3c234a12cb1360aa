"""The differential run's own parts: its known differences are told, its schemas lead to places and values."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.differential.generate import sequence
from tests.differential.known_differences import KNOWN, page
from tests.differential.schemas import Schemas
from tests.differential.steps import Edit, Step
from tests.differential.subjects import read_before

PAGE = Path(__file__).parents[3] / "docs" / "apiserver.md"
DOCUMENT: dict[str, Any] = {
    "components": {
        "schemas": {
            "thing": {
                "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Thing"}],
                "properties": {
                    "kind": {"type": "string"},
                    "metadata": {"type": "object"},
                    "spec": {"allOf": [{"$ref": "#/components/schemas/spec"}]},
                },
            },
            "spec": {
                "type": "object",
                "required": ["count"],
                "properties": {
                    "count": {"type": "integer"},
                    "mode": {"type": "string", "enum": ["A", "B"]},
                    "items": {"type": "array", "items": {"$ref": "#/components/schemas/item"}},
                    "map": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
            "item": {"type": "object", "properties": {"port": {"oneOf": [{"type": "integer"}, {"type": "string"}]}}},
        }
    }
}


def test_the_page_tells_every_known_difference_with_its_reason() -> None:
    """Write it anew with `python -m tests.differential --page`."""
    told = PAGE.read_text()
    assert told.endswith(f"and none else:\n\n{page()}\n")


def test_each_known_difference_has_a_name_of_its_own() -> None:
    assert len(KNOWN) == len({known.name for known in KNOWN})


def test_schemas_lead_to_all_places_but_those_that_say_what_an_object_is() -> None:
    schemas, randomness = Schemas([DOCUMENT]), random.Random(1)
    places = {tuple(str(part) for part in schemas.edit(randomness, "v1", "Thing").place) for _ in range(500)}
    wanted = {
        ("spec",),
        ("spec", "count"),
        ("spec", "mode"),
        ("spec", "items"),
        ("spec", "items", "0"),
        ("spec", "items", "0", "port"),
    }
    assert wanted <= places
    assert {"spec"} == {place[0] for place in places}


@pytest.mark.parametrize(
    ("place", "grown"),
    [
        (("spec", "items", 0, "port"), {"spec": {"items": [{"port": 1}]}}),
        (("spec", "map", "a"), {"spec": {"map": {"a": 1}}}),
        (("spec", "items", 0), {"spec": {"items": [1]}}),
    ],
)
def test_what_leads_to_a_place_grows(place: tuple[str | int, ...], grown: dict[str, Any]) -> None:
    obj: dict[str, Any] = {}
    Edit(place, 1).apply(obj)
    assert {} == obj
    Edit(place, 1, grows=True).apply(obj)
    assert grown == obj


def test_a_sequence_is_the_same_for_the_same_seed() -> None:
    assert list(map(str, sequence(7))) == list(map(str, sequence(7)))
    assert list(map(str, sequence(7))) != list(map(str, sequence(8)))


VERSION = (("resourceVersion", "5"),)


@pytest.mark.parametrize(
    ("path", "query", "before"),
    [
        ("/apis/storage.k8s.io/v1/csidrivers/a", VERSION, "/apis/storage.k8s.io/v1/csidrivers"),
        ("/api/v1/namespaces/one/pods/a/status", VERSION, "/api/v1/namespaces/one/pods"),
        ("/api/v1/namespaces/two/pods", VERSION, "/api/v1/namespaces/two/pods"),
        ("/api/v1/pods", VERSION, "/api/v1/pods"),
        ("/api/v1/podsandmore", VERSION, ""),
        ("/api/v1/pods", (("limit", "1"),), ""),
    ],
)
def test_the_cache_catches_up_before_a_read_that_names_a_version(
    path: str, query: tuple[tuple[str, str], ...], before: str
) -> None:
    assert before == read_before(Step(1, "GET", path, query))
    assert not read_before(Step(1, "DELETE", path, query))
