"""Events through both of their APIs: one storage, two shapes, two sets of rules."""

from __future__ import annotations

from typing import Any

from tests.support.builders import Json
from tests.support.paths import EVENTS
from tests.support.rest import STRATEGIC_PATCH, Rest
from tests.support.rows import each_row

NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
TIME, MICRO, LATER = "2024-05-06T07:08:09Z", "2024-05-06T07:08:09.123456Z", "2024-05-06T08:00:00.000001Z"
ABOUT = {
    "kind": "Pod",
    "namespace": "default",
    "name": "p",
    "uid": "u",
    "apiVersion": "v1",
    "resourceVersion": "5",
    "fieldPath": "spec.x",
}
INVALID, REQUIRED = "FieldValueInvalid", "FieldValueRequired"


def an_event(name: str, **fields: Any) -> Json:
    return {
        "metadata": {"name": name},
        "involvedObject": ABOUT,
        "reason": "Tested",
        "message": "a test",
        "type": "Normal",
        **fields,
    }


def a_new_event(name: str, **fields: Any) -> Json:
    base = {
        "eventTime": MICRO,
        "regarding": ABOUT,
        "reason": "Tested",
        "note": "a test",
        "type": "Normal",
        "action": "Testing",
    }
    return {
        "metadata": {"name": name},
        **base,
        "reportingController": "example.com/x",
        "reportingInstance": "x-1",
        **fields,
    }


def test_what_the_old_api_wrote_the_new_one_shows(api: Rest, name: str) -> None:
    old = an_event(name, count=3, firstTimestamp=TIME, lastTimestamp=TIME, source={"component": "kit", "host": "h"})
    made = api.post(EVENTS, old).ok(201)
    shown = api.get(f"{NEW_EVENTS}/{name}").ok()
    del shown["metadata"]
    assert {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": None,
        "reason": "Tested",
        "note": "a test",
        "type": "Normal",
        "regarding": ABOUT,
        "deprecatedSource": {"component": "kit", "host": "h"},
        "deprecatedCount": 3,
        "deprecatedFirstTimestamp": TIME,
        "deprecatedLastTimestamp": TIME,
    } == shown
    assert ("", "") == (made["reportingComponent"], made["reportingInstance"])


def test_what_the_new_api_wrote_the_old_one_shows(api: Rest, name: str) -> None:
    series = {"count": 2, "lastObservedTime": LATER}
    api.post(NEW_EVENTS, a_new_event(name, series=series, related={"kind": "Node", "name": "n"})).ok(201)
    shown = api.get(f"{EVENTS}/{name}").ok()
    del shown["metadata"]
    assert {
        "apiVersion": "v1",
        "kind": "Event",
        "eventTime": MICRO,
        "reason": "Tested",
        "message": "a test",
        "type": "Normal",
        "involvedObject": ABOUT,
        "related": {"kind": "Node", "name": "n"},
        "series": series,
        "action": "Testing",
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "reportingComponent": "example.com/x",
        "reportingInstance": "x-1",
    } == shown


def test_both_lists_show_all(api: Rest, name: str) -> None:
    api.post(EVENTS, an_event(f"{name}-old")).ok(201)
    api.post(NEW_EVENTS, a_new_event(f"{name}-new")).ok(201)
    for path in (EVENTS, NEW_EVENTS):
        found = [item["metadata"]["name"] for item in api.get(path).ok()["items"]]
        assert {f"{name}-old", f"{name}-new"} <= set(found)


def test_each_watch_has_its_own_shape(api: Rest, name: str) -> None:
    start = api.get(EVENTS).ok()["metadata"]["resourceVersion"]
    query = {"resourceVersion": start, "fieldSelector": f"metadata.name={name}"}
    with (
        api.watch(EVENTS, **query) as old,
        api.watch(NEW_EVENTS, **query) as new,
        api.watch(NEW_EVENTS, **query) as again,
    ):
        api.post(EVENTS, an_event(name)).ok(201)
        api.delete(f"{NEW_EVENTS}/{name}").ok()
        for watch, version, part in (
            (old, "v1", "message"),
            (new, "events.k8s.io/v1", "note"),
            (again, "events.k8s.io/v1", "note"),
        ):
            told = [(event["type"], event["object"]["apiVersion"], event["object"][part]) for event in watch.take(2)]
            assert [("ADDED", version, "a test"), ("DELETED", version, "a test")] == told


@each_row(
    ("path", "selector"),
    [
        (
            EVENTS,
            "involvedObject.name={0},involvedObject.kind=Pod,reason=Tested,type=Normal,"
            "reportingComponent=example.com/x,source=example.com/x",
        ),
        (
            NEW_EVENTS,
            "regarding.name={0},regarding.fieldPath=spec.x,reason=Tested,type=Normal,reportingController=example.com/x",
        ),
    ],
)
def test_each_api_selects_by_its_own_names(api: Rest, name: str, path: str, selector: str) -> None:
    api.post(NEW_EVENTS, a_new_event(name, regarding={**ABOUT, "name": name})).ok(201)
    assert [name] == [
        item["metadata"]["name"] for item in api.get(path, fieldSelector=selector.format(name)).ok()["items"]
    ]
    assert [] == api.get(path, fieldSelector=selector.format("other")).ok()["items"]


@each_row(("path", "field"), [(EVENTS, "regarding.name"), (NEW_EVENTS, "involvedObject.name"), (NEW_EVENTS, "note")])
def test_fields_of_the_other_api_select_nothing(api: Rest, path: str, field: str) -> None:
    api.get(path, fieldSelector=f"{field}=x").refused(400, "BadRequest", says="field label not supported")


REFUSED: dict[str, tuple[dict[str, Any], tuple[str, str, str]]] = {
    "no_time": ({"eventTime": None}, (REQUIRED, "eventTime", "Required value")),
    "type": ({"type": "Odd"}, (INVALID, "type", "has invalid value: Odd")),
    "series_of_one": (
        {"series": {"count": 1, "lastObservedTime": MICRO}},
        (INVALID, "series.count", "should be at least 2"),
    ),
    "series_without_time": ({"series": {"count": 2}}, (REQUIRED, "series.lastObservedTime", "Required value")),
    "old_count": ({"deprecatedCount": 1}, (INVALID, "count", "needs to be unset")),
    "old_times": ({"deprecatedFirstTimestamp": TIME}, (INVALID, "firstTimestamp", "needs to be unset")),
    "old_source": ({"deprecatedSource": {"component": "x"}}, (INVALID, "source", "needs to be unset")),
    "no_action": ({"action": ""}, (REQUIRED, "action", "Required value")),
    "no_controller": ({"reportingController": ""}, (REQUIRED, "reportingController", "Required value")),
    "long_note": ({"note": "x" * 1025}, (INVALID, "message", "can have at most 1024 characters")),
    "other_namespace": (
        {"regarding": {**ABOUT, "namespace": ""}},
        (INVALID, "involvedObject.namespace", "does not match"),
    ),
}


@each_row("row", REFUSED)
def test_the_new_api_asks_for_more(api: Rest, name: str, row: str) -> None:
    fields, (reason, field, says) = REFUSED[row]
    if row == "other_namespace":
        api.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok(201)
        answer = api.post(f"/apis/events.k8s.io/v1/namespaces/{name}/events", a_new_event(name, **fields))
    else:
        answer = api.post(NEW_EVENTS, a_new_event(name, **fields))
    status = answer.refused(422, "Invalid", (reason, field), says=says)
    assert status["message"].startswith(f'Event "{name}" is invalid: '), "both APIs speak of the same kind"


def test_the_old_api_lets_pass_what_the_new_one_refuses(api: Rest, name: str) -> None:
    api.post(EVENTS, an_event(name, type="Odd", series={"count": 1, "lastObservedTime": MICRO})).ok(201)


@each_row(
    ("field", "value", "told"),
    [
        ("note", "other", "message"),
        ("reason", "Other", "reason"),
        ("regarding", {**ABOUT, "name": "q"}, "involvedObject"),
        ("type", "Warning", "type"),
        ("reportingController", "example.com/y", "reportingController"),
        ("deprecatedCount", 2, "count"),
    ],
)
def test_through_the_new_api_an_event_stays_what_it_is(api: Rest, name: str, field: str, value: Any, told: str) -> None:
    api.post(NEW_EVENTS, a_new_event(name)).ok(201)
    api.patch(f"{NEW_EVENTS}/{name}", {field: value}).refused(
        422, "Invalid", (INVALID, told), says="field is immutable"
    )


def test_a_recorder_repeats_through_either_api(api: Rest, name: str) -> None:
    api.post(NEW_EVENTS, a_new_event(name)).ok(201)
    series = {"count": 2, "lastObservedTime": LATER}
    assert series == api.patch(f"{NEW_EVENTS}/{name}", {"series": series}, STRATEGIC_PATCH).ok()["series"]
    old = api.patch(f"{EVENTS}/{name}", {"message": "again", "series": {"count": 3}}, STRATEGIC_PATCH).ok()
    assert ("again", {"count": 3, "lastObservedTime": LATER}) == (old["message"], old["series"])
    new = api.get(f"{NEW_EVENTS}/{name}").ok()
    assert ("again", 3) == (new["note"], new["series"]["count"])


def test_a_replaced_event_keeps_what_its_api_does_not_show(api: Rest, name: str) -> None:
    api.post(EVENTS, an_event(name, count=2, firstTimestamp=TIME)).ok(201)
    shown = api.get(f"{NEW_EVENTS}/{name}").ok()
    shown["metadata"]["labels"] = {"a": "b"}
    api.put(f"{NEW_EVENTS}/{name}", shown).ok()
    after = api.get(f"{EVENTS}/{name}").ok()
    assert (2, TIME, {"a": "b"}) == (after["count"], after["firstTimestamp"], after["metadata"]["labels"])


def test_a_put_to_a_name_that_is_free_creates(api: Rest, name: str) -> None:
    assert "a test" == api.put(f"{NEW_EVENTS}/{name}", a_new_event(name)).ok(201)["note"]


def test_names_through_the_new_api_are_stricter(api: Rest, name: str) -> None:
    odd = f"Pod:with_odd.chars.{name}"
    api.post(EVENTS, an_event(odd)).ok(201)
    api.post(NEW_EVENTS, a_new_event(f"{odd}x")).refused(422, "Invalid", (INVALID, "metadata.name"))
    assert "a test" == api.get(f"{NEW_EVENTS}/{odd}").ok()["note"]
