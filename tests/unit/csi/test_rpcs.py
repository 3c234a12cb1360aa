"""The table of RPCs is the port, and the port is CSI."""

import pytest

from mooring.csi.driver import PORT_SERVICES, RPCS, Call, Driver, Rpc
from mooring.csi.proto import csi_pb2 as csi


def unary_methods():
    services = csi.DESCRIPTOR.services_by_name.values()
    return [m for service in services for m in service.methods if not (m.client_streaming or m.server_streaming)]


def test_every_unary_rpc_of_csi_has_a_line():
    assert {rpc.path for rpc in RPCS.values()} == {
        f"/csi.v1.{m.containing_service.name}/{m.name}" for m in unary_methods()
    }
    assert {rpc.service for rpc in RPCS.values()} == set(PORT_SERVICES)


def test_a_line_knows_its_path_and_messages():
    rpc = Driver.controller_publish_volume
    assert (rpc.path, rpc.service, rpc.name) == (
        "/csi.v1.Controller/ControllerPublishVolume",
        "Controller",
        "ControllerPublishVolume",
    )
    assert (rpc.request_type, rpc.response_type) == (
        csi.ControllerPublishVolumeRequest,
        csi.ControllerPublishVolumeResponse,
    )
    assert rpc.attribute == "controller_publish_volume"


def test_a_line_with_the_wrong_messages_does_not_load():
    with pytest.raises((AssertionError, RuntimeError)):  # __set_name__'s errors are wrapped before Python 3.12

        class Wrong(Driver):
            probe = Rpc(csi.ProbeRequest, csi.GetPluginInfoResponse)


async def test_a_call_goes_through_invoke_with_its_line():
    class Recorder(Driver):
        async def invoke(self, rpc, request, call):
            return rpc, request, call

    request, call = csi.DeleteVolumeRequest(volume_id="v"), Call(1.0)
    assert await Recorder().delete_volume(request, call) == (RPCS["delete_volume"], request, call)
