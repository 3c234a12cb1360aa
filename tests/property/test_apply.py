"""Laws of server-side apply, whatever is applied to whatever is there. (That it does what the real server does is
tested elsewhere.)
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mooring.apiserver.server_side_apply import managed
from mooring.apiserver.server_side_apply.apply import apply
from mooring.apiserver.server_side_apply.fieldsets import NO_FIELDS, from_json, shown
from mooring.apiserver.server_side_apply.managed import Writer, record_after, shape_of, without_record
from mooring.apiserver.server_side_apply.typed import compare, fields_of, with_named
from mooring.kube.errors import ApiError, Conflict
from tests.support.applying import SHAPE_KIND

pytestmark = pytest.mark.slow
Json = dict[str, Any]

LETTERS = st.sampled_from("abc")
MAPS = st.dictionaries(LETTERS, LETTERS, max_size=3)
ITEMS = st.lists(
    st.fixed_dictionaries({"port": st.integers(1, 3)}, optional={"name": LETTERS}),
    max_size=3,
    unique_by=lambda item: item["port"],
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "text": LETTERS,
        "map": MAPS,
        "whole": MAPS,
        "list": st.lists(LETTERS, max_size=2),
        "set": st.lists(LETTERS, max_size=3, unique=True),
        "items": ITEMS,
        "any": st.recursive(MAPS, lambda inner: st.dictionaries(LETTERS, inner, max_size=2), max_leaves=3),
    },
)
PARTS = ({"text", "map"}, {"list", "set", "whole"}, {"items", "any"})


def config(spec: Json) -> Json:
    return {"apiVersion": "mooring.test/v1", "kind": "Shape", "metadata": {"name": "x"}, "spec": spec}


def applied(live: Json, spec: Json, manager: str, *, force: bool = True, now: str = "2024-01-01T00:00:00Z") -> Json:
    return apply(SHAPE_KIND, live, config(spec), manager, now, force=force)


def owned(obj: Json, manager: str) -> Any:
    record = managed.read_entries(obj["metadata"].get("managedFields"))
    entry = record.get(managed.applier(manager))
    return entry.fields if entry else NO_FIELDS


@given(SPECS, SPECS)
def test_the_same_apply_again_changes_nothing(first: Json, second: Json) -> None:
    once = applied(applied({}, first, "other"), second, "one")
    assert once == applied(once, second, "one", force=False, now="2030-01-01T00:00:00Z")


@given(SPECS, SPECS)
def test_what_is_applied_by_force_is_there(first: Json, second: Json) -> None:
    obj = applied(applied({}, first, "other"), second, "one")
    found = compare(shape_of(SHAPE_KIND), config(second), without_record(obj))
    assert not found.modified
    assert not found.removed


@given(SPECS)
def test_managers_of_different_fields_never_meet(spec: Json) -> None:
    obj: Json = {}
    for number, part in enumerate(PARTS):
        obj = applied(obj, {name: value for name, value in spec.items() if name in part}, f"m{number}", force=False)
    assert spec == {name: value for name, value in obj["spec"].items() if name in spec}


@given(SPECS, SPECS)
def test_who_takes_everything_back_leaves_what_others_have(first: Json, second: Json) -> None:
    both = applied(applied({}, first, "other"), second, "one")
    left = applied(both, {}, "one")
    shape = shape_of(SHAPE_KIND)
    assert not owned(left, "one") - fields_of(shape, config({}))
    assert owned(both, "other") == owned(left, "other") | (owned(both, "other") - owned(left, "other"))
    assert not owned(left, "other") - owned(both, "other"), "nobody gains by it"


@given(SPECS, SPECS)
def test_what_nobody_says_any_more_goes(first: Json, second: Json) -> None:
    """But for empty lists, which have no fields."""
    first, second = ({name: value for name, value in spec.items() if value != []} for spec in (first, second))
    made = applied({}, first, "one")
    assert not applied(made, {}, "one")["spec"]
    assert set(second) == set(applied(made, second, "one")["spec"] or ())


@given(SPECS, SPECS)
def test_an_apply_takes_away_nothing_but_what_the_manager_had(first: Json, second: Json) -> None:
    """The server's defaults belong to nobody, and so do uid and creation time. What says nothing of spec takes spec as
    a whole.
    """
    live = applied({}, {"text": "a", **first}, "one")
    live["metadata"].update(uid="u", labels={"by": "nobody"})
    live["spec"]["size"] = 1
    new = applied(live, {"text": "a", **second}, "one")
    assert ("u", {"by": "nobody"}, 1) == (
        new["metadata"].get("uid"),
        new["metadata"].get("labels"),
        new["spec"].get("size"),
    )
    gone = compare(shape_of(SHAPE_KIND), without_record(live), without_record(new)).removed
    assert not gone.without(with_named(shape_of(SHAPE_KIND), owned(live, "one")))


@given(SPECS, SPECS)
def test_an_apply_that_is_refused_names_what_others_own(first: Json, second: Json) -> None:
    live = applied({}, first, "other")
    taken = (
        owned(live, "other")
        & compare(shape_of(SHAPE_KIND), config(first), without_record(applied(live, second, "one"))).modified
    )
    if not taken:
        kept = applied(live, second, "one", force=False)
        assert owned(live, "other") == owned(kept, "other"), "without a conflict nobody loses a field"
        return
    with pytest.raises(Conflict) as error:
        applied(live, second, "one", force=False)
    causes = error.value.details["causes"]
    assert {('conflict with "other"', shown(path)) for path in taken} == {
        (cause["message"], cause["field"]) for cause in causes
    }


@given(SPECS, SPECS, SPECS)
def test_an_update_owns_what_it_changed_and_nobody_owns_what_is_gone(first: Json, second: Json, third: Json) -> None:
    live = applied(applied({}, first, "one"), second, "two")
    new = {**live, "spec": third}
    record = record_after(SHAPE_KIND, live, new, Writer("editor"), 0.0)
    assume(record)
    shape = shape_of(SHAPE_KIND)
    found = compare(shape, without_record(live), without_record(new))
    fields = {entry["manager"]: from_json(entry["fieldsV1"]) for entry in record}
    assert found.added | found.modified == fields.get("editor", NO_FIELDS)
    for one in fields.values():
        assert not one & found.removed


@given(SPECS, SPECS)
def test_an_object_nobody_has_applied_is_owned_in_whole_from_the_first_apply(first: Json, second: Json) -> None:
    live = config(first)
    obj = applied(live, second, "one")
    record = managed.read_entries(obj["metadata"].get("managedFields"))
    if not owned(obj, "one"):
        assert not record, "who owns nothing begins no record"
        return
    before = record.get(managed.updater(managed.BEFORE_FIRST_APPLY, "mooring.test/v1"))
    taken = owned(obj, "one") | (before.fields if before else NO_FIELDS)
    assert not managed.owned(fields_of(shape_of(SHAPE_KIND), without_record(obj))) - taken


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["spec", "set", "items", "port", "map", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS: st.SearchStrategy[Json] = st.recursive(
    st.just({}),
    lambda inner: st.dictionaries(
        st.sampled_from(
            [".", "f:spec", "f:set", "f:items", 'k:{"port":1}', 'v:"a"', "v:{}", "i:0", "f:map", "f:x", "odd"]
        ),
        inner,
        max_size=3,
    ),
    max_leaves=8,
)


@given(SPECS, JSON, FIELDS)
def test_whatever_strangers_send_is_applied_or_refused(first: Json, odd: Any, fields: Any) -> None:
    live = applied({}, first, "other")
    entry = {
        "manager": "one",
        "operation": "Apply",
        "apiVersion": "mooring.test/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    live["metadata"].setdefault("managedFields", []).append(entry)  # (who owns nothing begins no record)
    for config in ({**live, "spec": odd}, {**live, "metadata": odd}, {**live, "apiVersion": odd}, odd):
        if isinstance(config, dict):
            body = {**config, "metadata": {"name": "x"}} if config.get("metadata") == live["metadata"] else config
            with contextlib.suppress(ApiError):
                apply(SHAPE_KIND, live, body, "one", "2024-01-01T00:00:00Z", force=True)
