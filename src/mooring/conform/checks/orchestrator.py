"""What an orchestrator does when things go wrong: calls at the same time, callers that go away, a driver that is
killed, many volumes.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from mooring.conform.asker import Asker, Outcome
from mooring.conform.book.errors import REFUSED, STILL_ABORTED
from mooring.conform.book.lists import LACKS
from mooring.conform.book.node import AGAIN
from mooring.conform.book.publishing import REFUSED_AGAIN as PUBLISH_REFUSED
from mooring.conform.book.rule import Rule
from mooring.conform.book.volumes import ANOTHER, DELETE_ABSENT, FORGOTTEN, REFUSED_AGAIN
from mooring.conform.check import Chapter, NotApplicable, Stopped
from mooring.conform.checks.lists import listed
from mooring.conform.finder import told
from mooring.conform.life import ATTACHES, CREATES, begin, create, delete, is_known, step
from mooring.csi.driver import Driver, Rpc
from mooring.csi.errors import NON_FINAL
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code

CHAPTER = Chapter()

AT_ONCE: Final = 4
MANY_AT_ONCE: Final = 16
TENTHS: Final = 10
_OF_A_VOLUME: Final = frozenset({"node_stage_volume", "node_publish_volume"})
"""NotFound to them is about the volume."""
GOES_AFTER_S: Final = (0.0, 0.001, 0.005, 0.02)


async def _at_once(asker: Asker, rpc: Rpc[Any, Any], request: Any, rule: Rule) -> list[Outcome]:
    """The same call several times at once: each is carried out, or put off."""
    outcomes = await asyncio.gather(*(asker.ask(rpc, request) for _ in range(AT_ONCE)))
    for one in outcomes:
        if asker.fails_in_any_case(rpc, one):
            raise Stopped(told(f"{rpc.name} fails in any case: {one.error}", request))
        if not one.ok and one.code not in NON_FINAL and not one.breaches:
            if one.code == Code.NOT_FOUND and rpc.attribute in _OF_A_VOLUME:
                rule = FORGOTTEN
            asker.finds(rule, rpc, request, f"of {AT_ONCE} equal calls at the same time one is answered {one.error}")
            break
    return outcomes


@CHAPTER.check(ANOTHER, CREATES)
async def create_at_once(asker: Asker) -> None:
    """Equal CreateVolume calls at the same time make one volume."""
    request = asker.a_volume()
    outcomes = await _at_once(asker, Driver.create_volume, request, REFUSED_AGAIN)
    last = await asker.must(Driver.create_volume, request, REFUSED_AGAIN)
    ids = {one.response.volume.volume_id for one in outcomes if one.ok} | {last.volume.volume_id}
    if len(ids) > 1 and not asker.has_seen(ANOTHER):
        asker.finds(
            ANOTHER,
            Driver.create_volume,
            request,
            f"equal calls at the same time made volumes {', '.join(sorted(ids))}",
        )


@CHAPTER.check(DELETE_ABSENT, CREATES)
async def delete_at_once(asker: Asker) -> None:
    """Equal DeleteVolume calls at the same time answer OK, or Aborted."""
    volume = await create(asker, asker.a_volume())
    request = csi.DeleteVolumeRequest(volume_id=volume.volume_id)
    await _at_once(asker, Driver.delete_volume, request, DELETE_ABSENT)
    await asker.must(Driver.delete_volume, request, DELETE_ABSENT)


@CHAPTER.check(PUBLISH_REFUSED, CREATES, ATTACHES, "Node")
async def publish_at_once(asker: Asker) -> None:
    """Equal ControllerPublishVolume calls at the same time answer OK, or Aborted."""
    life = await begin(asker)
    await _at_once(asker, Driver.controller_publish_volume, life.publish(), PUBLISH_REFUSED)
    await step(life, Driver.controller_publish_volume, PUBLISH_REFUSED)


@CHAPTER.check(AGAIN, CREATES, "Node")
async def mount_at_once(asker: Asker) -> None:
    """Equal calls to the node at the same time answer OK, or Aborted."""
    life = await begin(asker)
    for rpc, rule in (*life.there(), *life.back()):
        if rpc.service == "Node":
            await _at_once(asker, rpc, life.request(rpc), rule)
        await step(life, rpc, rule)


@CHAPTER.check(STILL_ABORTED, CREATES)
async def caller_goes_away(asker: Asker) -> None:
    """After a caller has gone away in the middle of CreateVolume or DeleteVolume, the same call goes through."""
    for after_s in GOES_AFTER_S:
        request = asker.a_volume()
        await asker.given_up(Driver.create_volume, request, after_s)
        volume = await create_again(asker, request)
        gone = csi.DeleteVolumeRequest(volume_id=volume.volume_id)
        await asker.given_up(Driver.delete_volume, gone, after_s)
        await asker.must(Driver.delete_volume, gone, DELETE_ABSENT)


async def create_again(asker: Asker, request: csi.CreateVolumeRequest) -> csi.Volume:
    volume: csi.Volume = (await asker.must(Driver.create_volume, request, REFUSED_AGAIN)).volume
    if not volume.volume_id:
        raise Stopped("CreateVolume answers no volume_id")
    return volume


@CHAPTER.check(STILL_ABORTED, CREATES, "Node")
async def caller_goes_away_on_node(asker: Asker) -> None:
    """After a caller has gone away in the middle of a call on a volume's way to a pod and back, the same call goes
    through.
    """
    for after_s in GOES_AFTER_S:
        life = await begin(asker)
        for rpc, rule in (*life.there(), *life.back()):
            await asker.given_up(rpc, life.request(rpc), after_s)
            await step(life, rpc, rule)


@CHAPTER.check(FORGOTTEN, CREATES, restarts=True)
async def volume_after_kill(asker: Asker) -> None:
    """After kill -9 the driver knows its volumes by their ids, CreateVolume gives the same one, and it can be
    deleted.
    """
    request = asker.a_volume()
    volume = await create(asker, request)
    await asker.restart()
    await is_known(asker, volume)  # before CreateVolume: a driver that has lost it may make it anew under the same id
    await create_again(asker, request)
    await delete(asker, volume)
    await asker.restart()
    await asker.must(Driver.delete_volume, csi.DeleteVolumeRequest(volume_id=volume.volume_id), DELETE_ABSENT)


@CHAPTER.check(AGAIN, CREATES, "Node", restarts=True)
async def kill_between_calls(asker: Asker) -> None:
    """kill -9 between any two calls of a volume's life: the last call comes again, and life goes on."""
    life = await begin(asker)
    for rpc, rule in (*life.there(), *life.back()):
        await step(life, rpc, REFUSED)
        await asker.restart()
        await is_known(asker, life.volume)
        await step(life, rpc, rule)
    await delete(asker, life.volume)


@CHAPTER.check(AGAIN, CREATES, "Node", restarts=True)
async def kill_in_calls(asker: Asker) -> None:
    """kill -9 in the middle of each call of a volume's life: the call comes again, and life goes on."""
    life = await begin(asker)
    for rpc, rule in (*life.there(), *life.back()):
        await asker.given_up(rpc, life.request(rpc), asker.randomness.uniform(0.0, 0.02))
        await asker.restart()
        await is_known(asker, life.volume)
        await step(life, rpc, rule)
    await delete(asker, life.volume)


class Progress:
    """Tells at each tenth how many of the volumes are made, or deleted."""

    def __init__(self, asker: Asker, count: int, what: str) -> None:
        self._tell, self._count, self._what, self._done = asker.on_progress, count, what, 0

    def one_more(self) -> None:
        self._done += 1
        if self._done * TENTHS // self._count > (self._done - 1) * TENTHS // self._count:
            self._tell(f"{self._done} of {self._count} volumes {self._what}")


@CHAPTER.check(LACKS, CREATES)
async def many_volumes(asker: Asker) -> None:
    """Many volumes at once: all are made, listed where the driver lists, and deleted."""
    count = asker.options.volumes
    if not count:
        raise NotApplicable("it takes long: say how many, as in --volumes 1000")
    slots = asyncio.Semaphore(MANY_AT_ONCE)
    made, deleted = Progress(asker, count, "made"), Progress(asker, count, "deleted")

    async def one() -> csi.Volume:
        async with slots:
            volume = await create(asker, asker.a_volume())
        made.one_more()
        return volume

    volumes = await asyncio.gather(*(one() for _ in range(count)))
    if "Controller.LIST_VOLUMES" in asker.abilities:
        missing = {volume.volume_id for volume in volumes} - await listed(asker, 100)
        if missing:
            found = f"{len(missing)} of {count} volumes are on no page, {min(missing)!r} among them"
            asker.finds(LACKS, Driver.list_volumes, csi.ListVolumesRequest(max_entries=100), found)

    async def gone(volume: csi.Volume) -> None:
        async with slots:
            await delete(asker, volume)
        deleted.one_more()

    await asyncio.gather(*(gone(volume) for volume in volumes))
