"""Item 30.4: `mooring call --record` asks a driver what a record asked."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import pytest

from mooring.cli import call
from mooring.conform.proxy.proxy import Passed
from mooring.conform.record.lines import Recorder
from mooring.csi.driver import Driver
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.server import serving
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row

CAPABILITY = csi.VolumeCapability(
    mount=csi.VolumeCapability.MountVolume(),
    access_mode=csi.VolumeCapability.AccessMode(mode=csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER),
)
CREATE = csi.CreateVolumeRequest(name="a", volume_capabilities=[CAPABILITY], secrets={"pass": "hunter22"})
CREATED = csi.CreateVolumeResponse(volume=csi.Volume(volume_id="old", capacity_bytes=5, volume_context={"at": "then"}))
PUBLISH = csi.ControllerPublishVolumeRequest(
    volume_id="old", node_id="n", volume_context={"at": "then"}, volume_capability=CAPABILITY
)
PUBLISHED = csi.ControllerPublishVolumeResponse(publish_context={"device": "/dev/a"})
STORY = (
    (Driver.create_volume, CREATE, CREATED, None),
    (Driver.controller_publish_volume, PUBLISH, PUBLISHED, None),
    (
        Driver.delete_volume,
        csi.DeleteVolumeRequest(volume_id="old"),
        None,
        DriverError(Code.FAILED_PRECONDITION, "old is in use"),
    ),
)


class Today:
    """Gives volumes other ids than in the record, and remembers what it is asked."""

    def __init__(self, device: str = "device", code: Code = Code.FAILED_PRECONDITION, size: int = 5) -> None:
        self.asked: list[object] = []
        self._device, self._code, self._size = device, code, size

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        self.asked.append(request)
        context = {"at": "now"}
        return csi.CreateVolumeResponse(
            volume=csi.Volume(volume_id="new", capacity_bytes=self._size, volume_context=context)
        )

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        self.asked.append(request)
        return csi.ControllerPublishVolumeResponse(publish_context={self._device: "/dev/b"})

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        self.asked.append(request)
        raise DriverError(self._code, f"{request.volume_id} is in use")


def a_record(folder: Path) -> Path:
    file = io.StringIO()
    recorder = Recorder(file, "unix:///a")
    for number, (rpc, request, answer, error) in enumerate(STORY, 1):
        recorder.add(Passed(number, rpc.path, rpc, request, answer, error, 0.0, 0.0, None))
    (folder / "record").write_text(file.getvalue())
    return folder / "record"


async def asked_again(folder: Path, record: Path, driver: Today, *flags: str) -> int:
    (folder / "secrets").write_text("pass: hunter22")
    words = [
        f"--record={record}",
        f"--csi-address=unix://{folder}/csi.sock",
        f"--secrets-file={folder}/secrets",
        *flags,
    ]
    async with serving(driver, f"unix://{folder}/csi.sock"):
        return await asyncio.to_thread(call.run, words, "mooring call")


async def test_the_driver_is_asked_the_same_with_its_own_ids_and_the_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = Today()
    code = await asked_again(tmp_path, a_record(tmp_path), driver)
    publish = csi.ControllerPublishVolumeRequest()
    publish.CopyFrom(PUBLISH)
    publish.volume_id, publish.volume_context["at"] = "new", "now"
    assert [CREATE, publish, csi.DeleteVolumeRequest(volume_id="new")] == driver.asked
    out = capsys.readouterr().out
    assert "hunter22" not in out
    assert (0, "0 of 3 calls were answered otherwise than in the record.") == (code, out.splitlines()[-1])


async def test_where_the_answers_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 1 == await asked_again(tmp_path, a_record(tmp_path), Today("disk", Code.INTERNAL, 6))
    out = capsys.readouterr().out
    assert "    volume.capacity_bytes: was 5, is 6\n" in out
    assert "    the keys of publish_context: was 'device', is 'disk'\n" in out
    assert (
        "was rpc error: code = FailedPrecondition desc = old is in use, is rpc error: code = Internal desc = "
        "new is in use\n"
    ) in out
    assert "3 of 3 calls were answered otherwise" in out
    assert 1 == await asked_again(tmp_path, tmp_path / "record", Today("disk"), "-o", "json")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [[], ["the keys of publish_context: was 'device', is 'disk'"], []] == [line["differences"] for line in lines]
    assert "FailedPrecondition" == lines[2]["code"]


def test_secrets_that_nobody_gives_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == call.run([f"--record={a_record(tmp_path)}", "--csi-address=unix:///tmp/none.sock"], "mooring call")
    assert "give them with --secrets-file=FILE" in capsys.readouterr().err


def test_a_file_of_other_bytes_is_no_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_bytes(b"\xff\xfe")
    assert 2 == call.run([f"--record={tmp_path / 'file'}", "--csi-address=unix:///tmp/none.sock"], "mooring call")
    assert "file: is no UTF-8, and no record of calls" in capsys.readouterr().err


@each_row(
    ("flags", "said"),
    [
        (["--csi-address=unix:///a", "GetPluginInfo"], "'GetPluginInfo': --record has the calls; name none"),
        (["--csi-address=unix:///a", "--dry-run"], "record: holds whole requests"),
        (["--csi-address=unix:///a", "-f=a"], "record: holds whole requests"),
        (["--csi-address=unix:///a", "--timeout=0s"], "timeout: must be greater than zero"),
        (["--csi-address=unix:///a"], "can't read /nowhere"),
    ],
)
def test_a_wrong_command_line(flags: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == call.run(["--record=/nowhere", *flags], "mooring call")
    assert said in capsys.readouterr().err
