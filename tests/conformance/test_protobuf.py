"""Bodies in protobuf, as Go clients send them: every field of every kind means what it means in JSON, on both
servers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.apiserver.custom.definition_kind import CUSTOM_RESOURCE_DEFINITIONS as DEFINITIONS
from mooring.apiserver.metadata import META_MESSAGES as META
from mooring.apiserver.resource import Resource, Status
from mooring.apiserver.rules import RESOURCES
from mooring.apiserver.rules.lease import LEASES as LEASE
from tests.conformance.conftest import Server
from tests.support.builders import a_lease, a_secret, a_va
from tests.support.paths import LEASES, SECRETS, VAS
from tests.support.protobuf import PROTOBUF, body, chunk, encode, envelope, number
from tests.support.rest import Answer, Rest
from tests.support.rows import each_row
from tests.support.samples import Sample, samples
from tests.support.waiting import eventually

KINDS = [
    resource
    for resource in RESOURCES
    if resource.decode is None and resource.kind not in ("Binding", "SelfSubjectRulesReview")
]
SAMPLES = [sample for resource in KINDS for sample in samples(resource)]
WITH_STATUS = [sample for sample in SAMPLES if sample.resource.status is not Status.NONE and sample.has_status]
WRONG_UID = "11111111-2222-3333-4444-555555555555"


def path_of(resource: Resource) -> str:
    root = f"/apis/{resource.api_version}" if resource.group else "/api/v1"
    return f"{root}/namespaces/default/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"


def compared(answer: Answer, status: int) -> dict[str, Any]:
    """The answer without what differs from one write to the next."""
    obj = answer.ok(status)
    for field in ("uid", "creationTimestamp", "managedFields"):
        obj["metadata"].pop(field, None)
    obj.get("status", {}).pop("lastPhaseTransitionTime", None)
    return obj


@each_row("sample", SAMPLES, ids=str)
def test_AO39_protobuf_and_json_bodies_mean_the_same(api: Rest, name: str, sample: Sample) -> None:
    """Also what the field numbers of our declarations are held against: the real server reads them."""
    resource, obj = sample.resource, sample.make(name)
    plain = api.post(path_of(resource), obj, dryRun="All")
    packed = api.request("POST", path_of(resource), body(resource, obj), PROTOBUF, dryRun="All")
    assert without_new_times(compared(plain, 201)) == without_new_times(compared(packed, 201))


def without_new_times(obj: dict[str, Any]) -> dict[str, Any]:
    """A pod that waits at a gate gets a condition with the time of now."""
    for condition in obj.get("status", {}).get("conditions", ()):
        condition.pop("lastTransitionTime", None)
    return obj


@each_row("sample", WITH_STATUS, ids=str)
def test_statuses_may_be_protobuf(api: Rest, name: str, sample: Sample) -> None:
    resource, obj = sample.resource, sample.make(name)
    made = api.post(path_of(resource), {part: value for part, value in obj.items() if part != "status"}).ok(201)
    place, changed = f"{path_of(resource)}/{name}/status", {**made, "status": obj["status"]}
    plain = compared(api.put(place, changed, dryRun="All"), 200)
    assert plain == compared(api.request("PUT", place, body(resource, changed), PROTOBUF, dryRun="All"), 200)
    assert plain["status"]


def test_AO39_a_lease_lives_in_protobuf(api: Rest, name: str) -> None:
    """Leader election of a Go client: create, renew, lose against a newer version."""
    lease = a_lease(
        name, acquireTime="2024-05-06T07:08:09.123456Z", renewTime="2024-05-06T07:08:09.123456Z", leaseTransitions=0
    )
    made = api.request("POST", LEASES, body(LEASE, lease), PROTOBUF).ok(201)
    assert lease["spec"] == made["spec"]
    made["spec"]["renewTime"] = "2024-05-06T07:08:10.000001Z"
    renewed = api.request("PUT", f"{LEASES}/{name}", body(LEASE, made), PROTOBUF).ok()
    assert "2024-05-06T07:08:10.000001Z" == renewed["spec"]["renewTime"]
    api.request("PUT", f"{LEASES}/{name}", body(LEASE, made), PROTOBUF).refused(409, "Conflict")


@each_row("api_version", ["v1", "meta.k8s.io/v1", "storage.k8s.io/v1"])
def test_deletions_may_have_their_options_in_protobuf(api: Rest, name: str, api_version: str) -> None:
    uid = api.post(VAS, a_va(name)).ok(201)["metadata"]["uid"]

    def options(preconditions: dict[str, Any]) -> bytes:
        given = {"preconditions": preconditions, "propagationPolicy": "Background", "gracePeriodSeconds": 0}
        return envelope(api_version, "DeleteOptions", encode(META["DeleteOptions"], given))

    api.request("DELETE", f"{VAS}/{name}", options({"uid": WRONG_UID}), PROTOBUF).refused(409, "Conflict")
    api.request("DELETE", f"{VAS}/{name}", options({"uid": uid}), PROTOBUF).ok()
    api.get(f"{VAS}/{name}").refused(404, "NotFound")


def test_a_dry_run_in_protobuf_options_deletes_nothing(api: Rest, name: str) -> None:
    api.post(VAS, a_va(name)).ok(201)
    dry = envelope("v1", "DeleteOptions", encode(META["DeleteOptions"], {"dryRun": ["All"]}))
    api.request("DELETE", f"{VAS}/{name}", dry, PROTOBUF).ok()
    api.get(f"{VAS}/{name}").ok()


def test_numbers_below_zero_are_refused_by_the_rule(api: Rest, name: str) -> None:
    wrong = api.request("POST", LEASES, body(LEASE, a_lease(name, leaseTransitions=-1)), PROTOBUF)
    wrong.refused(422, "Invalid", ("FieldValueInvalid", "spec.leaseTransitions"))


def test_unknown_numbers_are_skipped(api: Rest, name: str) -> None:
    later = (
        chunk(999, b"later")
        + number(998, 5)
        + b"\xbd\x3e\x01\x02\x03\x04"
        + b"\xb9\x3e\x01\x02\x03\x04\x05\x06\x07\x08"
    )
    content = encode(LEASE.message, a_lease(name)) + later
    made = api.request("POST", LEASES, envelope(LEASE.api_version, "Lease", content), PROTOBUF).ok(201)
    assert "me" == made["spec"]["holderIdentity"]


def test_the_envelope_may_leave_the_kind_to_the_url(api: Rest, name: str) -> None:
    content = chunk(2, encode(LEASE.message, a_lease(name)))
    assert "Lease" == api.request("POST", LEASES, b"k8s\0" + content, PROTOBUF).ok(201)["kind"]


MALFORMED = [
    b"",
    b"k8s\0",
    b"k8s\0\xff\xff\xff",
    b"{}",
    b"k8s\0\x0a\xff\xff\xff\xff\x0f",
    envelope("v1", "Secret", b"\x0a\x05abc"),
]


@each_row("content", MALFORMED, ids=["empty", "magic", "junk", "json", "length", "cut"])
def test_malformed_bodies_are_bad_requests(api: Rest, content: bytes) -> None:
    assert "BadRequest" == api.request("POST", SECRETS, content, PROTOBUF).refused(400, "BadRequest")["reason"]


def test_another_kind_in_the_envelope_is_a_bad_request(api: Rest, name: str) -> None:
    wrong = envelope("v1", "Secret", encode(LEASE.message, a_lease(name)))
    api.request("POST", LEASES, wrong, PROTOBUF).refused(400, "BadRequest")
    api.get(f"{LEASES}/{name}").refused(404, "NotFound")


def test_letters_cut_in_the_middle_are_replaced(api: Rest, name: str) -> None:
    """Go clients cut long messages by bytes; neither server drops the object for that."""
    secret = a_secret(name)
    cut = chunk(1, chunk(1, name.encode()) + chunk(12, chunk(1, b"note") + chunk(2, "Größe".encode()[:3])))
    made = api.request("POST", SECRETS, envelope("v1", "Secret", cut), PROTOBUF).ok(201)
    assert (secret["metadata"]["name"], "Gr\ufffd") == (
        made["metadata"]["name"],
        made["metadata"]["annotations"]["note"],
    )


def a_definition(plural: str) -> dict[str, Any]:
    """One whose schema has every field that may hold one thing or another."""
    fields = {
        "list": {"type": "array", "items": {"type": "string", "enum": ["x", "y"], "default": "x"}, "maxItems": 5},
        "numbers": {"type": "object", "additionalProperties": {"type": "number", "minimum": 0.5, "maximum": 9}},
        "open": {"type": "object", "additionalProperties": True},
        "either": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "text": {
            "type": "string",
            "nullable": True,
            "example": {"a": [1]},
            "x-kubernetes-validations": [{"rule": "self != ''"}],
        },
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "required": ["text"], "properties": fields}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Text", "type": "string", "jsonPath": ".spec.text", "priority": 1}],
    }
    names = {"plural": plural, "singular": plural[:-1], "kind": plural.capitalize(), "shortNames": [plural[:4]]}
    spec = {"group": "protobuf.test", "scope": "Cluster", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{plural}.protobuf.test"}, "spec": spec}


def test_definitions_mean_the_same_in_protobuf_and_json(api: Rest) -> None:
    plain = api.post(path_of(DEFINITIONS), a_definition("packeds"), dryRun="All")
    packed = api.request(
        "POST", path_of(DEFINITIONS), body(DEFINITIONS, a_definition("packeds")), PROTOBUF, dryRun="All"
    )
    assert compared(plain, 201) == compared(packed, 201)


def test_custom_objects_are_not_for_protobuf(servers: Callable[[str], Server], name: str) -> None:
    """Differs from kube-apiserver, which falls over this and cuts the connection."""
    api = servers("embedded").api
    definition = a_definition("customs")
    assert api.post(path_of(DEFINITIONS), definition).status in (201, 409)
    eventually(lambda: api.get("/apis/protobuf.test/v1/customs").status == 200, 30, "the kind is served")
    content = chunk(1, chunk(1, name.encode()))
    refused = api.request(
        "POST", "/apis/protobuf.test/v1/customs", envelope("protobuf.test/v1", "Customs", content), PROTOBUF
    )
    refused.refused(415, "UnsupportedMediaType", says="accepted media types include: application/json")
