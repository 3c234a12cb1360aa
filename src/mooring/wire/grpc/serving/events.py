"""Events from `ServerConnection` to a transport: calls, and the end of the connection."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

from mooring.wire.grpc.events import Gone


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """A whole request has come. Has to be answered once, by `answer` or `refuse`, whatever becomes of the connection
    meanwhile.

    path: `/pluginregistration.Registration/GetInfo`. deadline: the caller waits no longer, on the connection's clock;
    None: for ever.
    """

    stream_id: int
    path: str
    message: bytes
    deadline: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Dropped:
    """Nobody waits for the answer any more: what is done for the call may end."""

    stream_id: int


Event: TypeAlias = Asked | Dropped | Gone
"""Gone is the last one, with Dropped before it for every call that has no answer yet. Write what is left to send,
close the socket.
"""
