"""A driver that renews what a pod sees, because its CSIDriver asks for it."""

from __future__ import annotations

import contextlib
import os

import pytest

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.sdk import Code, DriverError, Plugin
from mooring.testing.opening import ClusterOfTest

VAULT_IS_DOWN = False


class Certificates(Plugin):
    name, vendor_version = "certificates.csi.test", "1"

    def __init__(self, node_id: str) -> None:
        self.node_id = node_id

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        return csi.CreateVolumeResponse(volume={"volume_id": request.name})

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        return csi.DeleteVolumeResponse()

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        if VAULT_IS_DOWN:
            raise DriverError(Code.INTERNAL, "the certificate could not be renewed")
        os.makedirs(request.target_path, exist_ok=True)
        return csi.NodePublishVolumeResponse()

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(request.target_path)
        return csi.NodeUnpublishVolumeResponse()


@pytest.mark.mooring_cluster(driver=Certificates, nodes=1)
def test_a_failed_renewal_breaks_no_rule_while_the_csidriver_asks_for_it(
    mooring_cluster: ClusterOfTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = mooring_cluster
    (own,) = cluster.objects("csidrivers")
    cluster.delete("csidrivers", Certificates.name)
    cluster.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": Certificates.name},
            "spec": {**own["spec"], "requiresRepublish": True},
        }
    )
    pod = cluster.pod("web", cluster.claim("data").bound()).running()
    monkeypatch.setattr(f"{__name__}.VAULT_IS_DOWN", True)
    cluster.passes(minutes=5)
    failed = [one for one in cluster.calls("NodePublishVolume") if one.error is not None]
    monkeypatch.setattr(f"{__name__}.VAULT_IS_DOWN", False)
    pod.delete().gone()
    assert failed
    assert () == cluster.breaches
