"""Header blocks: ours as hpack reads them, those of answers as hpack reads them, and what hpack has no bound for."""

import random
import tracemalloc

import hpack
import pytest

from mooring.wire.grpc.answer_headers import AnswerHeaders, AnswerHeadersDecoder
from mooring.wire.grpc.connection import HEADER_BYTES_MAX
from mooring.wire.grpc.frames import BrokenConnection, ErrorCode
from mooring.wire.grpc.request_headers import RequestHeaders, grpc_timeout
from tests.support.rows import each_row
from tests.unit.wire.grpc import talk
from tests.unit.wire.grpc.talk import a_call, a_connection

CUT = (
    b"\x88"
    + talk.block([("content-type", "application/grpc"), ("grpc-message", "x")])
    + b"\x40\x01a\x81\x1f"
    + b"\x5f\x03abc"
)


def a_decoder(bytes_max=HEADER_BYTES_MAX):
    return AnswerHeadersDecoder(bytes_max)


# -- grpc-timeout

UNITS_NS = {"n": 1, "u": 10**3, "m": 10**6, "S": 10**9, "M": 60 * 10**9, "H": 3600 * 10**9}


@each_row(
    ("timeout_s", "said"),
    [
        (15.0, "15000000u"),
        (0.05, "50000000n"),
        (0.1, "100000u"),
        (99.999999, "99999999u"),
        (100.0, "100000m"),
        (600.0, "600000m"),
        (86_400.0, "86400000m"),
        (100_000.0, "100000S"),
        (1e-12, "1n"),
        (99_999_999.0, "99999999S"),
        (1e9, "277777H"),
        (1e300, "99999999H"),
        (float("inf"), "99999999H"),
    ],
)
def test_a_deadline_as_the_driver_hears_it(timeout_s, said):
    assert grpc_timeout(timeout_s).decode() == said


def test_a_deadline_is_never_later_and_hardly_earlier():
    chance = random.Random(3)
    for _ in range(20_000):
        timeout_s = 10 ** chance.uniform(-8, 7.9)
        said = grpc_timeout(timeout_s).decode()
        assert len(said) <= 9
        told_s = int(said[:-1]) * UNITS_NS[said[-1]] / 1e9
        assert told_s <= timeout_s * (1 + 1e-12)
        assert told_s > timeout_s * 0.99999 - 1e-9


# -- ours


def test_our_blocks_are_the_same_for_every_decoder_whatever_came_before():
    headers, decoder = RequestHeaders(user_agent="grpc-mooring", authority="localhost"), hpack.Decoder()
    for path in ("/a.B/C", "/d.E/F", "/a.B/C", "/" + "x" * 300):
        for timeout_s in (1.0, 15.0, 1.0):
            fields = [(str(name), str(value)) for name, value in decoder.decode(headers.block(path, timeout_s))]
            assert fields == [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", path),
                (":authority", "localhost"),
                ("content-type", "application/grpc"),
                ("user-agent", "grpc-mooring"),
                ("te", "trailers"),
                ("grpc-timeout", grpc_timeout(timeout_s).decode()),
            ]
    assert not decoder.header_table.dynamic_entries


def test_blocks_are_remembered_up_to_a_bound():
    headers = RequestHeaders(user_agent="a", authority="b")
    assert headers.block("/a.B/C", 1.5) is headers.block("/a.B/C", 1.5)
    for number in range(1_000):
        headers.block("/a.B/C", 1.0 + number)
    assert len(headers._kept) <= 256


def test_a_server_that_makes_its_table_smaller_hears_that_we_use_none():
    """A decoder may insist: hpack's does."""
    connection = a_connection({talk.HEADER_TABLE_SIZE: 100})
    decoder = hpack.Decoder()
    decoder.max_allowed_table_size = 100
    for said, first in ((None, b"\x20"), (None, b"\x83"), (4096, b"\x83"), (0, b"\x20"), (None, b"\x83")):
        if said is not None:
            connection.receive(talk.settings({talk.HEADER_TABLE_SIZE: said}))
            connection.to_send()
            decoder.max_allowed_table_size = said
        connection.begin(talk.PATH, b"", 1.0)
        sent = talk.frames_in(connection.to_send())
        assert sent[0].payload[:1] == first
        assert talk.fields_in(sent, decoder)[0] == (":method", "POST")


# -- those of answers


def test_the_fields_that_grpc_reads():
    fields = [*talk.OK_HEADERS, ("grpc-encoding", "gzip"), ("grpc-status", "5"), ("grpc-message", "why"), ("x", "y")]
    assert a_decoder().decode(talk.block(fields)) == AnswerHeaders(b"200", b"application/grpc", b"gzip", b"5", b"why")


def test_blocks_read_as_hpack_reads_them_in_whatever_order_they_come():
    """Blocks that change the table, and remembered ones whose meaning changes with it."""
    chance = random.Random(11)
    ours, theirs, encoder = a_decoder(), hpack.Decoder(), hpack.Encoder()
    repeated = 0
    for turn in range(1_500):
        values = ["0", "5", "a text"] if turn % 100 else ["x" * 2_000, "y" * 900]  # which push others out of the table
        if chance.random() < 0.02:
            encoder.header_table_size = chance.choice([0, 60, 200, 4096])
        fields = [
            ("grpc-status", chance.choice(values)),
            ("grpc-message", chance.choice(values)),
            ("x-id", chance.choice(values)),
        ]
        chosen = chance.sample(fields, chance.randint(1, 3))
        encoded = encoder.encode(chosen, huffman=chance.random() < 0.5)
        repeated += encoded in ours._kept
        said = dict(theirs.decode(encoded, raw=True))
        found = ours.decode(encoded)
        assert (found.grpc_status, found.grpc_message, found.wrong) == (
            said.get(b"grpc-status"),
            said.get(b"grpc-message", b""),
            "",
        )
    assert repeated > 100


def test_a_remembered_block_is_forgotten_when_the_table_changes():
    decoder = a_decoder()
    decoder.decode(talk.literal(b"grpc-status", b"1", 0x40))
    assert decoder.decode(b"\xbe").grpc_status == decoder.decode(b"\xbe").grpc_status == b"1"
    decoder.decode(talk.literal(b"grpc-status", b"2", 0x40))
    assert decoder.decode(b"\xbe").grpc_status == b"2"
    decoder.decode(b"\x20")
    with pytest.raises(BrokenConnection):
        decoder.decode(b"\xbe")


def test_remembered_blocks_are_few_and_short():
    decoder = a_decoder()
    for number in range(1_000):
        decoder.decode(talk.block([("x", str(number))]))
    assert len(decoder._kept) <= 256
    decoder.decode(talk.block([("x", "y" * 120)] * 3))
    assert max(map(len, decoder._kept)) <= 256


def test_long_blocks_read_as_hpack_reads_them():
    """They are given to it field by field."""
    chance = random.Random(5)
    ours, theirs, encoder = a_decoder(), hpack.Decoder(), hpack.Encoder()
    for _ in range(50):
        if chance.random() < 0.3:
            encoder.header_table_size = chance.choice([0, 100, 4096])
        text = "".join(chance.choices("abc %\xe4", k=chance.randint(1, 9_000)))
        fields = [
            ("grpc-status", "13"),
            ("grpc-message", text),
            ("x", "y" * chance.randint(1, 3_000)),
            ("grpc-encoding", "z"),
        ]
        encoded = encoder.encode(
            [(name.encode(), value.encode()) for name, value in fields], huffman=chance.random() < 0.5
        )
        said = dict(theirs.decode(encoded, raw=True))
        found = ours.decode(encoded)
        assert (found.grpc_message, found.encoding) == (said[b"grpc-message"], b"z")
    assert ours._decoder.header_table.dynamic_entries == theirs.header_table.dynamic_entries


def test_a_long_block_is_given_to_hpack_field_by_field():
    """hpack 4.2 copies what is left of a block for each field; before, its table's entries kept the whole block
    alive.
    """
    decoder = a_decoder()
    given, decode = [], decoder._decoder.decode
    decoder._decoder.decode = lambda block, raw: given.append(len(block)) or decode(block, raw=raw)
    fields = [talk.literal(b"x%d" % number, b"y", 0x40) for number in range(1_000)]
    decoder.decode(b"".join(fields))
    assert given == [len(field) for field in fields]
    held = [
        view.nbytes if isinstance(view, memoryview) else len(view)
        for one in decoder._decoder.header_table.dynamic_entries
        for view in one
    ]
    assert 10 < sum(held) <= 4096


def _length(number):
    """As HPACK writes it behind seven set bits, which stand before."""
    number, out = number - 127, b""
    while number >= 128:
        out, number = out + bytes((number % 128 + 128,)), number // 128
    return out + bytes((number,))


def test_text_within_the_bound_comes_through_and_more_ends_the_connection():
    """As one field in many frames."""
    room = HEADER_BYTES_MAX - 3 * 32 - len("grpc-messagegrpc-status2content-typeapplication/grpc")
    for size, fits in ((room, True), (room + 1, False)):
        value = b"v" * size
        whole = talk.literal(b"content-type", b"application/grpc") + talk.literal(b"grpc-status", b"2")
        whole += b"\x00\x0cgrpc-message\x7f" + _length(size) + value
        decoder = a_decoder()
        if fits:
            assert decoder.decode(whole).grpc_message == value
        else:
            with pytest.raises(BrokenConnection) as broken:
                decoder.decode(whole)
            assert broken.value.code == ErrorCode.ENHANCE_YOUR_CALM


@each_row("field", [b"\x88", b"\x00\x01k\x00", b"\x40\x01k\x00"])
def test_fifty_thousand_fields_are_refused_before_any_is_read(field, monkeypatch):
    """Each takes microseconds, of which a block of them would take a second."""
    decoder = a_decoder()
    monkeypatch.setattr(hpack.Decoder, "decode", None)
    with pytest.raises(BrokenConnection, match="headers") as broken:
        decoder.decode(field * 50_000)
    assert broken.value.code == ErrorCode.ENHANCE_YOUR_CALM


@each_row("filler", [0, 5_000])
def test_a_small_block_that_stands_for_much_ends_the_connection(filler):
    """An entry of 4,000 bytes, named a million times; `filler` makes the block one that is read field by field."""
    decoder = a_decoder(100_000)
    decoder.decode(b"\x40\x01x\x7f" + _length(4_000) + b"v" * 4_000)
    with pytest.raises(BrokenConnection, match="more than 100000 bytes of headers") as broken:
        decoder.decode(b"\xbe" * (30 + filler))
    assert broken.value.code == ErrorCode.ENHANCE_YOUR_CALM


def test_a_block_of_more_fields_than_can_fit_is_refused_before_they_are_counted():
    """A field takes a byte of the block; a list of where each begins takes forty times as much."""
    decoder, block = a_decoder(100_000), b"\x88" * 1_000_000
    tracemalloc.start()
    try:
        with pytest.raises(BrokenConnection, match="more than 100000 bytes of headers") as broken:
            decoder.decode(block)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert broken.value.code == ErrorCode.ENHANCE_YOUR_CALM
    assert peak_bytes < 1_000_000


def test_as_many_fields_as_fit_come_through_behind_two_changes_of_the_tables_size():
    """The shortest take 32 bytes as HPACK counts, and the changes none."""
    changes, field = b"\x20\x3f\xe1\x1f", b"\x00\x00\x00"
    a_decoder(3_200).decode(changes + 100 * field)
    with pytest.raises(BrokenConnection, match="more than 3200 bytes of headers"):
        a_decoder(3_200).decode(changes + 101 * field)


@each_row("first", [b"\xff", b"\x7f", b"\x1f", b"\x0f", b"\x3f", b"\x00\x7f", b"\x00\x01x\x7f"])
def test_a_number_of_any_length_is_read_no_further(first):
    """hpack would read on, in a time that grows with the square of the length."""
    with pytest.raises(BrokenConnection, match="a number that is too long"):
        a_decoder().decode(first + b"\xff" * 2_000_000)


@each_row("at", range(len(CUT)))
def test_a_block_that_is_cut_off_is_an_error(at):
    starts = {0, 1, 32, 48, 53}  # of its fields
    if at in starts:
        a_decoder().decode(CUT[:at])
    else:
        with pytest.raises(BrokenConnection) as broken:
            a_decoder().decode(CUT[:at])
        assert broken.value.code == ErrorCode.COMPRESSION_ERROR


def test_an_answers_bytes_of_the_second_time_do_not_come_to_hpack():
    """What makes a call cheap."""
    connection = a_connection()
    encoder = hpack.Encoder()

    def an_answer(stream):
        begun = talk.frame(talk.HEADERS, talk.END_HEADERS, stream, encoder.encode(talk.OK_HEADERS))
        ended = talk.frame(talk.HEADERS, talk.END_HEADERS | talk.END_STREAM, stream, encoder.encode(talk.OK_TRAILERS))
        return begun + talk.data(stream, talk.message(b"x")) + ended

    for _ in range(2):
        connection.receive(an_answer(a_call(connection)))
    decoder, asked = connection._reader._decoder, []
    decoder._decoder.decode = lambda block, raw: asked.append(block)
    for _ in range(10):
        (answered,) = connection.receive(an_answer(a_call(connection)))
        assert answered.payload == b"x"
    assert asked == []
    assert 2 <= len(decoder._kept) <= 4
