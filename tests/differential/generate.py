"""A seed into a sequence of steps."""

from __future__ import annotations

import copy
import dataclasses
import random
from collections.abc import Callable
from typing import Any, Final

from tests.differential import edge_values as edges
from tests.differential import invalid_requests
from tests.differential.schemas import Schemas
from tests.differential.steps import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, REMOVED, STRATEGIC_PATCH, Edit, Ref, Step
from tests.differential.subjects import SPACES, SUBJECTS, Json, Subject

NAMES: Final = ("a", "b")
MANAGERS: Final = ("one", "two")
STEPS_MAX: Final = 16
Query = list[tuple[str, Any]]


@dataclasses.dataclass(frozen=True)
class _Target:
    subject: Subject
    name: str
    space: str

    @property
    def collection(self) -> str:
        return self.subject.collection(self.space)

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.name}"


def sequence(seed: int, schemas: Schemas | None = None) -> tuple[Step, ...]:
    """The same for the same seed and schemas. Without schemas only the fields of the samples are written to."""
    return tuple(_Making(random.Random(seed), schemas).steps())


class _Making:
    """One sequence: a few objects of one or two kinds, and what is done with them."""

    def __init__(self, randomness: random.Random, schemas: Schemas | None) -> None:
        self._randomness, self._schemas = randomness, schemas
        self._subjects = randomness.sample(SUBJECTS, randomness.choice((1, 1, 2)))
        self._written: list[int] = []
        self._listed: list[int] = []
        self._targets: list[_Target] = []
        self._number = 0

    def steps(self) -> list[Step]:
        """Objects are made first; what follows is by chance."""
        found = [self._create(self._target(), odd_share=0.2), self._create(self._target())]
        for _ in range(self._randomness.randrange(4, STEPS_MAX)):
            make = self._randomness.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
            found.append(make(self, self._target()))
        return found

    # what is asked

    def _create(self, target: _Target, odd_share: float = 0.6) -> Step:
        obj = target.subject.named(self._some_object(target), target.name, self._randomness.choice((target.space, "")))
        edits = tuple(self._edit(target, obj) for _ in range(self._randomness.choice((1, 1, 2))))
        edits = edits if self._randomness.random() < odd_share else ()
        for edit in edits:
            edit.apply(obj)
        if self._randomness.random() < 0.02:
            obj["kind"] = self._randomness.choice(("Node", "", 5))
        if self._randomness.random() < 0.02:
            obj["apiVersion"] = self._randomness.choice(("v1", "", "a/b/c", "v9"))
        if self._randomness.random() < 0.03 and target.subject.kind != "CustomResourceDefinition":
            obj["metadata"].pop("name", None)
            obj["metadata"]["generateName"] = self._randomness.choice(("a-", "A", "x" * 300))
        query = self._write_query(
            target, dry="generateName" in obj["metadata"] or edges.is_risky((*edits, Edit(("x",), obj)))
        )
        return self._step("POST", target.collection, query, body=obj, writes=True)

    def _put(self, target: _Target) -> Step:
        path, known = target.path, self._some_object(target)
        edits = [self._edit(target, known) for _ in range(self._randomness.choice((0, 1, 1, 2)))]
        edits += self._version_edits()
        edits += [Edit(("metadata", "labels"), {"n": str(self._number)})] if self._randomness.random() < 0.3 else []
        query = self._write_query(target, dry=edges.is_risky(tuple(edits)))
        place = self._with_status(target, path)
        return self._step("PUT", place, query, live=path, edits=tuple(edits), writes=True)

    def _version_edits(self) -> list[Edit]:
        place, kind = ("metadata", "resourceVersion"), self._randomness.random()
        if kind < 0.6:
            return []
        if kind < 0.75 or not self._written:
            return [Edit(place, REMOVED)]
        if kind < 0.9:
            return [Edit(place, Ref(self._randomness.choice(self._written), "metadata.resourceVersion"))]
        return [Edit(place, self._randomness.choice(("abc", "0", "", "1", 5)))]

    def _put_whole(self, target: _Target) -> Step:
        """A PUT of what is not there, maybe: some kinds are created by it."""
        obj = target.subject.named(
            self._some_object(target), self._randomness.choice((*NAMES, target.name)), target.space
        )
        return self._step(
            "PUT",
            target.path,
            self._write_query(target, dry=edges.is_risky((Edit(("x",), obj),))),
            body=obj,
            writes=True,
        )

    def _merge_patch(self, target: _Target) -> Step:
        return self._patch_of(target, self._randomness.choice((MERGE_PATCH, STRATEGIC_PATCH)))

    def _patch_of(self, target: _Target, content_type: str) -> Step:
        edits = tuple(self._edit(target, self._some_object(target)) for _ in range(self._randomness.choice((1, 1, 2))))
        body: Json = {}
        for edit in edits:
            edges.put_in(body, edit.place, None if edit.value is REMOVED else edit.value)
        if content_type == STRATEGIC_PATCH and self._randomness.random() < 0.15:
            edges.directive(self._randomness, body)
        query = self._write_query(target, dry=edges.is_risky(edits))
        return self._step(
            "PATCH", self._with_status(target, target.path), query, body=body, content_type=content_type, writes=True
        )

    def _json_patch(self, target: _Target) -> Step:
        known, ops, edits = self._some_object(target), [], []
        for _ in range(self._randomness.choice((1, 1, 2, 3))):
            edit = self._edit(target, known)
            edits.append(edit)
            pointer = "/" + "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in edit.place)
            name = "remove" if edit.value is REMOVED else self._randomness.choice(("add", "add", "replace", "test"))
            op = {"op": name, "path": pointer}
            if name != "remove":
                op["value"] = edit.value
            if self._randomness.random() < 0.05:
                op = self._randomness.choice(edges.operations(op, pointer))
            ops.append(op)
        query = self._write_query(target, dry=edges.is_risky(tuple(edits)))
        return self._step(
            "PATCH", self._with_status(target, target.path), query, body=ops, content_type=JSON_PATCH, writes=True
        )

    def _apply(self, target: _Target) -> Step:
        obj = target.subject.named(self._some_object(target), target.name, self._randomness.choice((target.space, "")))
        edits = tuple(self._edit(target, obj) for _ in range(self._randomness.choice((0, 1, 1))))
        for edit in edits:
            edit.apply(obj)
        query = [
            pair
            for pair in self._write_query(target, dry=edges.is_risky((Edit(("x",), obj),)))
            if pair[0] != "fieldManager"
        ]
        query.append(("fieldManager", self._randomness.choice(MANAGERS)))
        if self._randomness.random() < 0.4:
            query.append(("force", self._randomness.choice(("true", "true", "false", "1"))))
        return self._step(
            "PATCH", self._with_status(target, target.path), query, body=obj, content_type=APPLY_PATCH, writes=True
        )

    def _finalizers(self, target: _Target) -> Step:
        held = self._randomness.choice((["example.com/hold"], None, ["example.com/hold", "a/b"], []))
        return self._step(
            "PATCH",
            target.path,
            self._dry(target),
            body={"metadata": {"finalizers": held}},
            content_type=MERGE_PATCH,
            writes=True,
        )

    def _get(self, target: _Target) -> Step:
        query: Query = []
        if self._randomness.random() < 0.2:
            query.append(("resourceVersion", self._version()))
        return self._step("GET", self._with_status(target, target.path), query, headers=self._accept())

    def _list(self, target: _Target) -> Step:
        query: Query = []
        self._maybe(query, 0.3, "limit", ("1", "1", "2", "0", "-1", "x", "500", ""))
        self._maybe(query, 0.3, "labelSelector", edges.LABEL_SELECTORS)
        self._maybe(query, 0.25, "fieldSelector", edges.FIELD_SELECTORS)
        if self._randomness.random() < 0.4:
            query.append(("resourceVersion", self._version()))
        self._maybe(query, 0.2, "resourceVersionMatch", ("Exact", "NotOlderThan", "x"))
        if self._randomness.random() < 0.3:
            query.append(("continue", self._continue()))
        everywhere = self._randomness.random() < 0.15 and not query
        step = self._step(
            "GET", target.subject.everywhere() if everywhere else target.collection, query, headers=self._accept()
        )
        self._listed.append(step.number)
        return step

    def _watch(self, target: _Target) -> Step:
        if not self._written:
            return self._get(target)
        query: Query = [
            ("watch", self._randomness.choice(("true", "1", ""))),
            ("resourceVersion", Ref(self._randomness.choice(self._written), "metadata.resourceVersion")),
        ]
        self._maybe(query, 0.3, "labelSelector", ("a=b", "a", "!a", "a in (b,c)"))
        self._maybe(query, 0.2, "fieldSelector", edges.FIELD_SELECTORS)
        self._maybe(query, 0.1, "allowWatchBookmarks", ("true",))
        return self._step(
            "GET",
            target.collection,
            query,
            watches=True,
            headers=self._accept() if self._randomness.random() < 0.3 else (),
        )

    def _delete(self, target: _Target) -> Step:
        query: Query = self._dry(target, 0.15)
        body: Any = None
        if self._randomness.random() < 0.3:
            body = {}
            choices: list[tuple[str, Any]] = [
                ("gracePeriodSeconds", self._randomness.choice((0, 0, 30, -1, "x", 2**40, None))),
                ("propagationPolicy", self._randomness.choice(("Background", "Never", ""))),
                (
                    "preconditions",
                    {
                        "resourceVersion": self._randomness.choice(
                            (Ref(self._last(), "metadata.resourceVersion"), "1", 5, "")
                        )
                    },
                ),
                ("preconditions", {"uid": self._randomness.choice((Ref(self._last(), "metadata.uid"), "x", ""))}),
                ("dryRun", self._randomness.choice((["All"], ["x"], [], ["All", "All"], "All"))),
                ("kind", self._randomness.choice(("DeleteOptions", "Pod"))),
                ("apiVersion", self._randomness.choice(("v1", "meta.k8s.io/v1", "x"))),
                ("noSuch", 1),
                ("orphanDependents", self._randomness.choice((False, "x"))),
            ]
            for name, given in self._randomness.sample(choices, self._randomness.choice((1, 1, 2))):
                body[name] = given
        else:
            self._maybe(query, 0.15, "gracePeriodSeconds", ("0", "5", "x", "-1", ""))
            self._maybe(query, 0.1, "propagationPolicy", ("Background", "x", ""))
        if target.subject.kind == "Job" and not {**dict(query), **(body or {})}.get("propagationPolicy"):
            query = [
                ("dryRun", "All")
            ]  # (the pods of a Job stay, and somebody takes the mark of it at a moment of their own)
            body = None
        return self._step("DELETE", target.path, query, body=body, writes=True)

    def _delete_many(self, target: _Target) -> Step:
        query: Query = self._dry(target, 0.2)
        self._maybe(query, 0.5, "labelSelector", ("a=b", "a", "!a", "=="))
        self._maybe(query, 0.2, "fieldSelector", edges.FIELD_SELECTORS)
        self._maybe(query, 0.1, "limit", ("1", "x"))
        self._maybe(query, 0.1, "gracePeriodSeconds", ("0", "x"))
        subject = target.subject
        if subject.dry or subject.kind == "Job":
            query = [pair for pair in query if pair[0] != "dryRun"] + [("dryRun", "All")]
        return self._step("DELETE", target.collection, query, writes=False)

    def _invalid(self, target: _Target) -> Step:
        obj = target.subject.named(self._some_object(target), target.name, target.space)
        method, path, query, more = invalid_requests.request(
            self._randomness, target.subject, target.collection, target.name, obj
        )
        return self._step(method, path, query, **more)

    # its parts

    def _edit(self, target: _Target, known: Json) -> Edit:
        subject, schemas = target.subject, self._schemas
        declared = None if schemas is None else lambda: schemas.edit(self._randomness, subject.api, subject.kind)
        return edges.edit(self._randomness, known, subject.full, declared)

    def _target(self) -> _Target:
        """Mostly something that was made before."""
        if len(self._targets) > 1 and self._randomness.random() < 0.75:
            return self._randomness.choice(self._targets[:3])
        space = self._randomness.choice((*SPACES[:1] * 4, SPACES[1]))
        self._targets.append(_Target(self._randomness.choice(self._subjects), self._randomness.choice(NAMES), space))
        return self._targets[-1]

    def _some_object(self, target: _Target) -> Json:
        subject = target.subject
        return copy.deepcopy(
            self._randomness.choice(subject.full if subject.full and self._randomness.random() < 0.15 else subject.base)
        )

    def _with_status(self, target: _Target, path: str) -> str:
        return f"{path}/status" if self._randomness.random() < (0.3 if target.subject.has_status else 0.02) else path

    def _write_query(self, target: _Target, *, dry: bool = False) -> Query:
        query: Query = [("dryRun", "All")] if dry else self._dry(target, 0.1)
        self._maybe(query, 0.3, "fieldValidation", ("Strict", "Strict", "Ignore", "Warn"))
        self._maybe(query, 0.3, "fieldManager", MANAGERS)
        return query

    def _dry(self, target: _Target, share: float = 0.05) -> Query:
        return [("dryRun", "All")] if target.subject.dry or self._randomness.random() < share else []

    def _maybe(self, query: Query, share: float, name: str, choices: tuple[Any, ...]) -> None:
        if self._randomness.random() < share:
            query.append((name, self._randomness.choice(choices)))

    def _last(self) -> int:
        return self._written[-1] if self._written else 0

    def _version(self) -> Any:
        if self._written and self._randomness.random() < 0.7:
            return Ref(self._randomness.choice(self._written), "metadata.resourceVersion")
        return self._randomness.choice(("0", "", "abc", "-1", "999999999999", "1.5", "99999999999999999999"))

    def _continue(self) -> Any:
        if self._listed and self._randomness.random() < 0.8:
            return Ref(self._randomness.choice(self._listed), "metadata.continue")
        return self._randomness.choice(("", "x", "e30"))

    def _accept(self) -> tuple[tuple[str, str], ...]:
        return (("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),) if self._randomness.random() < 0.2 else ()

    def _step(self, method: str, path: str, query: Query, *, writes: bool = False, **more: Any) -> Step:
        if "/controllerrevisions" in path and "finalizers" in repr(more):
            query = [
                *(pair for pair in query if pair[0] != "dryRun"),
                ("dryRun", "All"),
            ]  # (nobody gets them off again in the real one)
        step = Step(self._number, method, path, tuple(query), **more)
        self._number += 1
        if writes:
            self._written.append(step.number)
        return step


_WEIGHTS: Final[dict[Callable[[_Making, _Target], Step], int]] = {
    _Making._create: 14,
    _Making._put: 14,
    _Making._put_whole: 4,
    _Making._merge_patch: 14,
    _Making._json_patch: 8,
    _Making._apply: 10,
    _Making._finalizers: 5,
    _Making._get: 6,
    _Making._list: 10,
    _Making._watch: 5,
    _Making._delete: 8,
    _Making._delete_many: 3,
    _Making._invalid: 6,
}
