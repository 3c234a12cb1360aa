"""Our client with our server, in one process, cut anywhere and in any order: every call comes to the same end on both
sides.
"""

import random

from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.connection import Connection
from mooring.wire.grpc.events import Answered, Gone, Leaving, Settled
from mooring.wire.grpc.serving.connection import ServerConnection
from mooring.wire.grpc.serving.events import Asked, Dropped
from tests.support.rows import each_row
from tests.unit.wire.grpc import talk
from tests.unit.wire.grpc.checker import ClientChecker

SIZES = (0, 1, 5, 100, 16_379, 16_380, 70_000, 300_000)
ERROR = "no ä such % volume\n"


class Pair:
    """Both halves, and what is on its way between them."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.client, self.server = Connection(now=lambda: 0.0), ServerConnection(now=lambda: 0.0)
        self.to_server, self.to_client = bytearray(self.client.start()), bytearray(self.server.start())
        self.checker = ClientChecker()
        self.seen = bytearray()  # of what came to the client: what the checker was not told yet
        self.requests = {}  # by stream, of those that nobody has cancelled
        self.wanted = {}  # by stream, what the client must hear, from the moment that the server has answered
        self.asked = {}  # by stream, with no answer yet
        self.dropped = set()
        self.ended = {}
        self.gone = []

    def begin(self):
        if self.client.is_open:
            message = self.chance.randbytes(self.chance.choice(SIZES))
            self.requests[self.client.begin(talk.PATH, message, 15.0)] = message

    def cancel(self):
        waiting = sorted(set(self.requests) - set(self.ended))
        if waiting:
            stream = self.chance.choice(waiting)
            del self.requests[stream]
            self.hear_client(self.client.cancel(stream))

    def answer(self):
        if self.asked:
            asked = self.asked.pop(self.chance.choice(sorted(self.asked)))
            if self.chance.random() < 0.2:
                self.wanted[asked.stream_id] = (Code.NOT_FOUND, ERROR, None)
                self.hear_server(self.server.refuse(asked.stream_id, Code.NOT_FOUND, ERROR))
            else:
                message = self.chance.randbytes(self.chance.choice(SIZES))
                self.wanted[asked.stream_id] = (Code.OK, "", message)
                self.hear_server(self.server.answer(asked.stream_id, message))

    def carry(self):
        """Some of what is on its way arrives."""
        size = self.chance.choice((1, 8, 9, 100, 5_000, 70_000, 10**7))
        if self.chance.random() < 0.5:
            sent = self.client.to_send()
            self.checker.heard(sent)
            self.to_server += sent
            piece, self.to_server = bytes(self.to_server[:size]), self.to_server[size:]
            self.hear_server(self.server.receive(piece))
        else:
            self.to_client += self.server.to_send()
            piece, self.to_client = bytes(self.to_client[:size]), self.to_client[size:]
            self.seen += piece
            self.checker.told(self.whole_frames())
            self.hear_client(self.client.receive(piece))

    def whole_frames(self):
        at = 0
        while len(self.seen) - at >= 9 and len(self.seen) - at - 9 >= (size := int.from_bytes(self.seen[at : at + 3])):
            at += 9 + size
        whole, self.seen = bytes(self.seen[:at]), self.seen[at:]
        return whole

    def hear_client(self, events):
        for event in events:
            match event:
                case Answered():
                    assert event.stream_id not in self.ended
                    self.ended[event.stream_id] = (event.code, event.text, event.payload)
                case Gone():
                    self.gone.append(event.text)
                case Settled() | Leaving():
                    pass

    def hear_server(self, events):
        for event in events:
            match event:
                case Asked():
                    assert event.path == talk.PATH
                    assert self.requests.get(event.stream_id, event.message) == event.message
                    self.asked[event.stream_id] = event
                case Dropped(stream_id=stream):
                    assert stream not in self.requests or stream in self.ended or self.gone, "nobody cancelled it"
                    self.dropped.add(stream)
                case Gone():
                    self.gone.append(event.text)

    def settle(self):
        """Everything arrives, and every call is answered."""
        for _ in range(10_000):
            if not (
                self.to_server or self.to_client or self.client.has_to_send or self.server.has_to_send or self.asked
            ):
                return
            self.answer()
            self.carry()
        raise AssertionError("they never come to rest")


@each_row("seed", range(150), parts=2)
def test_every_call_ends_as_the_server_says(seed):
    pair = Pair(seed)
    for _ in range(pair.chance.choice((10, 100, 400))):
        pair.chance.choice(
            (pair.begin, pair.answer, pair.answer, pair.carry, pair.carry, pair.carry, pair.carry, pair.cancel)
        )()
    pair.settle()
    assert pair.gone == []
    assert {stream: pair.ended[stream] for stream in pair.requests} == {
        stream: pair.wanted[stream] for stream in pair.requests
    }
    assert (pair.client.in_flight, len(pair.server._calls)) == (0, 0)


@each_row("seed", range(50))
def test_a_server_that_leaves_answers_what_it_took_and_the_client_says_what_never_came(seed):
    pair = Pair(seed)
    while len(pair.requests) < 10:
        pair.chance.choice((pair.begin, pair.answer, pair.carry, pair.carry, pair.carry))()
    pair.hear_server(pair.server.leave())
    for _ in range(200):
        pair.chance.choice((pair.begin, pair.answer, pair.carry, pair.carry))()
    pair.settle()
    assert len(pair.gone) == 2
    assert set(pair.ended) == set(pair.requests)
    for stream, ended in pair.ended.items():
        assert ended == pair.wanted[stream] if stream in pair.wanted else ended[0] == Code.UNAVAILABLE
