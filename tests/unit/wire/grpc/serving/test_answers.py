"""What a server answers: a message, an error, and both as far as the client's windows and frames allow."""

from __future__ import annotations

import random
import urllib.parse

import hpack
import pytest

from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.serving.calls import percent_encoded
from mooring.wire.grpc.serving.connection import ServerConnection
from mooring.wire.grpc.serving.events import Asked, Dropped
from mooring.wire.grpc.serving.limits import FEW
from mooring.wire.grpc.status import decoded
from tests.unit.wire.grpc import talk
from tests.unit.wire.grpc.serving.ask import FIELDS, a_server, answer_in, asked, request, resets_in

ENDED = talk.END_HEADERS | talk.END_STREAM


def test_a_message_goes_between_headers_and_trailers() -> None:
    server = a_server()
    asked(server)
    assert [] == server.answer(1, b"hello")
    head, body, tail = talk.frames_in(server.to_send())
    assert (talk.HEADERS, talk.END_HEADERS, 1) == (head.kind, head.flags, head.stream)
    assert [(":status", "200"), ("content-type", "application/grpc")] == talk.fields_in([head])
    assert (talk.DATA, 0, 1, talk.message(b"hello")) == (body.kind, body.flags, body.stream, body.payload)
    assert (talk.HEADERS, ENDED, 1) == (tail.kind, tail.flags, tail.stream)
    assert [("grpc-status", "0")] == talk.fields_in([tail])


def test_an_error_is_trailers_alone() -> None:
    server = a_server()
    asked(server)
    assert [] == server.refuse(1, Code.NOT_FOUND, "no such volume: 100%\nBücher")
    (frame,) = talk.frames_in(server.to_send())
    assert (talk.HEADERS, ENDED, 1) == (frame.kind, frame.flags, frame.stream)
    assert dict(talk.fields_in([frame])) == {
        ":status": "200",
        "content-type": "application/grpc",
        "grpc-status": "5",
        "grpc-message": "no such volume: 100%25%0AB%C3%BCcher",
    }


def test_who_cannot_read_compressed_requests_says_what_it_can() -> None:
    server = a_server()
    server.receive(
        talk.headers(1, [*FIELDS, ("grpc-encoding", "gzip")]) + talk.data(1, talk.message(b"x", 1), end=True)
    )
    assert "identity" == answer_in(server.to_send())[0]["grpc-accept-encoding"]


def test_a_text_is_the_same_after_its_way() -> None:
    chances = random.Random(7)
    for _ in range(300):
        text = "".join(
            chr(chances.choice([chances.randrange(128), chances.randrange(0xD800), 0x1F600])) for _ in range(20)
        )
        sent = percent_encoded(text)
        assert all(0x20 <= byte <= 0x7E for byte in sent)
        assert text == decoded(sent) == urllib.parse.unquote(sent.decode())


def test_a_long_text_goes_in_several_frames() -> None:
    server = a_server()
    asked(server)
    server.refuse(1, Code.ABORTED, "x" * 40_000)
    sent = server.to_send()
    frames = talk.frames_in(sent)
    assert [(talk.HEADERS, talk.END_STREAM), (talk.CONTINUATION, 0), (talk.CONTINUATION, talk.END_HEADERS)] == [
        (one.kind, one.flags) for one in frames
    ]
    assert max(len(one.payload) for one in frames) == 16_384
    assert "x" * 40_000 == answer_in(sent)[0]["grpc-message"]


def test_a_smaller_table_is_spoken_of_in_the_next_block() -> None:
    server = a_server()
    decoder = hpack.Decoder()
    for stream, size in ((1, None), (3, 0), (5, None)):
        if size is not None:
            server.receive(talk.settings({talk.HEADER_TABLE_SIZE: size}))
            decoder.max_allowed_table_size = size  # the library insists on hearing of it
        asked(server, stream)
        server.answer(stream, b"")
        blocks = [one for one in talk.frames_in(server.to_send()) if one.kind == talk.HEADERS]
        assert [200, 0] == [int(talk.fields_in([one], decoder)[0][1]) for one in blocks]
        assert (size is not None) == (blocks[0].payload[0] == 0x20)


def test_a_long_answer_waits_for_windows_and_its_trailers_come_last() -> None:
    server = a_server({talk.INITIAL_WINDOW_SIZE: 10})
    asked(server)
    server.answer(1, b"x" * 95)
    got = server.to_send()
    assert [10] == [len(one.payload) for one in talk.frames_in(got) if one.kind == talk.DATA]
    assert [] == server.receive(talk.window(1, 50))
    got += server.to_send()
    assert [] == server.receive(talk.settings({talk.INITIAL_WINDOW_SIZE: 49}))
    got += server.to_send().removeprefix(talk.frame(talk.SETTINGS, talk.ACK))
    assert "grpc-status" not in answer_in(got)[0]
    assert [] == server.receive(talk.window(1, 1))
    got += server.to_send()
    assert (talk.HEADERS, ENDED) == (talk.frames_in(got)[-1].kind, talk.frames_in(got)[-1].flags)
    assert (talk.message(b"x" * 95), "0") == (answer_in(got)[1], answer_in(got)[0]["grpc-status"])


def test_the_connections_window_is_shared() -> None:
    server = a_server({talk.INITIAL_WINDOW_SIZE: 2**31 - 1})
    for stream in (1, 3):
        asked(server, stream)
        server.answer(stream, b"x" * 60_000)
    assert 65_535 == sum(len(one.payload) for one in talk.frames_in(server.to_send()) if one.kind == talk.DATA)
    server.receive(talk.window(0, 100_000))
    frames = talk.frames_in(server.to_send())
    assert 120_010 - 65_535 == sum(len(one.payload) for one in frames if one.kind == talk.DATA)
    assert (3, ENDED) == (frames[-1].stream, frames[-1].flags)


def test_frames_are_as_long_as_the_client_takes() -> None:
    server = a_server({talk.INITIAL_WINDOW_SIZE: 2**20, talk.MAX_FRAME_SIZE: 30_000})
    server.receive(talk.window(0, 2**20))
    asked(server)
    server.answer(1, b"x" * 70_000)
    assert [30_000, 30_000, 10_005] == [
        len(one.payload) for one in talk.frames_in(server.to_send()) if one.kind == talk.DATA
    ]


def test_an_answer_that_waits_is_forgotten_with_its_stream() -> None:
    server = a_server({talk.INITIAL_WINDOW_SIZE: 100_000})
    asked(server)
    server.answer(1, b"x" * 90_000)
    server.to_send()
    assert [] == server.receive(talk.reset(1, talk.CANCEL)), "the call is over: nobody is to be stopped"
    server.receive(talk.settings({talk.INITIAL_WINDOW_SIZE: 200_000}) + talk.window(0, 100_000) + talk.window(1, 100))
    assert [talk.SETTINGS] == [one.kind for one in talk.frames_in(server.to_send())]


def test_a_dropped_call_is_told_once_and_its_answer_goes_nowhere() -> None:
    server = a_server()
    asked(server)
    assert [Dropped(1)] == server.receive(talk.reset(1, talk.CANCEL))
    assert [] == server.receive(talk.reset(1, talk.CANCEL) + talk.window(1, 5) + talk.data(1, b"x"))
    assert [] == server.refuse(1, Code.CANCELED, "x")
    assert b"" == server.to_send()


def test_a_request_that_is_dropped_before_its_end_is_no_call() -> None:
    server = a_server()
    assert [] == server.receive(talk.headers(1, FIELDS) + talk.data(1, b"\x00") + talk.reset(1, talk.CANCEL))
    assert b"" == server.to_send()
    assert asked(server, 3)


def streams(count: int, first: int = 1) -> range:
    return range(first, first + 2 * count, 2)


def test_one_call_too_many_is_refused_and_may_be_sent_again() -> None:
    server = a_server()
    for stream in streams(FEW.streams):
        asked(server, stream)
    assert [] == server.receive(request(201))
    assert [(201, talk.REFUSED_STREAM)] == resets_in(server.to_send())
    server.answer(77, b"")
    assert 203 == asked(server, 203).stream_id
    assert [] == server.receive(request(205))


def test_calls_that_a_client_drops_count_until_they_have_ended() -> None:
    """Or a client that begins and drops has any number of them carried out at once."""
    server = a_server()
    for stream in streams(FEW.streams):
        assert [Asked, Dropped] == [
            type(one) for one in server.receive(request(stream) + talk.reset(stream, talk.CANCEL))
        ]
    assert [] == server.receive(request(201))
    assert [(201, talk.REFUSED_STREAM)] == resets_in(server.to_send())
    server.refuse(5, Code.CANCELED, "")
    assert asked(server, 203)


def test_an_answer_counts_until_it_is_all_on_its_way() -> None:
    server = a_server({talk.INITIAL_WINDOW_SIZE: 0})
    for stream in streams(FEW.streams):
        asked(server, stream)
        server.answer(stream, b"")
    assert [] == server.receive(request(201))
    server.receive(talk.window(1, 5))
    assert asked(server, 203)


def test_an_answer_is_given_once() -> None:
    server = a_server({talk.INITIAL_WINDOW_SIZE: 0})
    asked(server)
    server.answer(1, b"x")
    with pytest.raises(AssertionError):
        server.answer(1, b"x")


def test_windows_of_a_request_are_given_back_in_time() -> None:
    """A client that keeps to the windows never waits for long, and gets a message of 4 MiB through."""
    server = ServerConnection(now=lambda: 0.0)
    server.start()
    server.receive(talk.PREFACE + talk.settings())
    server.to_send()
    left = {0: 65_535, 1: 65_535}
    body = talk.message(b"x" * (4 * 1024 * 1024))
    events = server.receive(talk.headers(1, FIELDS))
    at = rounds = 0
    while at < len(body):
        rounds += 1
        size = min(*left.values(), 16_384, len(body) - at)
        assert size > 0, "the client waits, and the server has read all"
        events += server.receive(talk.data(1, body[at : at + size], end=at + size == len(body)))
        at += size
        left = {stream: window - size for stream, window in left.items()}
        for frame in talk.frames_in(server.to_send()):
            assert talk.WINDOW_UPDATE == frame.kind
            left[frame.stream] += int.from_bytes(frame.payload)
        assert max(left.values()) <= 65_535
    assert [4 * 1024 * 1024] == [len(event.message) for event in events if isinstance(event, Asked)]
    assert rounds < 400


def test_requests_hold_no_more_than_their_bound() -> None:
    server = a_server()
    piece = talk.message(b"x" * (4 * 1024 * 1024 - 5))
    refused = 0
    for stream in streams(8):
        server.receive(talk.headers(stream, FIELDS))
        for at in range(0, len(piece), 16_384):
            server.receive(talk.data(stream, piece[at : at + 16_384]))
            fields, _ = answer_in(
                b"".join(_raw(one) for one in talk.frames_in(server.to_send()) if one.kind == talk.HEADERS)
            )
            refused += fields.get("grpc-status") == "8"
    assert 4 == refused
    server.receive(b"".join(talk.reset(stream, talk.CANCEL) for stream in streams(4)))
    asked(server, 99, b"x" * 4_000_000)
    server.answer(99, b"")
    asked(server, 101, b"x" * 4_000_000)
    server.refuse(101, Code.ABORTED, "")
    assert 5 == sum(asked(server, stream, b"x" * 3_000_000).stream_id > 0 for stream in streams(5, 103)), (
        "all has been let go"
    )


def test_data_that_nobody_waits_for_takes_nothing_of_the_connections_window() -> None:
    server = a_server()
    server.receive(talk.headers(1, FIELDS) + talk.reset(1, talk.CANCEL))
    server.receive(talk.data(1, bytes(16_384)) * 3)
    assert talk.window(0, 32_768) == server.to_send()


def _raw(one: talk.Sent) -> bytes:
    return talk.frame(one.kind, one.flags, one.stream, one.payload)
