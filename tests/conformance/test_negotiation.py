"""Which media type is answered, on both servers."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json

import yaml

from tests.support.builders import a_lease, a_va
from tests.support.paths import LEASES, VAS
from tests.support.rest import Rest
from tests.support.rows import each_row

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def kind_of(api: Rest, path: str, accept: str) -> str:
    answer = api.request("GET", path, headers={"Accept": accept})
    assert "application/json" == (answer.headers["Content-Type"] or "").partition(";")[0]
    return str(answer.ok()["kind"])


@each_row(
    "accept",
    [
        *("*/*", " ", "application/json; charset=utf-8", "application/json;odd=1", "application/json;stream=watch"),
        *("application/json;q=0", "application/json;q=abc", "text/html,application/json;q=0.9", "text/html, */*;q=0.1"),
        *("application/cbor,application/json", "application/json;as=Nope;v=v1;g=meta.k8s.io,application/json"),
        *("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", f"{TABLE};q=0.5,application/json;q=0.9"),
        *("application/json;as=Table,application/json", "application/json;stream=odd,application/json"),
    ],
)
def test_whoever_can_read_json_gets_it(api: Rest, accept: str) -> None:
    assert "VolumeAttachmentList" == kind_of(api, VAS, accept)


@each_row(
    "accept",
    [
        f"{TABLE},application/json",
        "application/json;as=Table;g=meta.k8s.io;v=v1beta1",
        "*/*;as=Table;v=v1;g=meta.k8s.io",
    ],
)
def test_whoever_asks_for_tables_gets_them(api: Rest, accept: str) -> None:
    assert "Table" == kind_of(api, VAS, accept)


@each_row(
    "accept",
    [
        *(
            "text/html",
            "application/*",
            "application/cbor",
            "image/png;q=0.5",
            "application/json;as=Nope;v=v1;g=meta.k8s.io",
        ),
        *(
            "application/json;as=Table",
            "application/json;as=;v=v1;g=meta.k8s.io",
            "application/json;v=v1;g=meta.k8s.io",
        ),
        *("application/json;stream=odd", "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io"),
    ],
)
def test_nothing_fits(api: Rest, accept: str) -> None:
    api.request("GET", VAS, headers={"Accept": accept}).refused(
        406, "NotAcceptable", says="application/json, application/yaml"
    )


def test_answers_and_refusals_may_be_yaml(api: Rest, name: str) -> None:
    api.post(VAS, a_va(name)).ok(201)
    found = api.request("GET", f"{VAS}/{name}", headers={"Accept": "application/yaml"})
    missing = api.request("GET", f"{VAS}/{name}-x", headers={"Accept": "application/yaml"})
    assert [(200, "application/yaml"), (404, "application/yaml")] == [
        (a.status, a.headers["Content-Type"]) for a in (found, missing)
    ]
    assert [name, "NotFound"] == [
        yaml.safe_load(found.body)["metadata"]["name"],
        yaml.safe_load(missing.body)["reason"],
    ]


def test_watches_are_not_for_yaml(api: Rest) -> None:
    assert 406 == api.request("GET", VAS, headers={"Accept": "application/yaml"}, watch="true", timeoutSeconds=1).status


def test_long_answers_are_packed_for_those_who_can_unpack_them(api: Rest, name: str) -> None:
    big = a_lease(name)
    big["metadata"] = {"name": name, "annotations": {"a": "long" * 40_000}, "labels": {"of": name}}
    api.post(LEASES, big).ok(201)
    plain = api.get(LEASES, labelSelector=f"of={name}")
    packed = api.request("GET", LEASES, headers={"Accept-Encoding": "gzip"}, labelSelector=f"of={name}")
    assert (None, "gzip") == (plain.headers["Content-Encoding"], packed.headers["Content-Encoding"])
    assert plain.json["items"] == json.loads(gzip.decompress(packed.body))["items"]
    assert len(packed.body) < len(plain.body) / 10


def test_short_answers_are_sent_as_they_are(api: Rest, name: str) -> None:
    api.post(LEASES, a_lease(name)).ok(201)
    assert api.request("GET", f"{LEASES}/{name}", headers={"Accept-Encoding": "gzip"}).ok()["metadata"]["name"] == name


@each_row(
    ("path", "names"),
    [
        ("/api/v1/watch/namespaces/kube-system?timeoutSeconds=1", ["kube-system"]),
        ("/api/v1/watch/namespaces/default?timeoutSeconds=1&watch=false", ["default"]),
    ],
)
def test_old_paths_of_watches_are_watches(api: Rest, path: str, names: list[str]) -> None:
    lines = [json.loads(line) for line in api.request("GET", path).body.splitlines()]
    assert [("ADDED", name) for name in names] == [(one["type"], one["object"]["metadata"]["name"]) for one in lines]


@each_row("group", ["", "storage.k8s.io", "apps", "batch", "coordination.k8s.io", "events.k8s.io"])
def test_a_kind_says_by_a_hash_as_what_it_is_stored(api: Rest, group: str) -> None:
    """Events of both groups are stored as those of core."""
    found = api.get(f"/apis/{group}/v1" if group else "/api/v1").ok()["resources"]
    stored_in = "" if group == "events.k8s.io" else group
    kinds = ("Pod", "Secret", "StorageClass", "VolumeAttachment", "Deployment", "Job", "Lease", "Event")
    seen = {one["kind"]: one["storageVersionHash"] for one in found if "/" not in one["name"] and one["kind"] in kinds}
    assert seen
    for kind, value in seen.items():
        assert base64.b64encode(hashlib.sha256(f"{stored_in}/v1/{kind}".encode()).digest()[:8]).decode() == value
