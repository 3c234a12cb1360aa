"""The manifests agree: with each other, and with what was measured. tests/e2e/test_deploy.py applies them."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import yaml

from mooring.api.quantity import parse_quantity
from tests.support.builders import Json
from tests.support.rights import WAY_BACK, deployed
from tests.support.rows import each_row
from tests.unit.test_images import containers, workload, workloads

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PARTS = sorted(path.parent.name for kind in ("deployment", "daemonset") for path in DEPLOY.rglob(f"{kind}.yaml"))
"""Folders with a workload of their own. The others: tests/e2e/test_deploy_variants.py."""
NEEDS_PRIVILEGE = {"node", "all-in-one"}
"""Parts whose driver mounts."""
MIB = 2**20


def objects(part: str) -> list[Json]:
    """Everything in the files that the folder's kustomization names."""
    folder = DEPLOY / part
    files = [
        file
        for file in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
        if not file.startswith("../")
    ]
    return [one for file in files for one in yaml.safe_load_all((folder / file).read_text())]


def test_no_object_is_in_two_folders_but_the_namespace() -> None:
    """Who applies one, or takes one away, means no other."""
    names = {part: {(one["kind"], one["metadata"]["name"]) for one in objects(part)} for part in PARTS}
    shared = [names[one] & names[other] for one, other in itertools.combinations(PARTS, 2)]
    assert len(PARTS) > 1
    assert set() == set().union(*shared) - {("Namespace", "storage")}


def test_no_workload_selects_the_pods_of_another() -> None:
    found = [one["spec"] for part in PARTS for one in objects(part) if one["kind"] in ("Deployment", "DaemonSet")]
    selected = [tuple(spec["selector"]["matchLabels"].items()) for spec in found]
    assert len(PARTS) == len(set(selected))
    assert selected == [tuple(spec["template"]["metadata"]["labels"].items()) for spec in found]


SIDECARS = ("attacher", "provisioner", "resizer", "snapshotter")


def test_the_controller_has_the_rights_of_its_sidecars_and_no_others() -> None:
    """Theirs are tested one by one, each with what needs it (tests/e2e/test_rights.py and its neighbours)."""
    rights = [deployed(part).rights() for part in SIDECARS]
    assert frozenset().union(*rights) == deployed("controller").rights()


def test_the_one_process_has_the_rights_of_its_controllers_and_no_others() -> None:
    """With all of them it is tested once more (tests/e2e/test_rights_controller.py)."""
    own = [deployed(part).rights() for part in ("attacher", "provisioner", "resizer", "snapshotter", "attachdetach")]
    assert set().union(*own) == deployed("one-process").rights()


@each_row(
    ("part", "program"),
    [*((part, part) for part in WAY_BACK), *((part, "snapshotter") for part in ("controller", "one-process"))],
)
def test_the_go_program_finds_its_rights_where_it_takes_ours_place(part: str, program: str) -> None:
    """Issue 27, C.1. That it needs them is shown by running it (tests/e2e/test_way_back.py)."""
    assert WAY_BACK[program] <= {str(right) for right in deployed(part).rights()}
    assert "# The way back: " in (ROOT / "deploy" / part / "rbac.yaml").read_text()


@each_row("part", ["resizer", "snapshotter", "snapshot-controller", "attacher", "provisioner"])
def test_the_page_that_a_manifest_promises_tells_the_way_back_probes_first(part: str) -> None:
    """Issue 27, C.1."""
    head = " ".join(
        (ROOT / "deploy" / part / "deployment.yaml").read_text().partition("\napiVersion")[0].replace("#", "").split()
    )
    (page,) = re.findall(r"The way back: (docs/\S+\.md)", head)
    section = (ROOT / page).read_text().partition("\n## Back to the Go ")[2].partition("\n## ")[0]
    assert 0 < section.index("/readyz") < section.index("the same Lease")


@each_row("part", ["attachdetach", "one-process"])
def test_it_is_said_by_which_flag_its_rival_is_switched_off(part: str) -> None:
    """By the name that kube-controller-manager v1.36 knows it by."""
    said = (ROOT / "deploy" / part / "deployment.yaml").read_text()
    assert "#   --controllers=*,-persistentvolume-attach-detach-controller\n" in said


def test_the_controller_has_all_sidecars_as_their_own_folders_have_them_but_for_the_port() -> None:
    """Issue 27, C.5; and the liveness probe, as a node's pod has it."""
    own = [one for part in SIDECARS for one in containers(part)]
    *sidecars, probe = containers("controller")
    assert [_but_for_the_port(one) for one in own] == [_but_for_the_port(one) for one in sidecars]
    assert "livenessprobe" == probe["name"]
    assert {**probe, "volumeMounts": []} == {**containers("node")[-1], "volumeMounts": []}


def _but_for_the_port(container: Json) -> Json:
    (port,) = container["ports"]
    listens = f"--http-endpoint=:{port['containerPort']}"
    assert listens in container["args"]
    probe = container["readinessProbe"]["httpGet"]
    assert port["name"] == probe["port"]
    return {
        **container,
        "readinessProbe": probe["path"],
        "ports": [],
        "args": [word for word in container["args"] if word != listens],
    }


@each_row("part", PARTS)
def test_no_port_that_other_pods_reach_decides_that_a_program_is_killed(part: str) -> None:
    """A program that hangs ends itself (base/watchdog.py). A driver may not, and is probed."""
    assert not [one["name"] for one in containers(part) if "livenessProbe" in one]


@each_row("part", ["all-in-one", "controller", "node"])
def test_ports_in_one_pod_do_not_collide(part: str) -> None:
    found = workload(ROOT / "deploy" / part)["spec"]["template"]["spec"]["containers"]
    ports = [port for container in found for port in container.get("ports", ())]
    assert len(ports) == len({port["containerPort"] for port in ports}) == len({port["name"] for port in ports})


def test_the_driver_of_the_controller_is_probed_at_the_liveness_probe() -> None:
    driver, *_, probe = workload(DEPLOY / "controller")["spec"]["template"]["spec"]["containers"]
    assert {"path": "/healthz", "port": "healthz"} == driver["livenessProbe"]["httpGet"]
    assert [f"--http-endpoint=:{port['containerPort']}" for port in driver["ports"]] == [probe["args"][-1]]


@each_row("part", ["all-in-one", "node"])
def test_the_driver_of_a_node_is_probed_at_the_liveness_probe(part: str) -> None:
    driver, registrar, probe, *_ = workload(DEPLOY / part)["spec"]["template"]["spec"]["containers"]
    assert {"path": "/healthz", "port": "healthz"} == driver["livenessProbe"]["httpGet"]
    assert [f"--http-endpoint=:{port['containerPort']}" for port in driver["ports"]] == [probe["args"][-1]]
    assert [f"--http-endpoint=:{port['containerPort']}" for port in registrar["ports"]] == [registrar["args"][-1]]


MEASURED = {
    "csi-attacher": "## Attaching",
    "csi-provisioner": "## Provisioning",
    "csi-resizer": "## Growing",
    "snapshot-controller": "### Snapshot controller: memory",
    "csi-snapshotter": "### Snapshotter: memory",
    "binder": "### Idle, flags as shipped: 5000 claims",
    "attachdetach": "### The attach/detach controller alone",
    "mooring-controller": "### One process",
    "csi-node-driver-registrar": "### Registrar",
    "livenessprobe": "### Liveness probe",
}
"""Where bench/RESULTS.md has a container's memory."""


def memory_mib_max(heading: str) -> int:
    """The most that the tables below this heading show in Mooring's column."""
    level = heading.partition(" ")[0]
    text = (ROOT / "bench" / "RESULTS.md").read_text().partition(f"\n{heading}")[2].partition(f"\n{level} ")[0]
    return max(int(found) for found in re.findall(r"^\|.*\(MiB\) \|[^|]*\| (\d+)", text, re.MULTILINE))


@each_row("part", PARTS)
def test_no_container_but_a_driver_that_mounts_has_a_privilege(part: str) -> None:
    """Issue 27, C.3: the Pod Security Standard `restricted`, and a root file system that nobody writes to. The server's
    own word on it: tests/e2e/test_pod_security.py.
    """
    for one in workloads(DEPLOY / part):
        spec = one["spec"]["template"]["spec"]
        user = (
            {"runAsUser": 0, "runAsGroup": 0}
            if part in NEEDS_PRIVILEGE
            else {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532}
        )
        shared = {} if part in NEEDS_PRIVILEGE or not spec.get("volumes") else {"fsGroup": 65532}
        assert {**user, **shared, "seccompProfile": {"type": "RuntimeDefault"}} == spec["securityContext"]
        for container in spec["containers"]:
            context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
            if container["image"] != "DRIVER":
                assert {**context, "readOnlyRootFilesystem": True} == container["securityContext"], container["name"]
            elif part not in NEEDS_PRIVILEGE:
                assert context == container["securityContext"]


@each_row("part", PARTS)
def test_the_memory_asked_for_is_what_was_measured_and_some(part: str) -> None:
    """Less, and a node is promised more than it has; much more, and it stands empty."""
    assert containers(part)
    for container in containers(part):
        asked = float(parse_quantity(container["resources"]["requests"]["memory"]).value) / MIB
        assert 1.0 <= asked / memory_mib_max(MEASURED[container["name"]]) <= 1.5


REPLICATED = [part for part in PARTS if part not in NEEDS_PRIVILEGE]


def one_of(part: str, kind: str) -> Json:
    (found,) = (one for one in objects(part) if one["kind"] == kind)
    return found


@each_row("part", REPLICATED)
def test_replicas_stand_apart_and_one_of_them_stays(part: str) -> None:
    """Issue 27, C.5: by preference, since the only machine of a cluster is one, too."""
    (found,) = workloads(DEPLOY / part)
    pod, own = found["spec"]["template"]["spec"], {"labelSelector": found["spec"]["selector"]}
    assert 2 <= found["spec"]["replicas"]
    assert {"podAntiAffinity"} == set(pod["affinity"])
    (apart,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert {"topologyKey": "kubernetes.io/hostname", **own} == apart["podAffinityTerm"]
    spread = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
    assert [{**spread, **own}] == pod["topologySpreadConstraints"]
    assert {"maxUnavailable": 1, "selector": found["spec"]["selector"]} == one_of(part, "PodDisruptionBudget")["spec"]
    assert "system-cluster-critical" == pod["priorityClassName"]


@each_row("part", PARTS)
def test_only_monitoring_reaches_the_ports_with_metrics_and_nobody_another(part: str) -> None:
    """Issue 27, C.5. Probes come from the kubelet, which no policy holds up."""
    (found,) = workloads(DEPLOY / part)
    spec = one_of(part, "NetworkPolicy")["spec"]
    assert (found["spec"]["selector"], ["Ingress"]) == (spec["podSelector"], spec["policyTypes"])
    for_probes = ("livenessprobe", "csi-node-driver-registrar")
    told = [port["name"] for one in containers(part) if one["name"] not in for_probes for port in one.get("ports", ())]
    if not told:
        assert "ingress" not in spec
        return
    (rule,) = spec["ingress"]
    assert [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}] == rule["from"]
    assert [{"port": name} for name in told] == rule["ports"]


@each_row("part", PARTS)
def test_what_stands_beside_a_driver_is_labelled_with_its_name(part: str) -> None:
    """Issue 27, C.5. What kustomize makes of it: tests/e2e/test_second_driver.py."""
    has_one = any(one["image"] == "DRIVER" for one in workload(DEPLOY / part)["spec"]["template"]["spec"]["containers"])
    labels = [{"pairs": {"mooring.dev/driver": "csi.example.com"}, "includeSelectors": True}]
    assert (labels if has_one else None) == yaml.safe_load((DEPLOY / part / "kustomization.yaml").read_text()).get(
        "labels"
    )


def test_the_all_in_one_has_the_node_s_containers_and_the_controllers_of_the_one_process() -> None:
    """Issue 27, A.4: but for what a cluster has one of, the attach/detach controller, and the owner of its capacity."""
    *of_a_node, controllers = workload(DEPLOY / "all-in-one")["spec"]["template"]["spec"]["containers"]
    assert workload(DEPLOY / "node")["spec"]["template"]["spec"]["containers"] == of_a_node
    (own,) = containers("one-process")
    args = [word.replace(",attachdetach", "").replace("ownerref-level=2", "ownerref-level=1") for word in own["args"]]
    assert {**own, "args": args, "volumeMounts": [{"name": "plugin", "mountPath": "/csi"}]} == controllers


@each_row("part", ["all-in-one", "controller", "one-process", "provisioner"])
def test_capacity_is_published_and_belongs_to_the_workload(part: str) -> None:
    """Issue 27, A.4: 2 is the owner of a pod's ReplicaSet, 1 that of the pod. The scheduler heeds it:
    deploy/csidriver.
    """
    (args,) = (one["args"] for one in containers(part) if one["name"] in ("csi-provisioner", "mooring-controller"))
    level = {"Deployment": 2, "DaemonSet": 1}[workload(DEPLOY / part)["kind"]]
    assert ["--enable-capacity", f"--capacity-ownerref-level={level}"] == [word for word in args if "capacity" in word]
    assert yaml.safe_load((DEPLOY / "csidriver" / "csidriver.yaml").read_text())["spec"]["storageCapacity"]
