"""Which client speaks gRPC to a driver: our own, or grpcio for the release in which both are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.base.flagkinds import FlagKind

if TYPE_CHECKING:
    from mooring.csi.socket_driver import SocketDriver

MOORING: Final = "mooring"
GRPCIO: Final = "grpcio"


def _read(text: str) -> str:
    if text not in (MOORING, GRPCIO):
        raise ValueError("parse error")
    return text


GRPC_CLIENT: Final[FlagKind[str]] = FlagKind("name", _read, f"{MOORING} or {GRPCIO}")
HELP: Final = f"What speaks gRPC to the driver: {MOORING}, or {GRPCIO}, which takes more memory and goes with the next release."


def grpc_client(name: str) -> type[SocketDriver]:
    """The class of the client of that name. Loads grpcio only where it is asked for: it takes memory."""
    if name == GRPCIO:
        from mooring.csi.grpc import GrpcDriver

        return GrpcDriver
    from mooring.csi.wire_driver import WireDriver

    return WireDriver
