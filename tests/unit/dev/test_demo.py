"""The demo believes nobody: a part that lies makes it fail, with a word on what was expected and what was found."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest

from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.controllers.attacher.options import AttacherOptions
from mooring.csi.codes import Code, DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.dev import controllers, drivers, polling
from mooring.dev.demo import DemoFailed
from mooring.dev.run import run_demo
from mooring.dev.screen import PlainScreen
from mooring.dev.story import Story
from mooring.driver.hostpath import HostPath
from mooring.driver.node.mounting import Links, Source
from mooring.mounts.namespace import MountSpace
from mooring.node.volumes.files import VolumeFiles

NO_MOUNTS = MountSpace("this is a test")
"""Volumes are links: what is mounted in a test would be seen on the machine."""


async def the_demo() -> str:
    """Its output. Raises DemoFailed."""
    shown, clock = io.StringIO(), LoopClock()
    await run_demo(NO_MOUNTS, Story(PlainScreen(shown), clock), clock, Random(3))
    return shown.getvalue()


async def failure_with(monkeypatch: pytest.MonkeyPatch, driver: type[HostPath]) -> str:
    monkeypatch.setattr(drivers, "HostPath", driver)
    monkeypatch.setattr(polling, "_WAIT_S_MAX", 1.0)
    with pytest.raises(DemoFailed) as caught:
        await the_demo()
    return str(caught.value)


async def test_it_ends_well() -> None:
    assert "Nothing is left." in await the_demo()


async def test_a_driver_that_only_says_that_it_published_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lying(HostPath):
        async def controller_publish_volume(self, request: Any) -> csi.ControllerPublishVolumeResponse:
            return csi.ControllerPublishVolumeResponse(publish_context={"publication": "1"})

    told = await failure_with(monkeypatch, Lying)
    assert told.startswith('Pod demo-pod runs: not within 1 s; its status: {"phase": "Pending"')
    assert "is not attached to node 'demo-node'" in told


async def test_a_driver_that_only_says_that_it_unpublished_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lying(HostPath):
        async def controller_unpublish_volume(self, request: Any) -> csi.ControllerUnpublishVolumeResponse:
            return csi.ControllerUnpublishVolumeResponse()

    assert "nodes that the driver names: expected [], found ['demo-node']" == await failure_with(monkeypatch, Lying)


async def test_a_driver_whose_state_file_lags_behind_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(HostPath):
        async def create_volume(self, request: Any) -> csi.CreateVolumeResponse:
            answer = await super().create_volume(request)
            self._folder.write = lambda state: None  # type: ignore[method-assign]
            self._journal._write = self._folder.write
            return answer

    assert "nodes in the driver's state file: expected ['demo-node'], found []" == await failure_with(monkeypatch, Forgetful)


async def test_a_volume_that_was_not_deleted_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hoarding(HostPath):
        async def delete_volume(self, request: Any) -> csi.DeleteVolumeResponse:
            return csi.DeleteVolumeResponse()

    assert (await failure_with(monkeypatch, Hoarding)).startswith("volumes that the driver lists: expected [], found ['vol-")


async def test_a_folder_that_stays_behind_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Untidy(HostPath):
        async def delete_volume(self, request: Any) -> csi.DeleteVolumeResponse:
            answer = await super().delete_volume(request)
            self._folder.make(request.volume_id)
            return answer

    assert (await failure_with(monkeypatch, Untidy)).startswith("folders of the driver's volumes: expected [], found ['vol-")


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
    assert "failed calls: expected {}, found {'ControllerUnpublishVolume': 1}" == await failure_with(monkeypatch, Stumbling)


async def test_what_the_attacher_reports_is_in_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(HostPath):
        async def controller_publish_volume(self, request: Any) -> csi.ControllerPublishVolumeResponse:
            raise DriverError(Code.PERMISSION_DENIED, "the backend is closed today")

    told = await failure_with(monkeypatch, Refusing)
    assert re.match(rf"{VOLUME_ATTACHMENTS.name} csi-[0-9a-f]{{64}} is attached: not within 1 s; its status: ", told), told
    assert "the backend is closed today" in told


async def test_a_driver_that_forgets_what_a_pod_wrote_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wiping(HostPath):
        async def controller_unpublish_volume(self, request: Any) -> csi.ControllerUnpublishVolumeResponse:
            for path in self._folder.data(request.volume_id).iterdir():
                path.unlink()
            return await super().controller_unpublish_volume(request)

    told = await failure_with(monkeypatch, Wiping)
    assert told.startswith("greeting.txt of the first pod can't be read by the next one: ")


async def test_a_node_that_keeps_a_volumes_folder_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VolumeFiles, "end", lambda *_: None)
    assert (await failure_with(monkeypatch, HostPath)).startswith("folders of pods and volumes: expected [], found [")


async def test_a_volume_that_is_no_link_where_nothing_can_be_mounted_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
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
        'PersistentVolumeClaim demo-claim is bound: not within 1 s; its status: {"phase": "Pending"}; its last warning: '
    )
    assert "no room" in told
