"""Events from `Connection` to a transport: the end of a call, and of the connection."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias


@dataclasses.dataclass(frozen=True, slots=True)
class Settled:
    """The server's first SETTINGS have come: it speaks HTTP/2. Once for a connection, before any other event but
    Gone.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class Answered:
    """A call is over. Once for each call that was begun and not cancelled.

    code: gRPC's, also a number of no list. text: the driver's, or ours for an error of the transport; "" with OK.
    payload: the message's bytes; None with any code but OK. answered: the driver may have said OK, with an answer that
    we refuse to read (too long, compressed, no message or two). unsent: the server surely never looked at the request,
    so nothing has happened.
    """

    stream_id: int
    code: int
    text: str = ""
    payload: bytes | None = None
    answered: bool = False
    unsent: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Leaving:
    """The server takes no more calls here (GOAWAY): `is_open` is false from now on, calls that it has accepted go on.

    text: why, in the server's words. At most once; Gone follows when the last call is over.
    """

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Gone:
    """The connection is over, all its calls have been answered: write what is left to send, then close the socket. The
    last event.

    text: why, for a log and for calls that are made before there is another connection. broken: what the server sent
    was no HTTP/2, or was beyond a bound; false for an end in good order, for the socket's own end, and for `close`.
    """

    text: str
    broken: bool = False


Event: TypeAlias = Settled | Answered | Leaving | Gone
