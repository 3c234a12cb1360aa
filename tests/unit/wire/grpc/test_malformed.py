"""What is no HTTP/2: each thing that RFC 9113 forbids ends the stream or the connection, with the error code that it
says.
"""

from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.connection import HEADER_BYTES_MAX
from mooring.wire.grpc.events import Answered, Gone
from mooring.wire.grpc.frames import frame as our_frame
from tests.support.rows import each_row
from tests.unit.wire.grpc import talk
from tests.unit.wire.grpc.talk import a_call, a_connection, frame

OPEN, OVER, IDLE, PUSHED = 1, 3, 5, 2
BEGUN = talk.headers(OPEN, talk.OK_HEADERS)

CONNECTION_ERRORS = {
    "a frame longer than we take": (frame(talk.DATA, 0, OPEN, bytes(16_385)), talk.FRAME_SIZE_ERROR),
    "an unknown frame longer than we take": (frame(0x42, 0, 0, bytes(16_385)), talk.FRAME_SIZE_ERROR),
    "DATA for no stream": (frame(talk.DATA, 0, 0, b"x"), talk.PROTOCOL_ERROR),
    "DATA for an idle stream": (frame(talk.DATA, 0, IDLE, b"x"), talk.PROTOCOL_ERROR),
    "DATA for a stream of the server's": (frame(talk.DATA, 0, PUSHED, b"x"), talk.PROTOCOL_ERROR),
    "DATA with more padding than payload": (frame(talk.DATA, talk.PADDED, OPEN, b"\x02x"), talk.PROTOCOL_ERROR),
    "DATA with as much padding as payload": (frame(talk.DATA, talk.PADDED, OPEN, b"\x03xx"), talk.PROTOCOL_ERROR),
    "padded DATA without payload": (frame(talk.DATA, talk.PADDED, OPEN), talk.PROTOCOL_ERROR),
    "HEADERS for no stream": (talk.headers(0, talk.OK_HEADERS), talk.PROTOCOL_ERROR),
    "HEADERS for an idle stream": (talk.headers(IDLE, talk.OK_HEADERS), talk.PROTOCOL_ERROR),
    "HEADERS for a stream of the server's": (talk.headers(PUSHED, talk.OK_HEADERS), talk.PROTOCOL_ERROR),
    "HEADERS with more padding than payload": (
        frame(talk.HEADERS, talk.END_HEADERS | talk.PADDED, OPEN, b"\x05\x88"),
        talk.PROTOCOL_ERROR,
    ),
    "HEADERS too short for its priority": (
        frame(talk.HEADERS, talk.END_HEADERS | talk.WITH_PRIORITY, OPEN, bytes(4)),
        talk.FRAME_SIZE_ERROR,
    ),
    "PRIORITY for no stream": (frame(talk.PRIORITY, 0, 0, bytes(5)), talk.PROTOCOL_ERROR),
    "PRIORITY of another length": (frame(talk.PRIORITY, 0, OPEN, bytes(4)), talk.FRAME_SIZE_ERROR),
    "RST_STREAM for no stream": (talk.reset(0, talk.CANCEL), talk.PROTOCOL_ERROR),
    "RST_STREAM for an idle stream": (talk.reset(IDLE, talk.CANCEL), talk.PROTOCOL_ERROR),
    "RST_STREAM of another length": (frame(talk.RST_STREAM, 0, OPEN, bytes(5)), talk.FRAME_SIZE_ERROR),
    "SETTINGS for a stream": (frame(talk.SETTINGS, 0, OPEN), talk.PROTOCOL_ERROR),
    "SETTINGS of a length that is no multiple of 6": (frame(talk.SETTINGS, 0, 0, bytes(7)), talk.FRAME_SIZE_ERROR),
    "an ACK of SETTINGS with settings": (frame(talk.SETTINGS, talk.ACK, 0, bytes(6)), talk.FRAME_SIZE_ERROR),
    "ENABLE_PUSH by a server": (talk.settings({talk.ENABLE_PUSH: 1}), talk.PROTOCOL_ERROR),
    "INITIAL_WINDOW_SIZE beyond 31 bits": (talk.settings({talk.INITIAL_WINDOW_SIZE: 2**31}), talk.FLOW_CONTROL_ERROR),
    "MAX_FRAME_SIZE below the least": (talk.settings({talk.MAX_FRAME_SIZE: 16_383}), talk.PROTOCOL_ERROR),
    "MAX_FRAME_SIZE beyond 24 bits": (talk.settings({talk.MAX_FRAME_SIZE: 2**24}), talk.PROTOCOL_ERROR),
    "PUSH_PROMISE": (frame(talk.PUSH_PROMISE, talk.END_HEADERS, OPEN, bytes(4)), talk.PROTOCOL_ERROR),
    "PING for a stream": (frame(talk.PING, 0, OPEN, bytes(8)), talk.PROTOCOL_ERROR),
    "PING of another length": (frame(talk.PING, 0, 0, bytes(7)), talk.FRAME_SIZE_ERROR),
    "an ACK of PING of another length": (frame(talk.PING, talk.ACK, 0, bytes(9)), talk.FRAME_SIZE_ERROR),
    "GOAWAY for a stream": (frame(talk.GOAWAY, 0, OPEN, bytes(8)), talk.PROTOCOL_ERROR),
    "GOAWAY that is too short": (frame(talk.GOAWAY, 0, 0, bytes(7)), talk.FRAME_SIZE_ERROR),
    "WINDOW_UPDATE of another length": (frame(talk.WINDOW_UPDATE, 0, 0, bytes(3)), talk.FRAME_SIZE_ERROR),
    "WINDOW_UPDATE of nothing": (talk.window(0, 0), talk.PROTOCOL_ERROR),
    "WINDOW_UPDATE for an idle stream": (talk.window(IDLE, 1), talk.PROTOCOL_ERROR),
    "a window beyond 31 bits": (talk.window(0, 2**31 - 1), talk.FLOW_CONTROL_ERROR),
    "CONTINUATION of nothing": (frame(talk.CONTINUATION, talk.END_HEADERS, OPEN, b"\x88"), talk.PROTOCOL_ERROR),
    "a header block that is broken off": (
        frame(talk.HEADERS, 0, OPEN, b"\x88") + frame(talk.PING, 0, 0, bytes(8)),
        talk.PROTOCOL_ERROR,
    ),
    "a header block broken off by an unknown frame": (
        frame(talk.HEADERS, 0, OPEN, b"\x88") + frame(0x42),
        talk.PROTOCOL_ERROR,
    ),
    "CONTINUATION for another stream": (
        frame(talk.HEADERS, 0, OPEN, b"\x88") + frame(talk.CONTINUATION, talk.END_HEADERS, OVER),
        talk.PROTOCOL_ERROR,
    ),
    "an index of no table": (frame(talk.HEADERS, talk.END_HEADERS, OPEN, b"\xfe"), talk.COMPRESSION_ERROR),
    "the index 0": (frame(talk.HEADERS, talk.END_HEADERS, OPEN, b"\x80"), talk.COMPRESSION_ERROR),
    "a field that is cut off": (frame(talk.HEADERS, talk.END_HEADERS, OPEN, b"\x00\x05abc"), talk.COMPRESSION_ERROR),
    "an endless number": (
        frame(talk.HEADERS, talk.END_HEADERS, OPEN, b"\xff" + b"\x80" * 9_000 + b"\x00"),
        talk.COMPRESSION_ERROR,
    ),
    "a name in Huffman's code that is none": (
        frame(talk.HEADERS, talk.END_HEADERS, OPEN, b"\x00\x84\xff\xff\xff\xff\x00"),
        talk.COMPRESSION_ERROR,
    ),
    "a table larger than we allow": (
        frame(talk.HEADERS, talk.END_HEADERS, OPEN, b"\x3f\xe2\x1f\x88"),
        talk.COMPRESSION_ERROR,
    ),
    "another size of the table after a field": (
        frame(talk.HEADERS, talk.END_HEADERS, OPEN, b"\x88\x20"),
        talk.COMPRESSION_ERROR,
    ),
    "HPACK that can't be read for a stream that is over": (
        frame(talk.HEADERS, talk.END_HEADERS, OVER, b"\x80"),
        talk.COMPRESSION_ERROR,
    ),
}


def with_a_call():
    """Stream 1 is open, stream 3 was cancelled."""
    connection = a_connection()
    assert [a_call(connection), a_call(connection)] == [OPEN, OVER]
    connection.cancel(OVER)
    connection.to_send()
    return connection


@each_row("what", CONNECTION_ERRORS)
def test_it_ends_the_connection(what):
    received, code = CONNECTION_ERRORS[what]
    connection = with_a_call()
    answered, gone = connection.receive(received + talk.answer(OPEN))
    assert isinstance(gone, Gone)
    assert gone.broken
    assert answered == Answered(OPEN, Code.UNAVAILABLE, gone.text)
    assert gone.text.startswith("error reading from server: ")
    assert talk.goodbye_in(connection.to_send()) == code
    assert connection.receive(talk.answer(OPEN)) == []


@each_row(
    "received", [talk.data(3, b"x"), talk.headers(3, talk.OK_HEADERS), talk.reset(3, talk.CANCEL), talk.window(3, 1)]
)
def test_a_frame_for_a_call_that_was_not_sent_yet_ends_the_connection(received):
    connection = a_connection({talk.MAX_CONCURRENT_STREAMS: 1})
    a_call(connection)
    assert a_call(connection) == 3
    *_, gone = connection.receive(received)
    assert gone.broken
    assert "stream 3, which nobody began" in gone.text
    assert talk.goodbye_in(connection.to_send()) == talk.PROTOCOL_ERROR


STREAM_ERRORS = {
    "DATA before HEADERS": (talk.data(OPEN, b"x"), talk.PROTOCOL_ERROR, "DATA before its HEADERS"),
    "HEADERS in the middle": (BEGUN + BEGUN, talk.PROTOCOL_ERROR, "in the middle of a stream"),
    "WINDOW_UPDATE of nothing": (talk.window(OPEN, 0), talk.PROTOCOL_ERROR, "WINDOW_UPDATE adds 0"),
    "a window beyond 31 bits": (talk.window(OPEN, 2**31 - 1), talk.FLOW_CONTROL_ERROR, "which HTTP/2 does not allow"),
    "a name in capitals": (talk.headers(OPEN, [*talk.OK_HEADERS, ("Server", "x")]), talk.PROTOCOL_ERROR, "b'Server'"),
    "a value with a line's end": (
        talk.headers(OPEN, [*talk.OK_HEADERS, ("server", "x\r\ny")]),
        talk.PROTOCOL_ERROR,
        "b'server'",
    ),
    "a name without letters": (talk.headers(OPEN, [*talk.OK_HEADERS, ("", "x")]), talk.PROTOCOL_ERROR, "b''"),
    "a header of connections": (
        talk.headers(OPEN, [*talk.OK_HEADERS, ("connection", "close")]),
        talk.PROTOCOL_ERROR,
        "b'connection'",
    ),
    "a request's own field": (talk.headers(OPEN, [(":path", "/"), *talk.OK_HEADERS]), talk.PROTOCOL_ERROR, "b':path'"),
    "the status twice": (talk.headers(OPEN, [(":status", "200"), *talk.OK_HEADERS]), talk.PROTOCOL_ERROR, "b':status'"),
    "the status behind other fields": (
        talk.headers(OPEN, list(reversed(talk.OK_HEADERS))),
        talk.PROTOCOL_ERROR,
        "b':status'",
    ),
    "too many empty frames": (BEGUN + talk.data(OPEN, b"") * 1_001, talk.ENHANCE_YOUR_CALM, "frames that say nothing"),
    "too many answers of HTTP status 100": (
        talk.headers(OPEN, [(":status", "103")]) * 1_001,
        talk.ENHANCE_YOUR_CALM,
        "say nothing",
    ),
}


@each_row("what", STREAM_ERRORS)
def test_it_ends_the_call_alone(what):
    received, code, text = STREAM_ERRORS[what]
    connection = with_a_call()
    (answered,) = connection.receive(received)
    assert (answered.stream_id, answered.code, answered.answered) == (OPEN, Code.INTERNAL, True)
    assert text in answered.text
    assert connection.to_send() == talk.reset(OPEN, code)
    stream = a_call(connection)
    assert connection.receive(talk.answer(stream, b"ok")) == [Answered(stream, Code.OK, "", b"ok")]


IGNORED = {
    "an unknown frame": frame(0x42, 0xFF, OPEN, b"whatever"),
    "an unknown frame of no stream": frame(0xFF),
    "PRIORITY": frame(talk.PRIORITY, 0, OPEN, bytes(5)),
    "PRIORITY of an idle stream": frame(talk.PRIORITY, 0, 77, bytes(5)),
    "an unknown setting": talk.settings({0x99: 1}),
    "DATA for a stream that is over": talk.data(OVER, b"late"),
    "RST_STREAM for a stream that is over": talk.reset(OVER, talk.CANCEL),
    "WINDOW_UPDATE for a stream that is over": talk.window(OVER, 5),
    "WINDOW_UPDATE of nothing for a stream that is over": talk.window(OVER, 0),
    "an ACK of our settings": frame(talk.SETTINGS, talk.ACK),
    "the reserved bit of a stream's id": frame(talk.PING, talk.ACK, 2**31, bytes(8)),
    "flags that mean nothing": frame(talk.PING, talk.ACK | 0xF0, 0, bytes(8)),
    "a few empty frames": talk.headers(OPEN, [(":status", "103")]) * 10,
}


@each_row("what", IGNORED)
def test_it_changes_nothing(what):
    connection = with_a_call()
    assert connection.receive(IGNORED[what]) == []
    assert connection.receive(talk.answer(OPEN, b"ok")) == [Answered(OPEN, Code.OK, "", b"ok")]


def test_padding_and_priority_are_taken_off():
    connection = with_a_call()
    fields = talk.block(talk.OK_HEADERS)
    received = frame(
        talk.HEADERS, talk.END_HEADERS | talk.PADDED | talk.WITH_PRIORITY, OPEN, b"\x03" + bytes(5) + fields + bytes(3)
    )
    received += frame(talk.DATA, talk.PADDED, OPEN, b"\xff" + talk.message(b"hello") + bytes(255))
    received += frame(talk.DATA, talk.PADDED, OPEN, b"\x00")
    trailers = talk.block(talk.OK_TRAILERS)
    received += frame(talk.HEADERS, talk.END_HEADERS | talk.END_STREAM | talk.PADDED, OPEN, b"\x00" + trailers)
    assert connection.receive(received) == [Answered(OPEN, Code.OK, "", b"hello")]


def test_a_header_block_may_come_in_any_number_of_frames():
    connection = with_a_call()
    fields = talk.block(talk.OK_HEADERS)
    received = frame(talk.HEADERS, 0, OPEN, fields[:1])
    received += b"".join(frame(talk.CONTINUATION, 0, OPEN, fields[at : at + 1]) for at in range(1, len(fields)))
    received += frame(talk.CONTINUATION, talk.END_HEADERS, OPEN)
    received += talk.data(OPEN, talk.message(b"hello")) + frame(talk.HEADERS, talk.END_STREAM, OPEN)
    received += frame(talk.CONTINUATION, talk.END_HEADERS, OPEN, talk.block(talk.OK_TRAILERS))
    assert connection.receive(received) == [Answered(OPEN, Code.OK, "", b"hello")]


def test_a_flood_of_empty_continuations_ends_the_connection():
    connection = with_a_call()
    connection.receive(frame(talk.HEADERS, 0, OPEN, b"\x88"))
    assert connection.receive(frame(talk.CONTINUATION, 0, OPEN) * 999) == []
    *_, gone = connection.receive(frame(talk.CONTINUATION, 0, OPEN))
    assert gone == Gone("error reading from server: a header block of 1 bytes in 1001 frames, and no end", broken=True)
    assert talk.goodbye_in(connection.to_send()) == talk.ENHANCE_YOUR_CALM


def test_a_header_block_without_end_is_not_kept_beyond_its_bound():
    connection = with_a_call()
    connection.receive(frame(talk.HEADERS, 0, OPEN, b"\x88"))
    piece, events = frame(talk.CONTINUATION, 0, OPEN, bytes(16_384)), []
    for _ in range(HEADER_BYTES_MAX // 16_384):
        assert events == []
        events = connection.receive(piece)
    *_, gone = events
    assert gone.broken
    assert talk.goodbye_in(connection.to_send()) == talk.ENHANCE_YOUR_CALM


def test_what_we_write_is_a_frame_of_http2():
    assert our_frame(talk.PING, talk.ACK, 0, b"12345678") == bytes.fromhex("000008 06 01 00000000") + b"12345678"
    assert our_frame(talk.DATA, 1, 0x7FFFFFFF, bytes(70_000))[:9] == bytes.fromhex("011170 00 01 7fffffff")
