"""What people paste, in `mooring dev`: Deployments, StatefulSets with their claims, Jobs; and all of it after a kill of
the whole.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from mooring.driver.hostpath.statefile import read_state
from tests.e2e.test_dev_pods import CLAIM, Kubectl, is_empty, mounts_seen_by
from tests.e2e.test_dev_power import QUICK, TAINT, a_deployment, is_ready, node_of_pod, published, turned
from tests.support.mooring_dev import dev, dev_to_kill, needs_mounts
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.real, pytest.mark.long]

Json = dict[str, Any]
MOUNT: Final = {"name": "data", "mountPath": "/data"}


def a_template(labels: Mapping[str, str], **spec: Any) -> Json:
    return {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "none", "volumeMounts": [MOUNT]}], **spec},
    }


def a_set(**spec: Any) -> Json:
    """A StatefulSet `db` with a claim for each of its pods."""
    labels, claim = {"app": "db"}, {"metadata": {"name": "data"}, "spec": CLAIM["spec"]}
    wanted = {
        "serviceName": "db",
        "selector": {"matchLabels": labels},
        "template": a_template(labels),
        "volumeClaimTemplates": [claim],
    }
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {**wanted, **spec}}


def a_job() -> Json:
    template = a_template(
        {"app": "sum"},
        restartPolicy="Never",
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}],
    )
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"}, "spec": {"template": template}}


def names(kubectl: Kubectl, what: str) -> list[str]:
    return sorted(kubectl("get", what, "-o", "jsonpath={.items[*].metadata.name}").split())


def is_gone(kubectl: Kubectl, state: Path, pid: int) -> None:
    eventually(lambda: not kubectl.left(), 30, "no pod, no attachment, no volume")
    assert [] == mounts_seen_by(pid, state)
    is_empty(state)


def test_a_deployment_is_rolled_out_moved_and_deleted(tmp_path: Path) -> None:
    needs_mounts()
    state = tmp_path / "state"
    with dev(tmp_path, f"--state={state}", "--nodes=2") as (program, config):
        kubectl = Kubectl(config)
        kubectl.apply(CLAIM, a_deployment())
        old, before = node_of_pod(kubectl), names(kubectl, "pods")
        kubectl("drain", old, "--force", "--timeout=30s")
        assert old != node_of_pod(kubectl)
        assert before != names(kubectl, "pods")
        kubectl("uncordon", old)
        kubectl("rollout", "restart", "deployment/web")
        kubectl("rollout", "status", "deployment/web", "--timeout=30s")
        kubectl("scale", "deployment/web", "--replicas=0")
        eventually(lambda: [] == published(state)[0], 30, "nobody has the volume")
        kubectl("delete", "deployment", "web", "--timeout=20s")
        kubectl("delete", "pvc", "claim", "--timeout=20s")
        is_gone(kubectl, state, program.pid)


def test_the_claims_of_a_stateful_set_stay_or_go_as_it_says(tmp_path: Path) -> None:
    needs_mounts()
    state = tmp_path / "state"
    with dev(tmp_path, f"--state={state}", "--nodes=3", "--zones=2") as (program, config):
        kubectl = Kubectl(config)
        policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
        kubectl.apply(a_set(replicas=2, persistentVolumeClaimRetentionPolicy=policy))
        kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
        assert ["db-0", "db-1"] == names(kubectl, "pods")
        volumes = {one.name for one in read_state(state / "driver").volumes.values()}
        kubectl("scale", "statefulset/db", "--replicas=1")
        eventually(lambda: ["db-0"] == names(kubectl, "pods"), 30, "the last one is gone")
        assert ["data-db-0", "data-db-1"] == names(kubectl, "pvc"), "kept for the pod that comes back"
        kubectl("scale", "statefulset/db", "--replicas=2")
        kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
        eventually(lambda: ["db-0", "db-1"] == names(kubectl, "pods"), 30, "it is back")
        kubectl.ready("db-0", "db-1")
        assert volumes == {one.name for one in read_state(state / "driver").volumes.values()}
        kubectl(
            "patch",
            "statefulset",
            "db",
            "-p",
            '{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete"}}}',
        )
        kubectl("scale", "statefulset/db", "--replicas=1")
        eventually(lambda: ["data-db-0"] == names(kubectl, "pvc"), 30, "the claim went with its pod")
        kubectl("delete", "statefulset", "db", "--timeout=20s")
        eventually(lambda: [] == names(kubectl, "pvc"), 30, "and the other one with the set")
        is_gone(kubectl, state, program.pid)


def test_a_job_ends_when_its_pod_is_said_to_have(tmp_path: Path) -> None:
    needs_mounts()
    state = tmp_path / "state"
    with dev(tmp_path, f"--state={state}") as (program, config):
        kubectl = Kubectl(config)
        kubectl.apply(CLAIM, a_job())
        kubectl("wait", "--for=jsonpath={.status.ready}=1", "job/sum", "--timeout=30s")
        (pod,) = names(kubectl, "pods")
        kubectl("patch", "pod", pod, "--subresource=status", "-p", '{"status":{"phase":"Succeeded"}}')
        kubectl("wait", "--for=condition=Complete", "job/sum", "--timeout=30s")
        eventually(lambda: [[]] == published(state), 30, "a pod that has ended keeps no volume")
        kubectl("delete", "job", "sum", "--timeout=20s")
        kubectl("delete", "pvc", "claim", "--timeout=20s")
        is_gone(kubectl, state, program.pid)


def test_after_a_kill_in_the_midst_of_it_all_settles_and_nothing_is_attached_twice(tmp_path: Path) -> None:
    """Sets that come up, a dead node with a pod: the next start has all of its nodes on, and ends what was begun."""
    needs_mounts()
    state = tmp_path / "state"
    flags = [f"--state={state}", "--nodes=3", QUICK]
    with dev_to_kill(tmp_path, *flags) as (program, config):
        kubectl = Kubectl(config)
        kubectl.apply(CLAIM, a_deployment())
        dead = node_of_pod(kubectl)
        assert 0 == turned("kill-node", dead, config=config)[0]
        eventually(lambda: is_ready(kubectl, dead) == "Unknown", 30, "the node's silence is noticed")
        kubectl.apply(a_set(replicas=4, podManagementPolicy="Parallel"))
        kubectl("taint", "nodes", dead, f"{TAINT}=nodeshutdown:NoExecute")
        eventually(lambda: 3 <= len(published(state)), 30, "volumes are being made")
        os.kill(program.pid, signal.SIGKILL)
    with dev(tmp_path, *flags) as (program, config):
        kubectl = Kubectl(config)
        eventually(lambda: is_ready(kubectl, dead) == "True", 30, "the node is on again")
        kubectl("taint", "nodes", dead, f"{TAINT}-")
        kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
        kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        eventually(lambda: all(1 == len(nodes) for nodes in published(state)), 30, "each volume is on one node")
        assert 5 == len(published(state)), "one for each claim, and no other"
        attachments = kubectl(
            "get", "volumeattachments", "-o", "jsonpath={.items[*].spec.source.persistentVolumeName}"
        ).split()
        assert sorted(attachments) == sorted({*attachments})
        assert 10 == len(mounts_seen_by(program.pid, state)), "each is staged and published once"
        kubectl("delete", "deployment/web", "statefulset/db", "--timeout=20s")
        kubectl("delete", "pvc", "--all", "--timeout=60s")
        is_gone(kubectl, state, program.pid)
