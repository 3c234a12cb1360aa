"""The life of a connection: what it says first, calls and their ends, GOAWAY, and its own end."""

import pytest

from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.connection import HEADER_BYTES_MAX, Connection
from mooring.wire.grpc.events import Answered, Gone, Leaving, Settled
from tests.support.rows import each_row
from tests.unit.wire.grpc import talk
from tests.unit.wire.grpc.talk import a_call, a_connection

EOF = "error reading from server: EOF"


def test_it_begins_with_the_preface_and_settings():
    said = Connection(now=lambda: 0.0).start()
    assert said.startswith(talk.PREFACE)
    settings, window = talk.frames_in(said.removeprefix(talk.PREFACE))
    assert (settings.kind, settings.flags, settings.stream, window.kind, window.stream) == (
        talk.SETTINGS,
        0,
        0,
        talk.WINDOW_UPDATE,
        0,
    )
    values = [settings.payload[at : at + 6] for at in range(0, len(settings.payload), 6)]
    told = {int.from_bytes(one[:2]): int.from_bytes(one[2:]) for one in values}
    assert told == {
        talk.ENABLE_PUSH: 0,
        talk.INITIAL_WINDOW_SIZE: 4 * 2**20,
        talk.MAX_HEADER_LIST_SIZE: HEADER_BYTES_MAX,
    }
    assert int.from_bytes(window.payload) == 4 * 2**20 - 65_535


def test_no_call_before_the_servers_settings():
    connection = Connection(now=lambda: 0.0)
    connection.start()
    assert not connection.is_open
    with pytest.raises(AssertionError, match="takes no calls"):
        connection.begin(talk.PATH, b"", 1.0)
    assert connection.receive(talk.settings()) == [Settled()]
    assert connection.is_open
    assert connection.receive(talk.settings()) == []
    assert connection.to_send() == 2 * talk.frame(talk.SETTINGS, talk.ACK)


@each_row("first", [talk.frame(talk.PING, 0, 0, bytes(8)), talk.frame(talk.SETTINGS, talk.ACK), talk.frame(0x77)])
def test_a_server_that_begins_with_something_else_is_none(first):
    connection = Connection(now=lambda: 0.0)
    connection.start()
    assert connection.receive(first) == [
        Gone("error reading from server: its first frame is not SETTINGS", broken=True)
    ]
    assert talk.goodbye_in(connection.to_send()) == talk.PROTOCOL_ERROR


@each_row("greeting", [b"220 mail.example.com ESMTP\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(9), b"\xff" * 9])
def test_who_speaks_something_else_is_told_at_once(greeting):
    connection = Connection(now=lambda: 0.0)
    connection.start()
    (gone,) = connection.receive(greeting)
    assert isinstance(gone, Gone)
    assert gone.broken


def test_a_call_and_its_answer():
    connection = a_connection()
    stream = connection.begin("/csi.v1.Controller/CreateVolume", b"request", 15.0)
    assert connection.has_to_send
    head, body = talk.frames_in(connection.to_send())
    assert not connection.has_to_send
    assert (head.kind, head.flags, head.stream) == (talk.HEADERS, talk.END_HEADERS, 1)
    assert talk.fields_in([head]) == [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/csi.v1.Controller/CreateVolume"),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("user-agent", "grpc-mooring"),
        ("te", "trailers"),
        ("grpc-timeout", "15000000u"),
    ]
    assert (body.kind, body.flags, body.stream, body.payload) == (talk.DATA, talk.END_STREAM, 1, b"\0\0\0\0\x07request")
    assert (stream, connection.in_flight) == (1, 1)
    assert connection.receive(talk.answer(stream, b"reply")) == [Answered(stream, Code.OK, "", b"reply")]
    assert (connection.in_flight, connection.to_send()) == (0, b"")


def test_calls_at_once_are_answered_in_any_order():
    connection = a_connection()
    streams = [a_call(connection) for _ in range(3)]
    assert streams == [1, 3, 5]
    received = talk.answer(5, b"c") + talk.answer(1, b"a") + talk.answer(3, b"b")
    assert [(one.stream_id, one.payload) for one in connection.receive(received)] == [(5, b"c"), (1, b"a"), (3, b"b")]


def test_frames_of_two_answers_may_alternate():
    connection = a_connection()
    one, other = a_call(connection), a_call(connection)
    whole = talk.message(b"abcdef")
    received = talk.headers(one, talk.OK_HEADERS) + talk.headers(other, talk.OK_HEADERS)
    for at in range(len(whole)):
        received += talk.data(one, whole[at : at + 1]) + talk.data(other, whole[at : at + 1].upper())
    received += talk.headers(other, talk.OK_TRAILERS, end=True) + talk.headers(one, talk.OK_TRAILERS, end=True)
    assert [(answer.stream_id, answer.payload) for answer in connection.receive(received)] == [
        (other, b"ABCDEF"),
        (one, b"abcdef"),
    ]


# -- cancelled calls


def test_a_cancelled_call_is_ended_at_the_server_and_heard_of_no_more():
    connection = a_connection()
    one, other = a_call(connection), a_call(connection)
    assert connection.cancel(one) == []
    assert connection.to_send() == talk.reset(one, talk.CANCEL)
    assert connection.in_flight == 1
    assert connection.receive(talk.answer(one)) == []
    assert [event.stream_id for event in connection.receive(talk.answer(other))] == [other]


def test_cancelling_what_is_over_does_nothing():
    connection = a_connection()
    stream = a_call(connection)
    connection.receive(talk.answer(stream))
    assert connection.cancel(stream) == []
    assert connection.cancel(stream + 2) == []
    assert not connection.has_to_send


def test_the_last_header_blocks_of_a_cancelled_call_still_change_the_table():
    """Whoever skips them reads the next call's headers wrong."""
    connection = a_connection()
    one, other = a_call(connection), a_call(connection)
    connection.cancel(one)
    indexed = b"\x88" + talk.literal(b"content-type", b"application/grpc", 0x40)
    connection.receive(talk.frame(talk.HEADERS, talk.END_HEADERS, one, indexed))
    received = talk.frame(talk.HEADERS, talk.END_HEADERS, other, b"\x88\xbe") + talk.data(other, talk.message(b"x"))
    assert connection.receive(received + talk.headers(other, talk.OK_TRAILERS, end=True)) == [
        Answered(other, Code.OK, "", b"x")
    ]


# -- MAX_CONCURRENT_STREAMS


def test_a_call_waits_for_the_servers_room():
    connection = a_connection({talk.MAX_CONCURRENT_STREAMS: 1})
    one, other = a_call(connection), connection.begin(talk.PATH, b"2", 15.0)
    assert (connection.to_send(), connection.in_flight) == (b"", 2)
    assert [event.stream_id for event in connection.receive(talk.answer(one))] == [one]
    head, body = talk.frames_in(connection.to_send())
    assert (head.stream, body.payload) == (other, talk.message(b"2"))


def test_calls_that_wait_are_sent_in_their_order_and_a_new_one_does_not_pass_them():
    clock = [0.0]
    connection = a_connection({talk.MAX_CONCURRENT_STREAMS: 0}, now=lambda: clock[0])
    first, second, third = (connection.begin(talk.PATH, b"", 10.0) for _ in range(3))
    assert connection.to_send() == b""
    assert connection.cancel(second) == []
    clock[0] = 4.0
    connection.receive(talk.settings({talk.MAX_CONCURRENT_STREAMS: 1}))
    fourth = connection.begin(talk.PATH, b"", 10.0)
    heads = [one for one in talk.frames_in(connection.to_send()) if one.kind == talk.HEADERS]
    assert [one.stream for one in heads] == [first]
    assert ("grpc-timeout", "6000000u") in talk.fields_in(heads), "the time that is left"
    connection.receive(talk.settings({talk.MAX_CONCURRENT_STREAMS: 100}))
    heads = [one for one in talk.frames_in(connection.to_send()) if one.kind == talk.HEADERS]
    assert [one.stream for one in heads] == [third, fourth]


def test_a_cancelled_call_makes_room():
    connection = a_connection({talk.MAX_CONCURRENT_STREAMS: 1})
    one, other = a_call(connection), a_call(connection)
    connection.cancel(one)
    assert [(sent.kind, sent.stream) for sent in talk.frames_in(connection.to_send())] == [
        (talk.RST_STREAM, one),
        (talk.HEADERS, other),
        (talk.DATA, other),
    ]


def test_a_call_whose_time_is_over_while_it_waits_is_never_sent():
    clock = [0.0]
    connection = a_connection({talk.MAX_CONCURRENT_STREAMS: 1}, now=lambda: clock[0])
    one, other = a_call(connection), a_call(connection, timeout_s=3.0)
    clock[0] = 3.0
    ended = connection.receive(talk.answer(one))
    assert ended[1:] == [Answered(other, Code.DEADLINE_EXCEEDED, "context deadline exceeded", unsent=True)]
    assert (connection.to_send(), connection.in_flight) == (b"", 0)


# -- GOAWAY


def test_after_goaway_calls_that_the_server_took_go_on_and_the_others_were_never_looked_at():
    connection = a_connection({talk.MAX_CONCURRENT_STREAMS: 2})
    taken, late, waiting = a_call(connection), a_call(connection), a_call(connection)
    events = connection.receive(talk.goaway(taken, talk.NO_ERROR, b"graceful"))
    reason = "received GOAWAY with error code NO_ERROR: graceful"
    unseen = f"the driver closes the connection and has not looked at the call; {reason}"
    assert events == [
        Leaving(reason),
        Answered(late, Code.UNAVAILABLE, unseen, unsent=True),
        Answered(waiting, Code.UNAVAILABLE, unseen, unsent=True),
    ]
    assert (connection.is_open, connection.in_flight, connection.to_send()) == (False, 1, b"")
    with pytest.raises(AssertionError, match="takes no calls"):
        connection.begin(talk.PATH, b"", 1.0)
    assert connection.receive(talk.answer(taken, b"yes")) == [Answered(taken, Code.OK, "", b"yes"), Gone(reason)]


def test_goaway_comes_twice_as_grpc_go_says_it():
    """First with the largest id, then, when all that was on its way has come, with the last one."""
    connection = a_connection()
    one, other = a_call(connection), a_call(connection)
    assert len(connection.receive(talk.goaway(2**31 - 1))) == 1
    assert connection.in_flight == 2
    assert [event.stream_id for event in connection.receive(talk.goaway(one))] == [other]
    assert len(connection.receive(talk.answer(one))) == 2


def test_goaway_without_calls_is_the_end():
    connection = a_connection()
    reason = "received GOAWAY with error code ENHANCE_YOUR_CALM: too_many_pings"
    assert connection.receive(talk.goaway(0, talk.ENHANCE_YOUR_CALM, b"too_many_pings")) == [
        Leaving(reason),
        Gone(reason),
    ]


def test_the_last_call_of_a_left_connection_may_be_cancelled():
    connection = a_connection()
    stream = a_call(connection)
    connection.receive(talk.goaway(stream, 0x99))
    assert connection.cancel(stream) == [Gone("received GOAWAY with error code 0x99")]


def test_a_connection_that_breaks_after_goaway_says_both():
    connection = a_connection()
    stream = a_call(connection)
    connection.receive(talk.goaway(stream, talk.INTERNAL_ERROR, b"out of memory"))
    text = f"{EOF}; received GOAWAY with error code INTERNAL_ERROR: out of memory"
    assert connection.lost() == [Answered(stream, Code.UNAVAILABLE, text), Gone(text)]


@each_row("second", [5, 2])
def test_a_goaway_whose_last_stream_grows_or_is_even_breaks_the_connection(second):
    connection = a_connection()
    a_call(connection)
    connection.receive(talk.goaway(3))
    *_, gone = connection.receive(talk.goaway(second))
    assert gone == Gone(f"error reading from server: a GOAWAY frame whose last stream is {second}", broken=True)


# -- the end


def test_a_broken_socket_leaves_what_was_sent_unknown_and_what_was_not_undone():
    connection = a_connection({talk.MAX_CONCURRENT_STREAMS: 1})
    sent, waiting = a_call(connection), a_call(connection)
    assert connection.lost() == [
        Answered(sent, Code.UNAVAILABLE, EOF),
        Answered(waiting, Code.UNAVAILABLE, EOF, unsent=True),
        Gone(EOF),
    ]
    assert (connection.is_open, connection.in_flight) == (False, 0)


def test_closing_ends_all_calls_and_says_goodbye():
    connection = a_connection()
    stream = a_call(connection)
    text = "grpc: the client connection is closing"
    assert connection.close() == [Answered(stream, Code.CANCELED, text), Gone(text)]
    assert talk.goodbye_in(connection.to_send()) == talk.NO_ERROR


def test_after_the_end_nothing_is_heard_and_nothing_raised():
    connection = a_connection()
    stream = a_call(connection)
    connection.lost()
    assert connection.receive(talk.answer(stream)) == []
    assert connection.cancel(stream) == connection.lost() == connection.close() == []
    assert connection.to_send() == b""


def test_stream_ids_that_are_used_up_end_the_connection_in_good_order():
    connection = a_connection(stream_ids_end=5)
    one, other = a_call(connection), a_call(connection)
    assert not connection.is_open
    reason = "all stream ids of the connection are used up"
    assert connection.receive(talk.answer(one)) == [Leaving(reason), Answered(one, Code.OK, "", b"")]
    assert connection.receive(talk.answer(other)) == [Answered(other, Code.OK, "", b""), Gone(reason)]


def test_there_are_2_to_the_30_streams_for_a_connection():
    connection = a_connection()
    connection._calls.next_id = 2**31 - 1
    assert a_call(connection) == 2**31 - 1
    assert not connection.is_open


# -- PING


def test_a_ping_is_answered_with_its_eight_bytes():
    connection = a_connection()
    assert connection.receive(talk.frame(talk.PING, 0, 0, b"12345678")) == []
    assert connection.to_send() == talk.frame(talk.PING, talk.ACK, 0, b"12345678")
    connection.receive(talk.frame(talk.PING, talk.ACK, 0, b"12345678"))
    assert connection.to_send() == b""


@each_row("flood", [talk.frame(talk.PING, 0, 0, bytes(8)), talk.settings()], ids=["PING", "SETTINGS"])
def test_a_flood_that_we_have_to_answer_ends_the_connection_when_nothing_can_be_written(flood):
    connection = a_connection()
    stream = a_call(connection)
    for _ in range(100):
        assert connection.receive(flood * 100) == []
    ended = connection.receive(flood)
    assert [type(event) for event in ended] == [Answered, Gone]
    assert ended[0].stream_id == stream
    assert "more than 10000 PING or SETTINGS" in ended[1].text
    assert talk.goodbye_in(connection.to_send()) == talk.ENHANCE_YOUR_CALM


def test_pings_that_are_written_between_are_no_flood():
    connection = a_connection()
    for _ in range(300):
        assert connection.receive(talk.frame(talk.PING, 0, 0, bytes(8)) * 100) == []
        assert len(connection.to_send()) == 1700
