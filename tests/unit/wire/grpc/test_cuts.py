"""The bytes of a socket come in pieces of any size: what is heard and said must not depend on them.

But for one thing: windows are looked at once for all that came together, so how far a request gets before its answer
comes may differ.
"""

import random

from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.connection import Connection
from mooring.wire.grpc.events import Answered, Gone, Leaving, Settled
from tests.support.rows import each_row
from tests.unit.wire.grpc import talk
from tests.unit.wire.grpc.talk import frame


def every_kind_of_frame():
    """A server's half of five calls, which are all answered in different ways, and its goodbye."""
    fields, trailers = (
        talk.block(talk.OK_HEADERS),
        talk.block([("grpc-status", "5"), ("grpc-message", "no%20such volume")]),
    )
    yield talk.settings({talk.MAX_CONCURRENT_STREAMS: 100, talk.INITIAL_WINDOW_SIZE: 3})
    yield talk.window(0, 1_000) + frame(0x42, 0xFF, 77, b"unknown") + frame(talk.SETTINGS, talk.ACK)
    yield frame(talk.PING, 0, 0, b"12345678")
    yield frame(talk.PRIORITY, 0, 1, bytes(5))
    yield talk.window(3, 5) + talk.settings({talk.INITIAL_WINDOW_SIZE: 40})
    yield talk.headers(1, [(":status", "103")]) + frame(
        talk.HEADERS, talk.PADDED | talk.WITH_PRIORITY, 1, b"\x02" + bytes(5) + fields[:4] + bytes(2)
    )
    yield frame(talk.CONTINUATION, 0, 1, fields[4:9]) + frame(talk.CONTINUATION, talk.END_HEADERS, 1, fields[9:])
    yield frame(talk.HEADERS, talk.END_HEADERS, 3, b"\x88" + talk.literal(b"content-type", b"application/grpc", 0x40))
    yield frame(talk.HEADERS, talk.END_HEADERS, 5, b"\x88\xbe")
    yield talk.data(1, talk.message(b"hello")[:3]) + talk.data(3, b"") + talk.data(3, talk.message(b""))
    yield frame(talk.DATA, talk.PADDED, 1, b"\x04" + talk.message(b"hello")[3:] + bytes(4)) + frame(
        talk.PING, talk.ACK, 0, bytes(8)
    )
    yield frame(talk.HEADERS, talk.END_HEADERS | talk.END_STREAM, 3, trailers)
    yield talk.headers(1, talk.OK_TRAILERS, end=True)
    yield talk.reset(7, talk.REFUSED_STREAM) + talk.reset(7, talk.CANCEL)
    yield talk.goaway(5, talk.NO_ERROR, b"bye")
    yield talk.data(5, talk.message(b"last"))
    yield talk.headers(5, talk.OK_TRAILERS, end=True)


WHOLE = b"".join(every_kind_of_frame())
BYE = "received GOAWAY with error code NO_ERROR: bye"
EVENTS = [
    Answered(3, Code.NOT_FOUND, "no such volume"),
    Answered(1, Code.OK, "", b"hello"),
    Answered(7, Code.UNAVAILABLE, "stream terminated by RST_STREAM with error code: REFUSED_STREAM", unsent=True),
    Leaving(BYE),
    Answered(
        9, Code.UNAVAILABLE, f"the driver closes the connection and has not looked at the call; {BYE}", unsent=True
    ),
    Answered(5, Code.OK, "", b"last"),
    Gone(BYE),
]
FIRST = len(next(every_kind_of_frame()))


def heard_and_said(cuts):
    connection = Connection(now=lambda: 0.0)
    connection.start()
    assert talk.in_cuts(connection, WHOLE[:FIRST], [cut for cut in cuts if cut < FIRST]) == [Settled()]
    for number in range(5):
        connection.begin(talk.PATH, bytes(10 + number), 15.0)
    heard = talk.in_cuts(connection, WHOLE[FIRST:], [cut - FIRST for cut in cuts if cut > FIRST])
    return heard, [one for one in talk.frames_in(connection.to_send()) if one.kind not in (talk.DATA, talk.RST_STREAM)]


SAID = heard_and_said([])[1]


def test_in_one_piece():
    assert heard_and_said([])[0] == EVENTS
    kinds = [one.kind for one in SAID]
    assert {kind: kinds.count(kind) for kind in sorted(set(kinds))} == {talk.HEADERS: 5, talk.SETTINGS: 2, talk.PING: 1}


def test_requests_go_out_as_far_as_the_windows_go():
    connection = Connection(now=lambda: 0.0)
    connection.start()
    frames = list(every_kind_of_frame())
    connection.receive(frames[0])
    for number in range(5):
        connection.begin(talk.PATH, bytes(10 + number), 15.0)
    for each in frames[1:5]:
        connection.receive(each)
    sent = [one for one in talk.frames_in(connection.to_send()) if one.kind == talk.DATA]
    assert [15, 16, 17, 18, 19] == [
        sum(len(one.payload) for one in sent if one.stream == stream) for stream in (1, 3, 5, 7, 9)
    ]


@each_row("cut", range(1, len(WHOLE)))
def test_in_two_pieces(cut):
    assert heard_and_said([cut]) == (EVENTS, SAID)


def test_byte_by_byte():
    assert heard_and_said(list(range(1, len(WHOLE)))) == (EVENTS, SAID)


@each_row("seed", range(50))
def test_in_pieces_of_any_size(seed):
    chance = random.Random(seed)
    assert heard_and_said(sorted(chance.sample(range(1, len(WHOLE)), chance.randint(2, 30)))) == (EVENTS, SAID)


@each_row("cut", range(FIRST, len(WHOLE), 3))
def test_a_socket_that_breaks_anywhere_answers_every_call_once(cut):
    connection = Connection(now=lambda: 0.0)
    connection.start()
    connection.receive(WHOLE[:FIRST])
    for number in range(5):
        connection.begin(talk.PATH, bytes(10 + number), 15.0)
    heard = connection.receive(WHOLE[FIRST:cut]) + connection.lost()
    assert sorted(event.stream_id for event in heard if isinstance(event, Answered)) == [1, 3, 5, 7, 9]
    assert [isinstance(event, Gone) for event in heard] == [False] * (len(heard) - 1) + [True]


@each_row("kind", [bytes, bytearray, memoryview])
def test_what_was_read_may_be_overwritten(kind):
    connection = Connection(now=lambda: 0.0)
    connection.start()
    heard = []
    buffer = bytearray(7)
    for at in range(0, len(WHOLE), 7):
        piece = WHOLE[at : at + 7]
        buffer[: len(piece)] = piece
        heard += connection.receive(kind(memoryview(buffer)[: len(piece)]))
        if heard and not connection.in_flight and connection.is_open:
            for number in range(5):
                connection.begin(talk.PATH, bytes(10 + number), 15.0)
        buffer[:] = b"\xaa" * 7
    assert heard == [Settled(), *EVENTS]
