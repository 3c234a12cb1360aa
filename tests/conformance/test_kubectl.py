"""The real kubectl on the embedded server: what people type first. And on the real one, so that the test is honest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.conftest import Server
from tests.support.builders import a_pv, a_va
from tests.support.real import kubectl, run_kubectl
from tests.support.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.fixture
def config(server: Server, tmp_path: Path) -> Path:
    """A kubeconfig beside which kubectl keeps its cache."""
    path = tmp_path / "kubeconfig"
    path.write_bytes(server.kubeconfig.read_bytes())
    return path


def manifest(name: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "PersistentVolume", **a_pv(name)})


def test_kubectl_creates_reads_changes_and_deletes(config: Path, name: str) -> None:
    va = json.dumps({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", **a_va(name)})
    assert f"volumeattachment.storage.k8s.io/{name} created" in kubectl(config, "create", "-f", "-", stdin=va)
    assert name in kubectl(config, "get", "volumeattachments")
    found = json.loads(kubectl(config, "get", "volumeattachment", name, "-o", "json"))
    assert {"attached": False} == found["status"]
    kubectl(config, "label", "volumeattachment", name, "a=b")
    kubectl(config, "annotate", "volumeattachment", name, "c=d")
    kubectl(
        config,
        "patch",
        "volumeattachment",
        name,
        "--type=merge",
        "--subresource=status",
        '-p={"status":{"attached":true}}',
    )
    shape = "jsonpath={.metadata.labels.a}{.metadata.annotations.c}{.status.attached}"
    assert "bdtrue" == kubectl(config, "get", "volumeattachment", name, "-o", shape)
    assert "deleted" in kubectl(config, "delete", "volumeattachment", name, "--timeout=20s")
    assert "NotFound" in run_kubectl(config, "get", "volumeattachment", name).stderr


def test_kubectl_applies_twice(config: Path, name: str) -> None:
    assert "created" in kubectl(config, "apply", "-f", "-", stdin=manifest(name))
    assert "unchanged" in kubectl(config, "apply", "-f", "-", stdin=manifest(name))
    assert "configured" in kubectl(config, "apply", "-f", "-", stdin=manifest(name).replace('"1Gi"', '"2Gi"'))
    assert "2Gi" == kubectl(config, "get", "pv", name, "-o", "jsonpath={.spec.capacity.storage}")


def test_kubectl_shows_why_an_object_is_refused(config: Path, name: str) -> None:
    wrong = run_kubectl(config, "create", "-f", "-", stdin=manifest(name).replace("ReadWriteOnce", "Sometimes"))
    assert wrong.returncode == 1
    assert f'The PersistentVolume "{name}" is invalid: spec.accessModes: Unsupported value: "Sometimes"' in wrong.stderr
    unknown = run_kubectl(config, "create", "-f", "-", stdin=manifest(name).replace('"csi"', '"odd": 1, "csi"'))
    assert 'strict decoding error: unknown field "spec.odd"' in unknown.stderr


@each_row("kind", ["pv", "no", "ns", "secrets", "leases", "events", "csinodes", "csidrivers", "volumeattachments"])
def test_kubectl_finds_each_kind(config: Path, kind: str) -> None:
    assert json.loads(kubectl(config, "get", kind, "--all-namespaces", "-o", "json"))["kind"] == "List"


def test_kubectl_waits(config: Path, name: str) -> None:
    kubectl(config, "create", "-f", "-", stdin=manifest(name))
    assert "met" in kubectl(config, "wait", "pv", name, "--for=jsonpath={.status.phase}=Pending", "--timeout=20s")
