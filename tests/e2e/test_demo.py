"""`mooring demo` and `mooring dev` as people run them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, STORAGE_CLASSES, VOLUME_ATTACHMENTS
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.csi.driver import Call
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from mooring.dev.polling import until
from mooring.dev.seed_objects import claim
from mooring.driver.hostpath.statefile import read_state
from mooring.kube.client import kubeconfig
from mooring.kube.client.http import HttpCluster
from tests.support.mooring_dev import MOORING, dev, needs_mounts
from tests.support.programs import Program
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

PVC = "pvc-[-0-9a-f]{36}"

VA = "csi-[0-9a-f]{64}"

POD = r"demo-\w+-\w+"


def pod_runs(node: str) -> list[str]:
    return [
        r"workloads → API +create pods/demo-\w+-\*",
        rf"binder → API +create pods/{POD}/binding",
        rf"attach-detach → API +create volumeattachments/{VA}",
        rf"CSI → driver +ControllerPublishVolume node_id={node} .*→ publication=\d",
        rf"attacher → API +patch volumeattachments/{VA}/status: status\.attached=true",
        rf"attach-detach → API +patch nodes/{node}/status: status\.volumesAttached=.*vol-",
        rf"CSI → {node} +NodeStageVolume .*staging_target_path=\S+/globalmount .*→ OK",
        rf"CSI → {node} +NodePublishVolume .*target_path=\S+/{PVC}/mount .*→ OK",
        rf"{node} → API +patch pods/{POD}/status: status\.phase=Running",
        rf"ok: the pod runs on {node}, \d+ ms later",
        rf"ok: the driver, its state file and its folder agree: the volume is on {node}",
        rf"ok: the status of {node} says so, too: attached and in use",
        r"ok: /proc/self/mountinfo: staged at \S+/globalmount",
        rf"ok: /proc/self/mountinfo: published to the pod at \S+/{PVC}/mount",
    ]


def in_any_order(one: str, other: str) -> str:
    """Both, which happen at once."""
    return rf"(?s:{one}.*?{other}|{other}.*?{one})"


def leaves(node: str) -> list[str]:
    """A volume, a node that runs."""
    return [
        rf"CSI → {node} +NodeUnpublishVolume .*→ OK",
        in_any_order(rf"{node} → API +delete pods/{POD}", rf"CSI → {node} +NodeUnstageVolume [^\n]*→ OK"),
        rf"attach-detach → API +delete volumeattachments/{VA}",
        rf"CSI → driver +ControllerUnpublishVolume node_id={node} .*→ OK",
        rf"attacher → API +patch volumeattachments/{VA}: remove",
        rf"ok: the VolumeAttachment to {node} is gone",
    ]


EVICTED = (
    "no call failed|status.phase=Failed|FailedAttachVolume: Multi-Attach error for "
    "volume|(Controller|Node)ResizeError|ModifyVolumeError|^NOT SHOWN: .*"
)
"""No failures: the count at the end, the pod that did not live as long as its node, one that comes before its volume is
free, conditions that are taken off, and what this user may not have.
"""
READ = r'ok: greeting.txt says "written by the first pod"'
EMPTY = r"ok: nothing is mounted below the folder of [\w-]+'s agent, and no folder of a pod or a volume is left in it"


def changes(node: str) -> list[str]:
    """What happens to a volume that a pod has there."""
    return [
        r"demo → API +patch persistentvolumeclaims/demo-claim: spec.resources.requests.storage=2Gi",
        r"CSI → driver +ControllerExpandVolume required_bytes=2Gi .*→ capacity_bytes=2Gi node_expansion_required=true",
        rf"CSI → {node} +NodeExpandVolume required_bytes=2Gi .*→ capacity_bytes=2Gi",
        rf"{node} → API +patch persistentvolumeclaims/demo-claim/status: status.capacity.storage=2Gi",
        r"ok: the claim has 2Gi, \d+ ms after its pod began to write",
        r"ok: all \d+ lines are there that the pod wrote meanwhile",
        r"demo → API +create volumesnapshots/demo-snapshot",
        r"snapshot-controller → API +create volumesnapshotcontents/snapcontent-",
        r"CSI → driver +CreateSnapshot .*→ .*ready_to_use=true size_bytes=2Gi",
        r"ok: the snapshot is ready to use, \d+ ms after it was asked for",
        r"ok: diary.txt and greeting.txt are deleted through the pod's path",
        r"demo → API +create persistentvolumeclaims/demo-restored",
        r"CSI → driver +CreateVolume required_bytes=2Gi .*snapshot_id=snap-",
        r"ok: its pod runs on n\d",
        READ,
        r"ok: all \d+ lines of the other pod are there",
        r"demo → API +patch persistentvolumeclaims/demo-restored: spec.volumeAttributesClassName=demo-gold",
        r"CSI → driver +ControllerModifyVolume iops=5000 .*→ OK",
        r"ok: claim, PersistentVolume and driver agree: the volume is demo-gold",
        r"demo → API +delete volumesnapshots/demo-snapshot",
        r"CSI → driver +DeleteSnapshot .*→ OK",
        r"ok: the driver has no snapshot any more",
    ]


def story(first: str, other: str) -> list[str]:
    """first: the node that the scheduler chose for the first pod. Together what happens at once, one after the other
    what follows.
    """
    return [
        r"server +answers on https://127\.0\.0\.1:\d+",
        r"attacher → API +watches .*volumeattachments",
        r"binder → API +watches .*pods",
        r"node-health → API +watches leases, nodes, pods",
        r"workloads → API +watches .*deployments",
        r"provisioner → API +watches .*persistentvolumeclaims",
        r"resizer → API +watches .*volumeattributesclasses",
        r"snapshot-controller → API +watches .*volumesnapshots",
        r"snapshotter → API +watches .*volumesnapshotcontents",
        r"demo → API +create csidrivers/hostpath.csi.mooring",
        r"demo → API +create storageclasses/demo-class",
        r"demo → API +create volumesnapshotclasses/demo-class",
        r"demo → API +create volumeattributesclasses/demo-silver",
        r"demo → API +create nodes/n1",
        r"demo → API +create nodes/n2",
        r"n1 → API +create csinodes/n1",
        r"CSI → n2 +NodeGetInfo +→ node_id=n2",
        r"ok: the CSINodes of n1 and n2 name the driver hostpath.csi.mooring",
        r"A claim asks for a volume: the binder says .*, the provisioner has it made, the binder binds",
        r"demo → API +create persistentvolumeclaims/demo-claim",
        r"binder → API +replace persistentvolumeclaims/demo-claim ",
        rf"CSI → driver +CreateVolume .*name={PVC} .*→ .*volume_id=vol-",
        rf"provisioner → API +create persistentvolumes/{PVC}",
        rf"binder → API +replace persistentvolumes/{PVC}/status: phase=Bound",
        r"binder → API +replace persistentvolumeclaims/demo-claim/status: phase=Bound",
        r"ok: the claim is bound, \d+ ms after it was made",
        r"ok: the driver, its state file and its folder agree: the volume is on no node",
        r"demo → API +create deployments/demo",
        *pod_runs(first),
        r"ok: greeting.txt is written through the pod's path",
        rf"demo → API +patch nodes/{first}: spec.unschedulable=true",
        rf"demo → API +delete pods/{POD}",
        rf"ok: the VolumeAttachment to {first} is gone",
        rf"ok: the pod runs on {other}, \d+ ms later",
        READ,
        EMPTY,
        rf"ok: the status of {first} says so, too: nothing attached, nothing in use",
        rf"power +{other} is off: its agent and its driver are gone, and nothing is mounted there",
        rf"node-health → API +patch nodes/{other}/status: .*Unknown",
        rf"node-health → API +patch nodes/{other}: add /spec/taints .*unreachable",
        (
            rf"ok: {other} is Unknown and unreachable, \d+ ms after the cut \(here --node-monitor-grace-period=2s, "
            r"not the usual 50s\)"
        ),
        rf"ok: the driver, its state file and its folder agree: the volume is on {other}",
        rf"demo → API +patch nodes/{other}: .*node.kubernetes.io/out-of-service",
        rf"node-health → API +delete pods/{POD}",
        rf"ok: the pod on {other} was evicted and removed",
        rf"ok: the VolumeAttachment to {other} is gone",
        rf"ok: the pod runs on {first}, \d+ ms later",
        rf"ok: the driver, its state file and its folder agree: the volume is on {first}",
        READ,
        rf"power +{other} comes back: its driver and its agent start",
        rf"CSI → {other} +NodeUnpublishVolume .*→ OK",
        rf"CSI → {other} +NodeUnstageVolume .*→ OK",
        EMPTY,
        rf"ok: the status of {other} says so, too: nothing attached, nothing in use",
        *changes(first),
        r"demo → API +delete deployments/demo",
        *leaves(first),
        EMPTY,
        r"ok: the driver, its state file and its folder agree: the volume is on no node",
        r"demo → API +delete persistentvolumeclaims/demo-claim",
        rf"binder → API +replace persistentvolumes/{PVC}/status: phase=Released",
        r"CSI → driver +DeleteVolume .*→ OK",
        rf"provisioner → API +delete persistentvolumes/{PVC}",
        r"ok: the claim and the PersistentVolume are gone",
        r"ok: the driver, its state file and its folders agree: there is no volume",
        (
            r"ok: the API server has no Deployment, no ReplicaSet, no Pod, no PersistentVolumeClaim, no "
            r"PersistentVolume, no VolumeAttach"
        ),
        EMPTY,
        EMPTY,
        r"ok: /proc/self/mountinfo is as it was before the first pod",
        r"The volume's life, in seconds:",
        r"\d\.\d{3}  the claim is bound to a new volume\n",
        rf"\d\.\d{{3}}  a pod on {first} has written to it\n",
        rf"\d\.\d{{3}}  {first} takes no new pods, and the pod is deleted\n",
        rf"\d\.\d{{3}}  detached from {first}; a pod on {other} has read what was written\n",
        rf"\d\.\d{{3}}  the power of {other} is cut\n",
        rf"\d\.\d{{3}}  {other} is Unknown; the volume stays attached there\n",
        rf"\d\.\d{{3}}  {other} is tainted node.kubernetes.io/out-of-service\n",
        rf"\d\.\d{{3}}  detached from {other}; a pod on {first} has read what was written\n",
        rf"\d\.\d{{3}}  {other} is back, and has tidied up\n",
        r"\d\.\d{3}  the volume has grown to 2Gi while the pod wrote",
        r"\d\.\d{3}  a snapshot of it is ready to use\n",
        r"\d\.\d{3}  the pod has deleted all that it wrote\n",
        r"\d\.\d{3}  restored into another volume of 2Gi; a pod on n\d has read what was deleted\n",
        r"\d\.\d{3}  the restored volume has moved from demo-silver to demo-gold\n",
        r"\d\.\d{3}  the snapshot and the restored volume are deleted\n",
        r"\d\.\d{3}  detached and deleted, after its Deployment and its claim\n",
        r"again; grown, photographed, emptied, restored and read; moved to another class; detached and deleted\. ",
    ]


def test_the_demo_tells_all_that_happens_and_ends_well() -> None:
    needs_mounts()
    mounted = Path("/proc/self/mountinfo").read_text()
    began = time.monotonic()
    done = subprocess.run([*MOORING, "demo"], capture_output=True, text=True, timeout=60, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    assert time.monotonic() - began < 60, "what the demo may take, on a busy machine too"
    rest, node = done.stdout, re.search(r"a pod on (n\d) has written to it", done.stdout)
    assert node is not None, done.stdout
    for line in story(node[1], "n2" if node[1] == "n1" else "n1"):
        found = re.search(line, rest)
        assert found is not None, f"{line!r} is missing, or in another place:\n{done.stdout}"
        rest = rest[found.end() :]
    assert mounted == Path("/proc/self/mountinfo").read_text()
    assert "\x1b" not in done.stdout
    assert [] == [line for line in done.stdout.splitlines() if re.search("(?i)error|fail", re.sub(EVICTED, "", line))]


def test_on_a_terminal_the_demo_is_alive() -> None:
    here, there = pty.openpty()
    with contextlib.closing(os.fdopen(here, "rb", buffering=0)) as terminal:
        process = subprocess.Popen(
            [*MOORING, "demo"], stdout=there, stderr=there, env={**os.environ, "TERM": "xterm-256color"}
        )
        os.close(there)
        shown = b"".join(_until_hung_up(terminal)).decode()
        assert 0 == process.wait(30), shown
    assert "\x1b[" in shown
    assert "✓ " in shown
    assert "detached and" in shown
    assert "Nothing is left." in re.sub(r"\s+", " ", shown)


def _until_hung_up(terminal: Any) -> Iterator[bytes]:
    with contextlib.suppress(OSError):  # what Linux answers when the other side has closed
        while data := terminal.read(65536):
            yield data


def test_an_interrupted_demo_does_not_claim_success(tmp_path: Path) -> None:
    program = Program([*MOORING, "demo"], tmp_path / "log", {**os.environ, "TMPDIR": str(tmp_path)})
    try:
        eventually(lambda: "answers on" in program.output_alive(), 20, "the demo has begun", every_s=0.005)
        program.send(signal.SIGINT)
        assert 130 == program.wait_exit(), program.log_tail()
    finally:
        program.kill()
    assert ["log"] == os.listdir(tmp_path), "its folder is gone"


def runs(one: Any) -> bool:
    return one is not None and one.status.phase == "Running"


def bound(one: Any) -> bool:
    return one is not None and one.status.phase == "Bound"


def examples(*flags: str) -> list[dict[str, Any]]:
    """What --examples has people paste: a claim, its pod, a claim that waits, its pod."""
    output = subprocess.run(
        [*MOORING, "dev", "--examples", *flags], capture_output=True, text=True, timeout=30, check=True
    ).stdout
    found = re.findall(r"^kubectl apply -f - <<'?EOF'?\n(.*?)^EOF$", output, re.DOTALL | re.MULTILINE)
    return [one for text in found for one in yaml.safe_load_all(text)]


async def published(socket: Path) -> dict[str, list[str]]:
    """Volume handles to the nodes that the driver names."""
    driver = WireDriver(str(socket), clock=LoopClock())
    await driver.connect(5)
    listed = await driver.list_volumes(csi.ListVolumesRequest(), Call(5.0))
    await driver.close()
    return {one.volume.volume_id: list(one.status.published_node_ids) for one in listed.entries}


def client_of(config: Path) -> HttpCluster:
    return HttpCluster(kubeconfig.load(str(config), {}), clock=LoopClock(), randomness=Random(), user_agent="test")


async def names(cluster: HttpCluster, kind: Kind[Any]) -> list[str]:
    return [one["metadata"]["name"] for one in (await cluster.list(kind.whole())).items]


async def test_dev_makes_and_mounts_a_volume_for_anybody_who_pastes_its_examples(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with dev(tmp_path, f"--state={state}", "--node-id=a,b", "--volume=mine") as (program, config):
        assert state / "kubeconfig" == config
        assert 0o600 == config.stat().st_mode & 0o777
        async with client_of(config) as cluster:
            assert ["a", "b"] == await names(cluster, CSI_NODES) == await names(cluster, NODES)
            assert ["hostpath.csi.mooring"] == await names(cluster, CSI_DRIVERS)
            assert ["hostpath", "hostpath-wait"] == await names(cluster, STORAGE_CLASSES)
            assert ["mine"] == await names(cluster, PERSISTENT_VOLUMES)
            wanted, pod, *_ = examples("--node-id=a,b")
            await cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), wanted, "default")
            found = await until(cluster, PERSISTENT_VOLUME_CLAIMS, "my-claim", bound)
            assert found is not None
            await cluster.create(PODS.whole(), pod, "default")
            running = await until(cluster, PODS, "my-pod", runs)
            assert running is not None
            before = [
                (await cluster.list(kind.whole())).items for kind in (VOLUME_ATTACHMENTS, PERSISTENT_VOLUME_CLAIMS)
            ]
            handle = (await cluster.get(PERSISTENT_VOLUMES.whole(), found.spec.volume_name))["spec"]["csi"][
                "volumeHandle"
            ]
        node = running.spec.node_name
        told = rf"CSI → driver +ControllerPublishVolume node_id={node} .*volume_id={handle} "
        assert re.search(told, program.output()), "ids are whole"
        assert not re.search(r"(?m)^[IWE]\d{4} ", program.output()), "one clock and one form for all lines"
    assert [node] == [one.node_id for one in read_state(state / "driver").volumes[handle].published]

    with dev(tmp_path, f"--state={state}", "--node-id=a,b", "--volume=mine", "--volume=more") as (
        _,
        config,
    ):  # everything is still there
        assert {handle: [node]}.items() <= (await published(state / "csi.sock")).items()
        async with client_of(config) as cluster:
            assert before == [
                (await cluster.list(kind.whole())).items for kind in (VOLUME_ATTACHMENTS, PERSISTENT_VOLUME_CLAIMS)
            ]
            assert {"mine", "more", found.spec.volume_name} == set(await names(cluster, PERSISTENT_VOLUMES))
            await cluster.delete(PODS, "my-pod", "default")
            await until(cluster, PODS, "my-pod", lambda one: one is None)
            await cluster.delete(PERSISTENT_VOLUME_CLAIMS, "my-claim", "default")
            await until(cluster, PERSISTENT_VOLUMES, found.spec.volume_name, lambda pv: pv is None)
        assert handle not in await published(state / "csi.sock")


async def test_a_pod_in_dev_is_scheduled_and_its_volume_made_then(tmp_path: Path) -> None:
    """For claims that name no class, when asked for; and where the volume waits for its first pod."""
    with dev(tmp_path, "--node-id=only", "--default-class", "--topology=only:zone=a") as (_, config):
        async with client_of(config) as cluster:
            classless, (*_, wanted, pod) = claim("none", ""), examples()
            del classless["spec"]["storageClassName"]
            for body in (classless, wanted):
                await cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), body, "default")
            assert await until(cluster, PERSISTENT_VOLUME_CLAIMS, "none", bound)
            waiting = await cluster.get(PERSISTENT_VOLUME_CLAIMS, "my-waiting-claim", "default")
            assert ("Pending", "") == (waiting.status.phase, waiting.spec.volume_name)
            await cluster.create(PODS.whole(), pod, "default")
            running = await until(cluster, PODS, "my-waiting-pod", runs)
            assert running is not None
            assert "only" == running.spec.node_name
            csi_node = await cluster.get(CSI_NODES, "only")
            assert [("zone",)] == [driver.topology_keys for driver in csi_node.spec.drivers or ()]
            made = await cluster.get(PERSISTENT_VOLUME_CLAIMS, "my-waiting-claim", "default")
            pv = await cluster.get(PERSISTENT_VOLUMES.whole(), made.spec.volume_name)
            assert [{"key": "zone", "operator": "In", "values": ["a"]}] == (
                pv["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"]
            )
            await cluster.delete(PODS, "my-waiting-pod", "default")
            await cluster.delete(PERSISTENT_VOLUME_CLAIMS, "my-waiting-claim", "default")
            await until(cluster, PERSISTENT_VOLUMES, made.spec.volume_name, lambda pv: pv is None)


def test_dev_without_a_folder_leaves_nothing_behind(tmp_path: Path) -> None:
    with dev(tmp_path) as (_, config):
        assert tmp_path / "tmp" in config.parents
        assert config.exists()
    assert [] == os.listdir(tmp_path / "tmp")


def test_dev_comes_back_to_its_port_and_says_when_it_can_not(tmp_path: Path) -> None:
    flag = f"--state={tmp_path / 'state'}"
    with dev(tmp_path, flag) as (_, config):
        before = config.read_bytes()
    with dev(tmp_path, flag) as (_, config):
        assert before == config.read_bytes()
    port = int(re.findall(rb"127\.0\.0\.1:(\d+)", before)[0])
    with socket.create_server(("127.0.0.1", port)), dev(tmp_path, flag) as (program, config):
        assert f"port {port}, where it was last time, is taken" in program.output()
        assert before != config.read_bytes()


@pytest.mark.long
def test_a_demo_that_nobody_reads_to_the_end_ends_in_a_line() -> None:
    with subprocess.Popen([*MOORING, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        assert 0 == process.wait(30)
    assert "mooring demo: stdout is closed; the exit code tells how it ends\n" == said


def test_dev_goes_on_when_nobody_reads_any_more(tmp_path: Path) -> None:
    state = tmp_path / "state"

    async def used() -> None:
        async with client_of(state / "kubeconfig") as cluster:
            await cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), claim("c", "hostpath"), "default")
            assert await until(cluster, PERSISTENT_VOLUME_CLAIMS, "c", bound)

    with subprocess.Popen(
        [*MOORING, "dev", f"--state={state}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert any("Ctrl-C ends it" in line for line in process.stdout)
        process.stdout.close()
        asyncio.run(used())
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert 0 == process.wait(30)
    assert "mooring dev: stdout is closed; it goes on until Ctrl-C\n" == said


def test_a_second_dev_on_the_same_folder_is_kept_out(tmp_path: Path) -> None:
    with dev(tmp_path, f"--state={tmp_path / 'state'}"):
        second = subprocess.run(
            [*MOORING, "dev", f"--state={tmp_path / 'state'}"], capture_output=True, text=True, timeout=30, check=False
        )
    assert 1 == second.returncode
    assert re.search(r"mooring dev: '.*' is in use by .* of process \d+", second.stderr), second.stderr
