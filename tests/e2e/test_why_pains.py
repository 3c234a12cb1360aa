"""`mooring why` in situations of the day that come without an error where people look (P2, P6, P15 and P21 of what
hurts users today).

On a real control plane with the Go sidecars, and on the embedded one. `why` names the cause, and what it waits for
heals it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from mooring.csi.errors import Code
from tests.e2e.nights import DRIVER, Night, go_plane, our_plane
from tests.e2e.test_why_nights import a_pod_with, live_through
from tests.support.builders import a_claim, a_class, a_csi_node, a_pod
from tests.support.folder_driver import FolderDriver
from tests.support.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.real]

GO_ATTACHES_S_MAX: Final = 200.0
"""kube-controller-manager doubles its wait after each attach that failed, up to two minutes, and csi-attacher its
own before.
"""


def wanted_again(night: Night) -> None:
    """On the node that it is being detached from, which the driver refuses."""
    driver = FolderDriver(night.folder / "driver")
    a_pod_with(night, "leaves", "again", "n1")
    night.is_healed("pod/leaves")
    driver.fail("controller_unpublish_volume", Code.INTERNAL, "the array is busy")
    night.kubectl("delete", "pod", "leaves", "--grace-period=0", "--force")
    volume = night.kubectl("get", "pvc", "again", "-o", "jsonpath={.spec.volumeName}")
    night.names(f"pv/{volume}", lambda one: "the array is busy" in one["error"])
    night.create(a_pod("comes", "again", node="n1"))
    link = night.names("pod/comes", lambda one: "the array is busy" in one["error"])
    assert ("Internal", "driver") == (link["code"], link["mover"]), link
    driver.heal("controller_unpublish_volume")
    night.is_healed("pod/comes", within_s=GO_ATTACHES_S_MAX)
    night.kubectl("delete", "pod", "comes", "--grace-period=0", "--force")


def node_object_gone(night: Night) -> None:
    """The driver knows the machine no more, and says so where it should say OK."""
    driver, volume = _stranded(night)
    link = night.names(f"pv/{volume}", lambda one: "no machine id-of-n3" in one["error"])
    assert ("NotFound", "driver") == (link["code"], link["mover"]), link
    driver.heal("controller_unpublish_volume")
    _its_attachment_goes(night, volume)


def node_object_gone_is_no_pain(night: Night) -> None:
    """Our attacher ends the detach there: the API server does not know the machine either."""
    driver, volume = _stranded(night)
    _its_attachment_goes(night, volume)
    driver.heal("controller_unpublish_volume")


def _stranded(night: Night) -> tuple[FolderDriver, str]:
    """The driver, and a volume that is attached to a machine which nobody knows any more."""
    driver = FolderDriver(night.folder / "driver")
    night.create(
        a_csi_node("n3", {DRIVER: "id-of-n3"}),
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n3", **_managed()}},
    )
    a_pod_with(night, "stranded", "stranded", "n3")
    night.is_healed("pod/stranded")
    driver.fail("controller_unpublish_volume", Code.NOT_FOUND, "no machine id-of-n3")
    for kind in ("node", "csinode"):
        night.kubectl("delete", kind, "n3")
    night.kubectl("delete", "pod", "stranded", "--grace-period=0", "--force")
    return driver, night.kubectl("get", "pvc", "stranded", "-o", "jsonpath={.spec.volumeName}")


def _its_attachment_goes(night: Night, volume: str) -> None:
    eventually(lambda: volume not in night.kubectl("get", "volumeattachments"), 30, "the attachment goes")


def _managed() -> dict[str, dict[str, str]]:
    return {"annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}


def node_is_full(night: Night) -> None:
    """Of the two volumes that a node may have, both are there."""
    drivers = [{"name": DRIVER, "nodeID": "id-of-n2", "topologyKeys": None, "allocatable": {"count": 1}}]
    night.kubectl("patch", "csinode", "n2", "--type=merge", "-p", json.dumps({"spec": {"drivers": drivers}}))
    a_pod_with(night, "sits", "sits", "n2")
    night.is_healed("pod/sits")
    night.create(a_claim("waits", sc="folders"), a_pod("waits", "waits", nodeSelector={"kubernetes.io/hostname": "n2"}))
    link = night.names("pod/waits", lambda one: "max volume count" in one["text"] + one["error"])
    assert "waiting" == link["state"] or "failed" == link["state"], link
    night.kubectl("delete", "pod", "sits", "--grace-period=0", "--force")
    night.is_healed("pod/waits")


def class_of_elsewhere(night: Night) -> None:
    """No node is in the only zone that the class allows."""
    terms = [{"matchLabelExpressions": [{"key": "example.com/zone", "values": ["z9"]}]}]
    night.create(a_class("far", provisioner=DRIVER, volumeBindingMode="WaitForFirstConsumer", allowedTopologies=terms))
    night.create(a_claim("far", sc="far"), a_pod("far", "far"))
    link = night.names(
        "pod/far", lambda one: 'its StorageClass "far" allows volumes only where example.com/zone is z9' in one["text"]
    )
    assert ("failed", "operator") == (link["state"], link["mover"])
    assert "n1" in night.type(link["commands"][0]["line"])
    night.kubectl("label", "node", "n1", "example.com/zone=z9")
    night.is_healed("pod/far")


PAINS: Final[tuple[Callable[[Night], None], ...]] = (wanted_again, node_object_gone, node_is_full, class_of_elsewhere)


def test_with_the_go_sidecars(tmp_path: Path) -> None:
    with go_plane(tmp_path) as night:
        live_through(night, *PAINS)


def test_on_the_embedded_plane(tmp_path: Path) -> None:
    pains = (node_object_gone_is_no_pain if pain is node_object_gone else pain for pain in PAINS)
    with our_plane(tmp_path) as night:
        live_through(night, *pains)
