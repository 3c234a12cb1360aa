"""How much a server accepts from its clients."""

from __future__ import annotations

import dataclasses
from typing import Final


@dataclasses.dataclass(frozen=True, slots=True)
class ServerLimits:
    """connections: of all clients. streams: calls at once of one connection; one that the client has dropped counts
    until whoever carries it out has ended. message_bytes: of one request; 4 MiB is gRPC's default.
    """

    connections: int = 64
    streams: int = 100
    message_bytes: int = 4 * 1024 * 1024

    @property
    def held_bytes(self) -> int:
        """The bound for a connection's requests, until each is answered."""
        return 4 * self.message_bytes


FEW: Final = ServerLimits()
"""For a service of a few small calls: the kubelet's registration."""
