"""A connection as a server has it: its end in good order, its breaks, its bounds, and any bytes at all."""

from __future__ import annotations

import random

from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.connection import Connection
from mooring.wire.grpc.events import Answered, Gone, Settled
from mooring.wire.grpc.serving.calls import AT_ONCE_S, WASTED_MAX
from mooring.wire.grpc.serving.connection import HEADER_BYTES_MAX, ServerConnection
from mooring.wire.grpc.serving.events import Asked, Dropped, Event
from mooring.wire.grpc.serving.limits import FEW
from tests.support.rows import each_row
from tests.unit.wire.grpc import talk
from tests.unit.wire.grpc.serving.ask import FIELDS, a_server, answer_in, asked, request, resets_in


def last_in(sent: bytes) -> int:
    """The last stream that the server's GOAWAY names."""
    (found,) = [one for one in talk.frames_in(sent) if one.kind == talk.GOAWAY]
    return int.from_bytes(found.payload[:4])


def test_who_leaves_ends_what_has_begun() -> None:
    server = a_server()
    asked(server, 1)
    asked(server, 3)
    assert [] == server.leave() == server.leave()
    sent = server.to_send()
    assert (3, talk.NO_ERROR) == (last_in(sent), talk.goodbye_in(sent))
    assert [] == server.receive(request(5)), "the client knows that nobody looks at it"
    assert [(5, talk.REFUSED_STREAM)] == resets_in(server.to_send())
    assert [] == server.answer(1, b"")
    assert [Gone("the last call of the connection has ended")] == server.answer(3, b"")
    assert 3 == talk.frames_in(server.to_send())[-1].stream
    assert [] == server.receive(request(7)) == server.leave() == server.close() == server.lost()


def test_an_idle_connection_is_left_at_once() -> None:
    server = a_server()
    (gone,) = server.leave()
    assert isinstance(gone, Gone)
    assert not gone.broken
    assert 0 == last_in(server.to_send())


def test_an_answer_that_waits_for_a_window_holds_the_end_up() -> None:
    server = a_server({talk.INITIAL_WINDOW_SIZE: 0})
    asked(server)
    server.answer(1, b"x")
    assert [] == server.leave()
    (gone,) = server.receive(talk.window(1, 6))
    assert isinstance(gone, Gone)


def test_a_client_that_leaves_gets_its_answers() -> None:
    server = a_server()
    asked(server)
    assert [] == server.receive(talk.goaway(0))
    (gone,) = server.answer(1, b"x")
    assert isinstance(gone, Gone)
    assert b"x" == answer_in(server.to_send())[1][5:]


def test_who_closes_says_so_to_every_call() -> None:
    server = a_server()
    asked(server)
    server.receive(talk.headers(3, FIELDS))
    assert [Dropped(1), Gone("enough")] == server.close("enough")
    sent = server.to_send()
    fields, _ = answer_in(sent)
    assert (str(int(Code.UNAVAILABLE)), "enough", 3) == (fields["grpc-status"], fields["grpc-message"], last_in(sent))
    assert [] == server.answer(1, b"")


def test_a_lost_client_waits_for_nothing() -> None:
    server = a_server()
    asked(server, 1)
    asked(server, 3)
    assert [Dropped(1), Dropped(3), Gone("error reading from client: EOF")] == server.lost()
    assert [] == server.refuse(1, Code.CANCELED, "") == server.answer(3, b"")


def dropped(stream_id: int) -> bytes:
    return request(stream_id) + talk.reset(stream_id, talk.CANCEL)


def test_a_client_that_only_begins_and_drops_is_left() -> None:
    """Rapid reset: each call costs it some bytes, and us the beginning of a call."""
    server = a_server()
    for call in range(WASTED_MAX):
        server.receive(dropped(2 * call + 1))
        server.refuse(2 * call + 1, Code.CANCELED, "")
    server.to_send()
    *_, gone = server.receive(dropped(2 * WASTED_MAX + 1))
    assert isinstance(gone, Gone)
    assert gone.broken
    assert talk.ENHANCE_YOUR_CALM == talk.goodbye_in(server.to_send())


def test_calls_that_were_waited_for_are_not_held_against_a_client() -> None:
    """Of a driver that is stuck every answer is late: a sidecar may end with the connection."""
    now = 0.0
    server = ServerConnection(now=lambda: now)
    server.start()
    server.receive(talk.PREFACE + talk.settings())
    for call in range(2 * WASTED_MAX):
        asked(server, 2 * call + 1)
        now += AT_ONCE_S
        assert [Dropped(2 * call + 1)] == server.receive(talk.reset(2 * call + 1, talk.CANCEL))
        server.refuse(2 * call + 1, Code.CANCELED, "")


def test_calls_beyond_the_bound_count_as_dropped() -> None:
    server = a_server()
    for call in range(FEW.streams + WASTED_MAX):
        assert not any(isinstance(event, Gone) for event in server.receive(request(2 * call + 1)))
    *_, gone = server.receive(request(2 * (FEW.streams + WASTED_MAX) + 1))
    assert isinstance(gone, Gone)


def test_calls_that_were_answered_make_up_for_dropped_ones() -> None:
    server = a_server()
    for call in range(3 * WASTED_MAX):
        asked(server, 4 * call + 1)
        server.answer(4 * call + 1, b"x") if call % 2 else server.refuse(4 * call + 1, Code.NOT_FOUND, "")
        server.receive(dropped(4 * call + 3))
        assert [] == server.refuse(4 * call + 3, Code.CANCELED, "")
        server.receive(talk.window(0, 6)) if call % 2 else None
        server.to_send()


def test_pings_and_settings_are_answered() -> None:
    server = a_server()
    assert [] == server.receive(
        talk.frame(talk.PING, payload=b"12345678") + talk.frame(talk.PING, talk.ACK, payload=b"x" * 8) + talk.settings()
    )
    assert (
        talk.frame(talk.PING, talk.ACK, payload=b"12345678") + talk.frame(talk.SETTINGS, talk.ACK) == server.to_send()
    )


def test_a_client_may_speak_of_push() -> None:
    assert asked(a_server({talk.ENABLE_PUSH: 1}))


HALF = talk.frame(talk.HEADERS, 0, 1, talk.block(FIELDS))
BREAKS = {
    "data for no stream": (talk.data(1, b"x"), talk.PROTOCOL_ERROR),
    "data on stream 0": (talk.data(0, b"x"), talk.PROTOCOL_ERROR),
    "a reset of no stream": (talk.reset(1, talk.CANCEL), talk.PROTOCOL_ERROR),
    "a window of no stream": (talk.window(1, 1), talk.PROTOCOL_ERROR),
    "a stream of a server's": (request(2), talk.PROTOCOL_ERROR),
    "a stream again": (request(3) + request(3), talk.STREAM_CLOSED),
    "a stream below": (request(3) + request(1), talk.PROTOCOL_ERROR),
    "a push": (talk.frame(talk.PUSH_PROMISE, talk.END_HEADERS, 1, bytes(4)), talk.PROTOCOL_ERROR),
    "a block that breaks off": (HALF + talk.frame(talk.PING, payload=bytes(8)), talk.PROTOCOL_ERROR),
    "a block of another stream": (HALF + talk.frame(talk.CONTINUATION, talk.END_HEADERS, 3), talk.PROTOCOL_ERROR),
    "a continuation of nothing": (talk.frame(talk.CONTINUATION, talk.END_HEADERS, 1), talk.PROTOCOL_ERROR),
    "continuations without end": (HALF + talk.frame(talk.CONTINUATION, 0, 1) * 10_000, talk.ENHANCE_YOUR_CALM),
    "headers without end": (HALF + talk.frame(talk.CONTINUATION, 0, 1, bytes(16_384)) * 5, talk.ENHANCE_YOUR_CALM),
    "a block of rubbish": (talk.frame(talk.HEADERS, talk.END_HEADERS, 1, b"\x80"), talk.COMPRESSION_ERROR),
    "a frame that is too long": (talk.frame(talk.DATA, 0, 1, bytes(16_385)), talk.FRAME_SIZE_ERROR),
    "more padding than payload": (
        talk.headers(1, FIELDS) + talk.frame(talk.DATA, talk.PADDED, 1, b"\x05abc"),
        talk.PROTOCOL_ERROR,
    ),
    "a window that adds nothing": (talk.window(0, 0), talk.PROTOCOL_ERROR),
    "a window that is too large": (talk.window(0, 2**31 - 1), talk.FLOW_CONTROL_ERROR),
    "a short ping": (talk.frame(talk.PING, payload=b"x"), talk.FRAME_SIZE_ERROR),
    "push of 2": (talk.settings({talk.ENABLE_PUSH: 2}), talk.PROTOCOL_ERROR),
    "streams' windows too large": (talk.settings({talk.INITIAL_WINDOW_SIZE: 2**31}), talk.FLOW_CONTROL_ERROR),
    "frames too short": (talk.settings({talk.MAX_FRAME_SIZE: 100}), talk.PROTOCOL_ERROR),
    "half a setting": (talk.frame(talk.SETTINGS, payload=b"xyz"), talk.FRAME_SIZE_ERROR),
}


@each_row("name", [name for name in BREAKS if name != "a stream again"])
def test_what_is_no_http_ends_the_connection_with_its_reason(name: str) -> None:
    server = a_server()
    received, code = BREAKS[name]
    *others, gone = server.receive(received)
    assert isinstance(gone, Gone)
    assert gone.broken
    assert {Asked, Dropped} >= {type(one) for one in others}
    sent = server.to_send()
    assert code == talk.goodbye_in(sent)
    assert ("a stream below" == name) * 3 == (last_in(sent) if "a stream below" == name else 0)
    assert [] == server.receive(request(99)), "nothing is read any more"


def test_a_stream_that_begins_again_is_reset() -> None:
    server = a_server()
    assert [Asked, Dropped] == [type(one) for one in server.receive(BREAKS["a stream again"][0])]
    assert [(3, talk.STREAM_CLOSED)] == resets_in(server.to_send())


def test_a_client_begins_with_its_settings() -> None:
    server = ServerConnection(now=lambda: 0.0)
    (gone,) = server.receive(talk.PREFACE + talk.frame(talk.PING, payload=bytes(8)))
    assert isinstance(gone, Gone)
    assert "SETTINGS" in gone.text


def test_headers_have_a_bound() -> None:
    long = [*FIELDS, ("x", "y" * 100)] + [("x", "y" * 100)] * (HEADER_BYTES_MAX // 133 + 1)
    block = talk.block(long)
    frames = talk.frame(talk.HEADERS, 0, 1, block[:16_384])
    rest = [block[at : at + 16_384] for at in range(16_384, len(block), 16_384)]
    frames += b"".join(
        talk.frame(talk.CONTINUATION, talk.END_HEADERS if part is rest[-1] else 0, 1, part) for part in rest
    )
    server = a_server()
    (gone,) = server.receive(frames)
    assert isinstance(gone, Gone)
    assert talk.ENHANCE_YOUR_CALM == talk.goodbye_in(server.to_send())


def test_frames_of_calls_that_are_over_do_no_harm() -> None:
    server = a_server()
    asked(server)
    server.answer(1, b"")
    server.to_send()
    assert [] == server.receive(
        talk.data(1, b"x") + talk.reset(1, talk.CANCEL) + talk.window(1, 9) + talk.frame(talk.PRIORITY, 0, 1, bytes(5))
    )
    assert b"" == server.to_send()


# -- any bytes


class Watched:
    """A server whose events are checked: every call is asked once, dropped at most once, and Gone is the last word."""

    def __init__(self) -> None:
        self.server = ServerConnection(now=lambda: 0.0)
        self.open: set[int] = set()
        self.seen: set[int] = set()
        self.dropped: set[int] = set()
        self.gone = False

    def heard(self, events: list[Event]) -> None:
        for event in events:
            assert not self.gone
            if isinstance(event, Asked):
                assert event.stream_id not in self.seen
                self.seen.add(event.stream_id)
                self.open.add(event.stream_id)
            elif isinstance(event, Dropped):
                assert event.stream_id in self.open - self.dropped
                self.dropped.add(event.stream_id)
            else:
                self.gone = True
                assert self.open == self.dropped

    def end_one(self, chances: random.Random) -> None:
        if self.open:
            stream = chances.choice(sorted(self.open))
            self.open.discard(stream)
            self.dropped.discard(stream)
            self.heard(
                self.server.answer(stream, b"x" * chances.randrange(200))
                if chances.random() < 0.5
                else self.server.refuse(stream, 5, "no")
            )


FRAMES = [
    talk.settings({talk.INITIAL_WINDOW_SIZE: 30}),
    talk.frame(talk.PING, payload=b"12345678"),
    talk.window(0, 70),
    talk.frame(talk.PRIORITY, 0, 1, bytes(5)),
    talk.goaway(0),
]


@each_row("seed", range(300))
def test_whatever_comes_gives_events_and_nothing_else(seed: int) -> None:
    chances = random.Random(seed)
    watched = Watched()
    parts = [talk.PREFACE + talk.settings()]
    for stream in range(1, 41, 2):
        whole = request(stream, bytes(chances.randrange(300)))
        if chances.random() < 0.3:
            whole += talk.reset(stream, talk.CANCEL)
        parts += [whole, chances.choice([*FRAMES, talk.window(stream, chances.randrange(1, 99)), b""])]
    received = bytearray(b"".join(parts[: chances.randrange(2, len(parts))]))
    for _ in range(chances.randrange(4)):
        at = chances.randrange(len(received))
        match chances.randrange(3):
            case 0:
                received[at] ^= 1 << chances.randrange(8)
            case 1:
                del received[at : at + chances.randrange(1, 20)]
            case _:
                received[at:at] = chances.randbytes(chances.randrange(1, 20))
    at = 0
    while at < len(received):
        size = chances.randrange(1, 200)
        watched.heard(watched.server.receive(bytes(received[at : at + size])))
        at += size
        if chances.random() < 0.3:
            watched.end_one(chances)
        talk.frames_in(watched.server.to_send())
    watched.heard(watched.server.lost())
    assert watched.gone
    while watched.open:
        watched.end_one(chances)


@each_row("seed", range(100))
def test_our_client_and_our_server_understand_each_other(seed: int) -> None:
    """In pieces of any size, with any number of calls at once, and messages beyond the windows."""
    chances = random.Random(seed)
    client, server = Connection(now=lambda: 0.0), ServerConnection(now=lambda: 0.0)
    up, down = bytearray(client.start()), bytearray(server.start())
    wanted = {1 + 2 * number: chances.randbytes(chances.choice([0, 5, 300, 70_000])) for number in range(30)}
    answered: dict[int, tuple[int, bytes | None]] = {}
    begun = iter(wanted.values())
    waiting: list[Asked] = []
    while len(answered) < len(wanted):
        if client.is_open and client.in_flight < 12 and (message := next(begun, None)) is not None:
            client.begin("/a.B/C", message, 5.0)
        up += client.to_send()
        size = chances.randrange(1, 20_000)
        waiting += [event for event in server.receive(bytes(up[:size])) if isinstance(event, Asked)]
        del up[:size]
        if waiting and chances.random() < 0.5:
            call = waiting.pop(chances.randrange(len(waiting)))
            if len(call.message) % 2:
                server.refuse(call.stream_id, Code.ABORTED, "odd")
            else:
                server.answer(call.stream_id, call.message[::-1])
        down += server.to_send()
        size = chances.randrange(1, 20_000)
        for event in client.receive(bytes(down[:size])):
            assert isinstance(event, Settled | Answered)
            if isinstance(event, Answered):
                answered[event.stream_id] = (event.code, event.payload)
        del down[:size]
    assert answered == {
        stream: (Code.ABORTED, None) if len(message) % 2 else (Code.OK, message[::-1])
        for stream, message in wanted.items()
    }
