"""Item 30.4: the proxy's record of calls."""

from __future__ import annotations

import io
import json

import pytest

from mooring.base.errors import ConfigError
from mooring.conform.proxy.faults import Fault, Kind
from mooring.conform.proxy.proxy import Passed
from mooring.conform.record.lines import Recorder, read
from mooring.csi.driver import Driver
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.redact import TOKENS_KEY
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row

STAGE, CREATE = Driver.node_stage_volume, Driver.create_volume
REQUEST = csi.CreateVolumeRequest(
    name="a", secrets={"pass": "hunter22", "user": "me-myself"}, parameters={"type": "fast"}
)
ANSWER = csi.CreateVolumeResponse(volume=csi.Volume(volume_id="v", volume_context={"url": "x?p=hunter22"}))


def passed(
    number: int,
    *,
    answer: csi.CreateVolumeResponse | None = None,
    error: DriverError | None = None,
    reached: bool = True,
) -> Passed:
    return Passed(
        number, CREATE.path, CREATE, REQUEST, answer, error, 100.0 + number, 0.5, Fault(Kind.DROP, "f:1"), reached
    )


def recorded(*calls: Passed) -> str:
    file = io.StringIO()
    recorder = Recorder(file, "unix:///a")
    for call in calls:
        recorder.add(call)
    return file.getvalue()


def test_calls_are_written_without_secrets_and_read_back() -> None:
    refusal = DriverError(Code.ABORTED, "at work, hunter22")
    text = recorded(passed(2, error=refusal), passed(1, answer=ANSWER), passed(3))
    assert "hunter22" not in text
    assert "me-myself" not in text
    first, second, third = read(text.splitlines(), "file")
    assert [1, 2, 3] == [first.number, second.number, third.number], "in the order of their begin"
    assert csi.CreateVolumeRequest(name="a", parameters={"type": "fast"}) == first.request
    assert ("pass", "user") == first.secrets
    assert first.answer is not None
    assert first.answer.volume.volume_id == "v"  # type: ignore[attr-defined]
    assert second.error is not None
    assert (Code.ABORTED, "at work, ***stripped***") == (second.error.code, second.error.message)
    assert (None, None) == (third.answer, third.error)
    line = json.loads(text.splitlines()[2])
    assert (-1.0, "the answer is dropped, after the effect (f:1)") == (line["t"], line["fault"])


def test_tokens_in_a_context_are_left_out() -> None:
    request = csi.NodeStageVolumeRequest(volume_id="v", volume_context={TOKENS_KEY: "hunter22", "a": "b"})
    call = Passed(1, STAGE.path, STAGE, request, csi.NodeStageVolumeResponse(), None, 0.0, 0.0, None)
    text = recorded(call)
    assert "hunter22" not in text
    assert (
        csi.NodeStageVolumeRequest(volume_id="v", volume_context={"a": "b"})
        == read(text.splitlines(), "file")[0].request
    )


def test_unknown_fields_are_left_out() -> None:
    request = csi.CreateVolumeRequest.FromString(REQUEST.SerializeToString() + b"\xc2\x3e\x08hunter22")
    assert "hunter22" not in recorded(Passed(1, CREATE.path, CREATE, request, ANSWER, None, 0.0, 0.0, None))


def test_calls_that_reached_nobody_or_that_nobody_knows_are_not_read() -> None:
    unknown = Passed(1, "/csi.v1.Future/Do", None, None, None, None, 0.0, 0.0, None)
    with pytest.raises(ConfigError, match="holds no call that reached a driver"):
        read(recorded(passed(2, reached=False), unknown).splitlines(), "file")


@each_row(
    ("text", "said"),
    [
        ("", "file: holds no call"),
        ("{}", "file: is no record of calls"),
        ("hello", "file:1: is no line"),
        (
            recorded().replace('"format": 1', '"format": 2'),
            "file: has format 2; this version of mooring reads format 1",
        ),
        (recorded() + "{}", "file:2: is no line"),
        (
            recorded()
            + '{"call": 1, "path": "/csi.v1.Controller/CreateVolume", "reached": true, "request": {"nam": ""}}',
            "did you mean name?",
        ),
    ],
)
def test_a_file_that_is_no_record(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as told:
        read(text.splitlines(), "file")
    assert said in str(told.value)
    assert 2 == told.value.exit_code
