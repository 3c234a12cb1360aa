"""What an answer means: gRPC's rules for unary calls, by grpc-go's tables."""

from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.events import Answered
from mooring.wire.grpc.stream import MESSAGE_BYTES_MAX
from tests.support.rows import each_row
from tests.unit.wire.grpc import talk
from tests.unit.wire.grpc.talk import a_call, a_connection

GRPC = [("content-type", "application/grpc")]
BEGUN = talk.headers(1, talk.OK_HEADERS)
GOOD_END = talk.headers(1, talk.OK_TRAILERS, end=True)


def ended(*received):
    """The one event of a call that got these frames, and what the client sent then."""
    connection = a_connection()
    assert a_call(connection) == 1
    (answered,) = connection.receive(b"".join(received))
    assert isinstance(answered, Answered)
    assert connection.in_flight == 0
    return answered, connection.to_send()


def trailers(*fields, end=True):
    return talk.headers(1, list(fields), end=end)


def trailers_only(*fields):
    return talk.headers(1, [*talk.OK_HEADERS, *fields], end=True)


GOOD = {
    "a message in one frame": (b"hello", [talk.data(1, talk.message(b"hello"))]),
    "an empty message": (b"", [talk.data(1, talk.message(b""))]),
    "byte by byte": (b"hello", [talk.data(1, bytes((byte,))) for byte in talk.message(b"hello")]),
    "the prefix by itself": (b"hello", [talk.data(1, talk.message(b"hello")[:5]), talk.data(1, b"hello")]),
    "an empty frame before": (b"hello", [talk.data(1, b""), talk.data(1, talk.message(b"hello"))]),
    "zeros": (bytes(300), [talk.data(1, talk.message(bytes(300))[:150]), talk.data(1, talk.message(bytes(300))[150:])]),
}


@each_row("what", GOOD)
def test_a_message_however_it_comes(what):
    payload, frames = GOOD[what]
    answered, sent = ended(BEGUN, *frames, GOOD_END)
    assert answered == Answered(1, Code.OK, "", payload)
    assert type(answered.payload) is bytes
    assert sent == b""


@each_row("kind", ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"])
def test_a_content_type_of_grpcs(kind):
    begun = talk.headers(1, [(":status", "200"), ("content-type", kind)])
    answered, _ = ended(begun, talk.data(1, talk.message(b"x")), GOOD_END)
    assert answered.code == Code.OK


def test_an_informal_answer_before_the_answer():
    answered, _ = ended(talk.headers(1, [(":status", "103"), ("link", "x")]), talk.answer(1, b"x"))
    assert answered == Answered(1, Code.OK, "", b"x")


def test_the_http_status_of_a_grpc_answer_means_nothing():
    """As in grpc-go."""
    answered, _ = ended(
        talk.headers(1, [(":status", "503"), *GRPC, ("grpc-status", "5"), ("grpc-message", "gone")], end=True)
    )
    assert answered == Answered(1, Code.NOT_FOUND, "gone")


# -- the driver's own status

STATUS = {
    "5": (Code.NOT_FOUND, False),
    "05": (Code.NOT_FOUND, False),
    "16": (Code.UNAUTHENTICATED, False),
    "77": (77, False),
    "999999999": (999_999_999, False),
    "abc": (Code.UNKNOWN, True),
    "": (Code.UNKNOWN, True),
    "-1": (Code.UNKNOWN, True),
    "5 ": (Code.UNKNOWN, True),
    "9" * 10: (Code.UNKNOWN, True),
    "9" * 100: (Code.UNKNOWN, True),
}


@each_row("status", STATUS)
@each_row("shape", ["trailers-only", "headers-and-trailers", "with-a-message"])
def test_a_status(status, shape):
    """What is no number may have been OK."""
    code, answered = STATUS[status]
    fields = [("grpc-status", status), ("grpc-message", "why")]
    frames = [trailers_only(*fields)] if shape == "trailers-only" else [BEGUN, trailers(*fields)]
    if shape == "with-a-message":
        frames.insert(1, talk.data(1, talk.message(b"a message that nobody reads")))
    found, sent = ended(*frames)
    assert (found.code, found.answered, found.payload, found.unsent) == (code, answered, None, False)
    assert ("why" in found.text) is not answered
    assert sent == b""


def test_an_error_counts_though_the_message_broke_off():
    """grpc-go says Internal: the driver's own code says more."""
    found, _ = ended(
        BEGUN, talk.data(1, talk.message(b"hello")[:7]), trailers(("grpc-status", "8"), ("grpc-message", "full"))
    )
    assert found == Answered(1, Code.RESOURCE_EXHAUSTED, "full")


TEXTS = {
    b"plain": "plain",
    b"": "",
    b"a%20b%41": "a bA",
    b"%C3%A4%e2%82%ac": "ä€",
    "ä€".encode(): "ä€",
    b"100% %zz %4 %": "100% %zz %4 %",
    b"%25%32%35": "%25",
    b"caf\xe9 \xff": "café ÿ",
    b"%FF%FE": "ÿþ",
    b"two%0Alines": "two\nlines",
}


@each_row("raw", TEXTS)
def test_a_text(raw):
    fields = talk.block([*talk.OK_HEADERS, ("grpc-status", "2")]) + talk.literal(b"grpc-message", raw)
    found, _ = ended(talk.frame(talk.HEADERS, talk.END_HEADERS | talk.END_STREAM, 1, fields))
    assert found == Answered(1, Code.UNKNOWN, TEXTS[raw])


# -- answers that can't be read

UNREADABLE = {
    "no message": ([BEGUN, GOOD_END], "the driver answered OK without a message"),
    "no message in trailers only": ([trailers_only(("grpc-status", "0"))], "the driver answered OK without a message"),
    "half a prefix": ([BEGUN, talk.data(1, b"\0\0\0"), GOOD_END], "unexpected EOF"),
    "half a message": ([BEGUN, talk.data(1, talk.message(b"hello")[:9]), GOOD_END], "unexpected EOF"),
    "compressed": ([BEGUN, talk.data(1, talk.message(b"x", 1)), GOOD_END], "compressed (nobody knows how)"),
    "compressed by gzip": (
        [talk.headers(1, [*talk.OK_HEADERS, ("grpc-encoding", "gzip")]), talk.data(1, talk.message(b"x", 1)), GOOD_END],
        "compressed (gzip)",
    ),
    "a flag of no list": ([BEGUN, talk.data(1, talk.message(b"x", 2)), GOOD_END], "unexpected payload format 2"),
}


@each_row("what", UNREADABLE)
def test_OK_with_what_cannot_be_read_may_have_happened(what):
    frames, text = UNREADABLE[what]
    found, sent = ended(*frames)
    assert (found.code, found.payload, found.answered, sent) == (Code.INTERNAL, None, True, b"")
    assert text in found.text


CUT_SHORT = {
    "two messages": (
        [BEGUN, talk.data(1, talk.message(b"a") + talk.message(b"b"))],
        "more than one message",
        talk.CANCEL,
    ),
    "two messages in two frames": (
        [BEGUN, talk.data(1, talk.message(b"a")), talk.data(1, talk.message(b"b"))],
        "more than one message",
        talk.CANCEL,
    ),
    "no trailers": (
        [BEGUN, talk.data(1, talk.message(b"a"), end=True)],
        "without sending trailers",
        talk.PROTOCOL_ERROR,
    ),
    "no trailers, and nothing else": (
        [BEGUN, talk.data(1, b"", end=True)],
        "without sending trailers",
        talk.PROTOCOL_ERROR,
    ),
}


@each_row("what", CUT_SHORT)
def test_an_answer_against_the_rules_is_ended_at_once_and_may_have_happened(what):
    frames, text, reset = CUT_SHORT[what]
    found, sent = ended(*frames)
    assert (found.code, found.payload, found.answered) == (Code.INTERNAL, None, True)
    assert text in found.text
    assert sent == talk.reset(1, reset)


def test_no_status_is_unknown():
    found, _ = ended(BEGUN, talk.data(1, talk.message(b"x")), trailers(("date", "today")))
    assert found == Answered(1, Code.UNKNOWN, "", answered=True)


def test_a_message_is_refused_by_its_prefix_when_it_will_be_too_long():
    """Not one byte of it has to come for that."""
    long = (MESSAGE_BYTES_MAX + 1).to_bytes(4)
    found, sent = ended(BEGUN, talk.data(1, b"\0" + long))
    text = f"grpc: received message larger than max ({MESSAGE_BYTES_MAX + 1} vs. {MESSAGE_BYTES_MAX})"
    assert found == Answered(1, Code.RESOURCE_EXHAUSTED, text, answered=True)
    assert sent == talk.reset(1, talk.CANCEL)


# -- answers of HTTP alone

HTTP = {
    "400": Code.INTERNAL,
    "401": Code.UNAUTHENTICATED,
    "403": Code.PERMISSION_DENIED,
    "404": Code.UNIMPLEMENTED,
    "429": Code.UNAVAILABLE,
    "502": Code.UNAVAILABLE,
    "503": Code.UNAVAILABLE,
    "504": Code.UNAVAILABLE,
    "200": Code.UNKNOWN,
    "500": Code.UNKNOWN,
    "999": Code.UNKNOWN,
}


@each_row("status", HTTP)
@each_row("end", [False, True])
def test_an_http_status_without_grpc(status, end):
    found, sent = ended(talk.headers(1, [(":status", status), ("content-type", "text/html")], end=end))
    assert (found.code, found.answered) == (HTTP[status], not status.startswith("4")), (
        "whoever refuses the request has done nothing"
    )
    assert found.text.startswith(f"unexpected HTTP status code received from server: {status} (")
    assert "'text/html'" in found.text
    assert sent == (b"" if end else talk.reset(1, talk.PROTOCOL_ERROR))


@each_row("kind", ["application/grpcx", "application/json", "Application/grpc", ""])
def test_a_content_type_that_is_not_grpcs(kind):
    found, _ = ended(talk.headers(1, [(":status", "200"), ("content-type", kind), ("grpc-status", "0")], end=True))
    assert found.code == Code.UNKNOWN
    assert f"not gRPC's: {kind!r}" in found.text


def test_no_content_type():
    found, _ = ended(talk.headers(1, [(":status", "404")], end=True))
    assert found == Answered(
        1,
        Code.UNIMPLEMENTED,
        "unexpected HTTP status code received from server: 404 (Not Found); its content-type is missing",
    )


@each_row("fields", [[], [(":status", "")], [(":status", "20")], [(":status", "2000")], [(":status", "+20")]])
def test_no_http_status_either(fields):
    found, _ = ended(talk.headers(1, fields))
    assert (found.code, found.text, found.answered) == (Code.INTERNAL, "malformed header: missing HTTP status", True)


def test_the_first_of_two_answers_and_no_second():
    found, _ = ended(talk.headers(1, [(":status", "100")], end=True))
    assert found.code == Code.INTERNAL
    assert "only the first of two" in found.text


# -- RST_STREAM

RESETS = {
    talk.NO_ERROR: ("NO_ERROR", Code.INTERNAL),
    talk.PROTOCOL_ERROR: ("PROTOCOL_ERROR", Code.INTERNAL),
    talk.INTERNAL_ERROR: ("INTERNAL_ERROR", Code.INTERNAL),
    talk.FLOW_CONTROL_ERROR: ("FLOW_CONTROL_ERROR", Code.RESOURCE_EXHAUSTED),
    talk.SETTINGS_TIMEOUT: ("SETTINGS_TIMEOUT", Code.INTERNAL),
    talk.STREAM_CLOSED: ("STREAM_CLOSED", Code.INTERNAL),
    talk.FRAME_SIZE_ERROR: ("FRAME_SIZE_ERROR", Code.INTERNAL),
    talk.CANCEL: ("CANCEL", Code.CANCELED),
    talk.COMPRESSION_ERROR: ("COMPRESSION_ERROR", Code.INTERNAL),
    talk.CONNECT_ERROR: ("CONNECT_ERROR", Code.INTERNAL),
    talk.ENHANCE_YOUR_CALM: ("ENHANCE_YOUR_CALM", Code.RESOURCE_EXHAUSTED),
    0xC: ("INADEQUATE_SECURITY", Code.PERMISSION_DENIED),
    0xD: ("HTTP_1_1_REQUIRED", Code.INTERNAL),
    0x99: ("0x99", Code.UNKNOWN),
}


@each_row("error", RESETS)
@each_row("before", [b"", BEGUN, BEGUN + talk.data(1, b"\0\0")], ids=["first", "begun", "half"])
def test_a_reset_stream_may_have_happened(error, before):
    name, code = RESETS[error]
    found, sent = ended(before, talk.reset(1, error))
    assert found == Answered(1, code, f"stream terminated by RST_STREAM with error code: {name}", answered=True)
    assert sent == b""


def test_a_refused_stream_has_not_happened():
    found, _ = ended(talk.reset(1, talk.REFUSED_STREAM))
    assert found == Answered(
        1, Code.UNAVAILABLE, "stream terminated by RST_STREAM with error code: REFUSED_STREAM", unsent=True
    )


def test_a_reset_behind_the_whole_answer_changes_nothing():
    """Servers say NO_ERROR so when they don't want the rest of a request."""
    connection = a_connection()
    a_call(connection)
    assert connection.receive(talk.answer(1, b"x") + talk.reset(1, talk.NO_ERROR)) == [Answered(1, Code.OK, "", b"x")]
