"""Lists and watches: where they start, what they show, how they end; on both servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.conftest import Server
from tests.support.builders import a_secret, a_va
from tests.support.customkinds import a_definition, a_version, an_object, installed
from tests.support.paths import SECRETS, VAS
from tests.support.rest import Rest
from tests.support.rows import each_row
from tests.support.waiting import eventually

END = "k8s.io/initial-events-end"
LIST_BY_WATCH = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}


def secrets(api: Rest, label: str, count: int) -> list[dict[str, Any]]:
    """Secrets s0, s1, ... that carry the label."""
    return [
        api.post(SECRETS, a_secret(f"{label}-s{n}", labels={"set": label, "n": str(n)})).ok(201) for n in range(count)
    ]


def brief(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


def test_AO27_a_watch_from_a_forgotten_version_ends_with_an_error(server: Server) -> None:
    with server.api.watch(server.forget(), resourceVersion="1") as watch:
        (error,) = watch.rest()
    assert "ERROR" == error["type"]
    status = error["object"]
    assert ("Status", 410, "Expired", "Failure") == (status["kind"], status["code"], status["reason"], status["status"])
    assert status["message"].startswith("too old resource version: 1 (")


@each_row("version", ["", "0"])
def test_AO28_a_list_by_watch_is_closed_by_its_bookmark(api: Rest, name: str, version: str) -> None:
    secrets(api, name, 3)
    listed = lambda: api.get(SECRETS, resourceVersion="0", labelSelector=f"set={name}").json["items"]  # noqa: E731
    eventually(lambda: 3 == len(listed()), 10, "the real server's cache, which 0 is answered from, has them")
    with api.watch(SECRETS, resourceVersion=version, labelSelector=f"set={name}", **LIST_BY_WATCH) as watch:
        assert [("ADDED", f"{name}-s{n}") for n in range(3)] == sorted(brief(watch.take(3)))
        (end,) = watch.take(1)
        assert "BOOKMARK" == end["type"]
        assert "true" == end["object"]["metadata"]["annotations"][END]
        assert ("Secret", "v1") == (end["object"]["kind"], end["object"]["apiVersion"])
        api.post(SECRETS, a_secret(f"{name}-live", labels={"set": name})).ok(201)
        (live,) = watch.take(1)
        assert ("ADDED", f"{name}-live") == brief([live])[0]
        assert int(live["object"]["metadata"]["resourceVersion"]) > int(end["object"]["metadata"]["resourceVersion"])


def test_AO29_initial_events_need_a_match(api: Rest) -> None:
    wrong = api.get(SECRETS, watch="true", sendInitialEvents="true")
    wrong.refused(422, "Invalid", ("FieldValueForbidden", "resourceVersionMatch"))


def test_AO30_who_stops_matching_is_deleted(api: Rest, name: str) -> None:
    (made,) = secrets(api, name, 1)
    path = f"{SECRETS}/{name}-s0"
    with api.watch(SECRETS, resourceVersion=made["metadata"]["resourceVersion"], labelSelector=f"set={name}") as watch:
        changed = api.patch(path, {"metadata": {"labels": {"set": "other"}}}).ok()
        (gone,) = watch.take(1)
        assert "DELETED" == gone["type"]
        assert made["metadata"]["labels"] == gone["object"]["metadata"]["labels"], "the old content"
        assert changed["metadata"]["resourceVersion"] == gone["object"]["metadata"]["resourceVersion"], (
            "the new version"
        )
        api.patch(path, {"metadata": {"labels": {"set": name}}}).ok()
        assert [("ADDED", f"{name}-s0")] == brief(watch.take(1))


def test_AO31_pages_show_one_moment(api: Rest, name: str) -> None:
    secrets(api, name, 5)
    pages = [api.get(SECRETS, limit=2, labelSelector=f"set={name}").ok()]
    api.delete(f"{SECRETS}/{name}-s4").ok()
    api.patch(f"{SECRETS}/{name}-s3", {"metadata": {"labels": {"n": "new"}}}).ok()
    while token := pages[-1]["metadata"].get("continue"):
        pages.append(api.get(SECRETS, limit=2, labelSelector=f"set={name}", **{"continue": token}).ok())
    assert [2, 2, 1] == [len(page["items"]) for page in pages]
    assert ["0", "1", "2", "3", "4"] == [item["metadata"]["labels"]["n"] for page in pages for item in page["items"]]
    assert 1 == len({page["metadata"]["resourceVersion"] for page in pages})


def test_AO32_a_version_far_ahead_times_out(api: Rest) -> None:
    ahead = str(int(api.get(SECRETS).ok()["metadata"]["resourceVersion"]) + 1_000_000)
    answer = api.get(SECRETS, resourceVersion=ahead, resourceVersionMatch="NotOlderThan")
    status = answer.refused(504, "Timeout", says=f"Too large resource version: {ahead}, current: ")
    assert 1 == status["details"]["retryAfterSeconds"]
    assert ["ResourceVersionTooLarge"] == [cause["reason"] for cause in status["details"]["causes"]]


@each_row(
    ("query", "field"),
    [
        ({"resourceVersionMatch": "NotOlderThan"}, "resourceVersionMatch"),
        ({"resourceVersion": "0", "resourceVersionMatch": "Exact"}, "resourceVersionMatch"),
        ({"resourceVersion": "5", "resourceVersionMatch": "Sometimes"}, "resourceVersionMatch"),
        ({"sendInitialEvents": "true"}, "sendInitialEvents"),
    ],
    ids=["match_alone", "zero_exactly", "unknown_match", "initial_events"],
)
def test_list_options_that_do_not_fit_are_422(api: Rest, query: dict[str, str], field: str) -> None:
    status = api.get(SECRETS, **query).refused(422, "Invalid")
    assert [field] == [cause["field"] for cause in status["details"]["causes"]]


def test_a_list_of_an_exact_version_shows_that_moment(api: Rest, name: str) -> None:
    secrets(api, name, 2)
    then = api.get(SECRETS, labelSelector=f"set={name}").ok()
    api.delete(f"{SECRETS}/{name}-s0").ok()
    version = then["metadata"]["resourceVersion"]
    found = api.get(SECRETS, labelSelector=f"set={name}", resourceVersion=version, resourceVersionMatch="Exact").ok()
    assert [item["metadata"]["name"] for item in then["items"]] == [item["metadata"]["name"] for item in found["items"]]
    assert version == found["metadata"]["resourceVersion"]


@each_row("token", ["nonsense", "eyJ2IjogIm1ldGEuazhzLmlvL3YxIiwgInJ2IjogMX0"])
def test_a_bad_continue_token_is_400(api: Rest, token: str) -> None:
    api.get(SECRETS, limit=1, **{"continue": token}).refused(400, "BadRequest", says="continue key is not valid")


@each_row(
    ("selector", "found"),
    [
        ("n=1", "1"),
        ("n!=1", "02"),
        ("n in (0, 2)", "02"),
        ("n notin (0,2)", "1"),
        ("n,!absent", "012"),
        ("n>0", "12"),
        ("n<1", "0"),
        ("absent", ""),
        ("absent!=x", "012"),
    ],
)
def test_label_selectors_select(api: Rest, name: str, selector: str, found: str) -> None:
    secrets(api, name, 3)
    items = api.get(SECRETS, labelSelector=f"set={name},{selector}").ok()["items"]
    assert found == "".join(item["metadata"]["labels"]["n"] for item in items)


@each_row("selector", ["n in 1", "=x", "a b", "n in (a", "n=a b", "/x=1", "n>x"])
def test_bad_label_selectors_are_400(api: Rest, selector: str) -> None:
    api.get(SECRETS, labelSelector=selector).refused(400, "BadRequest")


@each_row(
    ("path", "selector", "says"),
    [
        (SECRETS, "data=x", "field label not supported: data"),
        (
            VAS,
            "spec.nodeName=n",
            '"spec.nodeName" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (SECRETS, "metadata.name", "can't understand 'metadata.name'"),
    ],
    ids=["of_the_kind", "of_metadata", "no_selector"],
)
def test_bad_field_selectors_are_400(api: Rest, path: str, selector: str, says: str) -> None:
    api.get(path, fieldSelector=selector).refused(400, "BadRequest", says=says)


def test_a_watch_resumes_without_gap_or_twin(api: Rest, name: str) -> None:
    version = api.get(SECRETS).ok()["metadata"]["resourceVersion"]
    secrets(api, name, 6)
    seen: list[str] = []
    while len(seen) < 6:
        with api.watch(SECRETS, resourceVersion=version, labelSelector=f"set={name}") as watch:
            for event in watch.take(2):
                seen.append(event["object"]["metadata"]["name"])
                version = event["object"]["metadata"]["resourceVersion"]
    assert [f"{name}-s{n}" for n in range(6)] == seen


def test_a_watch_of_one_object_sees_its_whole_life(api: Rest, name: str) -> None:
    version = api.get(VAS).ok()["metadata"]["resourceVersion"]
    with api.watch(VAS, resourceVersion=version, fieldSelector=f"metadata.name={name}") as watch:
        api.post(VAS, a_va(name)).ok(201)
        api.patch(f"{VAS}/{name}/status", {"status": {"attached": True}}).ok()
        gone = api.delete(f"{VAS}/{name}").ok()
        events = watch.take(3)
    assert ["ADDED", "MODIFIED", "DELETED"] == [event["type"] for event in events]
    assert [False, True, True] == [event["object"]["status"]["attached"] for event in events]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert sorted(set(versions)) == versions
    assert int(gone["metadata"]["resourceVersion"]) == versions[-1]


def test_a_watch_ends_cleanly_at_its_time_out(api: Rest, name: str) -> None:
    with api.watch(SECRETS, labelSelector=f"set={name}", resourceVersion="0", timeoutSeconds=1) as watch:
        assert [] == watch.rest()


@pytest.mark.slow
def test_a_bookmark_comes_before_the_time_out(server: Server, name: str) -> None:
    """So that the next watch goes on from there, however quiet the kind was."""
    api = server.api
    version = api.get(SECRETS).ok()["metadata"]["resourceVersion"]
    wait_s = 12 if server.is_real else 1
    query = {"labelSelector": f"set={name}", "resourceVersion": version, "allowWatchBookmarks": "true"}
    with api.watch(SECRETS, **query, timeoutSeconds=wait_s) as watch:
        (made,) = secrets(api, name, 1)
        events = watch.rest()
    mark = events[-1]
    assert "BOOKMARK" == mark["type"]
    assert {"resourceVersion", "creationTimestamp"} >= set(mark["object"]["metadata"])
    assert int(mark["object"]["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])


def test_a_watch_that_begins_in_the_future_is_told_no_version(api: Rest, name: str) -> None:
    """The bookmark would be of a version that nobody has reached."""
    query = {
        "labelSelector": f"set={name}",
        "resourceVersion": "99999999999",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": 1,
    }
    with api.watch(SECRETS, **query) as watch:
        assert [] == watch.rest()


def test_items_of_built_in_kinds_do_not_say_their_kind(api: Rest, name: str) -> None:
    secrets(api, name, 2)
    listed = api.get(SECRETS, labelSelector=f"set={name}").ok()
    assert ("SecretList", "v1") == (listed["kind"], listed["apiVersion"])
    assert [(None, None, f"{name}-s{n}") for n in range(2)] == [
        (item.get("kind"), item.get("apiVersion"), item["metadata"]["name"]) for item in listed["items"]
    ]
    definitions = api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").ok()
    assert {None} >= {item.get("kind") for item in definitions["items"]}


def test_lists_of_custom_kinds_always_have_a_token_and_their_items_their_kinds(api: Rest, name: str) -> None:
    plural = f"l{name.replace('-', '')}s"
    things = installed(api, a_definition(plural, a_version({"type": "object"})))
    api.post(things, an_object(plural, "x")).ok(201)
    listed = api.get(things).ok()
    assert ("", [plural[:-1].capitalize()]) == (
        listed["metadata"]["continue"],
        [item["kind"] for item in listed["items"]],
    )


@each_row(("kind", "part", "empty"), [("Table", "rows", []), ("PartialObjectMetadataList", "items", None)])
def test_an_empty_list(api: Rest, name: str, kind: str, part: str, empty: list[Any] | None) -> None:
    accept = {"Accept": f"application/json;as={kind};v=v1;g=meta.k8s.io"}
    found = api.request("GET", SECRETS, headers=accept, labelSelector=f"set={name}").ok()
    assert (kind, empty) == (found["kind"], found[part])


def test_an_empty_table_of_a_built_in_kind_without_columns_of_its_own_has_no_rows(api: Rest, name: str) -> None:
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    plural = f"r{name.replace('-', '')}s"
    things = installed(api, a_definition(plural, a_version({"type": "object"})))
    for path, rows in ((things, []), ("/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities", None)):
        assert rows == api.request("GET", path, headers=accept, labelSelector=f"set={name}").ok()["rows"]


def test_items_of_events_say_no_kind_in_either_shape(api: Rest, name: str) -> None:
    involved = {"kind": "Pod", "namespace": "default", "name": name}
    api.post("/api/v1/namespaces/default/events", {"metadata": {"name": name}, "involvedObject": involved}).ok(201)
    for path in ("/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"):
        (item,) = api.get(path, fieldSelector=f"metadata.name={name}").ok()["items"]
        assert (None, None) == (item.get("kind"), item.get("apiVersion"))


def test_a_watch_is_a_stream_of_json_lines(api: Rest, name: str) -> None:
    version = api.get(SECRETS).ok()["metadata"]["resourceVersion"]
    with api.watch(SECRETS, resourceVersion=version, labelSelector=f"set={name}") as watch:
        secrets(api, name, 1)
        (event,) = watch.take(1)
    assert {"type", "object"} == set(event)
    assert ("v1", "Secret") == (event["object"]["apiVersion"], event["object"]["kind"])
    assert json.dumps(event)
