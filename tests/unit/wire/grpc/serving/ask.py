"""The other end of `ServerConnection`, as bytes: requests as a client writes them."""

from __future__ import annotations

from mooring.wire.grpc.serving.connection import ServerConnection
from mooring.wire.grpc.serving.events import Asked, Event
from tests.unit.wire.grpc import talk

PATH = "/a.B/C"
FIELDS = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", PATH),
    (":authority", "x"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
]


def without(name: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
    """A request's fields without one of them, and with others."""
    kept = [one for one in FIELDS if one[0] != name]
    pseudo = [one for one in more if one[0].startswith(":")]
    return [*pseudo, *kept, *(one for one in more if one not in pseudo)]


def request(stream: int = 1, payload: bytes = b"", fields: list[tuple[str, str]] = FIELDS) -> bytes:
    """A whole call."""
    body = talk.message(payload)
    pieces = range(0, len(body), 16_384)
    return talk.headers(stream, fields) + b"".join(
        talk.data(stream, body[at : at + 16_384], end=at == pieces[-1]) for at in pieces
    )


def a_server(said: dict[int, int] | None = None, now: float = 100.0) -> ServerConnection:
    """One whose client has sent its settings, and has nothing more to hear."""
    server = ServerConnection(now=lambda: now)
    server.start()
    assert server.receive(talk.PREFACE + talk.settings(said)) == []
    assert server.to_send() == talk.frame(talk.SETTINGS, talk.ACK)
    return server


def asked(
    server: ServerConnection, stream: int = 1, payload: bytes = b"", fields: list[tuple[str, str]] = FIELDS
) -> Asked:
    """Begins a call that is good."""
    (event,) = server.receive(request(stream, payload, fields))
    assert isinstance(event, Asked)
    return event


def in_cuts(server: ServerConnection, received: bytes, cuts: list[int]) -> list[Event]:
    """What the server says to these bytes when they are cut at these places."""
    ends = sorted({*cuts, len(received)})
    starts = [0, *ends[:-1]]
    return [event for start, end in zip(starts, ends, strict=True) for event in server.receive(received[start:end])]


def answer_in(sent: bytes) -> tuple[dict[str, str], bytes]:
    """All fields of the one answer among the frames, and its body."""
    frames = talk.frames_in(sent)
    fields: dict[str, str] = {}
    block: list[talk.Sent] = []
    for frame in frames:
        if frame.kind in (talk.HEADERS, talk.CONTINUATION):
            block.append(frame)
            if frame.flags & talk.END_HEADERS:
                fields |= dict(talk.fields_in(block))
                block = []
    return fields, b"".join(frame.payload for frame in frames if frame.kind == talk.DATA)


def resets_in(sent: bytes) -> list[tuple[int, int]]:
    """Stream and error code of each RST_STREAM."""
    return [(one.stream, int.from_bytes(one.payload)) for one in talk.frames_in(sent) if one.kind == talk.RST_STREAM]
