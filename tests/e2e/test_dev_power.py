"""Nodes of `mooring dev` that die and come back, from another terminal: volumes follow by rule, and nothing is attached
twice.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
from pathlib import Path
from typing import Final

import pytest

from mooring.cli import mooring as command
from mooring.driver.hostpath.statefile import read_state
from tests.e2e.test_dev_drivers import COMMAND, OWN_CLAIM, processes_with
from tests.e2e.test_dev_pods import (
    BLOCK,
    CLAIM,
    Kubectl,
    is_empty,
    loop_devices,
    mounts_seen_by,
    needs_loop_devices,
    no_loop_device_is_left,
    pod,
    pods_volume,
)
from tests.support import mount_driver
from tests.support.in_process import in_process
from tests.support.mooring_dev import dev, needs_mounts, turned
from tests.support.rows import each_row
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.long]

QUICK: Final = "--node-monitor-grace-period=2s"
TAINT: Final = "node.kubernetes.io/out-of-service"


def a_deployment(claim: str = "claim") -> dict[str, object]:
    """Of one pod, which is ended before the next one begins."""
    container = {"name": "main", "image": "none", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    spec = {"containers": [container], "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    wanted = {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": {"app": "web"}},
        "template": template,
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": wanted}


def node_of_pod(kubectl: Kubectl) -> str:
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    kubectl("wait", "--for=condition=Ready", "pod", "-l", "app=web", "--timeout=30s")
    return kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}")


def is_ready(kubectl: Kubectl, node: str) -> str:
    return kubectl("get", "node", node, "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}")


def published(state: Path) -> list[list[str]]:
    """By volume: the nodes that it is published on, as the driver's state file has it."""
    return [[one.node_id for one in volume.published] for volume in read_state(state / "driver").volumes.values()]


def test_a_volume_follows_its_pod_off_a_dead_node_that_comes_back_later(tmp_path: Path) -> None:
    needs_mounts()
    state = tmp_path / "state"
    with dev(tmp_path, f"--state={state}", "--nodes=3", QUICK) as (program, config):
        kubectl = Kubectl(config)
        kubectl.apply(CLAIM, a_deployment())
        dead = node_of_pod(kubectl)
        (pods_volume(program.pid, state) / "file").write_text("from the first node")
        code, text = turned("kill-node", dead, config=config)
        assert (0, True) == (code, f"kubectl taint nodes {dead} {TAINT}=nodeshutdown:NoExecute\n" in text), text
        assert [] == mounts_seen_by(program.pid, state / "nodes" / dead)
        assert (0, f"{dead} is off already\n") == turned("kill-node", dead, f"--state={state}")
        eventually(lambda: is_ready(kubectl, dead) == "Unknown", 30, "the node's silence is noticed")
        assert [[dead]] == published(state), "its machine may run: nothing is taken from it"
        kubectl("taint", "nodes", dead, f"{TAINT}=nodeshutdown:NoExecute")
        eventually(lambda: published(state) not in ([[dead]], [[]]), 30, "the volume is elsewhere")
        alive = node_of_pod(kubectl)
        assert [[alive]] == published(state)
        assert alive != dead
        assert "from the first node" == (pods_volume_on(program.pid, state, alive) / "file").read_text()
        code, text = turned("revive-node", dead, config=config)
        assert (0, True) == (code, f"kubectl taint nodes {dead} {TAINT}-\n" in text), text
        kubectl("taint", "nodes", dead, f"{TAINT}-")
        eventually(lambda: is_ready(kubectl, dead) == "True", 30, "the node is back")
        assert (0, f"{dead} is on already\n") == turned("revive-node", f"--state={state}", dead)
        eventually(
            lambda: not kubectl("get", "node", dead, "-o", "jsonpath={.status.volumesInUse}{.spec.taints}"),
            30,
            "it has tidied up",
        )
        kubectl("delete", "deployment", "web", "--timeout=20s")
        kubectl("delete", "pvc", "claim", "--timeout=30s")
        eventually(lambda: not kubectl.left(), 20, "no pod, no attachment, no volume")
        assert [] == mounts_seen_by(program.pid, state)
        is_empty(state)


def pods_volume_on(pid: int, state: Path, node: str) -> Path:
    """Where a pod of this node has its volume; other nodes may have kept folders."""
    (found,) = Path(f"/proc/{pid}/root{state}/nodes/{node}").glob("pods/*/volumes/kubernetes.io~csi/*/mount")
    return found


def test_a_node_that_comes_back_in_time_keeps_its_pods(tmp_path: Path) -> None:
    """A machine that was started again: its pods are where they were, and get their volumes mounted again."""
    needs_mounts()
    state = tmp_path / "state"
    with dev(tmp_path, f"--state={state}", "--nodes=2") as (program, config):
        kubectl = Kubectl(config)
        kubectl.apply(CLAIM, a_deployment())
        node, uid = node_of_pod(kubectl), kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.uid}")
        assert 0 == turned("kill-node", node, config=config)[0]
        assert [] == mounts_seen_by(program.pid, state)
        assert (0, f"{node} is on: its agent runs, and the driver is registered.\n") == turned(
            "revive-node", node, config=config
        )
        eventually(lambda: 2 == len(mounts_seen_by(program.pid, state)), 20, "staged and published again")
        assert uid == kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.uid}")
        assert [[node]] == published(state)


@pytest.mark.parametrize("flags", [[], ["--browser"]], ids=["alone", "behind proxies"])
def test_a_drivers_process_dies_with_its_node_and_comes_back_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    needs_mounts()
    monkeypatch.setenv(mount_driver.FOLDER, str(tmp_path / "volumes"))
    with dev(tmp_path, f"--driver={COMMAND}", "--nodes=2", QUICK, *flags) as (program, config):
        kubectl = Kubectl(config)
        kubectl.apply(OWN_CLAIM)
        its_socket = f"unix://{config.parent}/run/2.sock"
        assert processes_with(its_socket)
        assert 0 == turned("kill-node", "n2", config=config)[0]
        assert [] == processes_with(its_socket)
        code, text = turned("kill-node", "n1", config=config)
        assert (1, True) == (code, "n1: its driver process answers the controller's calls, too" in text), text
        assert "kill another node, as in n2" in text
        eventually(lambda: is_ready(kubectl, "n2") == "Unknown", 30, "the node's silence is noticed")
        assert (0, "n2 is on: its agent runs, and the driver is registered.\n") == turned(
            "revive-node", "n2", config=config
        )
        assert processes_with(its_socket)
        eventually(lambda: is_ready(kubectl, "n2") == "True", 30, "the node is back")
        assert "started again" not in program.output(), "nobody minds a program whose machine is off"


@pytest.mark.parametrize("forced", [False, True], ids=["a pod", "a pod that was removed"])
def test_a_node_without_power_gives_back_its_devices_at_the_end(tmp_path: Path, forced: bool) -> None:
    """A loop device is the machine's, whatever becomes of mounts and folders."""
    needs_loop_devices()
    with dev(tmp_path, "--nodes=2") as (program, config):
        kubectl = Kubectl(config)
        kubectl.apply(CLAIM, BLOCK, pod(block=True))
        kubectl.ready("pod")
        node = kubectl("get", "pod", "pod", "-o", "jsonpath={.spec.nodeName}")
        assert 0 == turned("kill-node", node, config=config)[0]
        assert [] == mounts_seen_by(program.pid, config.parent / "nodes" / node)
        only_one = "the driver's, over the volume's file; the agent's, over that one, is gone"
        eventually(lambda: 1 == len(loop_devices(tmp_path)), 10, only_one)
        if forced:
            kubectl("delete", "pod", "pod", "--force", "--grace-period=0", "--timeout=20s")
    assert "warning" not in program.output().replace("Warning: ", "")
    no_loop_device_is_left(tmp_path)
    assert [] == os.listdir(tmp_path / "tmp")


def test_the_power_switch_is_for_its_owner_alone(tmp_path: Path) -> None:
    with dev(tmp_path) as (_, config):
        status = (config.parent / "run" / "power").stat()
        assert stat.S_ISSOCK(status.st_mode)
        assert 0o600 == stat.S_IMODE(status.st_mode)
        assert (1, True) == _said(
            turned("kill-node", "nope", config=config), "there is no node 'nope' here, only n1, n2, n3"
        )
        assert (0, True) == _said(turned("kill-node", "n3", tmp=tmp_path / "tmp"), "n3 is off"), (
            "the only one that runs is meant"
        )
    assert not (config.parent / "run").exists()


def _said(answer: tuple[int, str], text: str) -> tuple[int, bool]:
    code, said = answer
    assert text in said, said
    return code, True


NOBODY: Final = "no mooring dev is found: set KUBECONFIG as its start says"


@each_row(
    ("words", "code", "problem"),
    [
        (["n1"], 1, NOBODY),
        (["n1", "--state=/nowhere"], 1, "no mooring dev runs on '/nowhere'"),
        (["--state=/nowhere", "n1"], 1, "no mooring dev runs on '/nowhere'"),
        ([], 2, "give one NODE, as in n2"),
        (["n1", "n2"], 2, "'n2' is no flag"),
        (["--state=/nowhere", "n1", "n2"], 2, "give one NODE, as in n2"),
        (["n1", "--states=x"], 2, "did you mean --state?"),
    ],
)
@each_row("word", ["kill-node", "revive-node"])
def test_who_asks_for_what_is_not_there_is_told(
    tmp_path: Path, word: str, words: list[str], code: int, problem: str
) -> None:
    alone = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    done = in_process(command.run, "dev", word, *words, environ={**alone, "TMPDIR": str(tmp_path)})
    text = done.stdout + done.stderr
    assert (code, True) == (done.returncode, problem in text), text
    assert re.match(rf"mooring dev {word}: ", text)


def test_a_call_by_hand_finds_the_driver_of_the_node_and_the_pods_volume(tmp_path: Path) -> None:
    needs_mounts()
    with dev(tmp_path, "--nodes=2") as (_, config):
        kubectl = Kubectl(config)
        kubectl.apply(CLAIM, pod(node="n2"))
        kubectl.ready("pod")
        handle = kubectl("get", "pv", "-o", "jsonpath={.items[0].spec.csi.volumeHandle}")
        words = ("call", "NodeGetVolumeStats", f"volume_id={handle}", "--node=n2")
        environ = {name: value for name, value in os.environ.items() if name != "CSI_ENDPOINT"}
        done = in_process(command.run, *words, environ={**environ, "KUBECONFIG": str(config)})
        assert (0, True) == (done.returncode, "unit: BYTES" in done.stdout), done.stdout + done.stderr
        uid = kubectl("get", "pod", "pod", "-o", "jsonpath={.metadata.uid}")
        assert f"# volume_path: {config.parent}/nodes/n2/pods/{uid}/volumes/" in done.stderr


def test_a_dev_that_was_killed_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    stale = tmp_path / "run" / "power"
    _left_behind(stale)
    code, text = turned("kill-node", "n1", f"--state={tmp_path}")
    problem = f"mooring dev kill-node: no mooring dev runs on '{tmp_path}': give the folder of one that runs\n"
    assert (1, problem) == (code, text)
    with dev(tmp_path, f"--state={tmp_path}"):
        assert 0 == turned("kill-node", "n1", f"--state={tmp_path}")[0], "a new one takes its place"


def _left_behind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(path.parent):
        server.bind(path.name)


A_POD: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "none"}]},
}


def test_a_driver_without_a_node_service_has_nodes_that_stay_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody gives signs of life for them, and nobody asks for any."""
    monkeypatch.setenv(mount_driver.FOLDER, str(tmp_path / "volumes"))
    with dev(tmp_path, "--driver=tests.support.mount_driver:NoNodes", "--node-monitor-grace-period=1s") as (
        program,
        config,
    ):
        kubectl = Kubectl(config)
        code, text = turned("kill-node", "n1", config=config)
        assert (1, True) == (
            code,
            "the driver has no node service, so its nodes have no agents that could be ended" in text,
        ), text
        kubectl.apply(A_POD)
        eventually(
            lambda: kubectl("get", "pod", "p", "-o", "jsonpath={.spec.nodeName}") == "n1", 20, "the pod has a node"
        )
        with pytest.raises(AssertionError, match="timed out waiting"):
            kubectl("wait", "--for=condition=Ready=Unknown", "node/n1", "--timeout=3s")
        assert "NodeNotReady" not in program.output()
