"""What comes to a server: a request in any form that HTTP/2 allows is one call; what is none gets its answer."""

from __future__ import annotations

import struct

import pytest

from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.events import Gone
from mooring.wire.grpc.serving.call_headers import timeout_s
from mooring.wire.grpc.serving.connection import ServerConnection
from mooring.wire.grpc.serving.events import Asked, Dropped
from mooring.wire.grpc.serving.limits import FEW
from mooring.wire.grpc.serving.request import IDLE_FRAMES_MAX
from tests.support.rows import each_row
from tests.unit.wire.grpc import talk
from tests.unit.wire.grpc.serving import ask
from tests.unit.wire.grpc.serving.ask import FIELDS, PATH, a_server, answer_in, asked, request, resets_in, without

BLOCK = talk.block([*FIELDS, ("grpc-timeout", "250m"), ("x-own", "y" * 40)])
PIECES = (
    talk.frame(talk.HEADERS, talk.PADDED | talk.WITH_PRIORITY, 1, b"\x03" + bytes(5) + BLOCK[:9] + bytes(3))
    + talk.frame(talk.CONTINUATION, 0, 1, BLOCK[9:30])
    + talk.frame(talk.CONTINUATION, talk.END_HEADERS, 1, BLOCK[30:])
    + talk.frame(talk.PRIORITY, 0, 1, bytes(5))
    + talk.frame(0x77, 0xFF, 1, b"unknown")
    + talk.data(1, talk.message(b"hello")[:3])
    + talk.frame(talk.DATA, talk.PADDED, 1, b"\x02" + talk.message(b"hello")[3:7] + bytes(2))
    + talk.data(1, b"")
    + talk.data(1, talk.message(b"hello")[7:])
    + talk.headers(1, [("x-trailer", "z")], end=True)
)
WHOLE = [Asked(1, PATH, b"hello", 100.25)]


def test_a_server_begins_with_its_bounds() -> None:
    server = ServerConnection(now=lambda: 0.0)
    (frame,) = talk.frames_in(server.start())
    said = dict(struct.iter_unpack(">HI", frame.payload))
    assert (talk.SETTINGS, 0) == (frame.kind, frame.flags)
    bounds = {talk.MAX_CONCURRENT_STREAMS: 100, talk.INITIAL_WINDOW_SIZE: 65_535, talk.MAX_HEADER_LIST_SIZE: 65_536}
    assert bounds | {talk.ENABLE_PUSH: 0} == said


@each_row("cut", range(1, len(PIECES)))
def test_a_call_in_every_form_comes_whole_wherever_it_is_cut(cut: int) -> None:
    assert WHOLE == ask.in_cuts(a_server(), PIECES, [cut])


def test_a_call_comes_whole_byte_by_byte_from_the_preface_on() -> None:
    server = ServerConnection(now=lambda: 100.0)
    whole = talk.PREFACE + talk.settings() + PIECES
    assert WHOLE == ask.in_cuts(server, whole, list(range(len(whole))))
    assert server.is_settled


@each_row("at", range(len(talk.PREFACE)))
def test_another_protocol_is_noticed_at_its_first_byte(at: int) -> None:
    server = ServerConnection(now=lambda: 0.0)
    assert [] == server.receive(talk.PREFACE[:at])
    (gone,) = server.receive(b"\x00")
    assert isinstance(gone, Gone)
    assert gone.broken
    assert talk.PROTOCOL_ERROR == talk.goodbye_in(server.to_send())
    assert not server.is_settled


def test_calls_come_in_one_piece_in_their_order() -> None:
    server = a_server()
    got = server.receive(b"".join(request(stream, b"%d" % stream) for stream in (1, 3, 5)))
    assert [Asked(stream, PATH, b"%d" % stream, None) for stream in (1, 3, 5)] == got


@each_row(
    ("field", "seconds"),
    [
        ("1H", 3600),
        ("2M", 120),
        ("15S", 15),
        ("99999999m", 99_999.999),
        ("7u", 7e-6),
        ("5n", 5e-9),
        ("00000001S", 1),
        ("0S", 0),
    ],
)
def test_a_timeout_has_eight_digits_and_a_unit(field: str, seconds: float) -> None:
    assert pytest.approx(seconds) == timeout_s(field.encode())
    assert pytest.approx(100.0 + seconds) == asked(a_server(), fields=without("", ("grpc-timeout", field))).deadline


@each_row("field", ["", "1", "S", "1s", "123456789S", "1.5S", "-1S", " 1S", "1S ", "1SS"])
def test_another_timeout_is_refused(field: str) -> None:
    server = a_server()
    assert [] == server.receive(request(fields=without("", ("grpc-timeout", field))))
    fields, _ = answer_in(server.to_send())
    assert ("400", "13") == (fields[":status"], fields["grpc-status"])
    assert "malformed grpc-timeout" in fields["grpc-message"]


@each_row("kind", ["application/grpc", "application/grpc+proto", "application/grpc;charset=x"])
def test_the_kinds_of_grpc(kind: str) -> None:
    assert asked(a_server(), fields=without("content-type", ("content-type", kind)))


@each_row(
    ("fields", "status", "code", "text"),
    [
        (
            without("content-type", ("content-type", "application/json")),
            "415",
            Code.INVALID_ARGUMENT,
            "application/json",
        ),
        (
            without("content-type", ("content-type", "application/grpc-web")),
            "415",
            Code.INVALID_ARGUMENT,
            "application/grpc-web",
        ),
        (without("content-type"), "415", Code.INVALID_ARGUMENT, "content-type ''"),
        (without(":method", (":method", "GET")), "405", Code.INTERNAL, "'GET'"),
    ],
)
def test_what_is_not_grpc_is_told_so_in_http(fields: list[tuple[str, str]], status: str, code: Code, text: str) -> None:
    server = a_server()
    assert [] == server.receive(request(fields=fields))
    sent = server.to_send()
    said, _ = answer_in(sent)
    assert (status, str(int(code))) == (said[":status"], said["grpc-status"])
    assert text in said["grpc-message"]
    assert [(1, talk.NO_ERROR)] == resets_in(sent), "the message that comes is not waited for"
    assert asked(server, 3), "and the connection lives"


@each_row(
    "fields",
    [
        without(":method"),
        without(":path"),
        without(":scheme"),
        without("", (":status", "200")),
        [*FIELDS, (":path", PATH)],
        [*FIELDS, ("Upper", "x")],
        [*FIELDS, ("connection", "close")],
        [*FIELDS, ("x", "a\x00b")],
        without("te", ("te", "gzip")),
        [FIELDS[0], ("x", "y"), *FIELDS[1:]],
    ],
)
def test_headers_that_http_forbids_reset_the_stream(fields: list[tuple[str, str]]) -> None:
    server = a_server()
    assert [] == server.receive(request(fields=fields))
    assert [(1, talk.PROTOCOL_ERROR)] == resets_in(server.to_send())
    assert asked(server, 3)


@each_row("length", ["0", "5", "7", "-6", "six", "06", "99999999999999999999"])
@each_row("cut", [0, 3, 6])
def test_a_body_that_is_not_as_long_as_it_claims_resets_the_stream(length: str, cut: int) -> None:
    server, body = a_server(), talk.message(b"x")
    claimed = without("", ("content-length", length))
    sent = talk.headers(1, claimed) + talk.data(1, body[:cut]) + talk.data(1, body[cut:], end=True)
    assert [] == server.receive(sent)
    assert [(1, talk.PROTOCOL_ERROR)] == resets_in(server.to_send())
    assert [] == server.receive(talk.headers(3, claimed) + talk.data(3, body) + talk.headers(3, [("x", "y")], end=True))
    assert [(3, talk.PROTOCOL_ERROR)] == resets_in(server.to_send())
    assert asked(server, 5, b"x", without("", ("content-length", "6")))


GZIP = without("", ("grpc-encoding", "gzip"))


@each_row(
    ("fields", "body", "code", "text"),
    [
        (FIELDS, b"", Code.INTERNAL, "no request"),
        (FIELDS, b"\x00\x00\x00", Code.INTERNAL, "ends within its message"),
        (FIELDS, talk.message(b"abc")[:-1], Code.INTERNAL, "ends within its message"),
        (FIELDS, talk.message(b"abc") + b"\x00", Code.INTERNAL, "more than one"),
        (FIELDS, talk.message(b"") * 2, Code.INTERNAL, "more than one"),
        (FIELDS, talk.message(b"abc", 1), Code.INTERNAL, "compressed flag set"),
        (without("", ("grpc-encoding", "identity")), talk.message(b"abc", 1), Code.INTERNAL, "compressed flag set"),
        (GZIP, talk.message(b"abc", 1), Code.UNIMPLEMENTED, "grpc-encoding 'gzip'"),
        (FIELDS, talk.message(b"abc", 2), Code.INTERNAL, "payload format 2"),
        (FIELDS, b"\x00" + (FEW.message_bytes + 1).to_bytes(4), Code.RESOURCE_EXHAUSTED, "4194305 vs. 4194304"),
    ],
)
def test_a_body_that_is_not_one_message_is_refused(
    fields: list[tuple[str, str]], body: bytes, code: Code, text: str
) -> None:
    server = a_server()
    assert [] == server.receive(talk.headers(1, fields) + talk.data(1, body, end=True))
    said, _ = answer_in(server.to_send())
    assert str(int(code)) == said["grpc-status"]
    assert text in said["grpc-message"]
    assert asked(server, 3)


def test_who_speaks_of_compression_is_refused_even_if_nothing_is_compressed() -> None:
    server = a_server()
    assert [] == server.receive(request(payload=b"abc", fields=GZIP))
    assert "12" == answer_in(server.to_send())[0]["grpc-status"]


def test_headers_alone_are_a_call_without_a_request() -> None:
    server = a_server()
    assert [] == server.receive(talk.headers(1, FIELDS, end=True))
    said, _ = answer_in(server.to_send())
    assert ("13", True) == (said["grpc-status"], "no request" in said["grpc-message"])


@each_row(
    ("more", "code"),
    [
        (talk.data(1, b"x"), talk.STREAM_CLOSED),
        (talk.headers(1, [("x", "y")], end=True), talk.STREAM_CLOSED),
        (talk.window(1, 0), talk.PROTOCOL_ERROR),
        (talk.window(1, 2**31 - 1), talk.FLOW_CONTROL_ERROR),
    ],
)
def test_a_fault_on_a_stream_whose_call_is_carried_out_ends_the_call(more: bytes, code: int) -> None:
    server = a_server()
    assert [WHOLE[0], Dropped(1)] == server.receive(PIECES + more)
    assert [(1, code)] == resets_in(server.to_send())
    assert [] == server.answer(1, b"late")
    assert b"" == server.to_send(), "nobody hears it"


@each_row("trailers", [talk.headers(1, [("x", "y")]), talk.headers(1, [(":method", "POST")], end=True)])
def test_a_second_block_ends_a_request_or_is_wrong(trailers: bytes) -> None:
    server = a_server()
    assert [] == server.receive(talk.headers(1, FIELDS) + trailers)
    assert [(1, talk.PROTOCOL_ERROR)] == resets_in(server.to_send())


def test_frames_that_say_nothing_are_counted() -> None:
    server = a_server()
    assert [] == server.receive(talk.headers(1, FIELDS) + talk.data(1, b"") * IDLE_FRAMES_MAX)
    assert b"" == server.to_send()
    assert [] == server.receive(talk.data(1, b""))
    assert [(1, talk.ENHANCE_YOUR_CALM)] == resets_in(server.to_send())
