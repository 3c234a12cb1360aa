"""The embedded server and the real one, given the same applies and updates by chance: object and owners agree after
each step.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.conftest import Server
from tests.support.applying import PODS, SHAPE_DEFINITION, SHAPES, Applying
from tests.support.paths import CSI_NODES, STORAGE_CLASSES
from tests.support.rest import Answer
from tests.support.rows import each_row
from tests.support.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]

STEPS = 40
MANAGERS = ("one", "two", "three")
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Json = dict[str, Any]


def some(randomness: random.Random, choices: Json) -> Json:
    """A part of the choices: each name with one of its values, or not at all."""
    return {name: randomness.choice(values) for name, values in choices.items() if randomness.random() < 0.5}


def some_of(randomness: random.Random, items: list[Any]) -> list[Any]:
    found = [item for item in items if randomness.random() < 0.5]
    randomness.shuffle(found)
    return found


def metadata(randomness: random.Random) -> Json:
    """Labels and a set of finalizers, or less."""
    told: Json = {"labels": some(randomness, {"a": ["1", "2"], "b": ["1"], "c": ["1", "2"]})}
    told["finalizers"] = some_of(randomness, ["example.com/a", "example.com/b", "example.com/c"])
    return some(randomness, {name: [value] for name, value in told.items()})


def a_class(randomness: random.Random) -> Json:
    fields = some(randomness, {"mountOptions": [["a"], ["b"], ["a", "b"], []], "allowVolumeExpansion": [True, False]})
    return {"provisioner": "d.example.com", "metadata": metadata(randomness), **fields}


def a_node(randomness: random.Random) -> Json:
    drivers = [
        {"name": name, "nodeID": "x", **some(randomness, {"allocatable": [{"count": 1}, {"count": 2}]})}
        for name in "abc"
    ]
    return {"metadata": metadata(randomness), "spec": {"drivers": some_of(randomness, drivers) or drivers[:1]}}


def a_shape(randomness: random.Random) -> Json:
    ports = [{"port": 80}, {"port": 80, "protocol": "UDP"}, {"port": 90, "name": randomness.choice("xy")}]
    parts = {
        "text": ["a", "b"],
        "map": [some(randomness, {"x": ["1", "2"], "y": ["1"]})],
        "whole": [{"x": "1"}, {"y": "2"}, {}],
        "list": [["a"], ["b", "a"], []],
        "set": [some_of(randomness, ["a", "b", "c"])],
        "items": [some_of(randomness, ports)],
        "size": [1, "1"],
        "any": [{"deep": some(randomness, {"x": [1, [2], {"z": 3}], "y": [None, True]})}, {}],
    }
    return {"metadata": metadata(randomness), "spec": some(randomness, parts)}


def a_pod(randomness: random.Random) -> Json:
    ports = some_of(
        randomness, [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}, {"containerPort": 90}]
    )
    container = {
        "name": "a",
        "image": randomness.choice(["i", "j"]),
        **({"ports": ports} if randomness.random() < 0.2 else {}),
    }
    return {
        "metadata": metadata(randomness),
        "spec": {"containers": [container], **some(randomness, {"activeDeadlineSeconds": [50]})},
    }


BODIES: dict[str, Callable[[random.Random], Json]] = {
    STORAGE_CLASSES: a_class,
    CSI_NODES: a_node,
    SHAPES: a_shape,
    PODS: a_pod,
}


def _serves_shapes(server: Server) -> bool:
    return server.api.get(SHAPES).status == 200


@pytest.fixture
def pair(servers: Callable[[str], Server]) -> list[Server]:
    both = [servers("embedded"), servers("real")]
    for server in both:
        made = server.api.post(DEFINITIONS, SHAPE_DEFINITION)
        assert made.status in (201, 409), made
        eventually(functools.partial(_serves_shapes, server), 30, "the kind is served")
    return both


@each_row("kind", BODIES, ids=lambda path: path.rpartition("/")[2], parts=2)
@each_row("seed", range(4))
def test_both_servers_agree_after_every_step(pair: list[Server], name: str, kind: str, seed: int) -> None:
    targets = [Applying(server.api, kind, name) for server in pair]
    randomness = random.Random(seed)
    body = BODIES[kind](randomness)
    if randomness.random() < 0.5:
        for target in targets:
            target.create_untracked(body)
    for number in range(STEPS):
        step = a_step(randomness, BODIES[kind])
        ours, real = (step(target) for target in targets)
        if trips_over_null(real):
            assert 200 == ours.status
            break  # (from here on they hold different things)
        assert seen(ours) == seen(real), f"seed {seed}, step {number}"


def trips_over_null(answer: Answer) -> bool:
    """True where the real server refuses what it has made itself: null of a map or list of a custom object that an
    apply has emptied.
    """
    return answer.status == 422 and ': \\"null\\""' in answer.body.decode()


def a_step(randomness: random.Random, body: Callable[[random.Random], Json]) -> Callable[[Applying], Answer]:
    """An apply, mostly; or an update; now and then the record is cleared."""
    said, manager, turn = body(randomness), randomness.choice(MANAGERS), randomness.random()
    if turn < 0.7:
        force = randomness.choice([None, "true"])
        return lambda target: target.apply(manager, said, force=force)
    if turn < 0.97:
        return lambda target: target.api.patch(target.path, said, fieldManager=manager)
    return lambda target: target.api.patch(target.path, {"metadata": {"managedFields": [{}]}})


def seen(answer: Answer) -> Json:
    """What must be the same on both servers."""
    found: Json = answer.json
    if found["kind"] == "Status":
        causes = sorted(
            str((cause["reason"], cause.get("field"))) for cause in found.get("details", {}).get("causes", [])
        )
        return {"status": answer.status, "reason": found.get("reason"), "causes": sorted(set(causes))}
    own = found["metadata"]
    for field in ("uid", "creationTimestamp", "resourceVersion"):
        own.pop(field)
    entries = own.pop("managedFields", [])
    owners = {(entry.get("manager", ""), entry["operation"]): (entry["fieldsV1"], "time" in entry) for entry in entries}
    return {"status": answer.status, "object": found, "owners": owners}
