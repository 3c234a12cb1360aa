"""Folders without a volume's record that could not be removed at a start: they are tried again, as far as they are empty."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from mooring.base.log import logger
from mooring.control.controller import Controller
from mooring.control.result import Result, Retry
from mooring.control.runtime import Runtime
from mooring.node.layout import BadName, Layout
from mooring.node.volumes import reasons as why
from mooring.node.volumes.actual import ActualState
from mooring.node.volumes.desired import DesiredState
from mooring.node.volumes.files import LeftOver, remove_folder
from mooring.node.volumes.pods import FOLDER_BACK_OFF

_log = logger(__name__)

_FOLDER_STAYS: Final = "A folder without a volume's record can't be removed, and is tried again; look what is in it"


class LeftFolders:
    """By the folder of a volume: the folders in it, inner ones first, and itself. A volume that comes back has its folder back."""

    def __init__(self, runtime: Runtime, layout: Layout, desired: DesiredState, actual: ActualState) -> None:
        self._layout, self._desired, self._actual = layout, desired, actual
        self._folders: dict[str, tuple[Path, ...]] = {}
        self.controller: Controller[str] = Controller(
            runtime, "node-volume-folders", self._remove, workers=1, backoff=FOLDER_BACK_OFF, label="folder", log=_log
        )

    def begin(self, left: Iterable[tuple[Path, ...]]) -> None:
        for folders in left:
            self._folders[str(folders[-1])] = folders
            self.controller.add_after(str(folders[-1]), FOLDER_BACK_OFF.base_s)

    async def _remove(self, folder: str) -> Result:
        """Raises Retry."""
        if Path(folder) in set(self._used()):
            return Result(why.FolderUsed())
        try:
            for one in self._folders[folder]:
                await asyncio.to_thread(remove_folder, one)
        except (OSError, LeftOver) as error:
            raise Retry(f"{_FOLDER_STAYS}: {error}") from None
        return Result(why.FolderGone())

    def _used(self) -> Iterator[Path]:
        """The folders of the volumes that are here or come here. One whose driver's name is no folder's has none."""
        states = (state.volume for state in self._actual.states.values())
        for volume in (*states, *self._desired.volumes):
            with contextlib.suppress(BadName):
                yield self._layout.block_volume(volume.spec_name)
                yield self._layout.staging(volume.driver, volume.handle).parent
