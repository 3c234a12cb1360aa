"""The chart of deploy/chart is what kustomize builds of the other folders, object by object; and each value of it does
something.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.chart.__main__ import chart
from hack.chart.parts import PARTS
from mooring.cli.driver import run as new_driver
from tests.e2e.test_second_driver import BESIDE_A_DRIVER, built, second, workload_of
from tests.support.builders import Json
from tests.support.helm import CHART, DRIVER, by_name, only, rendered, run_helm
from tests.support.real import binary
from tests.support.rows import each_row
from tests.unit.test_deploy import DEPLOY

pytestmark = [pytest.mark.real, pytest.mark.slow]


def test_the_chart_is_what_would_be_made_of_the_kustomizations_now() -> None:
    made = chart(binary("kubectl"))
    assert len(PARTS) + 3 <= len(made)
    for name, text in made.items():
        assert text == (CHART / name).read_text(), f"{name} is stale: make chart"


def test_no_folder_of_deploy_is_missing() -> None:
    """deploy/infra-nodes is values of the chart (below)."""
    folders = {path.parent.name for path in DEPLOY.rglob("kustomization.yaml")}
    assert folders - {"infra-nodes", "secrets", "monitoring"} == set(PARTS)  # these three: below


@each_row("part", PARTS)
def test_a_part_alone_is_its_kustomization(part: str, tmp_path: Path) -> None:
    ours = by_name(rendered(tmp_path, only(part)))
    assert ours
    assert by_name(built(DEPLOY / part)) == ours


def test_by_default_it_is_the_three_that_a_driver_takes(tmp_path: Path) -> None:
    wanted = [one for part in ("csidriver", "node", "controller") for one in built(DEPLOY / part)]
    unique = {(one["kind"], one["metadata"]["name"]): one for one in wanted}
    assert by_name(list(unique.values())) == by_name(rendered(tmp_path))


@each_row("part", BESIDE_A_DRIVER)
def test_a_second_driver_is_a_prefix_and_a_name(part: str, tmp_path: Path) -> None:
    """As the comments of the kustomizations say; but for the driver's own folder on a node, which has its name there by
    hand.
    """
    ours = rendered(tmp_path, {**only(part), "namePrefix": "second-", "driver": {"name": "second.example.com"}})
    theirs = yaml.safe_load_all(
        yaml.safe_dump_all(built(second(part, tmp_path))).replace("csi.example.com", "second.example.com")
    )
    assert by_name(list(theirs)) == by_name(ours)


@each_row("part", ["attacher", "controller", "statefulset"])
def test_infrastructure_nodes_are_two_values(part: str, tmp_path: Path) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    for file in (tmp_path / "deploy").rglob("kustomization.yaml"):
        file.write_text(file.read_text().replace("\n# components: [../infra-nodes]", "\ncomponents: [../infra-nodes]"))
    theirs = built(tmp_path / "deploy" / part)
    (component,) = yaml.safe_load((DEPLOY / "infra-nodes" / "kustomization.yaml").read_text())["patches"]
    place = yaml.safe_load(component["patch"])["spec"]["template"]["spec"]
    values = only(part)
    (own,) = (name for name, value in values.items() if value["enabled"])
    values[own] |= place
    assert by_name(theirs) == by_name(rendered(tmp_path, values))


def test_the_right_to_some_secrets_is_that_of_deploy_secrets(tmp_path: Path) -> None:
    """And to no others: an empty list of names would mean all."""
    assert by_name(built(DEPLOY / "secrets")) == by_name(rendered(tmp_path, {**only(), "secrets": {"enabled": True}}))
    values = {"enabled": True, "namespace": "vault", "names": ["a", "b"], "account": "mooring-controller"}
    ours = by_name(rendered(tmp_path, {**only("one-process"), "namePrefix": "second-", "secrets": values}))
    role, binding = ours["Role", "second-csi-controller-secrets"], ours["RoleBinding", "second-csi-controller-secrets"]
    assert ({"vault"}, ["a", "b"]) == (
        {one["metadata"]["namespace"] for one in (role, binding)},
        role["rules"][0]["resourceNames"],
    )
    (subject,) = binding["subjects"]
    account = workload_of(list(ours.values()))["spec"]["template"]["spec"]["serviceAccountName"]
    assert {"kind": "ServiceAccount", "name": account, "namespace": "storage"} == subject
    assert role["metadata"]["name"] == binding["roleRef"]["name"]


WORKLOADS = ("DaemonSet", "Deployment", "StatefulSet")
MONITORING = {"rules": "PrometheusRule", "dashboards": "ConfigMap"}


def test_alerts_and_dashboards_are_those_of_deploy_monitoring(tmp_path: Path) -> None:
    """With the braces of their own, which Helm must not read."""
    theirs = by_name(built(DEPLOY / "monitoring"))
    offered = set(yaml.safe_load((CHART / "values.yaml").read_text())["monitoring"]) & MONITORING.keys()
    assert {kind for kind, _ in theirs} == {MONITORING[name] for name in offered}
    assert "{{ $labels.pod }}" in yaml.safe_dump_all(theirs.values())
    assert theirs == by_name(
        rendered(tmp_path, {**only(), "monitoring": {name: {"enabled": True} for name in offered}})
    )
    assert {} == by_name(rendered(tmp_path, only()))


def test_the_runbooks_are_where_the_value_says(tmp_path: Path) -> None:
    rules = {"enabled": True, "runbooks": "https://git.test/mooring/"}
    (found,) = rendered(tmp_path, {**only(), "monitoring": {"rules": rules}})
    urls = [one["annotations"]["runbook_url"] for group in found["spec"]["groups"] for one in group["rules"]]
    assert len(urls) > 5
    assert {"https://git.test/mooring/docs/runbooks/"} == {url.rpartition("/")[0] + "/" for url in urls}


def test_another_socket_and_another_kubelet_are_meant_everywhere(tmp_path: Path) -> None:
    values = {
        "driver": {"name": "d.test", "socket": "plugin.sock", "image": "registry.test/d@sha256:1"},
        "kubeletFolder": "/data/kubelet",
    }
    text = yaml.safe_dump_all(rendered(tmp_path, values))
    wanted = yaml.safe_dump_all(rendered(tmp_path))
    for old, new in (("csi.sock", "plugin.sock"), ("/var/lib/kubelet", "/data/kubelet"), ("csi.example.com", "d.test")):
        assert old not in text
        assert wanted.count(old) > 0
        wanted = wanted.replace(old, new)
    assert wanted.replace("DRIVER:latest", "registry.test/d@sha256:1") == text


def test_a_name_that_looks_like_a_number_stays_a_name(tmp_path: Path) -> None:
    values = {**only("attacher"), "namePrefix": "7-", "monitoring": {"namespace": "8", "rules": {"enabled": True}}}
    found = by_name(rendered(tmp_path, {**values, "secrets": {"enabled": True, "namespace": "9"}}, "5"))
    assert {"5", "8", "9", None} == {one["metadata"].get("namespace") for one in found.values()}
    (origin,) = found["NetworkPolicy", "7-csi-attacher"]["spec"]["ingress"][0]["from"]
    assert {"kubernetes.io/metadata.name": "8"} == origin["namespaceSelector"]["matchLabels"]


def test_images_come_from_a_registry_a_tag_or_one_by_one(tmp_path: Path) -> None:
    images = {
        "registry": "registry.test/storage",
        "tag": "9",
        "instead": {"mooring-csi-attacher": "other.test/a@sha256:2"},
    }
    pod = workload_of(
        rendered(
            tmp_path,
            {**only("controller"), "images": {**images, "pullPolicy": "Always", "pullSecrets": [{"name": "s"}]}},
        )
    )
    spec = pod["spec"]["template"]["spec"]
    found = {one["name"]: one["image"] for one in spec["containers"]}
    assert "other.test/a@sha256:2" == found.pop("csi-attacher")
    assert "DRIVER:latest" == found.pop("driver")
    assert {f"registry.test/storage/mooring-{name}:9" for name in found} == set(found.values())
    assert ([{"name": "s"}], {"Always"}) == (
        spec["imagePullSecrets"],
        {one["imagePullPolicy"] for one in spec["containers"]},
    )


def _provisioners(objects: list[Json]) -> list[Json]:
    (pod,) = (one["spec"]["template"]["spec"] for one in objects if one["kind"] == "Deployment")
    return [one for one in pod["containers"] if one["name"] == "csi-provisioner"]


def test_a_driver_without_capacity_is_one_value(tmp_path: Path) -> None:
    """docs/deployment.md: the CSIDriver's field and the flags are changed together."""
    whole, less = rendered(tmp_path), rendered(tmp_path, {"storageCapacity": False})
    assert [True, False] == [
        by_name(one)["CSIDriver", "csi.example.com"]["spec"]["storageCapacity"] for one in (whole, less)
    ]
    flags = [container["args"] for objects in (whole, less) for container in _provisioners(objects)]
    assert [word for word in flags[0] if "capacity" not in word] == flags[1] != flags[0]


LARGE: dict[str, Any] = {
    "podAnnotations": {"a": "b"},
    "priorityClassName": "other",
    "nodeSelector": {"zone": "a"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [],
    "podSecurityContext": {"runAsUser": 7},
    "sidecarSecurityContext": {"runAsUser": 8},
    "resources": {"csi-attacher": {"limits": {"memory": "1Gi"}}},
    "extraArgs": {"csi-attacher": ["--timeout=60s"]},
    "extraVolumes": [{"name": "extra", "emptyDir": {}}],
    "replicas": 3,
    "disruption": {"maxUnavailable": "50%"},
    "driver": {
        "args": ["--own"],
        "extraEnv": [{"name": "A", "value": "b"}],
        "extraVolumeMounts": [{"name": "extra", "mountPath": "/extra"}],
        "resources": {"limits": {"cpu": "1"}},
        "securityContext": {"runAsUser": 9},
    },
}


def test_what_people_set_of_a_part_arrives(tmp_path: Path) -> None:
    usual = by_name(rendered(tmp_path, only("attacher")))
    ours = by_name(rendered(tmp_path, {**only("attacher"), "attacher": {"enabled": True, **LARGE}}))
    wanted = copy.deepcopy(usual["Deployment", "csi-attacher"])
    wanted["spec"]["replicas"] = 3
    template = wanted["spec"]["template"]
    template["metadata"]["annotations"] = {"a": "b"}
    template["spec"] |= {
        name: LARGE[name]
        for name in ("priorityClassName", "nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")
    }
    template["spec"]["securityContext"]["runAsUser"] = 7
    template["spec"]["volumes"].append({"name": "extra", "emptyDir": {}})
    driver, sidecar = template["spec"]["containers"]
    driver |= {"args": ["--own"], "env": [{"name": "A", "value": "b"}], "resources": {"limits": {"cpu": "1"}}}
    driver["volumeMounts"].append({"name": "extra", "mountPath": "/extra"})
    driver["securityContext"]["runAsUser"] = 9
    sidecar["args"].append("--timeout=60s")
    sidecar["resources"]["limits"] = {"memory": "1Gi"}
    sidecar["securityContext"]["runAsUser"] = 8
    assert wanted == ours.pop(("Deployment", "csi-attacher"))
    assert "50%" == ours["PodDisruptionBudget", "csi-attacher"]["spec"]["maxUnavailable"]


def leaves(tree: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all values that the schema knows."""
    for name, inner in tree["properties"].items():
        if "properties" in inner and name not in ("resources", "extraArgs"):
            yield from leaves(inner, (*path, name))
        else:
            yield (*path, name)


def test_no_value_is_there_that_no_template_reads() -> None:
    """What the schema refuses, it refuses since nobody reads it; so it must know nothing that nobody reads."""
    text = "".join(
        path.read_text() for path in (CHART / "templates").iterdir() if path.name not in ("NOTES.txt", "choice.yaml")
    )
    text = text.replace("$images.", ".Values.images.")
    read = set(re.findall(r"\.Values\.([A-Za-z.]+)", text))
    known = {".".join(path) for path in leaves(yaml.safe_load((CHART / "values.schema.json").read_text()))}
    assert len(known) > 100
    assert set() == known - read


@each_row(
    ("values", "said"),
    [
        ({}, "which driver? --set driver.image=IMAGE --set driver.name=NAME"),
        ({"driver": {"nmae": "x"}}, "additional properties 'nmae' not allowed"),
        ({"controller": {"resources": {"csi-atacher": {}}}}, "additional properties 'csi-atacher' not allowed"),
        ({"driver": {"name": "no name"}}, "does not match pattern"),
        ({"controller": {"replicas": -1}}, "minimum: got -1, want 0"),
        ({"images": {"instead": {"unknown": "x"}}}, "unknown"),
        (
            {"oneProcess": {"enabled": True}},
            "enable one of controller, statefulSet, oneProcess, allInOne, or single sidecars; not controller and",
        ),
        ({"secrets": {"enabled": True, "names": []}}, "minItems: got 0, want 1"),
        ({"attacher": {"enabled": True}}, "not controller and single sidecars"),
        ({"controller": {"enabled": False}, "allInOne": {"enabled": True}}, "disable node"),
        ({**only("one-process", "attachdetach")}, "two attach/detach controllers must not work at once"),
    ],
)
def test_what_can_not_be_meant_is_refused(values: Json, said: str, tmp_path: Path) -> None:
    named = {"driver": {"image": DRIVER}, **values} if values else {}
    done = run_helm(tmp_path, "template", "release", CHART, values=named)
    assert 0 != done.returncode
    assert said in done.stderr


@each_row(
    "values",
    [
        {},
        {"attacher": LARGE, **{name: value for name, value in only().items() if name != "attacher"}},
        only("one-process", "csidriver"),
        only("all-in-one", "csidriver"),
        only("statefulset", "node"),
        only("snapshot-controller", "attachdetach", "binder"),
        {"monitoring": {"serviceMonitor": {"enabled": True}}},
    ],
    ids=["default", "all set", "one process", "all in one", "stateful set", "of the cluster", "monitoring"],
)
def test_helm_finds_nothing_to_say(values: Json, tmp_path: Path) -> None:
    done = run_helm(tmp_path, "lint", "--strict", CHART, values=values)
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "0 chart(s) failed" in done.stdout
    assert "[WARNING]" not in done.stdout


@each_row(("language", "kinds"), [("python", {"DaemonSet"}), ("go", {"DaemonSet", "Deployment"})])
def test_the_values_of_a_new_driver_put_it_beside_the_sidecars(language: str, kinds: set[str], tmp_path: Path) -> None:
    """What `mooring driver new` writes, as it is; and the doctor has nothing to object to."""
    assert 0 == new_driver(["new", "shelf", f"--folder={tmp_path / language}", f"--language={language}"], "driver")
    values = yaml.safe_load((tmp_path / language / "values.yaml").read_text())
    objects = rendered(tmp_path, values)
    assert by_name(objects)["CSIDriver", "shelf.example.com"]
    pods = {one["kind"]: one["spec"]["template"]["spec"] for one in objects if one["kind"] in WORKLOADS}
    assert kinds == pods.keys()
    for kind, pod in pods.items():
        images = {one["name"]: one["image"] for one in pod["containers"]}
        assert "REGISTRY/shelf:0.1.0" == images.pop("driver")
        assert images
        assert all(image.startswith("REGISTRY/mooring/mooring") for image in images.values())
        part = "allInOne" if language == "python" else {"DaemonSet": "node", "Deployment": "controller"}[kind]
        (driver,) = (one for one in pod["containers"] if one["name"] == "driver")
        assert values[part]["driver"]["args"] == driver["args"]
    doctored(objects)


@each_row(
    "parts", [("csidriver", "node", "controller"), ("csidriver", "node", "one-process"), ("csidriver", "all-in-one")]
)
def test_the_doctor_finds_nothing_wrong_with_it(parts: tuple[str, ...], tmp_path: Path) -> None:
    """As in CI: helm template ... | mooring doctor -f -"""
    values = {
        **only(*parts),
        "driver": {"image": "registry.test/d:1"},
        "monitoring": {"serviceMonitor": {"enabled": True}},
    }
    doctored(rendered(tmp_path, values))


def doctored(objects: list[Json]) -> None:
    """Asks `mooring doctor`, which may have notes and no more."""
    text = yaml.safe_dump_all(objects)
    command = [Path(sys.executable).parent / "mooring", "doctor", "-f", "-", "-o", "json"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
    assert {"note"} >= {one["severity"] for one in json.loads(done.stdout)["findings"]}, done.stdout
