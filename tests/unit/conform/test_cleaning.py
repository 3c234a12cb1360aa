"""What a run leaves behind: whose fault that is, how often it tries, and what it does not try."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from mooring.conform.runner import End
from mooring.csi.errors import DriverError
from mooring.wire.grpc.codes import Code
from tests.support.bent_drivers import Bent
from tests.unit.conform.runs import conform


class KeepsSnapshots(Bent):
    """Deletes none."""

    calls: ClassVar[list[str]] = []

    async def delete_snapshot(self, request: Any) -> Any:
        self.calls.append(request.snapshot_id)
        raise DriverError(Code.INTERNAL, "the backend is busy")


async def test_a_cleanup_that_fails_is_charged_to_no_check(tmp_path: Path) -> None:
    KeepsSnapshots.calls.clear()
    report = await conform(tmp_path, KeepsSnapshots, only=("snapshot-twice", "create-with-size", "volume-after-kill"))
    assert {"snapshot-twice": End.KEPT, "create-with-size": End.KEPT, "volume-after-kill": End.SKIPPED} == {
        one.check.name: one.end for one in report.results
    }
    assert [("CSI709", "DeleteSnapshot", "cleaning up")] == [
        (one.breach.rule.number, one.breach.rpc, one.check) for one in report.findings
    ]
    assert ["snapshot"] == [left.split()[0] for left in report.left]
    assert not report.is_good
    assert 2 == len(KeepsSnapshots.calls), "after the check, and at the end"


class Notes(Bent):
    """The names of its volumes."""

    names: ClassVar[list[str]] = []

    async def create_volume(self, request: Any) -> Any:
        self.names.append(request.name)
        return await self.inner.create_volume(request)


async def test_the_next_run_has_other_names(tmp_path: Path) -> None:
    """One that was killed has left its volumes, and no driver is to blame for them."""
    runs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        Notes.names.clear()
        await conform(tmp_path / name, Notes, only=("create-with-size",))
        runs.append({*Notes.names})
    assert runs[0]
    assert not runs[0] & runs[1]


class SaysNotFound(Bent):
    """Has deleted what it says not to know."""

    async def delete_snapshot(self, request: Any) -> Any:
        await self.inner.delete_snapshot(request)
        raise DriverError(Code.NOT_FOUND, "no such snapshot")


async def test_not_found_means_deleted_and_is_told_by_its_own_check_alone(tmp_path: Path) -> None:
    report = await conform(tmp_path, SaysNotFound, only=("snapshot-twice",))
    assert report.is_good
    report = await conform(tmp_path, SaysNotFound, only=("snapshot-twice", "delete-unknown-snapshot"))
    assert [("CSI406", "delete-unknown-snapshot")] == [(one.breach.rule.number, one.check) for one in report.findings]
    assert [] == report.left


class NeverSure(Bent):
    """Leaves open what became of a request that it must refuse."""

    calls: ClassVar[list[str]] = []

    async def create_volume(self, request: Any) -> Any:
        if request.HasField("volume_content_source"):
            self.calls.append(request.name)
            raise DriverError(Code.RESOURCE_EXHAUSTED, "perhaps")
        return await self.inner.create_volume(request)


async def test_a_cleanup_repeats_no_request_that_must_be_refused(tmp_path: Path) -> None:
    NeverSure.calls.clear()
    report = await conform(tmp_path, NeverSure, only=("create-from-no-volume",))
    assert [] == report.left
    assert 1 == len(NeverSure.calls)
