"""A disk that is full, or can't be written: what the driver has answered with OK must be true, and it goes on when
there is room again.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Final

from mooring.conform.asker import Asker, Outcome
from mooring.conform.book.errors import REFUSED
from mooring.conform.book.volumes import DELETE_ABSENT, FORGOTTEN
from mooring.conform.check import Chapter, NotApplicable
from mooring.conform.disk import Disk
from mooring.conform.life import CREATES, create, is_known
from mooring.csi.driver import Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.mounts.system import ToolFailed

CHAPTER = Chapter()

_TRIES: Final = 3


def _disk(asker: Asker) -> Disk:
    if asker.disk is None:
        raise NotApplicable(
            "it needs a small disk under the driver's data: say where they are, as in --data-folder /var/lib/my-driver"
        )
    return asker.disk


async def _life_on(asker: Asker, bad: AbstractContextManager[None], *, kills: bool) -> None:
    """Volumes are made and deleted while the disk is bad; afterwards each OK is held against what there is, and each
    call goes through.
    """
    kept, gone = await create(asker, asker.a_volume()), await create(asker, asker.a_volume())
    made: list[tuple[Any, Outcome]] = []
    delete = csi.DeleteVolumeRequest(volume_id=gone.volume_id)
    try:
        with bad:
            for _ in range(_TRIES):
                request = asker.a_volume()
                made.append((request, await asker.ask(Driver.create_volume, request)))
            await asker.ask(Driver.delete_volume, delete)
            if kills:
                await asker.kill()
    except ToolFailed as error:
        raise NotApplicable(f"the disk can't be made so: {str(error).splitlines()[0]}") from None
    if kills:
        await asker.restart()
    await is_known(asker, kept)
    for request, outcome in made:
        if outcome.ok:
            await is_known(asker, outcome.response.volume)
        await asker.must(Driver.create_volume, request, REFUSED)
    await asker.must(Driver.delete_volume, delete, DELETE_ABSENT)


@CHAPTER.check(FORGOTTEN, CREATES)
async def full_disk(asker: Asker) -> None:
    """On a full disk no volume is lost, and none is made by word alone; when there is room again each call goes
    through.
    """
    await _life_on(asker, _disk(asker).full(), kills=False)


@CHAPTER.check(FORGOTTEN, CREATES, restarts=True)
async def kill_on_full_disk(asker: Asker) -> None:
    """kill -9 on a full disk: the driver starts again when there is room, and knows its volumes."""
    await _life_on(asker, _disk(asker).full(), kills=True)


@CHAPTER.check(FORGOTTEN, CREATES)
async def readonly_disk(asker: Asker) -> None:
    """On a disk that can't be written no volume is lost, and none is made by word alone; when it can, each call goes
    through.
    """
    await _life_on(asker, _disk(asker).readonly(), kills=False)
