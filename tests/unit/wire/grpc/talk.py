"""The other end of `Connection`, as bytes: frames as a server writes them, and what the client wrote, read by hpack's
own decoder.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

import hpack

from mooring.wire.grpc.connection import Connection
from mooring.wire.grpc.events import Event, Settled

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED, FRAME_SIZE_ERROR = range(
    7
)
REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, CONNECT_ERROR, ENHANCE_YOUR_CALM = range(7, 12)
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = (
    range(1, 7)
)
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20

PATH = "/csi.v1.Identity/Probe"
OK_HEADERS = [(":status", "200"), ("content-type", "application/grpc")]
OK_TRAILERS = [("grpc-status", "0")]


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def settings(said: dict[int, int] | None = None) -> bytes:
    return frame(SETTINGS, payload=b"".join(struct.pack(">HI", *one) for one in (said or {}).items()))


def window(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, increment.to_bytes(4))


def reset(stream: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream, code.to_bytes(4))


def goaway(last: int, code: int = NO_ERROR, debug: bytes = b"") -> bytes:
    return frame(GOAWAY, 0, 0, struct.pack(">II", last, code) + debug)


def literal(name: bytes, value: bytes, first: int = 0x00) -> bytes:
    """A field as HPACK's literal. first: 0x00 not indexed, 0x10 never, 0x40 indexed."""
    assert max(len(name), len(value)) < 127
    return bytes((first, len(name))) + name + bytes((len(value),)) + value


def block(fields: list[tuple[str, str]]) -> bytes:
    """Not indexed, in no Huffman code: the same bytes whatever was sent before."""
    return b"".join(literal(name.encode(), value.encode("latin-1")) for name, value in fields)


def headers(stream: int, fields: list[tuple[str, str]], *, end: bool = False) -> bytes:
    return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, block(fields))


def message(payload: bytes, flag: int = 0) -> bytes:
    return bytes((flag,)) + len(payload).to_bytes(4) + payload


def data(stream: int, payload: bytes, *, end: bool = False) -> bytes:
    return frame(DATA, END_STREAM if end else 0, stream, payload)


def answer(stream: int, payload: bytes = b"") -> bytes:
    """A call that goes well."""
    return headers(stream, OK_HEADERS) + data(stream, message(payload)) + headers(stream, OK_TRAILERS, end=True)


@dataclasses.dataclass
class Sent:
    """A frame of the client's."""

    kind: int
    flags: int
    stream: int
    payload: bytes


def frames_in(sent: bytes) -> list[Sent]:
    found, at = [], 0
    while at < len(sent):
        size = int.from_bytes(sent[at : at + 3])
        assert len(sent) >= at + 9 + size, "half a frame"
        found.append(
            Sent(sent[at + 3], sent[at + 4], int.from_bytes(sent[at + 5 : at + 9]), sent[at + 9 : at + 9 + size])
        )
        at += 9 + size
    return found


def fields_in(frames: list[Sent], decoder: hpack.Decoder | None = None) -> list[tuple[str, str]]:
    """Of one HEADERS frame and those that go on with it."""
    whole = b"".join(one.payload for one in frames if one.kind in (HEADERS, CONTINUATION))
    return [(str(name), str(value)) for name, value in (decoder or hpack.Decoder()).decode(whole)]


def goodbye_in(sent: bytes) -> int | None:
    """The error code of the client's GOAWAY, which is the last that it sends."""
    found = [one for one in frames_in(sent) if one.kind == GOAWAY]
    return int.from_bytes(found[-1].payload[4:8]) if found else None


def a_connection(said: dict[int, int] | None = None, **options: Any) -> Connection:
    """One whose server has sent its settings, and has nothing more to hear."""
    connection = Connection(**{"now": lambda: 0.0, **options})
    connection.start()
    assert connection.receive(settings(said)) == [Settled()]
    assert connection.to_send() == frame(SETTINGS, ACK)
    return connection


def a_call(connection: Connection, payload: bytes = b"", timeout_s: float = 15.0) -> int:
    """Begins a call whose request is on its way."""
    stream = connection.begin(PATH, payload, timeout_s)
    connection.to_send()
    return stream


def in_cuts(connection: Connection, received: bytes, cuts: list[int]) -> list[Event]:
    """What the connection says to these bytes when they are cut at these places."""
    ends = sorted({*cuts, len(received)})
    starts = [0, *ends[:-1]]
    return [event for start, end in zip(starts, ends, strict=True) for event in connection.receive(received[start:end])]
