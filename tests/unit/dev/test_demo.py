"""The demo believes nobody: a part that lies makes it fail, with a word on what was expected and what was found."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest

from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.cluster.nodehealth.options import EVICTION, LIFECYCLE
from mooring.csi.driver_form import ReferenceDriver
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.dev import controllers, drivers, polling, run
from mooring.dev.nodes import Nodes
from mooring.dev.polling import DemoFailed, PodFolder
from mooring.dev.run import run_demo
from mooring.dev.screen import PlainScreen
from mooring.dev.story import Story
from mooring.driver.hostpath.driver import HostPath
from mooring.driver.hostpath.node.mounting import Links, Source
from mooring.mounts.namespace import MountSpace
from mooring.node.volumes.state.folders import VolumeFiles
from mooring.sidecars.attacher.options import AttacherOptions
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row

pytestmark = [pytest.mark.slow, pytest.mark.long]

NO_MOUNTS = MountSpace("this is a test")
"""Volumes are links: what is mounted in a test would be seen on the machine."""
ONE_TOO_MANY = r"folders of the driver's volumes: expected \['vol-[-\w]+'\], found \['vol-[-\w]+', 'vol-[-\w]+'\]"
WAIT_S = 15.0
"""Long enough for each step on a busy machine."""


async def the_demo() -> str:
    """Its output. Raises DemoFailed."""
    shown, clock = io.StringIO(), LoopClock()
    await run_demo(NO_MOUNTS, Story(PlainScreen(shown), clock), clock, Random(3))
    return shown.getvalue()


async def failure_with(monkeypatch: pytest.MonkeyPatch, driver: type[HostPath]) -> str:
    monkeypatch.setattr(drivers, "HostPath", driver)
    monkeypatch.setattr(polling, "_WAIT_S_MAX", WAIT_S)
    with pytest.raises(DemoFailed) as caught:
        await the_demo()
    return str(caught.value)


async def test_it_ends_well() -> None:
    shown = await the_demo()
    assert "Nothing is left." in shown
    assert shown.endswith(f"NOT SHOWN: real mounts: this is a test\n    {run.TO_SHOW_ALL}\n")


async def test_a_driver_that_only_says_that_it_published_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lying(HostPath):
        async def controller_publish_volume(self, request: Any) -> csi.ControllerPublishVolumeResponse:
            return csi.ControllerPublishVolumeResponse(publish_context={"publication": "1"})

    told = await failure_with(monkeypatch, Lying)
    assert told.startswith('Pod of demo runs: not within 15 s; its status: {"phase": "Pending"')
    assert re.search(r"is not attached to node 'n\d'", told)


@each_row(
    ("times", "problem"),
    [
        (0, r"is published on node '(n\d)', and may be on one node only"),
        (2, r"^nodes that the driver names: expected \[\], found \['n\d'\]$"),
    ],
    ids=["and never does", "the last time"],
)
async def test_a_driver_that_only_says_that_it_unpublished_is_found_out(
    monkeypatch: pytest.MonkeyPatch, times: int, problem: str
) -> None:
    """times: how often it really does."""

    class Lying(HostPath):
        count = 0

        async def controller_unpublish_volume(self, request: Any) -> csi.ControllerUnpublishVolumeResponse:
            self.count += 1
            return (
                await super().controller_unpublish_volume(request)
                if self.count <= times
                else csi.ControllerUnpublishVolumeResponse()
            )

    told = await failure_with(monkeypatch, Lying)
    assert re.search(problem, told), told


async def test_a_driver_whose_state_file_lags_behind_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(HostPath):
        async def create_volume(self, request: Any) -> csi.CreateVolumeResponse:
            answer = await super().create_volume(request)
            self._folder.write = lambda state: None  # type: ignore[method-assign]
            self._journal._write = self._folder.write
            return answer

    assert re.fullmatch(
        r"nodes in the driver's state file: expected \['n\d'\], found \[\]", await failure_with(monkeypatch, Forgetful)
    )


async def test_a_volume_that_was_not_deleted_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hoarding(HostPath):
        async def delete_volume(self, request: Any) -> csi.DeleteVolumeResponse:
            return csi.DeleteVolumeResponse()

    assert re.match(ONE_TOO_MANY, await failure_with(monkeypatch, Hoarding))


async def test_a_folder_that_stays_behind_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Untidy(HostPath):
        async def delete_volume(self, request: Any) -> csi.DeleteVolumeResponse:
            answer = await super().delete_volume(request)
            self._folder.make(request.volume_id)
            return answer

    assert re.match(ONE_TOO_MANY, await failure_with(monkeypatch, Untidy))


async def test_a_volume_that_is_not_the_claims_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mixing(HostPath):
        async def create_volume(self, request: Any) -> csi.CreateVolumeResponse:
            request.name = "another"
            return await super().create_volume(request)

    assert "found 'another'" in await failure_with(monkeypatch, Mixing)


async def test_a_call_that_failed_once_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attacher tries again, and all ends well; but the demo says that each call was made once."""

    class Stumbling(HostPath):
        stumbled = False

        async def controller_unpublish_volume(self, request: Any) -> csi.ControllerUnpublishVolumeResponse:
            if not self.stumbled:
                self.stumbled = True
                raise DriverError(Code.INTERNAL, "stumbled")
            return await super().controller_unpublish_volume(request)

    monkeypatch.setattr(controllers, "AttacherOptions", lambda: AttacherOptions(retry_interval_start_s=0.01))
    assert "failed calls: expected {}, found {'ControllerUnpublishVolume': 1}" == await failure_with(
        monkeypatch, Stumbling
    )


async def test_what_the_attacher_reports_is_in_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(HostPath):
        async def controller_publish_volume(self, request: Any) -> csi.ControllerPublishVolumeResponse:
            raise DriverError(Code.PERMISSION_DENIED, "the backend is closed today")

    told = await failure_with(monkeypatch, Refusing)
    assert told.startswith("Pod of demo runs: not within 15 s; its status: "), told
    assert "the backend is closed today" in told


async def test_a_driver_that_forgets_what_a_pod_wrote_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wiping(HostPath):
        async def controller_unpublish_volume(self, request: Any) -> csi.ControllerUnpublishVolumeResponse:
            for path in self._folder.data(request.volume_id).iterdir():
                path.unlink()
            return await super().controller_unpublish_volume(request)

    told = await failure_with(monkeypatch, Wiping)
    assert told.startswith("greeting.txt of the first pod can't be read by another: ")


async def test_a_node_that_keeps_a_volumes_folder_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VolumeFiles, "end", lambda *_: None)
    assert (await failure_with(monkeypatch, HostPath)).startswith("folders of pods and volumes: expected [], found [")


async def test_a_volume_that_is_no_link_where_nothing_can_be_mounted_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def publish(_links: Links, _source: Source, _staging: Path, target: Path) -> None:
        target.mkdir()

    monkeypatch.setattr(Links, "publish", publish)
    assert "a link at the pod's path: expected True, found False" == await failure_with(monkeypatch, HostPath)


async def test_a_driver_that_fails_the_demos_own_call_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mute(HostPath):
        async def controller_get_volume(self, request: Any) -> csi.ControllerGetVolumeResponse:
            raise DriverError(Code.INTERNAL, "no idea")

    assert "rpc error: code = Internal desc = no idea" == await failure_with(monkeypatch, Mute)


async def test_what_the_claim_says_is_in_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(HostPath):
        async def create_volume(self, request: Any) -> csi.CreateVolumeResponse:
            raise DriverError(Code.RESOURCE_EXHAUSTED, "no room")

    told = await failure_with(monkeypatch, Full)
    assert told.startswith(
        'PersistentVolumeClaim demo-claim is bound: not within 15 s; its status: {"phase": "Pending"}; its '
        "last warning: "
    )
    assert "no room" in told


async def test_a_node_whose_power_was_not_cut_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def kill(*_: object) -> str:
        return "gone, it says"

    monkeypatch.setattr(Nodes, "kill", kill)
    assert re.match(r"Node n\d is Unknown: not within 17 s; its status: ", await failure_with(monkeypatch, HostPath))


async def test_a_pod_that_stays_on_a_node_out_of_service_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controllers, "PARTS", (LIFECYCLE, EVICTION))
    told = await failure_with(monkeypatch, HostPath)
    assert re.match(r"Pod demo-\w+-\w+ is removed: not within 15 s; its status: .*DeletionByTaintManager", told), told


async def test_a_volume_that_only_seems_to_grow_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Boasting(HostPath):
        async def controller_expand_volume(self, request: Any) -> csi.ControllerExpandVolumeResponse:
            return csi.ControllerExpandVolumeResponse(capacity_bytes=request.capacity_range.required_bytes)

    told = await failure_with(monkeypatch, Boasting)
    assert f"bytes that the driver gives the volume: expected {2 << 30}, found {1 << 30}" == told


async def test_a_file_system_that_stays_as_it_was_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "growing_type", lambda *_: ("ext4", ""))
    monkeypatch.setattr(run, "ReferenceDriver", lambda **_: ReferenceDriver())
    monkeypatch.setattr(PodFolder, "size_bytes", lambda *_: 1 << 30)
    assert "1024 MiB in the pod have grown to 1024: expected True, found False" == await failure_with(
        monkeypatch, HostPath
    )


async def test_a_growth_that_costs_what_is_written_meanwhile_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wiping(HostPath):
        async def controller_expand_volume(self, request: Any) -> csi.ControllerExpandVolumeResponse:
            (self._folder.data(request.volume_id) / "diary.txt").write_text("")
            return await super().controller_expand_volume(request)

    assert "lines of the pod that are there: expected True, found False" == await failure_with(monkeypatch, Wiping)


async def test_a_snapshot_without_the_data_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty(HostPath):
        async def create_snapshot(self, request: Any) -> csi.CreateSnapshotResponse:
            answer = await super().create_snapshot(request)
            for path in self._folder.data(answer.snapshot.snapshot_id).iterdir():
                path.unlink()
            return answer

    told = await failure_with(monkeypatch, Empty)
    assert told.startswith("greeting.txt of the first pod can't be read by another: ")


async def test_a_snapshot_that_was_not_deleted_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hoarding(HostPath):
        async def delete_snapshot(self, request: Any) -> csi.DeleteSnapshotResponse:
            return csi.DeleteSnapshotResponse()

    assert (await failure_with(monkeypatch, Hoarding)).startswith(
        "snapshots in the driver's state file: expected [], found ['snap-"
    )


async def test_a_class_that_the_driver_only_nods_to_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nodding(HostPath):
        async def controller_modify_volume(self, request: Any) -> csi.ControllerModifyVolumeResponse:
            return csi.ControllerModifyVolumeResponse()

    told = await failure_with(monkeypatch, Nodding)
    assert "parameters of demo-gold in the driver: expected {'iops': '5000'}, found {'iops': '500'}" == told


async def test_a_snapshot_that_never_gets_ready_is_told_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Blind(HostPath):
        async def create_snapshot(self, request: Any) -> csi.CreateSnapshotResponse:
            raise DriverError(Code.PERMISSION_DENIED, "no photographs in here")

    told = await failure_with(monkeypatch, Blind)
    assert told.startswith("VolumeSnapshot demo-snapshot is ready to use: not within 15 s; its status: "), told
    assert "no photographs in here" in told
