"""Snapshots that come to nothing, and answers that mean nothing: each is told, and in the end the driver has what it
had before.

All at once, under one pair of programs: nobody keeps others from their snapshots.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from mooring.api.core import EVENTS
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import Invalid
from mooring.wire.grpc.codes import Code
from tests.e2e.snapshot_world import PVC, VS, VSC, Snapshots, a_world
from tests.support.builders import (
    Json,
    a_bound_claim,
    a_new_content,
    a_new_snapshot,
    a_pv,
    a_reference,
    a_secret,
    a_snapshot_class,
)
from tests.support.control_plane import ControlPlane
from tests.support.embedded import EmbeddedServer
from tests.support.scripted_driver import RPC
from tests.support.snapshot_driver import SnapshotDriver

pytestmark = [pytest.mark.slow, pytest.mark.long]

CONTROLLER, SNAPSHOTTER = "snapshot-controller", "csi-snapshotter"
PREFIX: Final = "csi.storage.k8s.io/"
MIB: Final = 1 << 20
OTHER: Final = "another.csi.test"
KEEPER: Final = "tests.mooring.dev/keeper"


def _secret(name: str | None, namespace: str | None, infix: str = "") -> dict[str, str]:
    named = {"name": name, "namespace": namespace}
    return {f"{PREFIX}snapshotter-{infix}secret-{key}": value for key, value in named.items() if value is not None}


@dataclasses.dataclass(frozen=True)
class Bad:
    """text: of the event about the snapshot or its content. parameters: of its class. pv: fields of the claim's volume.

    without: the object that is not made. handle: of a content that was there before. content: another one, which the
    snapshot names.
    """

    text: str
    parameters: Mapping[str, str] = dataclasses.field(default_factory=dict)
    pv: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    driver: str = "csi.test"
    without: str = ""
    handle: str = ""
    content: str = ""


BAD: Final[dict[str, Bad]] = {
    # classes
    "unknown-parameter": Bad("found unknown parameter key", {f"{PREFIX}x": "y"}),
    "class-missing": Bad("not found", without="class"),
    "class-of-another": Bad('is of driver "another.csi.test"', driver=OTHER),
    "default-class-missing": Bad("cannot find default snapshot class", without="class name"),
    # secrets
    "secret": Bad('secrets "nowhere" not found', _secret("nowhere", "default")),
    "secret-of-bytes": Bad("failed to get credentials", _secret("bytes", "default")),
    "secret-without-namespace": Bad("Both must be specified", _secret("nowhere", None)),
    "secret-without-name": Bad("Both must be specified", _secret(None, "default")),
    "secret-empty": Bad("value of either namespace or name is empty", _secret("", "default")),
    "secret-template": Bad("invalid tokens", _secret("${pvc.uid}", "default")),
    "secret-bad-name": Bad("is not a valid secret name", _secret("No_Name", "default")),
    "list-secret": Bad('secrets "nowhere" not found', _secret("nowhere", "default", "list-"), handle="there"),
    "list-secret-half": Bad("Both must be specified", _secret("nowhere", None, "list-"), handle="there"),
    # claims and volumes
    "claim-missing": Bad("failed to retrieve PVC", without="claim"),
    "unbound": Bad("is not yet bound to a PV", without="bound"),
    "in-deletion": Bad("is being deleted"),
    "volume-missing": Bad("failed to retrieve PV", without="volume"),
    "no-csi": Bad("cannot find CSI PersistentVolumeSource", pv={"source": {"hostPath": {"path": "/x"}}}),
    "volume-of-another": Bad(
        'is of driver "csi.test"', pv={"source": {"csi": {"driver": OTHER, "volumeHandle": "vol-other"}}}
    ),
    "volume-of-another-claim": Bad("not bound or invalid", pv={"claimRef": a_reference("another", "another-uid")}),
    # the driver's answers
    "no-id": Bad("without snapshot_id"),
    "nil": Bad("without snapshot_id"),
    "huge-id": Bad("the API server refused the driver's answer: "),
    "long-error": Bad("sorry, "),
    "hangs": Bad("DeadlineExceeded"),
    # contents that were there before
    "foreign-handle": Bad("can not find snapshot for snapshotID nobodys", handle="nobodys"),
    "content-missing": Bad("VolumeSnapshotContent is missing", content="nowhere"),
    "content-taken": Bad("VolumeSnapshotContent [import] is bound to a different snapshot", content="import"),
}
"""Those that never are ready."""

ODD: Final = ("zero", "negative", "no-time", "early-time", "late-time")
"""Snapshots with a size or a time that is none: they are ready all the same."""

GOOD: Final = {
    "usual": Bad(""),
    "another-source": Bad(""),
    **dict.fromkeys(ODD, Bad("")),
    "import": Bad("", handle="there"),
}
"""Snapshots that get ready: whose snapshot an answer is, is not compared."""

NEVER: Final = "never"
"""It is made, and not ready before its handle is edited."""


class MisleadingDriver(SnapshotDriver):
    """Answers as the source's handle says. is_honest: not any more. unready: the source of the one that never is."""

    def __init__(self) -> None:
        super().__init__(controller=(RPC.LIST_SNAPSHOTS,))
        self.is_honest = False
        self.unready = "vol-never"
        self.add("there", "vol-there")

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.CreateSnapshotResponse:
        how = request.source_volume_id.removeprefix("vol-")
        if self.is_honest:
            return await super().create_snapshot(request)
        if how == "long-error":
            raise DriverError(Code.INTERNAL, "sorry, " * 1000)
        answer = await super().create_snapshot(request)
        snapshot = csi.Snapshot()
        snapshot.CopyFrom(answer.snapshot)
        match how:
            case "hangs":
                await asyncio.sleep(3600)
            case "nil":
                return csi.CreateSnapshotResponse()
            case "no-id":
                snapshot.snapshot_id = ""
            case "another-source":
                snapshot.source_volume_id = self.snapshots[snapshot.snapshot_id].source_volume_id = "vol-elsewhere"
            case "huge-id":
                snapshot.snapshot_id = snapshot.snapshot_id.ljust(7 * MIB // 2, "x")
            case "zero":
                snapshot.size_bytes = 0
            case "negative":
                snapshot.size_bytes = -1
            case "no-time":
                snapshot.ClearField("creation_time")
            case "early-time":
                snapshot.creation_time.seconds = -62_135_596_800
            case "late-time":
                snapshot.creation_time.seconds = 253_402_300_799
        return csi.CreateSnapshotResponse(snapshot=snapshot)

    async def delete_snapshot(self, request: csi.DeleteSnapshotRequest) -> csi.DeleteSnapshotResponse:
        """It knows the huge id that it gave: an answer may still be under way when it turns honest."""
        known = csi.DeleteSnapshotRequest()
        known.CopyFrom(request)
        known.snapshot_id = known.snapshot_id.rstrip("x")
        return await super().delete_snapshot(known)

    def _shown(self, handle: str) -> csi.Snapshot:
        shown = super()._shown(handle)
        shown.ready_to_use = shown.source_volume_id != self.unready
        return shown


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of an administrator, for a server of the test's own."""
    if request.param == "real":
        start: Callable[..., ControlPlane] = request.getfixturevalue("new_control_plane")
        yield start().kubeconfig()
        return
    with EmbeddedServer(tmp_path_factory.mktemp("server")) as server:
        yield server.kubeconfig


async def _make(world: Snapshots, name: str, bad: Bad) -> None:
    """The snapshot, with its class, claim and volume, all of its name."""
    if bad.without not in ("class", "class name"):
        await world.create(a_snapshot_class(name, driver=bad.driver, parameters=dict(bad.parameters)))
    if bad.without != "claim":
        await _make_claim(world, name, bad)
    if name == "in-deletion":
        await world.delete(PVC, name)
    if bad.content:
        await world.create(a_new_snapshot(name, content=bad.content))
        return
    if bad.handle:
        content = a_new_content(
            name, snapshot=name, handle=bad.handle, ref_uid=None, policy="Retain", volumeSnapshotClassName=name
        )
        await world.create(content)
        await world.create(a_new_snapshot(name, content=name))
        return
    snapshot_class = {"snapshot_class": None if bad.without == "class name" else name}
    await world.create(a_new_snapshot(name, claim=name, **snapshot_class))


async def _make_claim(world: Snapshots, name: str, bad: Bad) -> None:
    claim = a_bound_claim(name, f"pv-{name}", uid=None, finalizers=[KEEPER] if name == "in-deletion" else None)
    made = await world.create({key: value for key, value in claim.items() if key != "status"})
    if bad.without != "volume":
        await world.create(a_pv(f"pv-{name}", f"vol-{name}", **{"claimRef": a_reference(made), **bad.pv}))
    if bad.without != "bound":
        await world.patch(PVC, name, {"status": claim["status"]}, subresource="status")


async def _told(world: Snapshots) -> dict[str, list[str]]:
    """The warnings about snapshots and their contents, by the snapshots' names."""
    of_content = {one["metadata"]["name"]: one["spec"]["volumeSnapshotRef"]["name"] for one in await world.list(VSC)}
    found: dict[str, list[str]] = defaultdict(list)
    for event in await world.list(EVENTS):
        assert len(event.get("message", "").encode()) <= 1024
        if event.get("type") == "Warning":
            name = event["involvedObject"].get("name", "")
            found[of_content.get(name, name)].append(event["message"])
    return found


async def _missing(world: Snapshots) -> dict[str, list[str]]:
    """Those of which is not told what it should be, with what is told."""
    told = await _told(world)
    return {name: told[name] for name, bad in BAD.items() if not any(bad.text in text for text in told[name])}


async def test_all_are_told_and_nothing_is_left(kubeconfig: Path, tmp_path: Path) -> None:
    driver = MisleadingDriver()
    async with a_world(kubeconfig, tmp_path, driver) as world:
        await world.serve_kinds()
        await world.create(a_secret("bytes", {"key": "//79"}))
        for name, bad in {**GOOD, NEVER: Bad(""), **BAD}.items():
            await _make(world, name, bad)
        async with world.program(CONTROLLER, kubeconfig), world.program(SNAPSHOTTER, kubeconfig, "--timeout=2s"):
            try:
                await world.until(lambda: _all_told(world), what="all are told")
            except AssertionError as error:
                error.add_note(f"not told: {await _missing(world)}")
                raise
            for name in GOOD:
                _judge_ready(name, await world.ready(name))
            await _judge_unready(world)
            await _edit_a_handle(world, driver)
            await _end(world, driver)


async def _all_told(world: Snapshots) -> bool:
    return not await _missing(world)


def _judge_ready(name: str, snapshot: Json) -> None:
    """A time that is none is now; a size that is none is not there."""
    status = snapshot["status"]
    assert ("restoreSize" in status) == (name not in ("zero", "negative")), name
    told_time = status["creationTime"].startswith("2023-11-14")
    assert told_time == (name not in ("no-time", "early-time", "late-time")), (name, status)


async def _judge_unready(world: Snapshots) -> None:
    for name in (NEVER, *BAD):
        status = (await world.get(VS, name)).get("status") or {}
        assert not status.get("readyToUse"), name
    assert 1 == len([one for one in world.driver.snapshots.values() if one.source_volume_id == "vol-never"])


async def _edit_a_handle(world: Snapshots, driver: MisleadingDriver) -> None:
    """The source can't be changed; the handle of a snapshot that is made can, and the answer that makes it ready does
    not write over it.
    """
    [content] = [one for one in await world.list(VSC) if one["spec"]["volumeSnapshotRef"]["name"] == NEVER]
    name, true = content["metadata"]["name"], content["status"]["snapshotHandle"]
    for source in ({"volumeHandle": "vol-elsewhere"}, {"volumeHandle": None, "snapshotHandle": "there"}):
        with pytest.raises(Invalid):
            await world.patch(VSC, name, {"spec": {"source": source}})
    driver.unready = ""
    await world.patch(VSC, name, {"status": {"snapshotHandle": "edited"}}, subresource="status")
    await world.ready(NEVER)
    assert "edited" == (await world.get(VSC, name))["status"]["snapshotHandle"]
    await world.patch(VSC, name, {"status": {"snapshotHandle": true}}, subresource="status")


async def _end(world: Snapshots, driver: MisleadingDriver) -> None:
    """All snapshots go, and what the driver has made for them; what was there before stays."""
    driver.is_honest = True
    for name in (*GOOD, NEVER, *BAD):
        await world.delete(VS, name)
    for name in (*GOOD, NEVER, *BAD):
        await world.gone(VS, name)
    for name, bad in {**GOOD, **BAD}.items():
        if bad.handle:
            await world.remove(VSC, name)

    async def nothing() -> bool:
        return not await world.list(VSC) and {"there"} == driver.snapshots.keys()

    await world.until(nothing, what=f"nothing is left: {list(driver.snapshots)}")
    await world.patch(PVC, "in-deletion", {"metadata": {"finalizers": None}})
    held = [
        one["metadata"]["name"]
        for one in await world.list(PVC)
        if "as-source" in str(one["metadata"].get("finalizers"))
    ]
    assert [] == held
