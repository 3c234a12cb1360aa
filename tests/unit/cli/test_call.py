"""Item 30.4: `mooring call` with a driver behind a socket."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.cli import call
from mooring.cli import mooring as command
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.dev.seed_objects import snapshot
from mooring.driver.server import serving
from mooring.testing.opening import a_cluster
from mooring.wire.grpc.codes import Code
from tests.support.folder_driver import FolderDriver
from tests.support.programs import Program
from tests.support.waiting import eventually

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
    assert "CSI703 CreateVolume of volume name 'a': a secret" in err
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["CreateVolum"], "did you mean CreateVolume?"),
        (["CreateVolume", "secrets.pass=hunter22"], "--secrets-file"),
        ([], "name the call"),
        (["GetPluginInfo", "-f", "/nowhere"], "can't read /nowhere"),
        (["GetPluginInfo", "--timeout=0s"], "timeout: must be greater than zero"),
        (["GetPluginInfo", "-f=-", "--secrets-file=-"], "stdin is one file"),
        (["GetPluginInfo", "-o", "table"], "must be yaml or json"),
        (["CreateVolume", "--from-pvc=data", "--from-pv=pv"], "give --from-pvc or --from-pv"),
        (["CreateVolume", "--from-pvc=data", "-f=x"], "of a file or of an object"),
        (
            ["CreateSnapshot", "--from-pvc=data", "--from-snapshot=then"],
            "from-snapshot: the request is of one object: give --from-pvc or",
        ),
        (["CreateSnapshot", "--from-snapshot=then", "--from-content=x"], "give --from-snapshot or --from-content"),
        (["CreateSnapshot", "--from-content=x", "-f=x"], "of a file or of an object"),
        (["CreateSnapshot", "--from-snapshot=then", "--node=n1"], "node: only with --from-pvc or --from-pv"),
        (["CreateSnapshot", "--from-content=x", "--pod=web"], "pod: only with --from-pvc or --from-pv"),
        (["ControllerPublishVolume", "--node=n1"], "only with --from-pvc or --from-pv"),
        (["NodePublishVolume", "--pod=web"], "pod: only with --from-pvc or --from-pv"),
        (["NodePublishVolume", "--root-dir=/tmp/n1"], "root-dir: only with --from-pvc or --from-pv"),
        (["NodePublishVolume", "--from-pvc=data", "--root-dir=n1"], "root-dir: 'n1' is no absolute path"),
    ],
)
def test_a_wrong_command_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == command.run(["call", *words, "--csi-address=/tmp/none.sock"])
    err = capsys.readouterr().err
    assert said in err
    assert "hunter22" not in err


def test_the_address_is_that_of_csi_endpoint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("CSI_ENDPOINT", raising=False)
    assert 2 == call.run(["GetPluginInfo"], "mooring call")
    assert "CSI_ENDPOINT" in capsys.readouterr().err
    monkeypatch.setenv("CSI_ENDPOINT", f"unix:{tmp_path}/none.sock")
    monkeypatch.setattr(call, "CONNECT_S_MAX", 0.01)
    assert 1 == call.run(["GetPluginInfo"], "mooring call")
    assert f"no connection to the CSI driver at '{tmp_path}/none.sock'" in capsys.readouterr().err


def test_words_and_flags_come_in_any_order() -> None:
    words, flags = call.words_among_flags(call.CallFlags, ["A", "-o", "json", "b=c", "--dry-run", "d=e", "--", "--f"])
    assert (["A", "b=c", "d=e", "--f"], ["-o", "json", "--dry-run"]) == (words, flags)


@pytest.mark.slow
def test_a_request_from_the_objects_of_a_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over HTTPS, with words on top; the objects' names are found as kubectl finds them."""
    state = [
        "--endpoint",
        f"unix://{tmp_path}/csi.sock",
        "--node-id",
        "n1",
        "--state",
        str(tmp_path / "state"),
        "--mounts",
        "link",
    ]
    program = Program([sys.executable, "-m", "mooring.cli.mooring", "driver", "hostpath", *state], tmp_path / "log")
    socket = tmp_path / "csi.sock"
    eventually(socket.exists, 20, "the driver serves")
    address = f"--csi-address=unix://{socket}"
    with a_cluster(f"unix://{socket}", nodes=1, serves=True) as cluster:
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        claim = cluster.claim("data", "16Mi").bound()
        assert 0 == command.run(["call", "CreateVolume", "--from-pvc=data", address])
        out, err = capsys.readouterr()
        assert claim.handle == yaml.safe_load(out)["volume"]["volume_id"]
        assert "it would not be sent now: " in err
        assert 0 == command.run(["call", "CreateVolume", "--from-pvc=default/data", "name=other", "--dry-run", address])
        asked = yaml.safe_load(capsys.readouterr().out)
        assert ["other", 16 * 2**20] == [asked["name"], asked["capacity_range"]["required_bytes"]]
        pv = claim.volume["metadata"]["name"]
        assert 0 == command.run(
            ["call", "ControllerPublishVolume", f"--from-pv={pv}", "--node=n1", "--dry-run", address]
        )
        assert [claim.handle, "n1"] == [
            (asked := yaml.safe_load(capsys.readouterr().out))["volume_id"],
            asked["node_id"],
        ]
        assert 2 == command.run(["call", "ControllerPublishVolume", f"--from-pv={pv}", address])
        assert "give --node" in capsys.readouterr().err
        cluster.pod("web", claim, node="n1").running()
        root = cluster.aio.plane.nodes["n1"].root
        called = ["call", "NodePublishVolume", f"--from-pv={pv}", "--pod=web", address]
        assert 0 == command.run([*called, "--dry-run"])
        asked = yaml.safe_load(capsys.readouterr().out)
        assert asked["target_path"].startswith("/var/lib/kubelet/pods/")
        assert 0 == command.run([*called, f"--root-dir={root}", "-o=json"]), "once more, as after a lost answer"
        assert "{}" == capsys.readouterr().out.strip()
        assert 1 == command.run(["call", "CreateVolume", "--from-pvc=other", address])
        assert 'persistentvolumeclaims "other" not found' in capsys.readouterr().err
        assert 1 == command.run(["call", "CreateVolume", "--from-pvc=data", "-n=elsewhere", address])
    program.kill()


@pytest.mark.slow
def test_a_request_from_a_snapshot_of_a_cluster_shows_no_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = [
        "--endpoint",
        f"unix://{tmp_path}/csi.sock",
        "--node-id",
        "n1",
        "--state",
        str(tmp_path / "state"),
        "--mounts",
        "link",
    ]
    program = Program([sys.executable, "-m", "mooring.cli.mooring", "driver", "hostpath", *state], tmp_path / "log")
    socket = tmp_path / "csi.sock"
    eventually(socket.exists, 20, "the driver serves")
    address = f"--csi-address=unix://{socket}"
    with a_cluster(f"unix://{socket}", nodes=1, serves=True) as cluster:
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        cluster.create(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"pass": "hunter22"}}
        )
        parameters = {
            f"csi.storage.k8s.io/{kind}-secret-{part}": value
            for kind in SNAPSHOT_SECRETS
            for part, value in KEY.items()
        }
        head = {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotClass",
            "metadata": {"name": "secretive"},
        }
        driver = cluster.aio.plane.info.name
        cluster.create({**head, "driver": driver, "deletionPolicy": "Delete", "parameters": parameters})
        cluster.claim("data", "16Mi").bound()
        body = snapshot("then", "data")
        cluster.create({**body, "spec": {**body["spec"], "volumeSnapshotClassName": "secretive"}})
        found = cluster.until(lambda: _ready(cluster.objects("volumesnapshots")), "the snapshot is ready")
        content = found["status"]["boundVolumeSnapshotContentName"]
        said = ""
        for words in (["CreateSnapshot", "--from-snapshot=then"], ["CreateSnapshot", "--from-snapshot=default/then"]):
            for more in (["--dry-run"], []):
                assert 0 == command.run(["call", *words, *more, address])
                out, err = capsys.readouterr()
                said += out + err
                assert "it would not be sent now: ready to use" in err
                shown = yaml.safe_load(out)
                assert (
                    f"snapshot-{found['metadata']['uid']}" == shown["name"]
                    if more
                    else shown["snapshot"]["ready_to_use"]
                )
                assert not more or "***stripped***" == shown["secrets"]
        assert 0 == command.run(["call", "ListSnapshots", f"--from-content={content}", address, "-o=json"])
        out, err = capsys.readouterr()
        handle = json.loads(out)["entries"][0]["snapshot"]["snapshot_id"]
        assert 0 == command.run(
            ["call", "DeleteSnapshot", f"--from-content={content}", address, "--dry-run", "-o=json"]
        )
        deleting, told = capsys.readouterr()
        assert handle == json.loads(deleting)["snapshot_id"]
        assert "hunter22" not in said + out + err + deleting + told
        assert 2 == command.run(["call", "GetVolumeGroupSnapshot", f"--from-pv={content}", address])
        assert "give --from-snapshot or --from-content" in capsys.readouterr().err
        assert 1 == command.run(["call", "CreateSnapshot", "--from-snapshot=then", "-n=elsewhere", address])
        assert 'volumesnapshots.snapshot.storage.k8s.io "then" not found' in capsys.readouterr().err
        assert ["hunter22"] == list(cluster.calls("CreateSnapshot")[0].request.secrets.values()), (
            "there was one to show"
        )
    program.kill()


SNAPSHOT_SECRETS = ("snapshotter", "snapshotter-list")
KEY = {"name": "key", "namespace": "default"}


def _ready(found: list[dict[str, Any]]) -> dict[str, Any] | None:
    return next((one for one in found if (one.get("status") or {}).get("readyToUse")), None)
