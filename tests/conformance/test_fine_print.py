"""The fine print of kinds beside pods, found by reading rule after rule: the same verdict from both servers."""

from __future__ import annotations

import base64
from typing import Any, Final

from tests.support.builders import Json, a_node, a_pv, a_secret, a_va
from tests.support.paths import NODES, PVS, SECRETS, VAS
from tests.support.rest import Rest
from tests.support.rows import each_row

INVALID, REQUIRED, FORBIDDEN, LONG = (
    "FieldValueInvalid",
    "FieldValueRequired",
    "FieldValueForbidden",
    "FieldValueTooLong",
)
NEW_EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/default/events"
CSI_NODES: Final = "/apis/storage.k8s.io/v1/csinodes"
Cause = tuple[str, str]


def verdict(api: Rest, path: str, obj: Json, *wanted: Cause) -> None:
    answer = api.post(path, {**obj, "metadata": {"name": "judged", **obj.get("metadata", {})}}, dryRun="All")
    told = [(cause["reason"], cause["field"]) for cause in answer.json.get("details", {}).get("causes", ())]
    assert sorted(set(wanted)) == sorted(set(told)), answer
    assert answer.status == (422 if wanted else 201), answer


def secret(kind: str, **data: str) -> Json:
    return {
        "type": f"kubernetes.io/{kind}",
        "data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()},
    }


@each_row(
    ("text", "fits"), [("5", False), ("[]", False), ('"a"', False), ("{", False), ("null", True), ('{"a":1}', True)]
)
def test_the_logins_of_registries_are_objects(api: Rest, text: str, fits: bool) -> None:
    for kind, key in (("dockercfg", ".dockercfg"), ("dockerconfigjson", ".dockerconfigjson")):
        verdict(api, SECRETS, secret(kind, **{key: text}), *([] if fits else [(INVALID, f"data[{key}]")]))


def test_a_key_of_ssh_is_not_empty(api: Rest) -> None:
    verdict(api, SECRETS, secret("ssh-auth", **{"ssh-privatekey": ""}), (REQUIRED, "data[ssh-privatekey]"))
    verdict(api, SECRETS, secret("ssh-auth", **{"ssh-privatekey": "x"}))


def test_the_length_of_keys_is_that_of_their_bytes(api: Rest) -> None:
    told = api.post(SECRETS, {**a_secret("judged"), "data": {"ü" * 127: ""}}).refused(422, "Invalid")["details"][
        "causes"
    ]
    assert 2 == len(told), told


@each_row("path", ["/", "//", "/.", "/./"])
def test_the_root_is_not_recycled_however_it_is_spelled(api: Rest, path: str) -> None:
    field = "spec.persistentVolumeReclaimPolicy"
    obj = a_pv("judged", source={"hostPath": {"path": path}}, persistentVolumeReclaimPolicy="Recycle")
    verdict(api, PVS, obj, (FORBIDDEN, field))


INLINE: Final = "spec.source.inlineVolumeSpec"


@each_row(
    ("fields", "causes"),
    [
        ({"nodeAffinity": {}}, [(FORBIDDEN, f"{INLINE}.nodeAffinity")]),
        ({"claimRef": {}}, [(FORBIDDEN, f"{INLINE}.claimRef")]),
        ({"capacity": {}}, []),
        (
            {"csi": None, "local": {"path": "/x"}, "nodeAffinity": {"required": {"nodeSelectorTerms": []}}},
            [(REQUIRED, f"{INLINE}.csi"), (FORBIDDEN, f"{INLINE}.nodeAffinity"), (REQUIRED, f"{INLINE}.nodeAffinity")],
        ),
    ],
    ids=["affinity", "claim", "capacity", "local"],
)
def test_volumes_in_attachments(api: Rest, fields: Json, causes: list[Cause]) -> None:
    inline = {"accessModes": ["ReadWriteOnce"], "csi": {"driver": "d", "volumeHandle": "h"}, **fields}
    verdict(api, VAS, {"spec": {"attacher": "d", "nodeName": "n", "source": {"inlineVolumeSpec": inline}}}, *causes)


def test_bytes_are_counted_and_not_letters(api: Rest, name: str) -> None:
    verdict(api, VAS, a_va("judged", attacher="ü" * 32), (LONG, "spec.attacher"), (INVALID, "spec.attacher"))
    verdict(
        api, CSI_NODES, {"spec": {"drivers": [{"name": "d", "nodeID": "ü" * 129}]}}, (INVALID, "spec.drivers[0].nodeID")
    )
    timed: dict[str, Any] = {
        "eventTime": "2024-01-02T03:04:05.000006Z",
        "reportingController": "a.b/c",
        "reportingInstance": "i",
    }
    event = {**timed, "action": "A", "reason": "R", "regarding": {"namespace": "default"}, "type": "Normal"}
    verdict(api, NEW_EVENTS, {**event, "action": "ü" * 65}, (INVALID, "action"))
    verdict(api, NEW_EVENTS, {**event, "note": "ü" * 513}, (INVALID, "message"))


def test_the_bound_that_an_error_of_an_attachment_is_told(api: Rest, name: str) -> None:
    api.post(VAS, a_va(name)).ok(201)
    change = {"status": {"attached": False, "attachError": {"message": "x" * 1025}}}
    refused = api.patch(f"{VAS}/{name}/status", change)
    refused.invalid((LONG, "status.attachError.message", "may not be more than 262144 bytes"))


def test_owners_that_control(api: Rest) -> None:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True} for name in "abc"]
    answer = api.post(SECRETS, a_secret("judged", ownerReferences=owners), dryRun="All")
    text = 'Only one reference can have Controller set to true. Found "true" in references for Pod/a and Pod'
    answer.invalid(*[(INVALID, "metadata.ownerReferences", f"{text}/{other}") for other in "bc"])


def test_events_own_nothing_in_either_spelling(api: Rest) -> None:
    for version in ("v1", "/v1"):
        owners = [{"apiVersion": version, "kind": "Event", "name": "a", "uid": "a"}]
        verdict(api, SECRETS, {"metadata": {"ownerReferences": owners}}, (INVALID, "metadata.ownerReferences"))


def test_a_generated_name_is_told_without_the_label_that_has_it(api: Rest) -> None:
    told = api.post("/api/v1/namespaces", {"metadata": {"generateName": "-"}}).refused(422, "Invalid")["details"][
        "causes"
    ]
    assert ["metadata.generateName", "metadata.name"] == [cause["field"] for cause in told]


ZEROS, MAPPED, BITS, NO_NETWORK, NO_ADDRESS, TWO = (
    "must not have leading 0s",
    "must not",
    "must not have bits set beyond the prefix length",
    "must be a valid CIDR value",
    "must be a valid IP address",
    "may specify no more than one",
)


@each_row(
    ("networks", "field", "why"),
    [
        (["1.2.3.0/24", "fd00::/64"], "", ""),
        (["fd00::0001:0/112"], "", ""),
        (["010.0.0.0/8"], "[0]", ZEROS),
        (["10.0.0.0/08"], "[0]", ZEROS),
        (["::ffff:1.2.3.4/120"], "[0]", MAPPED),
        (["10.0.0.1/8"], "[0]", BITS),
        (["10.0.0.0/33"], "[0]", NO_NETWORK),
        (["10.0.0.0"], "[0]", NO_NETWORK),
        (["10.0.0.0/+8"], "[0]", NO_NETWORK),
        (["fd00::%a/64"], "[0]", NO_NETWORK),
        (["1.2.3.0/24", "1.2.4.0/24"], "", TWO),
    ],
)
def test_networks_of_a_node(api: Rest, networks: list[str], field: str, why: str) -> None:
    answer = api.post(NODES, a_node("judged", {"podCIDRs": networks}), dryRun="All")
    if why:
        answer.invalid((INVALID, f"spec.podCIDRs{field}", why))
    else:
        answer.ok(201)
