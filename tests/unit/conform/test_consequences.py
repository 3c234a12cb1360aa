"""What follows from something else is not held against a driver: errors that pass, calls that fail in any case, volumes
that are gone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mooring.conform.runner import End, Report
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.support.bent_drivers import Bent
from tests.support.rows import each_row
from tests.unit.conform.runs import conform, numbers


class PutsOff(Bent):
    """Answers each second call with Unavailable, which CSI allows."""

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)
        if name in ("node_id", "name") or name.startswith("_") or "capabilities" in name or not callable(method):
            return method

        async def call(request: Any) -> Any:
            self.count += 1
            if self.count % 2:
                raise DriverError(Code.UNAVAILABLE, "the backend restarts")
            return await method(request)

        return call


async def test_unavailable_is_asked_again(tmp_path: Path) -> None:
    only = (
        "create-volume-without-name",
        "publish-unknown-volume",
        "create-with-other-size",
        "list-with-bad-token",
        "delete-unknown",
    )
    report = await conform(tmp_path, PutsOff, only=only)
    assert [] == lines(report)
    assert {End.KEPT} == {one.end for one in report.results}


class LetsNobodyIn(Bent):
    async def create_volume(self, request: Any) -> Any:
        raise DriverError(Code.PERMISSION_DENIED, "no credentials")


async def test_a_call_that_fails_in_any_case_is_told_once(tmp_path: Path) -> None:
    only = (
        *("create-volume-without-name", "create-with-full-name", "create-from-no-snapshot", "create-from-no-volume"),
        *("create-at-once", "create-with-size", "life"),
    )
    report = await conform(tmp_path, LetsNobodyIn, only=only)
    assert {"CSI709"} == numbers(report), lines(report)
    ended = {one.check.name: one.end for one in report.results}
    assert End.STOPPED == ended["create-volume-without-name"]
    assert End.STOPPED == ended["create-from-no-volume"]


class HidesStaging(Bent):
    """Stages volumes, and says that it does not."""

    async def node_get_capabilities(self, request: Any) -> Any:
        return csi.NodeGetCapabilitiesResponse()

    async def node_publish_volume(self, request: Any) -> Any:
        if request.volume_id and request.target_path and not request.staging_target_path:
            raise DriverError(Code.FAILED_PRECONDITION, "staging_target_path is missing")
        return await self.inner.node_publish_volume(request)


async def test_a_driver_that_hides_its_staging_gets_a_hint_and_no_other_rule(tmp_path: Path) -> None:
    report = await conform(
        tmp_path, HidesStaging, only=("life", "life-with-lost-answers", "node-publish-volume-without-volume-capability")
    )
    assert {"CSI709"} == numbers(report), lines(report)
    (finding,) = report.findings
    assert "advertise STAGE_UNSTAGE_VOLUME" in finding.breach.found
    assert ("life", 1) == (finding.check, finding.others)


class ForgetsDeleted(Bent):
    async def controller_unpublish_volume(self, request: Any) -> Any:
        if request.volume_id in self.seen:
            raise DriverError(Code.NOT_FOUND, "no such volume")
        return await self.inner.controller_unpublish_volume(request)

    async def delete_volume(self, request: Any) -> Any:
        self.seen[request.volume_id] = True
        return await self.inner.delete_volume(request)


async def test_a_volume_that_is_deleted_is_not_one_that_was_unpublished(tmp_path: Path) -> None:
    report = await conform(tmp_path, ForgetsDeleted, only=("unpublish-without-volume",))
    assert {"CSI307"} == numbers(report), lines(report)


class LosesTheOldest(Bent):
    """ListVolumes leaves out the volume that was made before all others."""

    async def create_volume(self, request: Any) -> Any:
        answer = await self.inner.create_volume(request)
        self.seen.setdefault(answer.volume.volume_id, len(self.seen))
        return answer

    async def list_volumes(self, request: Any) -> Any:
        answer = await self.inner.list_volumes(request)
        ids = sorted((entry.volume.volume_id for entry in answer.entries), key=lambda one: self.seen[one])
        kept = [entry for entry in answer.entries if entry.volume.volume_id not in ids[:1]]
        return csi.ListVolumesResponse(entries=kept, next_token=answer.next_token)


async def test_a_list_is_compared_with_all_volumes_of_the_run(tmp_path: Path) -> None:
    report = await conform(tmp_path, LosesTheOldest, only=("validate", "list-what-there-is"))
    assert {"CSI605"} == numbers(report), lines(report)


def lines(report: Report) -> list[str]:
    return [f"{one.check}: {one.breach.line}" for one in report.findings]


@each_row("only", [("probe",), ("life",)])
async def test_nothing_is_stopped_for_a_good_driver(tmp_path: Path, only: tuple[str, ...]) -> None:
    report = await conform(tmp_path, only=only)
    assert report.is_good
