"""`mooring why` in the ten night-time situations (issue 29), on a real control plane with the Go sidecars, and on the
embedded one.

In each the cause is made, `why` names it and whose move it is, and the command that it gives is typed, after which all
is well. What only looks is followed by what a person would do then.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.nights import DRIVER, NODES, Night, a_last_lease, go_plane, our_plane
from tests.support.builders import (
    a_claim,
    a_class,
    a_csi_node,
    a_new_snapshot,
    a_pod,
    a_volume,
    an_ephemeral_volume,
)
from tests.support.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.real]

SECRETS: Final = {
    "csi.storage.k8s.io/provisioner-secret-name": "creds",
    "csi.storage.k8s.io/provisioner-secret-namespace": "default",
}


def a_pod_with(night: Night, name: str, claim: str, node: str) -> None:
    """A pod with a volume of its own on a node, as far as a plane without a kubelet brings it."""
    night.create(a_claim(claim, sc="folders"), a_pod(name, claim, node=node))


def no_secret(night: Night) -> None:
    night.create(a_class("with-secret", provisioner=DRIVER, parameters=SECRETS), a_claim("locked", sc="with-secret"))
    link = night.names("pvc/locked", lambda one: 'the secret "default/creds" does not exist' in one["text"])
    assert ("failed", "user") == (link["state"], link["mover"])
    night.type(link["commands"][0]["line"].replace("KEY=VALUE", "key=value"))
    night.is_healed("pvc/locked")


def driver_down(night: Night) -> None:
    """On the node: its plugin is not registered."""
    night.kubectl("patch", "csinode", NODES[1], "--type=merge", "-p", '{"spec": {"drivers": []}}')
    a_pod_with(night, "down", "down", NODES[1])
    link = night.names("pod/down", lambda one: one["name"] == "attach down" and DRIVER in one["text"] + one["error"])
    assert "operator" == link["mover"], link
    assert "kubectl get csinode" in link["commands"][0]["line"]
    assert DRIVER not in night.type(link["commands"][0]["line"]), "it shows what is missing"
    drivers = a_csi_node(NODES[1], {DRIVER: f"id-of-{NODES[1]}"})["spec"]
    night.kubectl("patch", "csinode", NODES[1], "--type=merge", "-p", json.dumps({"spec": drivers}))
    night.is_healed("pod/down")


def wrong_class(night: Night) -> None:
    night.create(a_claim("typo", sc="foldres"))
    link = night.names("pvc/typo", lambda one: one["text"] == 'its StorageClass "foldres" does not exist')
    assert "user" == link["mover"]
    night.type(link["commands"][0]["line"])
    assert "foldres" not in night.kubectl("get", "pvc", "typo", "-o", "jsonpath={.spec.storageClassName}")
    night.kubectl("delete", "pvc", "typo")


def attached_elsewhere(night: Night) -> None:
    a_pod_with(night, "first", "shared", "n1")
    night.is_healed("pod/first")
    night.status("pod", "first", {"phase": "Running"})
    night.create(a_pod("second", "shared", node="n2"))
    link = night.names("pod/second", lambda one: 'the pod "default/first" has it on node n1' in one["text"])
    assert "user" == link["mover"]
    assert "kubectl -n default delete pod first" == link["commands"][0]["line"]
    night.type(link["commands"][0]["line"] + " --grace-period=0 --force")  # no kubelet ends it
    night.is_healed("pod/second")


def dead_node(night: Night) -> None:
    a_pod_with(night, "old", "moves", "n1")
    night.is_healed("pod/old")
    _uses(night, "moves", "n1")
    night.status(
        "node",
        "n1",
        {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    )
    night.create(a_pod("new", "moves", node="n2"))
    link = night.names("pod/new", lambda one: "the node does not report any more" in one["text"])
    assert ("operator", False) == (link["mover"], link["commands"][0]["safe"])
    night.kubectl("delete", "pod", "old", "--wait=false")
    with a_last_lease(night, "n1"):
        assert link["commands"][0]["line"] == "mooring fence n1"
        night.type(f"echo n1 | {link['commands'][0]['line']}")
    night.is_healed("pod/new")
    night.status("node", "n1", {"conditions": [{"type": "Ready", "status": "True"}]})
    night.type("mooring unfence --yes n1")


def _uses(night: Night, claim: str, node: str) -> None:
    """The node says that a claim's volume is mounted there."""
    volume = night.kubectl("get", "pvc", claim, "-o", "jsonpath={.spec.volumeName}")
    handle = night.kubectl("get", "pv", volume, "-o", "jsonpath={.spec.csi.volumeHandle}")
    night.status("node", node, {"volumesInUse": [f"kubernetes.io/csi/{DRIVER}^{handle}"]})


def finalizer_left(night: Night) -> None:
    gone, finalizer = "gone.csi.test", "external-attacher/gone-csi-test"
    source = {"csi": {"driver": gone, "volumeHandle": "h"}}
    night.create(a_volume("left", sc="none", source=source, finalizers=[finalizer]))
    night.kubectl("delete", "pv", "left", "--wait=false")
    link = night.names("pv/left", lambda one: f"the driver {gone} is gone" in one["text"])
    assert ("operator", f"finalizer {finalizer}") == (link["mover"], link["name"])
    assert 3 == night.code_of(link["commands"][0]["line"])
    night.type(link["commands"][0]["line"].replace("--dry-run", "--yes"))
    eventually(lambda: "left" not in night.kubectl("get", "pv", "-o", "name"), 30, "the volume is gone")


def quota(night: Night) -> None:
    night.kubectl("create", "namespace", "small")
    night.kubectl("-n", "small", "create", "quota", "tight", "--hard=persistentvolumeclaims=0")
    eventually(
        lambda: (
            "persistentvolumeclaims"
            in night.kubectl("-n", "small", "get", "quota", "tight", "-o", "jsonpath={.status.hard}")
        ),
        30,
        "the quota counts",
    )
    pod = a_pod("temp", volumes=[an_ephemeral_volume("scratch", "folders")], namespace="small")
    pod["metadata"]["namespace"] = "small"
    night.create(pod)
    link = night.names("pod/temp", lambda one: 'the quota "tight"' in one["text"], "-n=small")
    assert "user" == link["mover"]
    night.type(next(one["line"] for one in link["commands"] if " patch " in one["line"]).replace("AMOUNT", "5"))
    night.is_healed("pod/temp", "-n=small")


def no_capacity(night: Night) -> None:
    night.create(
        a_class("pool", provisioner=DRIVER, parameters={"room": str(2 << 30)}), a_claim("big", sc="pool", size="10Gi")
    )
    link = night.names("pvc/big", lambda one: one["code"] == "ResourceExhausted")
    assert "driver" == link["mover"]
    night.type(link["commands"][0]["line"].replace("SIZE", "1Gi"))
    night.is_healed("pvc/big")


def snapshot_class_missing(night: Night) -> None:
    night.create(a_claim("source", sc="folders"))
    night.is_healed("pvc/source")
    night.create(a_new_snapshot("picture", claim="source", snapshot_class="nightly"))
    link = night.names(
        "volumesnapshot/picture", lambda one: one["text"] == 'its VolumeSnapshotClass "nightly" does not exist'
    )
    assert "user" == link["mover"]
    night.type(link["commands"][0]["line"])
    night.is_healed("volumesnapshot/picture")


def rights_missing(night: Night) -> None:
    """The provisioner may not read the secret that its class names."""
    night.kubectl("create", "secret", "generic", "shut", "--from-literal=key=value")
    night.create(
        a_class(
            "with-shut",
            provisioner=DRIVER,
            parameters={**SECRETS, "csi.storage.k8s.io/provisioner-secret-name": "shut"},
        )
    )
    night.create(a_claim("shut", sc="with-shut"))
    link = night.names("pvc/shut", lambda one: "has no right to get secrets" in one["text"])
    assert "operator" == link["mover"]
    for command in link["commands"]:
        night.type(command["line"])
    night.is_healed("pvc/shut")


SITUATIONS: Final[tuple[Callable[[Night], None], ...]] = (
    no_secret,
    driver_down,
    wrong_class,
    attached_elsewhere,
    dead_node,
    finalizer_left,
    no_capacity,
    snapshot_class_missing,
)
"""Those that every plane can get into. The embedded server counts no quotas, and knows one user."""


def live_through(night: Night, *situations: Callable[[Night], None]) -> None:
    """All of them, whichever fail."""
    failures = []
    for situation in situations:
        try:
            situation(night)
        except (AssertionError, KeyError, StopIteration) as error:
            error.add_note(f"in {situation.__name__}")
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(situations)} situations", failures)


def test_with_the_go_sidecars(tmp_path: Path) -> None:
    with go_plane(tmp_path) as night:
        live_through(night, rights_missing, *SITUATIONS, quota)


def test_on_the_embedded_plane(tmp_path: Path) -> None:
    with our_plane(tmp_path) as night:
        live_through(night, *SITUATIONS)
