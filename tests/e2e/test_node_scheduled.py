"""Item C.7 of issue 27: the real kube-scheduler places pods on the Node of `mooring node-agent`, as far as there is
room.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.control_plane import ControlPlane
from tests.support.programs import Program
from tests.support.waiting import eventually

LIFECYCLE = "node-lifecycle-controller"
"""Takes off the taint with which kube-apiserver makes every Node."""


def a_pod(name: str, **requests: str) -> dict[str, Any]:
    container = {"name": "c", "image": "none", "resources": {"requests": requests}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


def test_the_real_scheduler_places_pods_on_the_agents_node(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    plane = new_control_plane()
    plane.start_controllers(LIFECYCLE)
    plane.start_scheduler()
    command = [
        Path(sys.executable).parent / "mooring",
        "node-agent",
        f"--kubeconfig={plane.kubeconfig()}",
        "--node-name=n1",
    ]
    flags = [
        f"--root-dir={tmp_path / 'root'}",
        "--capacity=memory=3Gi,cpu=4",
        "--allocatable=cpu=1500m",
        "--max-pods=2",
    ]
    agent = Program([*command, *flags], tmp_path / "log", dict(os.environ))

    def pod(name: str) -> dict[str, Any]:
        return dict(json.loads(plane.kubectl("get", "pod", name, "-o", "json")))

    def refusal(name: str) -> str:
        return " ".join(one.get("message", "") for one in pod(name)["status"].get("conditions", []))

    try:
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(a_pod("first", cpu="1", memory="2Gi")))
        eventually(lambda: pod("first")["status"]["phase"] == "Running", 60, "the pod runs")
        assert "n1" == pod("first")["spec"]["nodeName"]
        assert "1/1" in plane.kubectl("get", "pods", "--no-headers")
        status = json.loads(plane.kubectl("get", "node", "n1", "-o", "json"))["status"]
        assert {"cpu": "4", "memory": "3Gi", "pods": "2"}.items() <= status["capacity"].items()
        assert {"cpu": "1500m", "memory": "3Gi", "pods": "2"}.items() <= status["allocatable"].items()
        for name, requests, lacks in (
            ("large", {"cpu": "1"}, "Insufficient cpu"),
            ("wide", {"memory": "2Gi"}, "Insufficient memory"),
        ):
            plane.kubectl("apply", "-f", "-", stdin=json.dumps(a_pod(name, **requests)))
            eventually(lambda name=name, lacks=lacks: lacks in refusal(name), 30, "there is no room for it")
        plane.kubectl("delete", "pod", "first", "--timeout=30s")
        eventually(
            lambda: pod("large")["status"]["phase"] == pod("wide")["status"]["phase"] == "Running",
            60,
            "the others have room",
        )
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(a_pod("third")))
        eventually(lambda: "Too many pods" in refusal("third"), 30, "the node is full")
    finally:
        agent.kill()
