"""The chart on servers: taken under the Pod Security Standard `restricted`, installed, upgraded, rolled back and taken
away by helm.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from hack.chart.parts import PARTS
from tests.e2e.test_second_driver import workload_of
from tests.support.builders import Json
from tests.support.control_plane import ControlPlane
from tests.support.embedded import EmbeddedServer
from tests.support.helm import CHART, DRIVER, only, rendered, run_helm
from tests.support.monitoring_kinds import MONITORING_CRDS
from tests.support.real import run_kubectl
from tests.support.rows import each_row
from tests.support.waiting import eventually
from tests.unit.test_deploy import DEPLOY, NEEDS_PRIVILEGE
from tests.unit.test_images import VERSION

pytestmark = [pytest.mark.real, pytest.mark.slow]

STANDARD = "pod-security.kubernetes.io"
NAMESPACE = "chart-storage"
CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "disruption-controller",
    "namespace-controller",
    "garbage-collector-controller",
)
STANDING = ("controller", "snapshot-controller", "attachdetach", "binder")
"""All that can stand in one restricted namespace at once."""


def restrict(plane: ControlPlane, *also: Json) -> None:
    """Makes the namespace and what else is given. Tests beside this one may be making the same: whoever is second tries
    again.
    """
    labels = {f"{STANDARD}/enforce": "restricted", f"{STANDARD}/warn": "restricted"}
    text = yaml.safe_dump_all(
        [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}, *also]
    )
    eventually(
        lambda: 0 == run_kubectl(plane.kubeconfig(), "apply", "-f", "-", stdin=text).returncode,
        30,
        "what tests share is there",
    )


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    restrict(control_plane, *MONITORING_CRDS)
    return NAMESPACE


def dry_run(plane: ControlPlane, objects: list[Json]) -> tuple[int, str]:
    """Exit code and complaints of the server."""
    applied = ["apply", "-f", "-", "--dry-run=server", "--validate=strict", "--warnings-as-errors"]
    done = run_kubectl(plane.kubeconfig(), *applied, stdin=yaml.safe_dump_all(objects))
    return done.returncode, done.stderr


@each_row("part", [part for part in PARTS if part not in NEEDS_PRIVILEGE])
def test_the_server_takes_it_without_a_warning(
    control_plane: ControlPlane, namespace: str, part: str, tmp_path: Path
) -> None:
    values = {**only(part), "monitoring": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}}}
    objects = rendered(tmp_path, values, namespace)
    eventually(lambda: "no matches for kind" not in dry_run(control_plane, objects)[1], 10, "the kinds are served")
    assert (0, "") == dry_run(control_plane, objects)
    monitored = ["Service", "ServiceMonitor"] if part != "csidriver" else []
    assert monitored == [
        one["kind"] for one in objects if one["kind"].startswith("Service") and one["kind"] != "ServiceAccount"
    ]


@each_row("part", sorted(NEEDS_PRIVILEGE))
def test_what_mounts_is_taken_with_a_warning_and_needs_another_namespace(
    control_plane: ControlPlane, namespace: str, part: str, tmp_path: Path
) -> None:
    code, said = dry_run(control_plane, rendered(tmp_path, only(part), namespace))
    assert 0 != code
    assert 'would violate PodSecurity "restricted:latest": privileged (container "driver"' in said
    control_plane.kubectl("create", "namespace", f"{namespace}-{part}")
    assert (0, "") == dry_run(control_plane, rendered(tmp_path, only(part), f"{namespace}-{part}"))


def test_the_server_takes_alerts_and_dashboards(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    offered = {"rules", "dashboards"} & set(yaml.safe_load((CHART / "values.yaml").read_text())["monitoring"])
    watched: Json = {"namespace": namespace, **{name: {"enabled": True, "labels": {"more": "yes"}} for name in offered}}
    objects = rendered(tmp_path, {**only(), "monitoring": watched})
    assert {"PrometheusRule"} <= {one["kind"] for one in objects}
    assert all("yes" == one["metadata"]["labels"]["more"] for one in objects)
    assert (0, "") == dry_run(control_plane, objects)


def test_a_monitor_selects_the_service_and_the_service_the_ports_of_the_pods(tmp_path: Path) -> None:
    objects = rendered(
        tmp_path, {**only("controller"), "monitoring": {"serviceMonitor": {"enabled": True, "interval": "7s"}}}
    )
    service, monitor = ({one["kind"]: one for one in objects}[kind] for kind in ("Service", "ServiceMonitor"))
    pod = workload_of(objects)["spec"]["template"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    numbers = {
        port["name"]: port["containerPort"] for one in pod["spec"]["containers"] for port in one.get("ports", ())
    }
    offered = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    assert {"attacher": 8080, "provisioner": 8081, "resizer": 8082, "snapshotter": 8083} == offered
    assert offered.items() <= numbers.items()
    assert [{"port": name, "interval": "7s"} for name in offered] == monitor["spec"]["endpoints"]


def get(plane: ControlPlane, path: str) -> Json:
    found: Json = json.loads(plane.request("GET", path)[1])
    return found


def pods(plane: ControlPlane) -> list[Json]:
    found: list[Json] = get(plane, f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def _run_all(plane: ControlPlane) -> None:
    """Says of each pod what a kubelet would say."""
    status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    for pod in pods(plane):
        plane.kubectl(
            "patch", "pod", pod["metadata"]["name"], "-n", NAMESPACE, "--subresource=status", "-p", json.dumps(status)
        )


def _evict(plane: ControlPlane, pod: Json) -> int:
    name = pod["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NAMESPACE}}
    return plane.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction", body)[0]


def _deployments(plane: ControlPlane) -> dict[str, Json]:
    return {
        one["metadata"]["name"]: one for one in get(plane, f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments")["items"]
    }


def _tag(plane: ControlPlane) -> set[str]:
    """Of the images that the Deployments name, but for the driver's."""
    specs = (one["spec"]["template"]["spec"] for one in _deployments(plane).values())
    return {
        each["image"].partition(":")[2] for spec in specs for each in spec["containers"] if each["name"] != "driver"
    }


@pytest.mark.long
def test_a_release_lives_in_a_restricted_namespace(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    """Its pods are admitted, a drain leaves one of two, and install, upgrade, rollback and uninstall do what they
    say.
    """
    plane = new_control_plane()
    plane.start_controllers(*CONTROLLERS)
    restrict(plane)
    to_it = [f"--kubeconfig={plane.kubeconfig()}", f"--namespace={NAMESPACE}"]

    def helm(*args: str | Path, values: Json | None = None) -> str:
        done = run_helm(tmp_path, *args, *to_it, values=values)
        assert 0 == done.returncode, done.stderr
        assert "restricted" not in done.stderr, done.stderr
        return done.stdout

    values = {**only(*STANDING), "driver": {"image": DRIVER}}
    helm("install", "release", CHART, values=values)
    eventually(lambda: len(pods(plane)) == 2 * len(STANDING), 60, "all pods are admitted")
    _run_all(plane)
    _drains_one_by_one(plane)

    helm("upgrade", "release", CHART, values={**values, "images": {"tag": "next"}})
    assert {"next"} == _tag(plane)
    helm("rollback", "release", "1")
    assert {VERSION} == _tag(plane)
    assert "mooring doctor" in helm("get", "notes", "release")

    helm("uninstall", "release")
    eventually(lambda: not _deployments(plane) and not pods(plane), 60, "all is gone")
    left = [one["metadata"]["name"] for one in get(plane, "/apis/rbac.authorization.k8s.io/v1/clusterroles")["items"]]
    assert not [name for name in left if name.startswith("mooring")]
    assert "Active" == get(plane, f"/api/v1/namespaces/{NAMESPACE}")["status"]["phase"]


def _drains_one_by_one(plane: ControlPlane) -> None:
    """A budget of one for two replicas: the first eviction is granted, the second has to wait for the new pod."""
    budgets = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"

    def allowed() -> list[int]:
        return [one.get("status", {}).get("disruptionsAllowed", 0) for one in get(plane, budgets)["items"]]

    eventually(lambda: allowed() == [1] * len(STANDING), 60, "each budget allows one disruption")
    one, other = (pod for pod in pods(plane) if pod["metadata"]["labels"]["app"] == "csi-controller")
    assert [201, 429] == [_evict(plane, one), _evict(plane, other)]


def test_the_chart_takes_over_what_a_kustomization_has_made(tmp_path: Path) -> None:
    """docs/support.md: from the kustomizations to the chart."""
    with EmbeddedServer(tmp_path / "server") as server:
        assert 0 == run_kubectl(server.kubeconfig, "apply", "-k", str(DEPLOY / "csidriver")).returncode
        uid = run_kubectl(server.kubeconfig, "get", "csidriver", "-o", "jsonpath={.items[*].metadata.uid}").stdout
        to_it = [f"--kubeconfig={server.kubeconfig}", "--namespace=storage", "--create-namespace"]
        refused = run_helm(tmp_path, "install", "release", CHART, *to_it, values=only("csidriver"))
        assert "cannot be imported into the current release" in refused.stderr
        done = run_helm(tmp_path, "install", "release", CHART, *to_it, "--take-ownership", values=only("csidriver"))
        assert 0 == done.returncode, done.stderr
        assert (
            uid == run_kubectl(server.kubeconfig, "get", "csidriver", "-o", "jsonpath={.items[*].metadata.uid}").stdout
        )


def test_the_part_that_the_embedded_server_has_kinds_for_is_installed_there(tmp_path: Path) -> None:
    """A laptop's server has no DaemonSets, NetworkPolicies and roles: helm says so, and installs the CSIDriver."""
    with EmbeddedServer(tmp_path / "server") as server:
        to_it = [f"--kubeconfig={server.kubeconfig}", "--namespace=storage"]
        refused = run_helm(
            tmp_path, "install", "whole", CHART, *to_it, "--create-namespace", values={"driver": {"image": DRIVER}}
        )
        assert 'no matches for kind "NetworkPolicy"' in refused.stderr
        for verb, has_room in (("install --create-namespace", True), ("upgrade", False)):
            values = {**only("csidriver"), "driver": {"name": "chart.test"}, "storageCapacity": has_room}
            done = run_helm(tmp_path, *verb.split(), "release", CHART, *to_it, values=values)
            assert 0 == done.returncode, done.stderr
            found = run_kubectl(
                server.kubeconfig, "get", "csidriver", "chart.test", "-o", "jsonpath={.spec.storageCapacity}"
            )
            assert str(has_room).lower() == found.stdout
        assert 0 == run_helm(tmp_path, "uninstall", "release", *to_it).returncode
        assert 1 == run_kubectl(server.kubeconfig, "get", "csidriver", "chart.test").returncode
