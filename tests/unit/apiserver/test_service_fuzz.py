"""Whatever is asked, the service answers: never an internal error, never an exception."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.apiserver.effort import Effort
from mooring.apiserver.web.messages import HttpReply, HttpRequest, WatchReply
from mooring.apiserver.web.queries import route_of
from mooring.apiserver.web.service import Service
from mooring.base.clock import LoopClock
from tests.support.builders import a_secret, a_va
from tests.unit.apiserver.objects import a_store

TYPES = st.sampled_from(
    [
        "",
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "text/plain",
    ]
)
ACCEPTS = st.sampled_from(
    ["", "*/*", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;q=x", "application/yaml", ",;=,"]
)
WORDS = st.sampled_from(
    [
        "api",
        "v1",
        "apis",
        "namespaces",
        "default",
        "secrets",
        "a",
        "storage.k8s.io",
        "volumeattachments",
        "status",
        "",
        ".",
        "..",
        "\0",
        "ü",
        "%",
    ]
)
PATHS = st.one_of(
    st.sampled_from(
        [
            "api/v1/namespaces/default/secrets",
            "api/v1/namespaces/default/secrets/a",
            "apis/storage.k8s.io/v1/volumeattachments",
            "api/v1/nodes/a/status",
        ]
    ).map(lambda path: tuple(path.split("/"))),
    st.lists(WORDS, min_size=1, max_size=7).map(tuple),
)
NAMES = st.sampled_from(
    [
        "watch",
        "resourceVersion",
        "resourceVersionMatch",
        "limit",
        "continue",
        "labelSelector",
        "fieldSelector",
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
        "timeoutSeconds",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "gracePeriodSeconds",
        "propagationPolicy",
        "includeObject",
        "verbose",
    ]
)
VALUES = st.one_of(
    st.sampled_from(["1", "0", "true", "All", "-1", "9" * 30, "a=b", "a in (b", "Strict", "Exact"]), st.text(max_size=8)
)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5))
KEYS = st.sampled_from(
    [
        "metadata",
        "spec",
        "status",
        "name",
        "namespace",
        "kind",
        "apiVersion",
        "labels",
        "data",
        "finalizers",
        "op",
        "path",
        "$patch",
    ]
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.one_of(KEYS, st.text(max_size=4)), inner, max_size=4)
    ),
    max_leaves=12,
)


def objects() -> st.SearchStrategy[Any]:
    """A good object, one part of which is something else."""
    good = st.sampled_from([a_secret("a"), a_va("a")])
    return st.builds(lambda obj, key, value: {**obj, key: value}, good, KEYS, JSON)


def encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (OverflowError, msgspec.MsgspecError):
        return b"null"


BODIES = st.one_of(
    JSON.map(encoded),
    objects().map(encoded),
    st.binary(max_size=80),
    st.binary(max_size=80).map(lambda data: b"k8s\0" + data),
)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "BREW"]),
    PATHS,
    st.dictionaries(NAMES, VALUES, max_size=3),
    TYPES,
    ACCEPTS,
    BODIES,
)
def test_whatever_is_asked_is_answered(
    method: str, path: tuple[str, ...], query: dict[str, str], kind: str, accept: str, body: bytes
) -> None:
    store = a_store()
    service = Service(store, clock=LoopClock(epoch_s=None), token="t")
    headers = {"authorization": "Bearer t", "content-type": kind, "accept": accept}
    request = HttpRequest(method, path, query, headers, body)
    assert service.refusal(request) is None
    answers = [service.answer(request, route_of(path, store), Effort()) for _ in range(2)]
    for answer in answers:
        assert isinstance(answer, WatchReply) or answer.status < 500 or answer.status == 504, answer
        assert not isinstance(answer, HttpReply) or b"Traceback" not in answer.body
