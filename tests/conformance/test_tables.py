"""Tables: what kubectl prints. The same columns and the same cells from both servers, whatever an object looks like."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mooring.apiserver.rules import RESOURCES
from tests.conformance.conftest import Server
from tests.support.builders import a_lease, a_va
from tests.support.paths import LEASES, PVS, VAS
from tests.support.real import kubectl
from tests.support.rest import STRATEGIC_PATCH, Rest
from tests.support.rows import each_row
from tests.support.table_objects import CAPACITIES, LONG_AGO, OBJECTS
from tests.support.waiting import eventually

Json = dict[str, Any]

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
KUBECTL = {"Accept": f"{TABLE['Accept']},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"}
METADATA = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
METADATA_LIST = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
_SERVED = {resource.path for resource in RESOURCES}
_AGES = ("Age", "Last Seen", "First Seen", "Created At")


def is_served(path: str) -> bool:
    """False for a kind that the embedded server does not have."""
    parts = path.strip("/").split("/")
    group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
    return (group, version, parts[-1]) in _SERVED


CASES = [case for case, (path, *_) in OBJECTS.items() if is_served(path)]


def put(api: Rest, case: str, name: str) -> str:
    """Creates the object with its status; gives its path."""
    path, obj, status = OBJECTS[case]
    name = "shown.tables.test" if case == "definition" else name
    body = {**obj, "metadata": {**obj.get("metadata", {}), "name": name}}
    assert api.post(path, body).status in (201, 409), (case, api.post(path, body))
    if status:
        api.patch(f"{path}/{name}/status", {"status": status}, STRATEGIC_PATCH).ok()
    return f"{path}/{name}"


@contextlib.contextmanager
def put_for_now(api: Rest, case: str, name: str) -> Iterator[str]:
    """The same; a default class goes again, which the claims of other tests would get."""
    path = put(api, case, name)
    try:
        yield path
    finally:
        if case == "class-default":
            api.delete(path).ok()


def shown(api: Rest, path: str) -> tuple[list[tuple[str, str, str, int]], list[Any], Any]:
    """Columns, cells and conditions; ages only as what they look like."""
    table = api.request("GET", path, headers=TABLE).ok()
    assert ("Table", "meta.k8s.io/v1") == (table["kind"], table["apiVersion"])
    columns = [
        (column["name"], column["type"], column["format"], column["priority"]) for column in table["columnDefinitions"]
    ]
    [row] = table["rows"]
    cells = [_ageless(column[0], cell) for column, cell in zip(columns, row["cells"], strict=True)]
    return columns, cells, row.get("conditions")


def _ageless(column: str, cell: Any) -> Any:
    if column not in _AGES:
        return re.sub(r"\(.* ago\)", "(an age ago)", cell) if column == "Restarts" else cell
    return (
        re.sub(r"\d+", "1", cell) if cell.endswith("Z") else re.fullmatch(r"(\d+[smhdy])+|<unknown>", cell) is not None
    )


@pytest.mark.real
@pytest.mark.slow
@each_row("case", CASES)
def test_AO41_both_servers_show_the_same_table(servers: Callable[[str], Server], name: str, case: str) -> None:
    embedded, real = servers("embedded").api, servers("real").api
    with put_for_now(real, case, name) as there, put_for_now(embedded, case, name) as here:
        assert shown(real, there) == shown(embedded, here)


@each_row(("case", "column"), [("volume", 4), ("claim-bound", 1), ("pod-scheduled", 2), ("pod-reason", 2)])
def test_what_is_being_deleted_says_so(api: Rest, name: str, case: str, column: int) -> None:
    """But for a pod that is over: it says what became of it."""
    path = put(api, case, name)
    api.patch(path, {"metadata": {"finalizers": ["example.com/hold"]}}).ok()
    api.delete(path).ok()
    assert ("Evicted" if case == "pod-reason" else "Terminating") == shown(api, path)[1][column]


COLUMNS = {
    VAS: ["Name", "Attacher", "PV", "Node", "Attached", "Age"],
    PVS: [
        *(
            "Name",
            "Capacity",
            "Access Modes",
            "Reclaim Policy",
            "Status",
            "Claim",
            "StorageClass",
            "VolumeAttributesClass",
        ),
        "Reason",
        "Age",
        "VolumeMode",
    ],
    LEASES: ["Name", "Holder", "Age"],
    CAPACITIES: ["Name", "Created At"],
}


@each_row("path", COLUMNS)
def test_AO41_a_list_is_a_table_when_asked_for_one(api: Rest, path: str) -> None:
    table = api.request("GET", path, headers=KUBECTL).ok()
    assert COLUMNS[path] == [column["name"] for column in table["columnDefinitions"]]
    assert int(table["metadata"]["resourceVersion"]) > 0


def test_pages_of_a_table_go_on(api: Rest, name: str) -> None:
    for number in range(3):
        api.post(
            LEASES, {**a_lease(f"{name}-{number}"), "metadata": {"name": f"{name}-{number}", "labels": {"of": name}}}
        ).ok(201)
    first = api.request("GET", LEASES, headers=TABLE, labelSelector=f"of={name}", limit=2).ok()
    rest = api.request(
        "GET", LEASES, headers=TABLE, labelSelector=f"of={name}", limit=2, **{"continue": first["metadata"]["continue"]}
    ).ok()
    assert [f"{name}-{number}" for number in range(3)] == [row["cells"][0] for row in first["rows"] + rest["rows"]]


@each_row(
    ("include", "kind"),
    [(None, "PartialObjectMetadata"), ("Metadata", "PartialObjectMetadata"), ("Object", "Lease"), ("None", None)],
)
def test_rows_carry_what_is_asked_for(api: Rest, name: str, include: str | None, kind: str | None) -> None:
    api.post(LEASES, a_lease(name)).ok(201)
    [row] = api.request("GET", f"{LEASES}/{name}", headers=TABLE, includeObject=include).ok()["rows"]
    obj = row.get("object") or {}
    assert (kind, name if kind else None) == (obj.get("kind"), obj.get("metadata", {}).get("name"))
    assert ("spec" in obj) == (kind == "Lease")


def test_an_unknown_include_is_a_bad_request(api: Rest) -> None:
    api.request("GET", LEASES, headers=TABLE, includeObject="Everything").refused(
        400, "BadRequest", says="includeObject"
    )


def test_writes_and_deletions_answer_tables_too(api: Rest, name: str) -> None:
    made = api.request("POST", VAS, a_va(name), headers=TABLE).ok(201)
    assert [name, False] == [made["rows"][0]["cells"][0], made["rows"][0]["cells"][4]]
    assert "Table" == api.request("DELETE", f"{VAS}/{name}", headers=TABLE).ok()["kind"]
    assert "NotFound" == api.request("GET", f"{VAS}/{name}", headers=TABLE).refused(404, "NotFound")["reason"]


def test_a_watched_table_explains_its_columns_once(api: Rest, name: str) -> None:
    start = api.get(LEASES).ok()["metadata"]["resourceVersion"]
    query = {"resourceVersion": start, "fieldSelector": f"metadata.name={name}"}
    with api.watch(LEASES, headers=TABLE, **query) as watch:
        api.post(LEASES, a_lease(name)).ok(201)
        api.patch(f"{LEASES}/{name}", {"spec": {"holderIdentity": "you"}}).ok()
        api.delete(f"{LEASES}/{name}").ok()
        events = watch.take(3)
    assert [("ADDED", "me"), ("MODIFIED", "you"), ("DELETED", "you")] == [
        (e["type"], e["object"]["rows"][0]["cells"][1]) for e in events
    ]
    assert [True, False, False] == [bool(event["object"]["columnDefinitions"]) for event in events]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert int(start) < versions[0] < versions[1] < versions[2]


def test_a_watched_table_has_bookmarks(api: Rest) -> None:
    initial = {"allowWatchBookmarks": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    with api.watch(LEASES, headers=TABLE, **initial, fieldSelector="metadata.name=nobody") as watch:
        event = watch.take(1)[0]
    assert ("BOOKMARK", "Table") == (event["type"], event["object"]["kind"])
    meta = event["object"]["rows"][0]["object"]["metadata"]
    assert {"k8s.io/initial-events-end": "true"} == meta["annotations"]
    assert int(meta["resourceVersion"]) > 0


def test_metadata_alone_when_asked_for(api: Rest, name: str) -> None:
    """What metadata informers read."""
    made = api.post(VAS, a_va(name, labels={"a": "b"})).ok(201)
    one = api.request("GET", f"{VAS}/{name}", headers=METADATA).ok()
    assert {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]} == one
    many = api.request("GET", VAS, headers=METADATA_LIST, fieldSelector=f"metadata.name={name}").ok()
    assert ("PartialObjectMetadataList", [one]) == (many["kind"], many["items"])
    with api.watch(VAS, headers=METADATA, fieldSelector=f"metadata.name={name}") as watch:
        assert {"type": "ADDED", "object": one} == watch.next()


@each_row(("path", "headers"), [(VAS, METADATA), (f"{VAS}/x", METADATA_LIST)], ids=["one of a list", "a list of one"])
def test_metadata_of_the_other_number_is_not_acceptable(api: Rest, path: str, headers: dict[str, str]) -> None:
    api.post(VAS, a_va("x"))
    api.request("GET", path, headers=headers).refused(406, "NotAcceptable")


WIDE = {OBJECTS[case][0]: case for case in CASES}
"""One case of each kind, the last."""


@pytest.mark.real
@pytest.mark.slow
@each_row("case", WIDE.values())
def test_kubectl_prints_the_same(
    servers: Callable[[str], Server], name: str, case: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    printed = []
    for which in ("embedded", "real"):
        server = servers(which)
        config = tmp_path_factory.getbasetemp() / f"tables-{which}" / "kubeconfig"
        config.parent.mkdir(exist_ok=True)  # beside it is kubectl's cache of what the server has
        config.write_bytes(server.kubeconfig.read_bytes())
        with put_for_now(server.api, case, name) as path:
            place, _, found = path.rpartition("/")
            printed.append(_ages_alike(kubectl(config, "get", _kind(place), found, "-o", "wide")))
    assert printed[0] == printed[1]


def _kind(place: str) -> str:
    """As kubectl wants it, with the group: two have events."""
    parts = place.split("/")
    return parts[-1] if parts[1] == "api" else f"{parts[-1]}.{parts[3]}.{parts[2]}"


def _ages_alike(text: str) -> list[str]:
    """Lines, with one blank between columns and one word for all ages and dates."""
    return [
        re.sub(r"\b(\d+[smhdy])+\b|\d{4}-\d\d-\d\dT[\d:]+Z", "AGE", re.sub(r" +", " ", line))
        for line in text.splitlines()
    ]


PRINTED = {
    # what a definition may declare: type, path
    "Text": ("string", ".spec.s"),
    "Whole as text": ("string", ".spec.i"),
    "Fraction as text": ("string", ".spec.f"),
    "Truth as text": ("string", ".spec.b"),
    "List as text": ("string", ".spec.l"),
    "Map as text": ("string", ".spec.m"),
    "All of a list": ("string", ".spec.l[*]"),
    "One of a list": ("string", ".spec.l[1]"),
    "Last of a list": ("string", ".spec.l[-1:]"),
    "Ready": ("string", '.spec.c[?(@.type=="Ready")].status'),
    "Quoted": ("string", ".metadata.annotations['a\\.b/c']"),
    "Missing": ("string", ".spec.nope.x"),
    "Text as whole": ("integer", ".spec.s"),
    "Whole": ("integer", ".spec.i"),
    "Fraction as whole": ("integer", ".spec.f"),
    "Number": ("number", ".spec.f"),
    "Truth": ("boolean", ".spec.b"),
    "Age": ("date", ".spec.d"),
    "No date": ("date", ".spec.s"),
    "Number as date": ("date", ".spec.i"),
    "No time": ("date", ".spec.z"),
}
SPEC = {
    "s": "text",
    "i": 5,
    "f": 1.5,
    "b": True,
    "l": ["a", "b", 3],
    "m": {"a": 1, "b": [1, {"x": "y"}]},
    "d": LONG_AGO,
    "c": [{"type": "Other", "status": "No"}, {"type": "Ready", "status": "True"}],
    "z": "0001-01-01T00:00:00Z",
}


def a_printed_kind(api: Rest, plural: str, columns: list[Json]) -> str:
    names = {
        "plural": plural,
        "singular": plural[:-1],
        "kind": plural.capitalize(),
        "listKind": f"{plural.capitalize()}List",
    }
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "additionalPrinterColumns": columns}
    spec = {"group": "tables.test", "scope": "Cluster", "names": names, "versions": [version]}
    made = api.post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {"metadata": {"name": f"{plural}.tables.test"}, "spec": spec},
    )
    assert made.status in (201, 409), made
    path = f"/apis/tables.test/v1/{plural}"
    eventually(lambda: api.get(path).status == 200, 30, "the kind is served")
    return path


@pytest.mark.real
@pytest.mark.slow
@each_row("plural", ["printeds", "plains"])
def test_custom_kinds_show_what_their_definitions_declare(
    servers: Callable[[str], Server], name: str, plural: str
) -> None:
    columns = [
        {"name": column, "type": kind, "jsonPath": path, "priority": 1} for column, (kind, path) in PRINTED.items()
    ]
    tables = []
    for which in ("real", "embedded"):
        api = servers(which).api
        path = a_printed_kind(api, plural, columns if plural == "printeds" else [])
        typed = {"apiVersion": "tables.test/v1", "kind": plural.capitalize()}
        api.post(path, {**typed, "metadata": {"name": name, "annotations": {"a.b/c": "an"}}, "spec": SPEC}).ok(201)
        tables.append(shown(api, f"{path}/{name}"))
    assert tables[0] == tables[1]
