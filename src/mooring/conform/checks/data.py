"""What a pod writes: it is there when the volume is mounted again, and in what is made from it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from mooring.conform.asker import Asker
from mooring.conform.book.node import DATA_LOST, ELSEWHERE, LEFT_STAGED, NOT_THERE
from mooring.conform.book.volumes import EMPTY_COPY
from mooring.conform.check import Chapter, NotApplicable, Stopped
from mooring.conform.checks.snapshots import SNAPSHOTS, a_snapshot
from mooring.conform.life import CREATES, Life, begin, create
from mooring.csi.driver import Driver

CHAPTER = Chapter()

_FILE: Final = "conform-data"
_READY_TRIES: Final = 20
_READY_S: Final = 0.5


async def _to_pod(life: Life) -> Path:
    """Where the pod's file is. Raises Stopped."""
    await life.to_pod()
    if life.asker.has_seen(NOT_THERE, ELSEWHERE):
        raise Stopped("the volume is not at target_path")
    return Path(life.target) / _FILE


async def _from_pod(life: Life) -> None:
    """A file that the driver has let into the staging folder does not stay there."""
    await life.from_pod()
    if not life.asker.has_seen(LEFT_STAGED):
        await asyncio.to_thread((Path(life.staging) / _FILE).unlink, missing_ok=True)


async def _holds(life: Life, text: str) -> bool:
    """Mounted on paths of which the driver has not heard."""
    life.staging, life.target = life.asker.folders()
    file = await _to_pod(life)
    try:
        return await asyncio.to_thread(file.read_text) == text
    except (OSError, ValueError):
        return False
    finally:
        await _from_pod(life)


async def _written(asker: Asker) -> tuple[Life, str]:
    """A volume with a file in it, which came back from its pod. Raises Stopped, NotApplicable."""
    if not asker.sees or asker.options.is_block:
        why = "its volumes are block devices" if asker.options.is_block else "its mounts are not those of this process"
        raise NotApplicable(f"nobody here can write to the driver's volumes: {why}")
    life, text = await begin(asker), asker.name("text")
    file = await _to_pod(life)
    try:
        await asyncio.to_thread(file.write_text, text)
    except OSError as error:
        raise NotApplicable(f"nobody can write to the volume: {error.strerror}") from None
    await _from_pod(life)
    if not await _holds(life, text):
        asker.finds(
            DATA_LOST,
            Driver.node_publish_volume,
            life.mount(),
            "a file that was written at target_path before is not there",
        )
        raise Stopped("what is written does not reach the volume")
    return life, text


@CHAPTER.check(DATA_LOST, CREATES, "Node")
async def data_stays(asker: Asker) -> None:
    """A file that a pod has written is there after the volume was unmounted and mounted on other paths."""
    await _written(asker)


@CHAPTER.check(EMPTY_COPY, CREATES, "Node", SNAPSHOTS)
async def data_in_restore(asker: Asker) -> None:
    """A file that was in a volume is in a volume that is made from its snapshot."""
    life, text = await _written(asker)
    request = a_snapshot(asker, life.volume)
    for _ in range(_READY_TRIES):
        snapshot = (await asker.must(Driver.create_snapshot, request)).snapshot
        if snapshot.ready_to_use:
            break
        await asker.pause(_READY_S)
    else:
        raise NotApplicable("the snapshot is not ready in time")
    await _copied(asker, {"snapshot": {"snapshot_id": snapshot.snapshot_id}}, text)


@CHAPTER.check(EMPTY_COPY, CREATES, "Node", "Controller.CLONE_VOLUME")
async def data_in_clone(asker: Asker) -> None:
    """A file that was in a volume is in a volume that is made from it."""
    life, text = await _written(asker)
    await _copied(asker, {"volume": {"volume_id": life.identity}}, text)


async def _copied(asker: Asker, source: dict[str, Any], text: str) -> None:
    request = asker.a_volume(volume_content_source=source)
    copy = Life(asker, await create(asker, request), asker.capability(), *asker.folders())
    if not await _holds(copy, text):
        found = "a file of the source is not in the volume that was made from it"
        asker.finds(EMPTY_COPY, Driver.create_volume, request, found)
