"""Pods for tests of API servers: a plain one, and pods with one thing changed."""

from __future__ import annotations

from typing import Any, Final

from tests.support.builders import CONTAINER, Json
from tests.support.paths import PODS
from tests.support.rest import Rest

CLAIM: Final = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
REQUIRED, INVALID, FORBIDDEN = "FieldValueRequired", "FieldValueInvalid", "FieldValueForbidden"
UNSUPPORTED, DUPLICATE, NOT_FOUND = "FieldValueNotSupported", "FieldValueDuplicate", "FieldValueNotFound"
Row = tuple[Json, list[tuple[str, str]]]


def pod(**spec: Any) -> Json:
    """A spec."""
    return {"containers": [CONTAINER], **spec}


def container(**fields: Any) -> Json:
    return pod(containers=[{**CONTAINER, **fields}])


def first(**fields: Any) -> Json:
    """With an init container."""
    return pod(initContainers=[{"name": "i", "image": "i", **fields}])


def volume(**fields: Any) -> Json:
    return pod(volumes=[{"name": "v", **fields}])


def probe(kind: str = "livenessProbe", **fields: Any) -> Json:
    return container(**{kind: {"exec": {"command": ["x"]}, **fields}})


def variable(**fields: Any) -> Json:
    return container(env=[{"name": "A", **fields}])


def mount(**fields: Any) -> Json:
    return {**container(volumeMounts=[{"name": "v", "mountPath": "/x", **fields}]), "volumes": [{"name": "v"}]}


def claim(metadata: Json | None = None, **spec: Any) -> Json:
    """A volume that brings its claim."""
    full = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return volume(ephemeral={"volumeClaimTemplate": {"metadata": metadata or {}, "spec": full}})


def check(api: Rest, row: Row, at: str = "") -> None:
    """The pod is refused for these causes and no others; taken where there are none. Nothing is stored.

    at: where fields that begin with a dot lie.
    """
    spec, causes = row
    answer = api.post(PODS, {"metadata": {"name": "judged"}, "spec": spec}, dryRun="All")
    if not causes:
        answer.ok(201)
        return
    found = answer.refused(422, "Invalid")["details"]["causes"]
    wanted = {(reason, at + field if field.startswith(".") else field) for reason, field in causes}
    assert wanted == {(cause["reason"], cause["field"]) for cause in found}, answer
