"""Service accounts and their tokens; reviews of who somebody is and what somebody may do; config maps."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.conftest import Server
from tests.support.builders import Json, a_pod
from tests.support.paths import ACCOUNTS, PODS
from tests.support.pod_specs import FORBIDDEN, INVALID, REQUIRED
from tests.support.real import kubectl
from tests.support.rest import Rest
from tests.support.rows import each_row

ISSUER = "https://kubernetes.default.svc"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ACCESS = "/apis/authorization.k8s.io/v1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
A_RIGHT = {"verb": "create", "resource": "pods", "namespace": "default"}


def claims(token: str) -> Any:
    """What a token says, without a look at its signature."""
    content = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))


def an_account(api: Rest, name: str) -> Json:
    return api.post(ACCOUNTS, {"metadata": {"name": name}}).ok(201)


def reviewed(api: Rest, token: str, *audiences: str) -> Json:
    status: Json = api.post(TOKEN_REVIEWS, {"spec": {"token": token, "audiences": list(audiences)}}).ok(201)["status"]
    return status


def test_an_account_keeps_what_it_is_given(api: Rest, name: str) -> None:
    body = {"secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "b"}], "automountServiceAccountToken": False}
    made = api.post(ACCOUNTS, {"metadata": {"name": name}, **body}).ok(201)
    assert body == {field: made[field] for field in body}
    assert "ServiceAccount" == api.delete(f"{ACCOUNTS}/{name}").ok()["kind"]


def test_a_token_names_its_account(api: Rest, name: str) -> None:
    account = an_account(api, name)
    answer = api.post(f"{ACCOUNTS}/{name}/token", {"spec": {}}).ok(201)
    assert {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": None} == answer["spec"]
    uid = account["metadata"]["uid"]
    assert (name, uid) == (answer["metadata"]["name"], answer["metadata"]["uid"])
    said = claims(answer["status"]["token"])
    assert (3600, said["iat"]) == (said["exp"] - said["iat"], said["nbf"])
    assert {"namespace": "default", "serviceaccount": {"name": name, "uid": uid}} == said["kubernetes.io"]
    assert ([ISSUER], ISSUER, f"system:serviceaccount:default:{name}") == (said["aud"], said["iss"], said["sub"])
    assert set(said) == {"aud", "exp", "iat", "iss", "jti", "kubernetes.io", "nbf", "sub"}


def test_a_token_for_a_pod_names_the_pod_and_its_node(api: Rest, name: str) -> None:
    """What a driver with tokenRequests is handed."""
    an_account(api, name)
    pod = api.post(PODS, a_pod(name, serviceAccountName=name, nodeName="n")).ok(201)
    bound = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": pod["metadata"]["uid"]}
    answer = api.post(f"{ACCOUNTS}/{name}/token", {"spec": {"audiences": ["storage"], "boundObjectRef": bound}}).ok(201)
    token = answer["status"]["token"]
    said = claims(token)["kubernetes.io"]
    assert ({"name": name, "uid": pod["metadata"]["uid"]}, {"name": "n"}) == (said["pod"], said["node"])
    status = reviewed(api, token, "storage")
    assert (True, ["storage"]) == (status["authenticated"], status["audiences"])
    extra = status["user"]["extra"]
    assert ([name], ["n"]) == (
        extra["authentication.kubernetes.io/pod-name"],
        extra["authentication.kubernetes.io/node-name"],
    )
    api.delete(f"{PODS}/{name}", gracePeriodSeconds=0).ok()


REFUSED: dict[str, tuple[Json, int, str, list[tuple[str, str]]]] = {
    "too_short": ({"expirationSeconds": 599}, 422, "Invalid", [(INVALID, "spec.expirationSeconds")]),
    "too_long": ({"expirationSeconds": 2**32 + 1}, 422, "Invalid", [(INVALID, "spec.expirationSeconds")]),
    "no_pod": ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "none-such"}}, 404, "NotFound", []),
    "no_node": ({"boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": "none-such"}}, 404, "NotFound", []),
    "no_secret": ({"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "none-such"}}, 404, "NotFound", []),
    "odd_kind": ({"boundObjectRef": {"kind": "Foo", "apiVersion": "v1", "name": "x"}}, 400, "BadRequest", []),
}


@each_row("row", REFUSED)
def test_a_token_is_refused(api: Rest, name: str, row: str) -> None:
    spec, status, reason, causes = REFUSED[row]
    an_account(api, name)
    api.post(f"{ACCOUNTS}/{name}/token", {"spec": spec}).refused(status, reason, *causes)


def test_a_token_is_for_one_account_and_its_pods(api: Rest, name: str) -> None:
    api.post(f"{ACCOUNTS}/none-such/token", {"spec": {}}).refused(404, "NotFound")
    an_account(api, name)
    pod = api.post(PODS, a_pod(name)).ok(201)
    bound = {"kind": "Pod", "apiVersion": "v1", "name": name}
    answer = api.post(f"{ACCOUNTS}/{name}/token", {"spec": {"boundObjectRef": bound}})
    answer.refused(400, "BadRequest", says="to pod running with different serviceaccount name")
    body = {"metadata": {"name": "other"}, "spec": {}}
    api.post(f"{ACCOUNTS}/{name}/token", body).refused(422, "Invalid", (INVALID, "metadata.name"))
    body = {"metadata": {"namespace": "other"}, "spec": {}}
    api.post(f"{ACCOUNTS}/{name}/token", body).refused(
        400, "BadRequest", says="the namespace of the provided object does not match"
    )
    second = an_account(api, f"{name}-2")
    assert second["metadata"]["uid"] != pod["metadata"]["uid"]


def test_a_token_is_reviewed(api: Rest, name: str) -> None:
    uid = an_account(api, name)["metadata"]["uid"]
    token = api.post(f"{ACCOUNTS}/{name}/token", {"spec": {}}).ok(201)["status"]["token"]
    user = reviewed(api, token)["user"]
    assert (f"system:serviceaccount:default:{name}", uid) == (user["username"], user["uid"])
    assert ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"] == user["groups"]
    assert "is invalid for the target audiences" in reviewed(api, token, "other")["error"]
    head, content, signature = token.split(".")
    forged = base64.urlsafe_b64encode(json.dumps({**claims(token), "sub": "root"}).encode()).rstrip(b"=").decode()
    for wrong in (
        f"{head}.{forged}.{signature}",
        f"{head}.{content}.{signature[:-8]}AAAAAAAA",
        f"{head}.{content}",
        "x",
        "x.y.z",
        "ü..",
    ):
        status = reviewed(api, wrong)
        assert ({}, False) == (status["user"], status.get("authenticated", False))
        assert "invalid bearer token" in status["error"]
    api.post(TOKEN_REVIEWS, {"spec": {}}).refused(400, "BadRequest", says="token is required")


def test_a_token_ends_with_its_account(servers: Callable[[str], Server], name: str) -> None:
    """On the embedded server at once; the real one remembers its answers for a while."""
    api = servers("embedded").api
    an_account(api, name)
    token = api.post(f"{ACCOUNTS}/{name}/token", {"spec": {}}).ok(201)["status"]["token"]
    assert reviewed(api, token)["authenticated"]
    api.delete(f"{ACCOUNTS}/{name}").ok()
    assert {"user": {}, "error": "invalid bearer token"} == reviewed(api, token)
    an_account(api, name)
    assert "authenticated" not in reviewed(api, token)


def test_a_token_opens_no_door_of_the_embedded_server(servers: Callable[[str], Server], name: str) -> None:
    """There are no roles, so whoever got in would own everything."""
    server = servers("embedded")
    an_account(server.api, name)
    token = server.api.post(f"{ACCOUNTS}/{name}/token", {"spec": {}}).ok(201)["status"]["token"]
    answer = server.api.request("GET", PODS, headers={"Authorization": f"Bearer {token}"})
    answer.refused(401, "Unauthorized")


def test_who_asks_may_do_everything(api: Rest) -> None:
    answer = api.post(f"{ACCESS}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": A_RIGHT}}).ok(201)
    assert ({"resourceAttributes": A_RIGHT}, {"allowed": True}) == (answer["spec"], answer["status"])
    body: Json = {"spec": {"nonResourceAttributes": {"path": "/x", "verb": "get"}}}
    assert {"allowed": True} == api.post(f"{ACCESS}/selfsubjectaccessreviews", body).ok(201)["status"]
    body = {"spec": {"user": "anybody", "groups": ["system:masters"], "resourceAttributes": A_RIGHT}}
    assert {"allowed": True} == api.post(f"{ACCESS}/subjectaccessreviews", body).ok(201)["status"]
    assert {"allowed": True} == api.post(f"{ACCESS}/namespaces/default/localsubjectaccessreviews", body).ok(201)[
        "status"
    ]
    rules = api.post(f"{ACCESS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}).ok(201)["status"]
    assert {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in rules["resourceRules"]
    assert "system:masters" in api.post(WHO_AM_I, {}).ok(201)["status"]["userInfo"]["groups"]


LOCAL = "namespaces/default/localsubjectaccessreviews"
BOTH = {"resourceAttributes": A_RIGHT, "nonResourceAttributes": {"path": "/x", "verb": "get"}}
UNCLEAR: dict[str, tuple[str, Json, tuple[str, str]]] = {
    "nothing": ("selfsubjectaccessreviews", {}, (INVALID, "spec.resourceAttributes")),
    "both": ("selfsubjectaccessreviews", BOTH, (INVALID, "spec.nonResourceAttributes")),
    "nobody": ("subjectaccessreviews", {"resourceAttributes": A_RIGHT}, (INVALID, "spec.user")),
    "elsewhere": (
        LOCAL,
        {"user": "u", "resourceAttributes": {**A_RIGHT, "namespace": "other"}},
        (INVALID, "spec.resourceAttributes.namespace"),
    ),
    "nowhere": (
        LOCAL,
        {"user": "u", "nonResourceAttributes": {"path": "/", "verb": "get"}},
        (INVALID, "spec.nonResourceAttributes"),
    ),
}


@each_row("row", UNCLEAR)
def test_an_unclear_question_gets_no_answer(api: Rest, row: str) -> None:
    path, spec, cause = UNCLEAR[row]
    api.post(f"{ACCESS}/{path}", {"spec": spec}).refused(422, "Invalid", cause)


def test_what_is_only_asked_is_neither_listed_nor_found(api: Rest) -> None:
    assert 405 == api.get(f"{ACCESS}/selfsubjectaccessreviews").status
    assert 404 == api.get(f"{ACCESS}/selfsubjectaccessreviews/x").status
    told = api.get(ACCESS).ok()["resources"]
    assert [["create"]] * 4 == [found["verbs"] for found in told]


@pytest.mark.slow
def test_kubectl_is_told_what_it_may_do(server: Server, name: str) -> None:
    assert "yes" == kubectl(server.kubeconfig, "auth", "can-i", "create", "pods").strip()
    assert "*.*" in kubectl(server.kubeconfig, "auth", "can-i", "--list")
    assert "system:masters" in kubectl(server.kubeconfig, "auth", "whoami")
    kubectl(server.kubeconfig, "create", "serviceaccount", name)
    token = kubectl(server.kubeconfig, "create", "token", name, "--duration=20m", "--audience=a").strip()
    assert (["a"], 1200) == (claims(token)["aud"], claims(token)["exp"] - claims(token)["iat"])


def test_a_config_map_holds_texts_and_bytes(api: Rest, name: str) -> None:
    made = api.post(CONFIG_MAPS, {"metadata": {"name": name}, "data": {"a": "b"}, "binaryData": {"c": "AA=="}}).ok(201)
    assert ({"a": "b"}, {"c": "AA=="}) == (made["data"], made["binaryData"])
    api.patch(f"{CONFIG_MAPS}/{name}", {"immutable": True}).ok()
    api.patch(f"{CONFIG_MAPS}/{name}", {"data": {"a": "x"}}).refused(422, "Invalid", (FORBIDDEN, "data"))
    api.patch(f"{CONFIG_MAPS}/{name}", {"immutable": None}).refused(422, "Invalid", (FORBIDDEN, "immutable"))
    assert "Status" == api.delete(f"{CONFIG_MAPS}/{name}").ok()["kind"]


def test_a_config_map_is_looked_at(api: Rest, name: str) -> None:
    wrong = {"metadata": {"name": name}, "data": {"a b": "", "c": ""}, "binaryData": {"c": "AA==", "d e": "AA=="}}
    causes = [(INVALID, "data[a b]"), (INVALID, "binaryData[d e]"), (INVALID, "data[c]")]
    api.post(CONFIG_MAPS, wrong).refused(422, "Invalid", *causes)
    api.post(CONFIG_MAPS, {"metadata": {"name": name}, "data": {"a": "x" * (1 << 20), "b": "x"}}).refused(
        422, "Invalid"
    )
    api.post(CONFIG_MAPS, {"metadata": {}}).refused(422, "Invalid", (REQUIRED, "metadata.name"))
