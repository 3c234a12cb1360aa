"""kubectl moves from its own apply to the server's: what other writers wrote meanwhile stays, on both servers."""

from __future__ import annotations

import json

import pytest

from tests.conformance.conftest import Server
from tests.support.paths import PVCS, PVS
from tests.support.real import kubectl, run_kubectl
from tests.support.rest import Rest

pytestmark = [pytest.mark.real, pytest.mark.slow]

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
RWO = ["ReadWriteOnce"]


def applied(server: Server, obj: dict[str, object], side: str = "") -> None:
    kubectl(server.kubeconfig, "apply", *([side] if side else []), "-f", "-", stdin=json.dumps(obj))


def written(api: Rest, path: str, body: dict[str, object], manager: str) -> None:
    api.patch(path, body, fieldManager=manager).ok()


def test_what_others_wrote_to_a_volume_stays(server: Server, name: str) -> None:
    csi = {"driver": "d", "volumeHandle": "h"}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": RWO, "storageClassName": "gold", "csi": csi}
    file = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    applied(server, file)
    held = ["kubernetes.io/pv-protection", "external-attacher/d"]
    by_attacher = {"finalizers": held, "annotations": {"pv.kubernetes.io/provisioned-by": "d"}}
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name}
    written(server.api, f"{PVS}/{name}", {"metadata": by_attacher, "spec": {"claimRef": reference}}, "csi-attacher")
    for _ in range(2):
        applied(server, file, "--server-side")
        kept = server.api.get(f"{PVS}/{name}").ok()
        assert (set(held), "d") == (
            {*kept["metadata"]["finalizers"]},
            kept["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"],
        )
        assert {"namespace": "default", "name": name}.items() <= kept["spec"]["claimRef"].items()


def test_a_claim_keeps_its_volume_and_its_protection(server: Server, name: str) -> None:
    spec = {"accessModes": RWO, "storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}}
    file = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }
    applied(server, file)
    noted = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    written(server.api, f"{PVCS}/{name}", {"metadata": noted, "spec": {"volumeName": "v"}}, "binder")
    for _ in range(2):
        applied(server, file, "--server-side")
        kept = server.api.get(f"{PVCS}/{name}").ok()
        assert (["kubernetes.io/pvc-protection"], "v") == (kept["metadata"]["finalizers"], kept["spec"]["volumeName"])
        assert "yes" == kept["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"]


def test_a_scale_stays_and_a_default_may_be_said_by_the_file_later(server: Server, name: str) -> None:
    template = {"metadata": {"labels": {"a": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": name}}, "template": template}
    file = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }
    applied(server, file)
    kubectl(server.kubeconfig, "scale", "deployment", name, "--replicas=4")
    applied(server, file, "--server-side")
    assert 4 == server.api.get(f"{DEPLOYMENTS}/{name}").ok()["spec"]["replicas"]
    applied(server, {**file, "spec": {**spec, "revisionHistoryLimit": 3}}, "--server-side")
    assert 3 == server.api.get(f"{DEPLOYMENTS}/{name}").ok()["spec"]["revisionHistoryLimit"]
    scaled = {**file, "spec": {**spec, "replicas": 1}}
    refused = run_kubectl(server.kubeconfig, "apply", "--server-side", "-f", "-", stdin=json.dumps(scaled))
    assert 'conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas' in refused.stderr
