"""The kubelet's registration service (package `pluginregistration`): its two calls, for the plugin that serves and for who asks.

Source: kubernetes/kubelet, pkg/apis/pluginregistration/v1. The plugin is the server; the kubelet finds its socket and calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from mooring.csi.address import target
from mooring.csi.codes import Code, DriverError
from mooring.csi.grpc_logging import quiet_core
from mooring.csi.proto import pluginregistration_pb2 as registration

with quiet_core():
    import grpc
    import grpc.aio

SERVICE: Final = "pluginregistration.Registration"
CSI_PLUGIN: Final = "CSIPlugin"
"""`PluginInfo.type` of CSI drivers."""

GetInfo = Callable[[], registration.PluginInfo]
Notify = Callable[[registration.RegistrationStatus], Awaitable[None]]


def handler(get_info: GetInfo, notify: Notify) -> grpc.GenericRpcHandler:
    """The service, for a server. notify: what NotifyRegistrationStatus is handed to."""

    async def info(_request: registration.InfoRequest, _context: Any) -> registration.PluginInfo:
        return get_info()

    async def status(request: registration.RegistrationStatus, _context: Any) -> registration.RegistrationStatusResponse:
        await notify(request)
        return registration.RegistrationStatusResponse()

    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            "GetInfo": _method(info, registration.InfoRequest),
            "NotifyRegistrationStatus": _method(status, registration.RegistrationStatus),
        },
    )


def _method(answer: Callable[[Any, Any], Awaitable[Message]], request_type: type[Message]) -> grpc.RpcMethodHandler[Any, Message]:
    return grpc.unary_unary_rpc_method_handler(answer, request_type.FromString, lambda message: message.SerializeToString())


class Registration:
    """A plugin's registration socket, as the kubelet sees it: one connection, made at the first call.

    Every method raises DriverError; a call past its deadline raises DeadlineExceeded.
    """

    def __init__(self, path: Path) -> None:
        self._channel = grpc.aio.insecure_channel(target(str(path)), options=_OPTIONS)

    async def get_info(self, timeout_s: float) -> registration.PluginInfo:
        """What the plugin says about itself. timeout_s: for the connection and the answer together."""
        answer: registration.PluginInfo = await self._call("GetInfo", registration.InfoRequest(), registration.PluginInfo, timeout_s)
        return answer

    async def notify(self, *, registered: bool, error: str = "", timeout_s: float) -> None:
        """Tells the plugin whether it was registered, and why not."""
        status = registration.RegistrationStatus(plugin_registered=registered, error=error)
        await self._call("NotifyRegistrationStatus", status, registration.RegistrationStatusResponse, timeout_s)

    async def close(self) -> None:
        """Ends the connection."""
        await self._channel.close(None)

    async def _call(self, name: str, request: Message, response_type: Any, timeout_s: float) -> Any:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(f"/{SERVICE}/{name}", None, None)
        try:
            answer = await call(request.SerializeToString(), timeout=timeout_s)
            return response_type.FromString(answer)
        except grpc.aio.AioRpcError as error:
            raise DriverError(int(error.code().value[0]), error.details() or "") from None
        except DecodeError:
            raise DriverError(Code.INTERNAL, f"the answer to {name} is no {response_type.DESCRIPTOR.full_name}") from None


_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0))
