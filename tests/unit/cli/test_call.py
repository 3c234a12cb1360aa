"""Item 30.4: `mooring call` with a driver behind a socket."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest
import yaml

from mooring.api.volume_names import digest
from mooring.cli import call
from mooring.cli import mooring as command
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.dev.by_hand import WHERE, NodePlace, Places
from mooring.dev.power import answering
from mooring.driver.server import serving
from mooring.node.layout import KubeletLayout
from mooring.wire.grpc.codes import Code
from tests.support.folder_driver import FolderDriver
from tests.support.rows import each_row

WRITER = ("volume_capabilities.mount.fs_type=ext4", "volume_capabilities.access_mode.mode=SINGLE_NODE_WRITER")


class Careless:
    """Breaks rules: an id of 129 bytes, secrets in answers and errors."""

    def __init__(self, folder: Path) -> None:
        """As others are made."""

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        context = {"pass": request.secrets["pass"]} if request.secrets else {}
        return csi.CreateVolumeResponse(volume=csi.Volume(volume_id="x" * 129, volume_context=context))

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        raise DriverError(Code.ABORTED, f"at work with {request.secrets['pass']}")


async def typed(folder: Path, *words: str, driver: type[FolderDriver | Careless] = FolderDriver) -> int:
    """The exit code of `mooring call WORDS` with the driver there."""
    async with serving(driver(folder), f"unix://{folder}/csi.sock"):
        return await asyncio.to_thread(call.run, [*words, "--csi-address", f"unix://{folder}/csi.sock"], "mooring call")


def said_in(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Without the log of the driver, which runs in this process."""
    out, err = capsys.readouterr()
    return out, "".join(line for line in err.splitlines(keepends=True) if '"Serving"' not in line)


async def test_the_answer_as_yaml_and_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == await typed(tmp_path, "GetPluginInfo")
    assert {"name": "folders.csi.test", "vendor_version": "1"} == yaml.safe_load(capsys.readouterr().out)
    assert 0 == await typed(
        tmp_path, "CreateVolume", "-o", "json", "name=data", "capacity_range.required_bytes=1Mi", *WRITER
    )
    out, err = said_in(capsys)
    assert 2**20 == json.loads(out)["volume"]["capacity_bytes"]
    assert "" == err, "no rule is broken"
    assert len(list((tmp_path / "volumes").iterdir())) == 1


async def test_an_error_in_gos_form_with_its_meaning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 1 == await typed(tmp_path, "CreateVolume", "name=data")
    out, err = said_in(capsys)
    assert "" == out
    assert err.startswith("rpc error: code = InvalidArgument desc = ")
    assert "InvalidArgument: a field of the request is missing or wrong. Final: " in err


async def test_breaches_are_told_and_no_secret_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "secrets").write_text("pass: hunter22")
    secrets = f"--secrets-file={tmp_path / 'secrets'}"
    assert 0 == await typed(tmp_path, "CreateVolume", "name=a", *WRITER, secrets, driver=Careless)
    out, err = said_in(capsys)
    assert "CSI703 (warning) CreateVolume of volume name 'a': a secret" in err
    assert "129 bytes" in err
    assert "Kubernetes: " in err
    assert "Mend: " in err
    assert "***stripped***" in out
    assert "hunter22" not in out + err
    assert 1 == await typed(tmp_path, "DeleteVolume", "volume_id=x", secrets, driver=Careless)
    out, err = said_in(capsys)
    assert "Aborted" in err
    assert "Not final" in err
    assert "CSI702" in err
    assert "hunter22" not in out + err


async def test_a_request_from_a_file_and_words_on_top(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "request.yaml").write_text("name: a\ncapacity_range: {required_bytes: 5Mi}\n")
    assert 0 == await typed(tmp_path, "CreateVolume", "-f", f"{tmp_path}/request.yaml", "name=b", "--dry-run")
    request = capsys.readouterr().out
    assert {"name": "b", "capacity_range": {"required_bytes": 5 * 2**20}} == yaml.safe_load(request)
    monkeypatch.setattr("sys.stdin", io.StringIO(request))
    assert 0 == await typed(tmp_path, "--dry-run", "CreateVolume", "-f", "-")
    assert request == capsys.readouterr().out
    assert not list((tmp_path / "volumes").iterdir()), "nothing was sent"


@each_row(
    ("words", "said"),
    [
        (["CreateVolum"], "did you mean CreateVolume?"),
        (["CreateVolume", "secrets.pass=hunter22"], "--secrets-file"),
        ([], "name the call"),
        (["GetPluginInfo", "-f", "/nowhere"], "can't read /nowhere"),
        (["GetPluginInfo", "--timeout=0s"], "timeout: must be greater than zero"),
        (["GetPluginInfo", "-f=-", "--secrets-file=-"], "stdin is one file"),
        (["GetPluginInfo", "-o", "table"], "must be yaml or json"),
        (["GetPluginInfo", "--csi-address=tcp://1.2.3.4:5"], "is not the path of a unix socket"),
    ],
)
def test_a_wrong_command_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == command.run(["call", "--csi-address=/tmp/none.sock", *words])
    err = capsys.readouterr().err
    assert said in err
    assert "hunter22" not in err


def test_the_address_is_that_of_csi_endpoint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("CSI_ENDPOINT", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where no mooring dev runs
    assert 2 == call.run(["GetPluginInfo"], "mooring call")
    assert "CSI_ENDPOINT" in capsys.readouterr().err
    monkeypatch.setenv("CSI_ENDPOINT", f"unix:{tmp_path}/none.sock")
    monkeypatch.setattr(call, "CONNECT_S_MAX", 0.01)
    assert 1 == call.run(["GetPluginInfo"], "mooring call")
    assert f"no connection to the CSI driver at '{tmp_path}/none.sock'" in capsys.readouterr().err


def test_words_and_flags_come_in_any_order() -> None:
    words, flags = call.words_among_flags(call.CallFlags, ["A", "-o", "json", "b=c", "--dry-run", "d=e", "--", "--f"])
    assert (["A", "b=c", "d=e", "--f"], ["-o", "json", "--dry-run"]) == (words, flags)


# -- with a `mooring dev`


@contextlib.asynccontextmanager
async def a_plane(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Path, None]:
    """The folder of a plane with the nodes n1 and n2, which answers in the way of `mooring dev`."""
    monkeypatch.delenv("CSI_ENDPOINT", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
    (folder / "run").mkdir()
    nodes = {name: NodePlace(f"{folder}/{name}.sock", f"{folder}/nodes/{name}") for name in ("n1", "n2")}
    places = Places("folders.csi.test", f"{folder}/csi.sock", nodes)

    async def where(_node: str) -> str:
        return msgspec.json.encode(places).decode()

    async with answering(folder, {WHERE: where}):
        yield folder


async def asked(*words: str) -> int:
    return await asyncio.to_thread(call.run, words, "mooring call")


async def test_a_call_goes_to_the_driver_of_the_plane_or_of_its_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with a_plane(tmp_path, monkeypatch):
        for words, socket in (
            (["GetPluginInfo"], "csi"),
            (["NodeGetInfo"], "n1"),
            (["GetPluginInfo", "--node=n2"], "n2"),
        ):
            async with serving(FolderDriver(tmp_path), f"unix://{tmp_path}/{socket}.sock"):
                await asked(*words)
            _, err = said_in(capsys)
            assert f"{tmp_path}/{socket}.sock" in err
            assert "no connection" not in err
        assert 1 == await asked("NodeGetInfo", "--node=n3")
        assert "there is no node 'n3' in that mooring dev, only n1, n2" in capsys.readouterr().err


async def test_the_paths_of_a_node_call_are_those_of_the_plane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = KubeletLayout(tmp_path / "nodes" / "n2")
    staging, own = layout.staging("folders.csi.test", "vol-1"), layout.target("by-hand", digest("vol-1"))
    async with a_plane(tmp_path, monkeypatch):

        async def request(*words: str) -> dict[str, object]:
            assert 0 == await asked(*words, "volume_id=vol-1", "--node=n2", "--dry-run")
            found = yaml.safe_load(capsys.readouterr().out)
            return {name: value for name, value in found.items() if name != "volume_id"}

        assert {"staging_target_path": str(staging)} == await request("NodeStageVolume")
        assert {"target_path": str(own)} == await request("NodePublishVolume"), "nothing is staged"
        assert {"target_path": "/mine"} == await request("NodePublishVolume", "target_path=/mine")
        assert not staging.exists(), "a dry run makes nothing"
        staging.mkdir(parents=True)
        both = {"target_path": str(own), "staging_target_path": str(staging)}
        assert both == await request("NodePublishVolume")
        pods = layout.target("pod-1", "pv-1")
        pods.mkdir(parents=True)
        record = {"driverName": "folders.csi.test", "volumeHandle": "vol-1"}
        (pods.parent / "vol_data.json").write_text(json.dumps(record))
        assert both == await request("NodePublishVolume")
        assert {"target_path": str(pods)} == await request("NodeUnpublishVolume")
        assert str(pods) == (await request("NodeGetVolumeStats"))["volume_path"]
        torn = layout.target("pod-0", "pv-1")
        torn.mkdir(parents=True)
        (torn.parent / "vol_data.json").write_text('{"driverName": ')
        assert {"target_path": str(pods)} == await request("NodeUnpublishVolume"), "a bad record is passed over"
        own.mkdir(parents=True)
        assert {"target_path": str(own)} == await request("NodeUnpublishVolume"), "what was made by hand goes first"


async def test_the_folders_that_a_caller_has_to_make_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = KubeletLayout(tmp_path / "nodes" / "n1")
    monkeypatch.setattr(call, "CONNECT_S_MAX", 0.01)
    async with a_plane(tmp_path, monkeypatch):
        for rpc in ("NodeStageVolume", "NodePublishVolume", "NodeUnstageVolume"):
            assert 1 == await asked(rpc, "volume_id=vol-1")
        await asked("NodeUnstageVolume", "volume_id=vol-2")
    assert layout.staging("folders.csi.test", "vol-1").is_dir()
    own = layout.target("by-hand", digest("vol-1"))
    assert [True, False] == [own.parent.is_dir(), own.exists()]
    assert not layout.staging("folders.csi.test", "vol-2").exists()


async def test_a_given_socket_is_asked_and_no_plane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with a_plane(tmp_path, monkeypatch):
        assert 0 == await typed(tmp_path, "GetPluginInfo")
        assert "" == said_in(capsys)[1]
        monkeypatch.setenv("CSI_ENDPOINT", f"{tmp_path}/csi.sock")
        assert 0 == await asked("NodeUnpublishVolume", "volume_id=vol-1", "--dry-run")
        assert "volume_id: vol-1\n" == capsys.readouterr().out
