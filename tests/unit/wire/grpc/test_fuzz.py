"""Servers that make mistakes, or mean harm: whatever they send gives events, never an exception, and never keeps more
than it may.
"""

import dataclasses
import random

import hpack

from mooring.wire.grpc.answer_headers import AnswerHeadersDecoder
from mooring.wire.grpc.connection import Connection
from mooring.wire.grpc.events import Answered, Gone, Leaving, Settled
from mooring.wire.grpc.frames import BrokenConnection
from tests.support.rows import each_row
from tests.unit.wire.grpc import talk
from tests.unit.wire.grpc.checker import ClientChecker
from tests.unit.wire.grpc.test_cuts import FIRST, WHOLE

STREAMS = (0, 1, 1, 1, 3, 3, 5, 7, 2, 99, 2**31 - 1)


@dataclasses.dataclass
class Life:
    """A connection and what has to hold for it, whoever is at the other end. honest: its checker may judge what it
    says.
    """

    chance: random.Random
    honest: bool

    def __post_init__(self) -> None:
        self.clock = 0.0
        self.connection = Connection(now=lambda: self.clock)
        self.connection.start()
        self.checker = ClientChecker()
        self.waiting_for: set[int] = set()
        self.events = 0
        self.gone = self.settled = False
        self.requests: dict[int, bytes] = {}

    def receive(self, data: bytes) -> None:
        if self.honest:
            self.checker.told(data)
        at = 0
        while at < len(data):
            size = self.chance.choice((1, 5, 9, 100, 10_000, 70_000))
            self._heard(self.connection.receive(data[at : at + size]))
            at += size
        self.write()

    def write(self) -> None:
        sent = self.connection.to_send()
        if self.honest and not self.gone:
            self.checker.heard(sent)
        else:
            talk.frames_in(sent)

    def begin(self) -> None:
        if self.connection.is_open:
            size = self.chance.choice((0, 1, 100, 20_000, 200_000))
            stream = self.connection.begin(talk.PATH, bytes(size), self.chance.choice((0.5, 15.0)))
            assert stream not in self.requests
            self.requests[stream] = talk.message(bytes(size))
            self.waiting_for.add(stream)
            self.write()

    def cancel(self) -> None:
        if self.waiting_for:
            stream = self.chance.choice(sorted(self.waiting_for))
            self.waiting_for.remove(stream)
            self._heard(self.connection.cancel(stream))
            self.write()

    def _heard(self, events: list[object]) -> None:
        for event in events:
            assert not self.gone, "an event after Gone"
            self.events += 1
            match event:
                case Answered(stream_id=stream):
                    self.waiting_for.remove(stream)
                case Settled():
                    assert not self.settled
                    self.settled = True
                case Leaving():
                    assert not self.connection.is_open
                case Gone():
                    assert not self.waiting_for
                    assert not self.connection.is_open
                    self.gone = True
                case _:
                    raise AssertionError(event)
        assert self.connection.in_flight == len(self.waiting_for)
        self._is_bounded()

    def _is_bounded(self) -> None:
        reader, calls = self.connection._reader, self.connection._calls
        assert len(reader._rest) < 16_384 + 9
        assert reader._block is None or len(reader._block.bytes) <= 2**24
        assert calls._held == sum(len(stream.body) for stream in calls._streams.values()) or self.gone
        assert len(reader._decoder._kept) <= 256

    def end(self) -> None:
        self._heard(self.connection.lost())
        assert self.gone
        assert not self.waiting_for


@each_row("seed", range(400))
def test_a_conversation_with_wrong_bytes(seed):
    chance = random.Random(seed)
    life = Life(chance, honest=False)
    life.receive(WHOLE[:FIRST])
    for _ in range(5):
        life.begin()
    wrong = bytearray(WHOLE[FIRST:])
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(wrong))
        match chance.randrange(4):
            case 0:
                wrong[at] ^= 1 << chance.randrange(8)
            case 1:
                wrong[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                del wrong[at : at + chance.randint(1, 20)]
            case 3:
                wrong[at:at] = chance.randbytes(chance.randint(1, 20))
    life.receive(bytes(wrong))
    life.end()


@each_row("seed", range(200))
def test_nothing_but_noise_after_the_settings(seed):
    chance = random.Random(seed)
    life = Life(chance, honest=False)
    life.receive(talk.settings())
    life.begin()
    life.receive(chance.randbytes(chance.choice((20, 200, 50_000))))
    life.end()


def a_block(chance):
    if chance.random() < 0.1:
        return chance.randbytes(chance.randint(0, 30))
    fields = [
        (":status", chance.choice(("200", "200", "200", "100", "503", "x"))),
        ("content-type", chance.choice(("application/grpc", "application/grpc", "application/grpc", "text/html"))),
        ("grpc-status", chance.choice(("0", "0", "5", "abc"))),
        ("grpc-message", chance.choice(("", "why%20not", "\xff"))),
        ("Odd", ""),
    ]
    chosen = [field for field in fields if chance.random() < (0.9 if field[0] != "Odd" else 0.02)]
    return b"".join(
        talk.literal(name.encode(), value.encode("latin-1"), chance.choice((0, 0x10, 0x40))) for name, value in chosen
    )


def a_frame(chance):
    """Any frame, mostly one that may come."""
    kind = chance.choice((talk.DATA,) * 5 + (talk.HEADERS,) * 5 + tuple(range(1, 11)))
    flags = chance.choice((0, 1, 4, 5, 4, 5, 4, chance.randrange(256)))
    stream = chance.choice(STREAMS)
    match kind:
        case talk.DATA:
            payload = chance.choice(
                (b"", talk.message(b""), talk.message(b"x" * 100), chance.randbytes(30), bytes(16_384))
            )
        case talk.HEADERS | talk.CONTINUATION:
            payload = a_block(chance)
        case talk.SETTINGS:
            said = {
                chance.randrange(8): chance.choice((0, 1, 100, 16_384, 65_535, 2**31 - 1, 2**32 - 1)) for _ in range(2)
            }
            payload, stream = talk.settings(said)[9:] * (flags & 1 ^ 1), 0
        case talk.PING | talk.GOAWAY:
            payload, stream = chance.randbytes(8), 0
        case talk.WINDOW_UPDATE:
            payload = chance.choice((0, 1, 5_000, 2**31 - 1)).to_bytes(4)
        case _:
            payload = chance.randbytes(chance.choice((4, 4, 5, 8)))
    return talk.frame(kind, flags, stream, payload)


@each_row("seed", range(300))
def test_any_frames_in_any_order(seed):
    chance = random.Random(seed)
    life = Life(chance, honest=False)
    life.receive(talk.settings({talk.MAX_CONCURRENT_STREAMS: chance.choice((0, 1, 2, 1000))}))
    while not life.gone and life.events < 200 and life.clock < 300:
        life.clock += 1
        chance.choice(
            (life.begin, life.cancel, lambda: life.receive(a_frame(chance)), lambda: life.receive(a_frame(chance)))
        )()
    life.end()


def something_honest(chance, checker):
    """What a server may send at this moment, by what the client has said so far."""
    alive = [stream for stream, state in checker.state.items() if state == "open" and stream not in checker.answered]
    whole = [stream for stream in alive if stream in checker.complete]
    match chance.randrange(9):
        case 0:
            sizes = {
                talk.INITIAL_WINDOW_SIZE: chance.choice((0, 1, 100, 65_535, 10**6)),
                talk.MAX_FRAME_SIZE: chance.choice((16_384, 50_000)),
            }
            sizes |= {
                talk.MAX_CONCURRENT_STREAMS: chance.choice((0, 1, 3, 100)),
                talk.HEADER_TABLE_SIZE: chance.choice((0, 100, 4096)),
            }
            return talk.settings(dict(chance.sample(sorted(sizes.items()), 2)))
        case 1:
            return talk.frame(talk.PING, 0, 0, chance.randbytes(8))
        case 2 | 3:
            return talk.window(0, chance.choice((1, 1_000, 100_000)))
        case 4 | 5 if alive:
            return talk.window(chance.choice(alive), chance.choice((1, 1_000, 100_000)))
        case 6 if alive:
            return talk.reset(chance.choice(alive), chance.choice((talk.REFUSED_STREAM, talk.CANCEL)))
        case 7 if alive:
            return talk.answer(chance.choice(alive), b"before the request was read")
        case 8 if whole:
            return talk.answer(chance.choice(whole), bytes(chance.choice((0, 100, 10_000))))
    return b""


@each_row("seed", range(200), parts=2)
def test_an_honest_server_hears_http2_within_its_limits_and_every_request_whole(seed):
    chance = random.Random(seed)
    life = Life(chance, honest=True)
    life.receive(talk.settings())
    for _ in range(150):
        chance.choice((life.begin, life.cancel, *(lambda: life.receive(something_honest(chance, life.checker)),) * 5))()
        assert not life.gone
    life.receive(
        talk.settings({talk.MAX_CONCURRENT_STREAMS: 1_000, talk.INITIAL_WINDOW_SIZE: 10**6}) + talk.window(0, 10**9)
    )
    sent = set(life.checker.state)
    assert life.waiting_for <= sent, "room for all, and not all were sent"
    for stream in sent:
        whole = stream in life.checker.complete
        assert whole or stream not in life.waiting_for, "windows for all, and not all were sent"
        assert (
            life.checker.requests[stream] == life.requests[stream]
            if whole
            else life.requests[stream].startswith(life.checker.requests[stream])
        )
    assert not life.checker.unacknowledged
    assert not life.checker.pings
    life.receive(b"".join(talk.answer(stream) for stream in sorted(life.waiting_for)))
    assert not life.waiting_for
    life.end()


@each_row("seed", range(30))
def test_header_blocks_of_any_bytes_read_as_hpack_reads_them_or_not_at_all(seed):
    chance = random.Random(seed)
    ours, theirs = AnswerHeadersDecoder(100_000), hpack.Decoder(100_000)
    for _ in range(200):
        block = (
            a_block(chance)
            if chance.random() < 0.5
            else bytes(chance.choices((0x80, 0x88, 0x40, 0, 1, 2, 0x61, 0xBE, 0x20), k=chance.randint(0, 9)))
        )
        try:
            found = ours.decode(block)
        except BrokenConnection:
            ours, theirs = AnswerHeadersDecoder(100_000), hpack.Decoder(100_000)
        else:
            said = dict(theirs.decode(block, raw=True))
            assert (found.http_status, found.grpc_status) == (said.get(b":status"), said.get(b"grpc-status"))
