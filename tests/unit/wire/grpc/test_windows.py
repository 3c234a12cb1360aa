"""Flow control both ways: requests larger than the server's windows, answers larger than ours."""

import itertools
import random

import pytest

from mooring.wire.grpc.calls import WINDOW_BYTES
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.events import Answered
from tests.support.rows import each_row
from tests.unit.wire.grpc import talk
from tests.unit.wire.grpc.talk import a_call, a_connection

DEFAULT = 65_535


def data_of(sent, stream):
    """What was sent of one request, and whether it was all."""
    pieces = [one for one in talk.frames_in(sent) if (one.kind, one.stream) == (talk.DATA, stream)]
    assert not any(one.flags & talk.END_STREAM for one in pieces[:-1])
    return b"".join(one.payload for one in pieces), bool(pieces and pieces[-1].flags & talk.END_STREAM)


def granted(sent, stream):
    return sum(
        int.from_bytes(one.payload)
        for one in talk.frames_in(sent)
        if (one.kind, one.stream) == (talk.WINDOW_UPDATE, stream)
    )


# -- requests


def test_a_request_larger_than_the_windows_is_sent_as_they_open():
    request = random.Random(7).randbytes(200_000)
    connection = a_connection()
    stream = connection.begin(talk.PATH, request, 15.0)
    first, over = data_of(connection.to_send(), stream)
    assert (len(first), over) == (DEFAULT, False)
    connection.receive(talk.window(0, 100_000))
    assert connection.to_send() == b"", "the stream's own window is used up"
    connection.receive(talk.window(stream, 50_000))
    second, over = data_of(connection.to_send(), stream)
    assert (len(second), over) == (50_000, False)
    connection.receive(talk.window(stream, 10**6))
    third, over = data_of(connection.to_send(), stream)
    assert (len(third), over) == (50_000, False), "the connection's is, now"
    connection.receive(talk.window(0, 10**6))
    fourth, over = data_of(connection.to_send(), stream)
    assert over
    assert first + second + third + fourth == talk.message(request)
    assert connection.receive(talk.answer(stream, b"x")) == [Answered(stream, Code.OK, "", b"x")]
    assert connection.to_send() == b""


@each_row("frame_bytes", [16_384, 20_000, 2**24 - 1])
def test_no_frame_is_longer_than_the_server_takes(frame_bytes):
    connection = a_connection({talk.MAX_FRAME_SIZE: frame_bytes, talk.INITIAL_WINDOW_SIZE: 10**6})
    connection.receive(talk.window(0, 10**6))
    stream = connection.begin(talk.PATH, bytes(100_000), 15.0)
    sent = connection.to_send()
    assert max(len(one.payload) for one in talk.frames_in(sent)) == min(frame_bytes, 100_005)
    assert data_of(sent, stream) == (talk.message(bytes(100_000)), True)


def test_headers_longer_than_a_frame_go_on_in_continuations():
    connection = a_connection()
    path = "/" + "x" * 40_000
    stream = connection.begin(path, b"m", 15.0)
    first, second, third, body = talk.frames_in(connection.to_send())
    assert [(one.kind, one.flags) for one in (first, second, third)] == [
        (talk.HEADERS, 0),
        (talk.CONTINUATION, 0),
        (talk.CONTINUATION, talk.END_HEADERS),
    ]
    assert {one.stream for one in (first, second, third)} == {stream}
    assert max(len(one.payload) for one in (first, second, third)) == 16_384
    assert (":path", path) in talk.fields_in([first, second, third])
    assert body.payload == talk.message(b"m")


def test_a_larger_initial_window_lets_open_streams_go_on():
    connection = a_connection({talk.INITIAL_WINDOW_SIZE: 0})
    stream = connection.begin(talk.PATH, b"hello", 15.0)
    assert [one.kind for one in talk.frames_in(connection.to_send())] == [talk.HEADERS]
    connection.receive(talk.settings({talk.INITIAL_WINDOW_SIZE: 4}))
    assert data_of(connection.to_send(), stream) == (talk.message(b"hello")[:4], False)
    connection.receive(talk.settings({talk.INITIAL_WINDOW_SIZE: 100}))
    assert data_of(connection.to_send(), stream) == (talk.message(b"hello")[4:], True)


def test_a_smaller_initial_window_makes_that_of_a_stream_negative():
    connection = a_connection({talk.INITIAL_WINDOW_SIZE: 100})
    stream = connection.begin(talk.PATH, bytes(200), 15.0)
    connection.to_send()
    connection.receive(talk.settings({talk.INITIAL_WINDOW_SIZE: 30}))
    connection.to_send()
    connection.receive(talk.window(stream, 70))
    assert connection.to_send() == b"", "0, not 70"
    connection.receive(talk.window(stream, 10))
    assert len(data_of(connection.to_send(), stream)[0]) == 10


def test_a_larger_initial_window_may_be_too_large_for_an_open_stream():
    connection = a_connection()
    a_call(connection)
    connection.receive(talk.window(1, 2**31 - 1 - DEFAULT))
    *_, gone = connection.receive(talk.settings({talk.INITIAL_WINDOW_SIZE: 2**31 - 1}))
    assert gone.broken
    assert talk.goodbye_in(connection.to_send()) == talk.FLOW_CONTROL_ERROR


def test_one_request_that_waits_does_not_keep_another_back():
    connection = a_connection({talk.INITIAL_WINDOW_SIZE: 10})
    slow, quick = connection.begin(talk.PATH, bytes(100), 15.0), connection.begin(talk.PATH, b"hi", 15.0)
    assert data_of(connection.to_send(), quick) == (talk.message(b"hi"), True)
    connection.receive(talk.window(slow, 1000))
    connection.receive(talk.window(quick, 1000))
    assert data_of(connection.to_send(), slow)[1]


@each_row("end", ["cancelled", "answered", "refused"])
def test_the_rest_of_a_request_is_not_sent_when_its_call_is_over(end):
    connection = a_connection({talk.INITIAL_WINDOW_SIZE: 10})
    stream = connection.begin(talk.PATH, bytes(100), 15.0)
    connection.to_send()
    if end == "cancelled":
        connection.cancel(stream)
    else:
        connection.receive(talk.answer(stream) if end == "answered" else talk.reset(stream, talk.REFUSED_STREAM))
    told = {"cancelled": talk.reset(stream, talk.CANCEL), "answered": talk.reset(stream, talk.NO_ERROR), "refused": b""}
    assert connection.to_send() == told[end]
    connection.receive(talk.window(0, 10**6) + talk.settings({talk.INITIAL_WINDOW_SIZE: 10**6}))
    assert connection.to_send() == talk.frame(talk.SETTINGS, talk.ACK)


@each_row("stream", [0, 1])
def test_a_window_may_be_as_large_as_http_allows_and_what_was_sent_counts(stream):
    connection = a_connection()
    a_call(connection, bytes(95))
    assert connection.receive(talk.window(stream, 2**31 - 1 - DEFAULT + 100)) == []
    assert connection.to_send() == b""
    assert len(connection.receive(talk.window(stream, 1))) == (1 if stream else 2), (
        "the call's end, or the connection's too"
    )


def test_small_requests_use_the_connections_window_up():
    connection = a_connection()
    sent = b""
    for _ in range(66):
        connection.begin(talk.PATH, bytes(995), 15.0)
        sent += connection.to_send()
    sizes = [len(one.payload) for one in talk.frames_in(sent) if one.kind == talk.DATA]
    assert sizes == [1000] * 65 + [535]


# -- answers


def test_an_answer_larger_than_our_windows():
    """Both windows are given back before they are used up; what comes is never more than we have granted."""
    connection = a_connection()
    stream = a_call(connection)
    connection.receive(talk.headers(stream, talk.OK_HEADERS))
    payload = random.Random(7).randbytes(10 * 2**20)
    whole, at = memoryview(talk.message(payload)), 0
    left = {0: WINDOW_BYTES, stream: WINDOW_BYTES}
    while at < len(whole):
        size = min(16_384, len(whole) - at, *left.values())
        assert size > 0, "the server waits for ever"
        assert connection.receive(talk.data(stream, bytes(whole[at : at + size]))) == []
        sent, at = connection.to_send(), at + size
        left = {window: before + granted(sent, window) - size for window, before in left.items()}
        assert max(left.values()) <= WINDOW_BYTES
    (answered,) = connection.receive(talk.headers(stream, talk.OK_TRAILERS, end=True))
    assert answered == Answered(stream, Code.OK, "", payload)
    assert type(answered.payload) is bytes


def test_padding_counts_and_so_does_what_comes_for_a_cancelled_call():
    connection = a_connection()
    stream = a_call(connection)
    connection.cancel(stream)
    connection.to_send()
    padded = talk.frame(talk.DATA, talk.PADDED, stream, b"\xff" + bytes(16_383))
    for _ in range(WINDOW_BYTES // 2 // 16_384):
        connection.receive(padded)
        assert connection.to_send() == b""
    connection.receive(talk.data(stream, b"x"))
    assert connection.to_send() == talk.window(0, WINDOW_BYTES // 2 + 1)


@pytest.mark.slow
def test_answers_that_never_end_are_held_up_to_a_bound():
    """Five answers of 64 MiB at once: the one that goes beyond four is ended, and makes room for the others."""
    connection = a_connection()
    streams = [a_call(connection) for _ in range(5)]
    prefix = b"\0" + (2**26).to_bytes(4)
    connection.receive(b"".join(talk.headers(one, talk.OK_HEADERS) + talk.data(one, prefix) for one in streams))
    came, ended = len(streams) * len(prefix), []
    for stream in itertools.cycle(streams):
        ended += connection.receive(talk.data(stream, bytes(16_384)))
        connection.to_send()
        came += 16_384
        if ended:
            break
    assert ended == [
        Answered(stream, Code.RESOURCE_EXHAUSTED, f"more than {2**28} bytes of answers at once", answered=True)
    ]
    assert 2**28 < came <= 2**28 + 16_384
    assert connection.receive(talk.data(streams[0], bytes(16_384))) == []
    assert connection.in_flight == 4
