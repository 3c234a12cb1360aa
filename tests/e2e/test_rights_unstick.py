"""`mooring unstick` and `mooring fence` (issue 29) with the rights that their page says, on a real server: enough, and
all needed.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.api.snapshot_names import (
    BOUND_FINALIZER,
    CLAIM_FINALIZER,
    CONTENT_FINALIZER,
    GROUP_CONTENT_FINALIZER,
    GROUP_FINALIZER,
)
from mooring.sidecars.provisioner.names import VOLUME_FINALIZER
from tests.support.builders import (
    Json,
    a_claim,
    a_csi_driver,
    a_group_content,
    a_group_snapshot,
    a_lease,
    a_new_content,
    a_pv,
    a_ready_node,
    a_snapshot,
    an_attached_va,
)
from tests.support.control_plane import ControlPlane
from tests.support.fault_proxy import FaultProxy
from tests.support.rights import Manifest, acting_as, refused
from tests.support.snapshot_crds import GROUP_CRDS, SNAPSHOT_CRDS
from tests.support.waiting import eventually

PAGE = Path(__file__).resolve().parents[2] / "docs" / "unstick.md"
DRIVER, FINALIZER = "unstick.rights.test", "external-attacher/unstick-rights-test"
MADE = {"snapshotHandle": "s1", "readyToUse": True}


def from_the_page() -> tuple[Manifest, Manifest]:
    (_, *blocks) = PAGE.read_text().split("```yaml\n")
    unstick, fence = (Manifest(list(yaml.safe_load_all(one.partition("```")[0]))) for one in blocks)
    return unstick, fence


async def command(proxy: FaultProxy, *words: str, typed: str = "") -> tuple[int, Any]:
    line = [sys.executable, "-m", "mooring.cli.mooring", *words, f"--kubeconfig={proxy.kubeconfig}", "-o=json"]
    done = await asyncio.to_thread(subprocess.run, line, capture_output=True, text=True, timeout=60, input=typed)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def stuck(plane: ControlPlane) -> dict[str, Json]:
    """One object of each kind in deletion, with a finalizer of which it is proved that it may go."""
    for definition in (*SNAPSHOT_CRDS, *GROUP_CRDS):
        plane.kubectl("create", "-f", "-", stdin=json.dumps(definition))
    eventually(lambda: "volumegroupsnapshots" in plane.kubectl("api-resources"), 30, "the kinds are served")
    source = {"csi": {"driver": DRIVER, "volumeHandle": "h"}}
    found = {
        "va": an_attached_va("unstuck", "lost", "gone", attacher=DRIVER, finalizers=[FINALIZER]),
        "pv": a_pv(
            "unstuck",
            source=source,
            finalizers=[VOLUME_FINALIZER],
            persistentVolumeReclaimPolicy="Retain",
            claim="unstuck",
        ),
        "pvc": a_claim("unstuck", volume="unstuck", finalizers=[CLAIM_FINALIZER]),
        "vs": a_snapshot("unstuck", claim="unstuck", finalizers=[BOUND_FINALIZER]),
        "vsc": a_new_content("unstuck", policy="Retain", status=MADE, finalizers=[CONTENT_FINALIZER]),
        "vgs": a_group_snapshot("unstuck", finalizers=[GROUP_FINALIZER]),
        "vgsc": a_group_content("unstuck", policy="Retain", finalizers=[GROUP_CONTENT_FINALIZER]),
    }
    plane.kubectl("create", "-f", "-", stdin=json.dumps(a_csi_driver(DRIVER)))
    for alias, body in found.items():
        name, held = body["metadata"]["name"], body["metadata"]["finalizers"]
        kind = {"va": "volumeattachment", "vgs": "volumegroupsnapshot", "vgsc": "volumegroupsnapshotcontent"}.get(
            alias, alias
        )
        plane.kubectl("create", "-f", "-", stdin=json.dumps(body))
        plane.kubectl(
            "patch", kind, name, "--type=merge", "-p", json.dumps({"metadata": {"finalizers": held}})
        )  # its own alone
        plane.kubectl("delete", kind, name, "--wait=false")
    return found


@pytest.mark.long
async def test_the_rights_of_its_page_are_enough_for_unstick_and_all_are_needed(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    plane, (rights, _) = new_control_plane(), from_the_page()
    await asyncio.to_thread(stuck, plane)
    for lock in (
        "unstick-rights-test",
        "external-attacher-leader-unstick-rights-test",
        "external-snapshotter-leader-unstick-rights-test",
        "kube-controller-manager",
        "snapshot-controller-leader",
    ):
        plane.kubectl("create", "-f", "-", stdin=json.dumps(a_lease(lock, holderIdentity="")))  # they have ended
    async with acting_as(rights, plane, tmp_path) as proxy:
        for alias in ("va", "vs", "vgs", "vgsc", "vsc", "pvc"):
            code, report = await command(proxy, "unstick", f"{alias}/unstuck", "--yes")
            assert 0 == code, json.dumps(report, indent=1)
            plane.kubectl(
                "delete", "csidriver", DRIVER, "--ignore-not-found"
            )  # from now on its CSINodes say whether it is there
        forced = await command(proxy, "unstick", "pv/unstuck", "--force", "--reason=for the test", typed="unstuck\n")
        assert 0 == forced[0], json.dumps(forced[1], indent=1)
        assert [] == refused(proxy)
        assert ["list persistentvolumes"] == rights.unused(proxy), "only a driver that is asked needs it"


async def test_the_rights_of_its_page_are_enough_for_all_that_a_removed_driver_left(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    rights, _ = from_the_page()
    gone, finalizer = "gone.rights.test", "external-attacher/gone-rights-test"
    volume = a_pv("left", source={"csi": {"driver": gone, "volumeHandle": "h"}}, finalizers=[finalizer])
    attachment = an_attached_va("left-gone", "left", "gone", attacher=gone, finalizers=[finalizer])
    paths = {"/api/v1/persistentvolumes": volume, "/apis/storage.k8s.io/v1/volumeattachments": attachment}
    for path, body in paths.items():
        status, answer = control_plane.request("POST", path, body)
        assert 201 == status, answer
        assert 200 == control_plane.request("DELETE", f"{path}/{body['metadata']['name']}")[0]
    async with acting_as(rights, control_plane, tmp_path) as proxy:
        _, report = await command(proxy, "unstick", f"--driver={gone}", "--finalizer", finalizer, typed=f"{gone}\n")
        assert ["volumeattachment left-gone", "pv left"] == [one["object"] for one in report["objects"]]
        ours = [one for each in report["objects"] for one in each["finalizers"] if one["name"] == finalizer]
        assert [True, True] == [one["takenOff"] for one in ours], json.dumps(report, indent=1)
        assert [] == refused(proxy)
    for path, body in paths.items():
        status, answer = control_plane.request("GET", f"{path}/{body['metadata']['name']}")
        assert status == 404 or finalizer.encode() not in answer, answer


async def test_the_rights_of_its_page_are_enough_for_fence_and_all_are_needed(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    _, rights = from_the_page()
    node = a_ready_node("fenced-by-right", ready=False)
    control_plane.kubectl("create", "-f", "-", stdin=json.dumps(node))
    status = json.dumps({"status": node["status"]})
    control_plane.kubectl("patch", "node", "fenced-by-right", "--subresource=status", "--type=merge", "-p", status)
    lease = a_lease("fenced-by-right", leaseDurationSeconds=1, namespace="kube-node-lease")
    control_plane.kubectl("create", "-f", "-", stdin=json.dumps(lease))
    async with acting_as(rights, control_plane, tmp_path) as proxy:
        code, report = await command(proxy, "fence", "fenced-by-right", typed="fenced-by-right\n")
        assert (0, True) == (code, report["done"]), json.dumps(report, indent=1)
        code, report = await command(proxy, "unfence", "fenced-by-right", "--not-ready", "--yes")
        assert (0, True) == (code, report["done"]), json.dumps(report, indent=1)
        assert [] == refused(proxy)
        assert [] == rights.unused(proxy)
    control_plane.kubectl("delete", "node", "fenced-by-right")
