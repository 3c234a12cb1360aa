"""The log's two forms, its levels, and that nothing breaks it."""

import contextlib
import enum
import io
import json
import logging
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.meta import Key
from mooring.base import log
from mooring.base.errors import ConfigError
from mooring.base.logform import LineHead, Lines, go_quote, json_line, text_line
from tests.support.rows import each_row

_log = log.logger("mooring.test_log")

KLOG_LINE = re.compile(r"^[IEWF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [\w.-]+:\d+\] \"")


@contextlib.contextmanager
def logged(**how):
    """The lines written meanwhile."""
    stream, lines = io.StringIO(), []
    log.configure(stream=stream, wall_s=lambda: 1700463840.123456, **how)
    try:
        yield lines
    finally:
        log.configure()
        lines.extend(stream.getvalue().splitlines())


def a_head(**changes):
    return LineHead(
        **{"letter": "I", "level": 0, "message": "m", "caller": "a.py:1", "wall_s": 1700463840.123456, "pid": 1}
        | changes
    )


def test_LG04_a_text_line_has_klogs_header():
    shown = text_line(a_head(message="CSI driver name"), {"driver": "csi.example.com"}, None)
    assert re.fullmatch(
        r'I\d{4} \d\d:\d\d:00\.123456       1 a\.py:1\] "CSI driver name" driver="csi\.example\.com"', shown
    ), shown


def test_the_fraction_of_the_second_is_padded_and_the_second_moves_on():
    assert " 07:" not in text_line(a_head(wall_s=0.000007), {}, None)
    assert ":00.000007 " in text_line(a_head(wall_s=0.000007), {}, None)
    assert ":01.500000 " in text_line(a_head(wall_s=1.5), {}, None)


def test_LG04_a_json_line_has_ts_caller_msg_and_v():
    with logged(json=True, verbosity=2) as lines:
        _log.info(2, "Attached", VolumeAttachment="va1")
    (line,) = lines
    record = json.loads(line)
    assert re.fullmatch(r"test_log\.py:\d+", record.pop("caller"))
    assert {"ts": 1700463840123.456, "msg": "Attached", "v": 2, "VolumeAttachment": "va1"} == record


def test_an_error_has_no_level_in_json_and_its_text_in_both_forms():
    with logged(json=True) as lines:
        _log.error("Failed", error=ValueError("no such volume"), driver="d")
    record = json.loads(lines[0])
    assert ("no such volume", "d", False) == (record["err"], record["driver"], "v" in record)
    with logged() as lines:
        _log.error("Failed", error=ValueError("no such volume"), driver="d")
    assert lines[0].startswith("E")
    assert lines[0].endswith('"Failed" err="no such volume" driver="d"')


def test_an_error_without_a_text_shows_its_class():
    assert text_line(a_head(), {}, TimeoutError()).endswith('err="TimeoutError"')


def test_the_caller_is_the_line_that_logs():
    with logged() as lines:
        here = sys._getframe().f_lineno
        _log.info(0, "a")
        _log.warning("b")
        _log.error("c")
        _log.bind(x=1).info(0, "d")
    assert [f"test_log.py:{here + n}" for n in (1, 2, 3, 4)] == [line.split()[3].rstrip("]") for line in lines]


def test_only_levels_up_to_the_verbosity_are_written():
    with logged(verbosity=2) as lines:
        for level in range(5):
            _log.info(level, f"level {level}")
        assert [True, True, True, False, False] == [_log.enabled(level) for level in range(5)]
    assert ["level 0", "level 1", "level 2"] == [line.split('"')[1] for line in lines]


def test_a_logger_made_later_has_the_levels_too():
    with logged(verbosity=3):
        assert log.logger("mooring.never.seen.before").enabled(3)


def test_a_warning_is_of_level_0_in_json():
    with logged(json=True) as lines:
        _log.warning("careful", what="it")
    assert (0, "it") == (json.loads(lines[0])["v"], json.loads(lines[0])["what"])


def test_a_disabled_line_renders_nothing():
    class Loud:
        def __str__(self):
            raise AssertionError("it was rendered")

    with logged(verbosity=0) as lines:
        _log.info(1, "quiet", value=Loud())
    assert [] == lines


def test_bound_values_are_on_each_line_and_later_ones_win():
    with logged() as lines:
        bound = _log.bind(driver="d", node="n")
        bound.info(0, "one")
        bound.info(0, "two", node="m")
        _log.info(0, "three")
    assert ['"one" driver="d" node="n"', '"two" driver="d" node="m"', '"three"'] == [
        line.split("] ")[1] for line in lines
    ]


def test_any_name_may_be_a_key():
    with logged() as lines:
        _log.info(0, "x", level=1, message=2, event=3, method_name=4, logger=5)
    assert lines[0].endswith('"x" level=1 message=2 event=3 method_name=4 logger=5')


def test_a_key_that_json_lines_use_themselves_does_not_hide_theirs():
    record = json.loads(json_line(a_head(), {"msg": 1, "ts": 2, "err": 3}, ValueError("why")))
    assert ("m", 1, 2, "why", 3) == (record["msg"], record["msg_"], record["ts_"], record["err"], record["err_"])


class Colour(enum.Enum):
    RED = 1


@each_row(
    ("value", "text"),
    [
        (True, "true"),
        (None, "null"),
        (3, "3"),
        (1.5, "1.5"),
        (15.0, "15"),
        (float("nan"), '"NaN"'),
        (float("inf"), '"+Inf"'),
        (float("-inf"), '"-Inf"'),
        ("a b", '"a b"'),
        (b"raw", '"raw"'),
        (["a", 1, None], '["a",1,null]'),
        (("a",), '["a"]'),
        (frozenset({"b", "a"}), '["a","b"]'),
        ({"a": {"b": 2}}, '{"a":{"b":2}}'),
        ({"name": "x"}, '{"name":"x"}'),
        (Key("ns", "web-0"), '"ns/web-0"'),
        (Key("", "pv-1"), '"pv-1"'),
        (Colour.RED, '"RED"'),
        (ValueError("no"), '"no"'),
    ],
)
def test_a_value_looks_as_klog_shows_it(value, text):
    assert text_line(a_head(), {"k": value}, None).endswith(f'] "m" k={text}')


def test_a_reference_is_an_object_in_json():
    assert {"name": "web-0", "namespace": "ns"} == json.loads(json_line(a_head(), {"k": Key("ns", "web-0")}, None))["k"]


@each_row(
    ("text", "quoted"),
    [
        ("plain", '"plain"'),
        ('say "hi"', r'"say \"hi\""'),
        ("a\\b", r'"a\\b"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\x00\x1b\x7f", r'"\x00\x1b\x7f"'),
        ("\x85\u2028", r'"\u0085\u2028"'),
        ("naïve 日本 🙂", '"naïve 日本 🙂"'),
        ("\U000e0001", r'"\U000e0001"'),
        (b"a\xff".decode("utf-8", "surrogateescape"), r'"a\xff"'),
        ("\ud800", r'"\ufffd"'),
    ],
)
def test_strings_are_quoted_as_go_quotes_them(text, quoted):
    assert quoted == go_quote(text)


class Broken:
    def __str__(self):
        raise RuntimeError("no text")

    @property
    def name(self):
        raise RuntimeError("no name either")


def endless():
    loop = []
    loop.append(loop)
    return loop


@each_row(
    "value",
    [Broken(), endless(), {"k": Broken()}, [Broken()], object()],
    ids=["str", "endless", "in-a-map", "in-a-list", "plain"],
)
def test_a_value_that_cannot_be_shown_does_not_break_the_line(value):
    shown = text_line(a_head(), {"k": value, "next": 1}, None)
    assert shown.endswith(" next=1")
    assert json.loads(json_line(a_head(), {"k": value, "next": 1}, None))["next"] == 1


def test_an_error_that_cannot_be_shown_does_not_break_the_line():
    class Worse(Exception):
        def __str__(self):
            raise RuntimeError

    assert "RuntimeError" in text_line(a_head(), {}, Worse())


@given(
    st.dictionaries(
        st.text(), st.one_of(st.text(), st.binary(), st.floats(), st.integers(), st.none(), st.lists(st.text()))
    ),
    st.text(),
)
def test_a_record_is_always_one_line(values, message):
    shown = text_line(a_head(message=message), values, None)
    assert [shown] == shown.splitlines()
    assert KLOG_LINE.match(shown)
    record = json_line(a_head(message=message), values, None)
    assert [record] == record.splitlines()
    assert json.loads(record)["msg"] == message


def test_lines_are_shown_as_lines_and_never_as_a_record_of_their_own():
    text = Lines('first "a\\b"\nE1120 07:04:00.123456       1 x.py:1] "forged"\n\tthird\x1b[31m\r\u2028\n')
    head, *lines, last = text_line(a_head(), {"before": 1, "k": text, "after": 2}, None).split("\n")
    assert head.endswith('] "m" before=1 k=<')
    assert [
        '\tfirst "a\\b"',
        '\tE1120 07:04:00.123456       1 x.py:1] "forged"',
        "\t\tthird\\x1b[31m\\r\\u2028",
    ] == lines
    assert " > after=2" == last
    record = json_line(a_head(), {"k": text}, None)
    assert [record] == record.splitlines()
    assert text == json.loads(record)["k"]


def test_nothing_reaches_stdout(capsys):
    log.configure(verbosity=9)
    _log.info(0, "a")
    _log.error("b")
    log.configure()
    captured = capsys.readouterr()
    assert "" == captured.out
    assert 2 == len(captured.err.splitlines())


def test_a_stream_that_is_gone_is_no_error():
    stream = io.StringIO()
    log.configure(stream=stream)
    stream.close()
    _log.info(0, "nobody listens")
    log.configure()


def test_vmodule_raises_single_files_by_pattern():
    queue, informer, other = (
        log.logger("mooring.control.queue"),
        log.logger("mooring.kube.cache.informer"),
        log.logger("mooring.csi.grpc"),
    )
    with logged(verbosity=2, vmodule="qu*=4,informer=1,,inf*=9"):
        assert (True, False) == (queue.enabled(4), queue.enabled(5))
        assert (True, False) == (informer.enabled(2), informer.enabled(3)), (
            "never lower than -v; the first match counts"
        )
        assert (True, False) == (other.enabled(2), other.enabled(3))
    assert not queue.enabled(1)


def test_vmodule_is_for_the_text_form_alone():
    with logged(json=True, vmodule="test_log=9"):
        assert not _log.enabled(1)


@each_row("text", ["queue", "queue=", "=4", "queue=x", "queue=-1", "queue=٣"])
def test_a_vmodule_that_cannot_be_read_is_refused(text):
    with pytest.raises(ConfigError, match="pattern=N") as refusal:
        log.configure(vmodule=text)
    assert refusal.value.exit_code == 2


def test_handlers_of_others_see_each_line_with_its_values(caplog):
    with caplog.at_level(logging.INFO - 2, logger="mooring"):
        _log.bind(node="n1").info(2, "Attached", VolumeAttachment="va1")
        _log.info(3, "too deep")
        _log.error("Failed", error=ValueError("no such volume"))
    assert ['Attached node="n1" VolumeAttachment="va1"', 'Failed err="no such volume"'] == caplog.messages
    first, second = caplog.records
    assert (2, "INFO - 2", {"node": "n1", "VolumeAttachment": "va1"}) == (
        first.verbosity,
        f"INFO - {logging.INFO - first.levelno}",
        first.values,
    )
    assert ("ERROR", "no such volume") == (second.levelname, str(second.error))


def test_what_other_libraries_log_stays_out_of_our_log():
    """It may show a request, and so a secret."""
    with logged() as lines:
        logging.getLogger("somebody.else").error("careful with %s", "this")
    assert [] == lines


@pytest.mark.slow
def test_a_library_that_nobody_configured_writes_warnings_alone():
    code = (
        "from mooring.base.log import logger; log = logger('mooring.x'); log.info(0, 'hello'); "
        "log.warning('careful', node='n1')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ("", 'careful node="n1"\n') == (done.stdout, done.stderr)


def test_texts_within_collections_turn_no_line_round():
    """Nor in JSON, which a terminal shows as it shows any text."""
    for json_form in (False, True):
        with logged(json=json_form) as lines:
            _log.info(0, "Told", given=["a\u202eb\U000e0041\x9bc\u00fc"])
        assert '["a\\u202eb\\udb40\\udc41\\u009bc\u00fc"]' in lines[0]
