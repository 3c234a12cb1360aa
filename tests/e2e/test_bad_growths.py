"""Growths and classes that come to nothing: each claim tells what is wrong with it, and no volume is believed to be
larger than it is.

All at once, under one resizer: nobody keeps others from growing.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from mooring.api.core import EVENTS
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import Forbidden, Invalid
from mooring.sidecars.resizer import names
from mooring.wire.grpc.codes import Code
from tests.e2e.resizer_world import PV, PVC, Resizing, a_world
from tests.support.builders import Json, a_claim, a_class, a_pv, a_reference, a_secret, an_attributes_class
from tests.support.control_plane import ControlPlane
from tests.support.embedded import EmbeddedServer
from tests.support.resizing import EXPAND, ResizingDriver, claim_status
from tests.support.volume_driver import GiB

pytestmark = [pytest.mark.slow, pytest.mark.long]

LARGEST: Final = 1 << 60
LONG: Final = "sorry, " * 1000


@dataclasses.dataclass(frozen=True)
class Bad:
    """text: of the event, "" for none at all. vac: the class that the claim asks for, in place of a size. csi, pv:
    fields of its volume.
    """

    text: str
    size: str = "2Gi"
    vac: str = ""
    csi: tuple[tuple[str, Any], ...] = ()
    pv: tuple[tuple[str, Any], ...] = ()


def _secret(name: str) -> tuple[tuple[str, Any], ...]:
    return (("controllerExpandSecretRef", {"name": name, "namespace": "default"}),)


TOO_LARGE: Final = "too-large-for-a-number"
"""Sizes with a binary suffix end at 2^63-1, with which the driver is asked; others do not, and nobody is asked."""

_MODIFY_SECRET: Final = {names.MODIFY_SECRET_NAME: "nowhere", names.MODIFY_SECRET_NAMESPACE: "default"}
BAD: Final[dict[str, Bad]] = {
    "exbibytes": Bad("the array is not that large", size="8Ei"),
    TOO_LARGE: Bad("is more than CSI can express (2^63-1 bytes)", size="1e400"),
    "secret": Bad('secrets "nowhere" not found', csi=_secret("nowhere")),
    "secret-of-bytes": Bad("error getting secret", csi=_secret("bytes")),
    "zero": Bad("answered a capacity of 0 bytes to a request for 2147483648"),
    "negative": Bad("answered a capacity of -1 bytes"),
    "smaller": Bad("answered a capacity of 2147483647 bytes"),
    "as-before": Bad("answered a capacity of 1073741824 bytes"),
    "never": Bad("DeadlineExceeded"),
    "long-error": Bad("sorry, "),
    "modify-secret": Bad('secrets "nowhere" not found', vac="gold", pv=(("annotations", _MODIFY_SECRET),)),
    "class-missing": Bad('" does not exist.', vac="missing"),
    "class-of-another": Bad("no such parameter", vac="foreign"),
    "never-modified": Bad("DeadlineExceeded", vac="gold"),
    "of-another-driver": Bad("", csi=(("driver", "another.csi.test"),)),
    "of-another-claim": Bad("", pv=(("claimRef", a_reference("another", "another-uid")),)),
}


class MisleadingDriver(ResizingDriver):
    """Answers as the volume's handle says."""

    async def controller_expand_volume(
        self, request: csi.ControllerExpandVolumeRequest
    ) -> csi.ControllerExpandVolumeResponse:
        how = request.volume_id.rsplit("-", 1)[0]
        if request.capacity_range.required_bytes >= LARGEST:
            raise DriverError(Code.OUT_OF_RANGE, "the array is not that large")
        if how == "long-error":
            raise DriverError(Code.INTERNAL, LONG)
        if how == "never":
            await asyncio.sleep(3600)
        answer = await super().controller_expand_volume(request)
        answers = {"zero": 0, "negative": -1, "smaller": answer.capacity_bytes - 1, "as-before": GiB}
        answer.capacity_bytes = answers.get(how, answer.capacity_bytes)
        return answer

    async def controller_modify_volume(
        self, request: csi.ControllerModifyVolumeRequest
    ) -> csi.ControllerModifyVolumeResponse:
        if request.mutable_parameters["class"] == "foreign":  # a class is sent to any driver, which judges it
            raise DriverError(Code.INVALID_ARGUMENT, "no such parameter: class")
        if request.volume_id.startswith("never-modified"):
            await asyncio.sleep(3600)
        return await super().controller_modify_volume(request)


def _driver(name: str) -> MisleadingDriver:
    return MisleadingDriver(name=name, node_step=False)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of an administrator."""
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("control_plane")
        yield plane.kubeconfig()
        return
    with EmbeddedServer(tmp_path_factory.mktemp("server")) as server:
        yield server.kubeconfig


async def _make(world: Resizing, base: str, bad: Bad) -> None:
    """The claim with its volume, which asks for more."""
    claim = await world.create(a_claim(world(base), sc=world("sc"), volume=world(base)))
    source = {"csi": {"driver": world.driver, "volumeHandle": world(base), **dict(bad.csi)}}
    fields = {"storageClassName": world("sc"), "claimRef": a_reference(claim), **dict(bad.pv)}
    await world.create(a_pv(world(base), source=source, **fields))
    await world.patch(PVC, world(base), {"status": claim_status(1)}, subresource="status")
    if bad.vac:
        await world.ask_class(world(bad.vac), base)
    else:
        await world.patch(PVC, world(base), {"spec": {"resources": {"requests": {"storage": bad.size}}}})


async def _told(world: Resizing) -> dict[str, list[str]]:
    """What the claims say of failures, by their names here."""
    found: dict[str, list[str]] = {}
    for event in await world.list(EVENTS):
        base, _, own = event["involvedObject"].get("name", "").rpartition("-")
        # A binder that another test has started on the same server may tell of the claims, too.
        is_ours = world.driver in (event.get("source") or {}).get("component", "")
        if is_ours and event.get("type") == "Warning" and world(base) == f"{base}-{own}":
            assert event["reason"] == (names.MODIFY_FAILED if BAD[base].vac else names.RESIZE_FAILED)
            assert len(event["message"].encode()) <= 1024
            found.setdefault(base, []).append(event["message"])
    return found


async def test_all_are_told_and_no_volume_is_believed_to_be_larger(kubeconfig: Path, tmp_path: Path) -> None:
    async with a_world(kubeconfig, tmp_path, _driver) as world:
        await world.make_attributes_class("gold")
        await world.create(
            an_attributes_class(world("foreign"), parameters={"class": "foreign"}, driverName="another.csi.test")
        )
        await world.create(a_secret(world("bytes"), {"key": "//79"}))
        for base, bad in BAD.items():
            csi_fields = tuple((key, _named(world, value)) for key, value in bad.csi)
            await _make(world, base, dataclasses.replace(bad, csi=csi_fields))
        async with world.resizer(kubeconfig, "log", "--timeout=2s"):
            try:
                await world.until(lambda: _all_are_told(world), what="all are told")
            except AssertionError as error:
                error.add_note(f"not told: {await _missing(world)}")
                raise
            await _make(world, "usual", Bad(""))
            await world.shown(
                PVC, world("usual"), lambda claim: claim["status"]["capacity"]["storage"] == "2Gi", "has grown"
            )
        await _judge(world)


def _named(world: Resizing, value: Any) -> Any:
    return {**value, "name": world("bytes")} if isinstance(value, dict) and value["name"] == "bytes" else value


async def _missing(world: Resizing) -> dict[str, list[str]]:
    """Those of which is not told what it should be, with what is told."""
    told = {base: [] for base in BAD} | await _told(world)
    return {
        base: told[base] for base, bad in BAD.items() if bad.text and not any(bad.text in text for text in told[base])
    }


async def _all_are_told(world: Resizing) -> bool:
    return not await _missing(world)


async def _judge(world: Resizing) -> None:
    silent = {base for base, bad in BAD.items() if not bad.text}
    assert set() == silent & (await _told(world)).keys()
    assert set() == {world(base) for base in (*silent, TOO_LARGE)} & {
        call.request.volume_id for call in world.backend.made(EXPAND)
    }
    for base in BAD:
        claim, volume = await world.get(PVC, world(base)), await world.get(PV, world(base))
        assert ("1Gi", "1Gi") == (claim["status"]["capacity"]["storage"], volume["spec"]["capacity"]["storage"]), base
        assert "volumeAttributesClassName" not in volume["spec"], base
        assert _is_under_way(claim) == (base not in {*silent, TOO_LARGE}), base
    assert all(size >= GiB for size in world.backend.sizes.values())


def _is_under_way(claim: Json) -> bool:
    """A restart knows what was asked for."""
    status = claim["status"]
    return "modifyVolumeStatus" in status or "allocatedResourceStatuses" in status


async def test_the_api_server_refuses_the_rest(kubeconfig: Path, tmp_path: Path) -> None:
    async with a_world(kubeconfig, tmp_path, _driver) as world:
        await world.make_bound(size=5)
        await world.create(a_class(world("fixed"), provisioner=world.driver))
        fixed = await world.create(a_claim(world("still"), sc=world("fixed"), volume=world("still")))
        await world.create(
            a_pv(
                world("still"),
                source={"csi": {"driver": world.driver, "volumeHandle": "still"}},
                claimRef=a_reference(fixed),
            )
        )
        await world.patch(PVC, world("still"), {"status": claim_status(1)}, subresource="status")
        async with world.resizer(kubeconfig, "log"):
            for base, size in (("claim", "4Gi"), ("claim", "0"), ("claim", "-1Gi"), ("still", "2Gi")):
                with pytest.raises((Invalid, Forbidden)):
                    await world.patch(PVC, world(base), {"spec": {"resources": {"requests": {"storage": size}}}})
            with pytest.raises(Invalid):
                await world.patch(PV, world("claim"), {"spec": {"csi": {"volumeHandle": "another"}}})
            with pytest.raises(Invalid):
                await world.create(an_attributes_class(world("empty"), parameters=None, driverName=world.driver))
            await world.ask(6)
            await world.shown(
                PVC, world("claim"), lambda claim: claim["status"]["capacity"]["storage"] == "6Gi", "has grown"
            )
        assert ([6], {world("claim"): 6 * GiB}) == (world.asked, world.backend.sizes)
