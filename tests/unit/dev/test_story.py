"""What the screens show of a story."""

from __future__ import annotations

import io
import json

import pytest
from google.protobuf.message import Message

from mooring.base.log import logger
from mooring.base.logform import Lines
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.redact import redacted
from mooring.dev.screen import LiveScreen, PlainScreen, screen_for
from mooring.dev.story import Story, StoryLine, log_told_in
from mooring.dev.summary import LINE_MAX, VALUE_MAX, message_summary, patch_summary
from mooring.driver.guard import CallRecord
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.unit.dev.stepped_clock import StillClock
from tests.unit.driver.calls import a_creation, a_publication

_log = logger("mooring.test_story")


def told(screen_of: type[PlainScreen] | type[LiveScreen] = PlainScreen) -> str:
    """A story with one of everything."""
    stream, clock = io.StringIO(), StillClock()
    with screen_of(stream) as screen:
        story = Story(screen, clock)
        story.title("a story")
        story.step("it begins")
        clock.at += 0.25
        story.wrote("demo", "create nodes/n", 0.002)
        story.wrote("demo", "create nodes/n", 0.002, "AlreadyExists: nodes n exists")
        story.called(CallRecord("Probe", "{}", "{}", None, 0.001))
        story.called(CallRecord("CreateVolume", '{"name":"v"}', "", DriverError(Code.OUT_OF_RANGE, "too big"), 0.001))
        story.checked("it is so")
        story.failed("it is not so")
        story.ended("over")
    assert {"demo": 1} == story.writes
    assert ({"Probe": 1}, {"CreateVolume": 1}) == (story.calls, story.failed_calls)
    return stream.getvalue()


def test_plain_lines() -> None:
    assert told() == "\n".join(
        [
            "a story",
            "",
            " 0.000  it begins",
            " 0.250    demo → API      create nodes/n  (2.0 ms)",
            " 0.250    demo → API      create nodes/n  → failed: AlreadyExists: nodes n exists  (2.0 ms)",
            " 0.250    CSI → driver    Probe  → OK  (1.0 ms)",
            (
                " 0.250    CSI → driver    CreateVolume name=v  → failed: rpc error: code = OutOfRange desc = too "
                "big  (1.0 ms)"
            ),
            " 0.250    ok: it is so",
            "",
            " 0.250  FAILED: it is not so",
            "",
            " 0.250  over",
            "",
        ]
    )


def test_a_live_screen_says_the_same() -> None:
    shown = told(LiveScreen)
    for words in (
        "a story",
        "it begins",
        "demo → API      create nodes/n",
        "CSI → driver    Probe",
        "✓ it is so",
        "✗ it is not so",
        "over",
    ):
        assert words in shown


def test_what_looks_like_markup_is_only_text() -> None:
    stream = io.StringIO()
    with LiveScreen(stream) as screen:
        screen.step(0.0, "[bold]not bold[/nonsense]")
        screen.check(0.0, "[red]")
    assert "[bold]not bold[/nonsense]" in stream.getvalue()
    assert "✓ [red]" in stream.getvalue()


class Cut(io.StringIO):
    """A pipe whose reader goes after the first line."""

    def flush(self) -> None:
        if self.getvalue().count("\n") > 1:
            raise BrokenPipeError


def test_a_reader_who_goes_stops_no_work() -> None:
    """What is told is told in the middle of a call to the driver."""
    stream, gone = Cut(), []
    screen = PlainScreen(stream, gone.append)
    for word in ("one", "two", "three"):
        screen.title(word)
    assert [BrokenPipeError] == [type(one) for one in gone]
    assert "one\ntwo\n" == stream.getvalue()


def test_a_pipe_gets_plain_lines() -> None:
    assert isinstance(screen_for(io.StringIO()), PlainScreen)


VOLUME_ID = "vol-0a1b2c3d-0000-4000-8000-000000000000"
CREATION = "required_bytes=1Gi name=n secrets=***stripped*** volume_capabilities=[mode=SINGLE_NODE_WRITER fs_type=ext4]"
TWO = csi.ListVolumesResponse(entries=[{"volume": {"volume_id": "a"}}, {"volume": {"volume_id": "b"}}])
CAPABILITIES = csi.GetPluginCapabilitiesResponse(
    capabilities=[{"service": {"type": 1}}, {"volume_expansion": {"type": 1}}]
)


@each_row(
    ("message", "summary"),
    [
        (csi.ProbeRequest(), ""),
        (
            a_publication(VOLUME_ID),
            "node_id=node-1 mode=SINGLE_NODE_WRITER fs_type=ext4 volume_id=vol-0a1b2c3d-0000-4000-8000-000000000000",
        ),
        (a_creation("n", secrets={"password": "canary"}), CREATION),
        (csi.ControllerPublishVolumeResponse(publish_context={"path": "/dev/a b"}), 'path="/dev/a b"'),
        (csi.ControllerGetVolumeResponse(status={"volume_condition": {"message": "well"}}), ""),
        (
            csi.ControllerGetVolumeResponse(status={"volume_condition": {"abnormal": True, "message": "gone"}}),
            "abnormal=true message=gone",
        ),
        (TWO, "entries=[volume_id=a, volume_id=b]"),
        (CAPABILITIES, "capabilities=[CONTROLLER_SERVICE, ONLINE]"),
    ],
)
def test_messages_in_a_few_words(message: Message, summary: str) -> None:
    assert summary == message_summary(redacted(message))


def test_patches_in_a_few_words() -> None:
    assert "status.attached=true status.attachError=null" == patch_summary(
        {"status": {"attached": True, "attachError": None}}
    )
    assert 'finalizers=["a"]' == patch_summary({"metadata": {"finalizers": ["a"]}})
    steps = [
        {"op": "test", "path": "/a", "value": 1},
        {"op": "add", "path": "/b", "value": "c"},
        {"op": "remove", "path": "/d"},
    ]
    assert "add /b c, remove /d" == patch_summary(steps)


def test_a_line_stays_a_line() -> None:
    text = message_summary(json.dumps({"name": "x" * 500}))
    assert f"name={'x' * (VALUE_MAX - 1)}…" == text
    many = {f"key-{number}": "x" * 50 for number in range(100)}
    text = message_summary(json.dumps({"volume_context": many}))
    assert text.startswith("key-0=x")
    assert text.endswith(" …")
    assert len(text) < LINE_MAX + 10


def test_ids_are_never_cut() -> None:
    """Somebody may want to paste one."""
    long, many = "vol-" + "x" * 200, {f"key-{number}": "x" * 50 for number in range(100)}
    assert message_summary(json.dumps({"context": many, "volume_id": long})).endswith(f" volume_id={long} …")
    assert f"add /annotations/example.com~1node-id {long}" == patch_summary(
        [{"op": "add", "path": "/annotations/example.com~1node-id", "value": long}]
    )


def test_of_long_lists_the_first_are_shown() -> None:
    entries = [{"volume_id": str(number)} for number in range(7)]
    assert message_summary(json.dumps({"entries": entries})) == (
        "entries=[volume_id=0, volume_id=1, volume_id=2, volume_id=3, volume_id=4] and 2 more"
    )
    assert 'node_ids=["0", "1", "2", "3", "4"] and 1 more' == message_summary(
        json.dumps({"node_ids": [str(one) for one in range(6)]})
    )


PATH = f"/a/{'long/' * 20}path"
LONG = (
    "CreateVolume required_bytes=900Ti name=pvc-517839fe volume_capabilities=[mode=SINGLE_NODE_MULTI_WRITER] "
    f"path={PATH}"
)


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@each_row(("screen_of", "width"), [(LiveScreen, 80), (PlainScreen, 80), (LiveScreen, 60)])
def test_on_a_terminal_lines_break_at_words_and_are_indented(
    screen_of: type[PlainScreen] | type[LiveScreen], width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids and paths stay whole: they are pasted."""
    monkeypatch.setenv("COLUMNS", str(width))
    stream = Tty() if screen_of is PlainScreen else io.StringIO()
    with screen_of(stream) as screen:
        screen.happening(StoryLine(0.0, "driver", "CSI", LONG, result="OK", seconds=0.0031))
        screen.check(1.0, LONG)
    first, second = stream.getvalue().split(" 1.000 ")
    indent = 12
    assert first.startswith(" 0.000    CSI → driver    CreateVolume required_bytes=900Ti")
    assert all(line.startswith(" " * indent) and line[indent] != " " for line in first.splitlines()[1:])
    assert all(len(line) < width or 1 == len(line.split()) for line in stream.getvalue().splitlines())
    assert f"path={PATH}\n" in first
    assert "(3.1 ms)\n" in first
    assert LONG.split() == " ".join(second.split()).split()[-len(LONG.split()) :]


def test_a_line_to_paste_is_never_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    line = f"export KUBECONFIG={PATH}"
    for stream, screen_of in ((io.StringIO(), LiveScreen), (Tty(), PlainScreen)):
        with screen_of(stream) as screen:
            screen.title(line)
        assert line in stream.getvalue()


def test_what_nobody_looks_at_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and pipes are searched."""
    monkeypatch.setenv("COLUMNS", "80")
    stream = io.StringIO()
    PlainScreen(stream).happening(StoryLine(0.0, "driver", "CSI", LONG))
    assert 1 == stream.getvalue().count("\n")


def test_log_lines_are_told_in_the_storys_time_and_form() -> None:
    stream, clock = io.StringIO(), StillClock()
    story = Story(PlainScreen(stream), clock)
    clock.at += 13.802
    with log_told_in(story, verbosity=2, vmodule=""):
        _log.info(2, "Serving", driver="d")
        _log.warning('A "quoted" word\nand a line')
        _log.error("It failed", error=ValueError("why"))
        _log.error("The driver failed", traceback=Lines("Traceback:\n\tValueError\n"))
        _log.info(3, "not asked for")
    assert stream.getvalue().splitlines() == [
        '13.802    log             Serving driver="d"',
        '13.802    warning         A "quoted" word\\nand a line',
        '13.802    error           It failed err="why"',
        "13.802    error           The driver failed traceback=<",
        "13.802                        Traceback:",
        "13.802                            ValueError",
        "13.802                     >",
    ]


def test_afterwards_the_log_is_on_stderr_again(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    with log_told_in(Story(PlainScreen(stream), StillClock()), verbosity=0, vmodule=""):
        pass
    _log.info(0, "Later")
    assert "" == stream.getvalue()
    assert '"Later"' in capsys.readouterr().err
