"""Values that nobody expects, and objects with such values put in."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.differential.steps import REMOVED, Edit

Json = dict[str, Any]

TEXTS: Final = (
    *(
        "",
        " ",
        "x",
        "a/b",
        "UPPER",
        "ü",
        "😀",
        "a" * 63,
        "a" * 64,
        "a" * 254,
        "-a",
        "a.b",
        "a..b",
        "a_b",
        "example.com/x",
        "/x",
        "../x",
        "x,y",
    ),
    *(
        "1",
        "0",
        "-1",
        "1.5",
        "1Gi",
        "1.5Gi",
        "-1Gi",
        "1e3",
        "100m",
        "10Ei",
        "1 Gi",
        "true",
        "null",
        "a/b/c",
        "a@b",
        "*",
        "%",
    ),
    *("2024-01-02T03:04:05Z", "2024-01-02T03:04:05.000006Z", "2024-01-02T03:04:05+02:00", "2024-13-02T03:04:05Z"),
    *(
        "AAEC",
        "AAEC=",
        "AA==",
        "a b",
        "a\nb",
        "\u0000",
        "Retain",
        "Delete",
        "Recycle",
        "Immediate",
        "WaitForFirstConsumer",
    ),
    *(
        "Block",
        "Filesystem",
        "ReadWriteOnce",
        "ReadWriteOncePod",
        "Bound",
        "Always",
        "Never",
        "None",
        "File",
        "True",
        "False",
    ),
    *("Warning", "NoSchedule", "In", "Exists", "kubernetes.io/x", "storage", "cpu"),
)
NUMBERS: Final = (
    0,
    1,
    -1,
    2,
    5,
    600,
    2**31 - 1,
    2**31,
    -(2**31) - 1,
    2**53,
    2**63 - 1,
    2**63,
    1.5,
    1.0,
    -0.5,
    1e100,
    1e3,
    10**400,
)
OTHERS: Final[tuple[Any, ...]] = (
    *(None, True, False, [], {}, [None], [""], [{}], ["a", "a"], [["a"]]),
    *({"a": None}, {"a": "b"}, {"": ""}, {"a": {"b": "c"}}, {"a": 1}),
)
LABEL_SELECTORS: Final = (
    *(
        "a=b",
        "a",
        "!a",
        "a in (b,c)",
        "a notin (b)",
        "a!=b",
        "a>1",
        "=",
        "a=ü",
        "a=b,a=c",
        "a in ()",
        "x y",
        "a,",
        "!a=b",
        "(a)",
    ),
)
FIELD_SELECTORS: Final = (
    *(
        "metadata.name=a",
        "metadata.name!=a",
        "metadata.namespace=one",
        "spec.nodeName=a",
        "status.phase=Running",
        "x=y",
        "=",
        "",
    ),
    *(
        "metadata.name=a,metadata.name=b",
        "involvedObject.name=p",
        "type=Opaque",
        "metadata.name in (a)",
        "metadata.labels=a",
    ),
)
SAFE_NAMES: Final = ("ownerReferences", "deletionTimestamp", "managedFields")
"""What is put in by a dry run only: what comes of it comes at a moment of its own, or stays."""


def value(randomness: random.Random) -> Any:
    kind = randomness.random()
    if kind < 0.5:
        return randomness.choice(TEXTS)
    return copy.deepcopy(randomness.choice(NUMBERS if kind < 0.7 else OTHERS))


def places(obj: Any, below: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place in an object, but its root, its name and its type."""
    pairs = obj.items() if isinstance(obj, dict) else enumerate(obj) if isinstance(obj, list) else ()
    for name, inner in pairs:
        place = (*below, name)
        if place not in (("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")):
            yield place
        yield from places(inner, place)


def at(obj: Any, place: tuple[str | int, ...]) -> Any:
    for part in place:
        obj = obj[part]
    return obj


def edit(
    randomness: random.Random, known: Json, donors: tuple[Json, ...] = (), declared: Callable[[], Edit] | None = None
) -> Edit:
    """A change somewhere in an object like `known`: mostly of one value.

    donors: objects whose parts may be taken. declared: gives a change by the kind's schema.
    """
    if declared is not None and randomness.random() < 0.4:
        return declared()
    donor = randomness.choice(donors) if donors else {}
    offered = [place for place in places(donor) if place[:2] != ("metadata", "ownerReferences")]
    if offered and randomness.random() < 0.45:
        place = randomness.choice(offered)
        cut = randomness.randrange(1, len(place) + 1)
        place = place[:cut] if place[:cut] not in (("metadata",),) else place
        return Edit(place, copy.deepcopy(at(donor, place)))
    where = list(places(known))
    kind = randomness.random()
    if kind < 0.15 or not where:
        return metadata_edit(randomness)
    place = randomness.choice(where)
    if kind < 0.35:
        return Edit(place, REMOVED)
    if kind < 0.45:
        return Edit((*place[:-1], randomness.choice(("noSuchField", "metadata2", "ü"))), value(randomness))
    old = at(known, place)
    if isinstance(old, list) and old and kind < 0.6:
        return Edit(place, [*copy.deepcopy(old), copy.deepcopy(randomness.choice(old))])
    if isinstance(old, str) and kind < 0.8:
        return Edit(place, randomness.choice(TEXTS))
    if isinstance(old, int) and kind < 0.8:
        return Edit(place, randomness.choice(NUMBERS))
    return Edit(place, value(randomness))


def metadata_edit(randomness: random.Random) -> Edit:
    """A change of what all kinds have."""
    choices: list[tuple[str, Any]] = [
        ("labels", {"a": randomness.choice(("b", "c", "", "-", "ü", "1"))}),
        ("labels", {randomness.choice(("a", "x/y", "/x", "A/b", "-a", "a" * 64)): "b"}),
        ("annotations", {"a": "b"}),
        ("annotations", {randomness.choice(("a b", "x/y", "UP/x", "")): randomness.choice(TEXTS)}),
        ("finalizers", ["example.com/hold"]),
        ("finalizers", [randomness.choice(("x", "kubernetes", "a/b", "a/b/c", "foregroundDeletion", "orphan", ""))]),
        ("finalizers", []),
        ("uid", randomness.choice(("x", ""))),
        ("creationTimestamp", randomness.choice((None, "2024-01-02T03:04:05Z", "x"))),
        ("generation", randomness.choice((0, 1, 7, -1))),
        ("selfLink", "/x"),
        ("deletionGracePeriodSeconds", randomness.choice((0, 5))),
        ("deletionTimestamp", "2024-01-02T03:04:05Z"),
        ("resourceVersion", randomness.choice(("", "0", "abc", "-1", "1"))),
        ("name", randomness.choice(("a", "b", "UPPER", "a/b", "", "a" * 254, "ü"))),
        ("namespace", randomness.choice(("one", "two", "", "three"))),
        ("managedFields", randomness.choice(([], [{}], None))),
        ("ownerReferences", [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": randomness.choice(("u", ""))}]),
        ("clusterName", "x"),
        ("labels", randomness.choice(({}, None, {"a": None}, {"a": 1}, []))),
    ]
    name, new = randomness.choice(choices)
    return Edit(("metadata", name), new)


def is_risky(edits: tuple[Edit, ...]) -> bool:
    """True for what only a dry run may do: others would act on it later."""
    text = repr(edits)
    return any(
        name in text for name in (*SAFE_NAMES, "foregroundDeletion", "orphan", "kubernetes'", "9223372036854775807")
    )


def operations(op: Json, pointer: str) -> tuple[Json, ...]:
    """Operations of a JSON patch that are none, or do more than one thing."""
    return (
        {**op, "op": "no"},
        {"op": "copy", "from": pointer.replace("managedFields", "labels"), "path": "/metadata/labels"},
        {"op": "move", "from": pointer.replace("managedFields", "labels"), "path": pointer + "/x"},
        {"path": pointer},
        {**op, "path": "x"},
    )


def put_in(body: Json, place: tuple[str | int, ...], value: Any) -> None:
    """As far as maps lead; a list on the way is replaced by one item."""
    for number, part in enumerate(place[:-1]):
        follows = place[number + 1]
        if isinstance(follows, int):
            body[str(part)] = [value] if number + 2 == len(place) else [_nested(place[number + 2 :], value)]
            return
        inner = body.get(str(part))
        body[str(part)] = inner = inner if isinstance(inner, dict) else {}
        body = inner
    body[str(place[-1])] = value


def _nested(place: tuple[str | int, ...], value: Any) -> Any:
    for part in reversed(place):
        value = [value] if isinstance(part, int) else {part: value}
    return value


def directive(randomness: random.Random, body: Json) -> None:
    where = _maps(body)
    chosen = randomness.choice(where)
    chosen.update(randomness.choice(({"$patch": "replace"}, {"$patch": "delete"}, {"$patch": "x"})))  # fmt: skip


def _maps(value: Any) -> list[Json]:
    found: list[Json] = [value] if isinstance(value, dict) else []
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        found += _maps(inner)
    return found
