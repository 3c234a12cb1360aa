"""Folders without a volume's record that could not be removed at a start: they are tried again, as far as they are empty."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from mooring.api.volume_names import split_unique_name
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

USED_S: Final = 300.0
"""Between two looks at a folder that a volume has come to use."""

_FOLDER_STAYS: Final = "A folder without a volume's record can't be removed, and is tried again; look what is in it"


class LeftFolders:
    """By the folder of a volume: the folders in it, inner ones first, and itself. A volume that comes back has its folder back.

    gone: called when one of them is left behind no more.
    """

    def __init__(self, runtime: Runtime, layout: Layout, desired: DesiredState, actual: ActualState, gone: Callable[[], None]) -> None:
        self._layout, self._desired, self._actual, self._gone = layout, desired, actual, gone
        self._folders: dict[str, tuple[Path, ...]] = {}
        self.controller: Controller[str] = Controller(
            runtime, "node-volume-folders", self._remove, workers=1, backoff=FOLDER_BACK_OFF, label="folder", log=_log
        )

    def begin(self, left: Iterable[tuple[Path, ...]]) -> None:
        for folders in left:
            self._folders[str(folders[-1])] = folders
            self.controller.add_after(str(folders[-1]), FOLDER_BACK_OFF.base_s)

    def has_of(self, unique: str) -> bool:
        """True while the folder of the volume of this name is left."""
        parts = split_unique_name(unique)
        if parts is None:
            return False
        try:
            return str(self._layout.staging(*parts).parent) in self._folders
        except BadName:
            return False

    async def _remove(self, folder: str) -> Result:
        """Raises Retry."""
        if Path(folder) in set(self._used()):
            return Result(why.FolderUsed(), after_s=USED_S)  # it may come to nothing, and the folder stays
        try:
            for one in self._folders[folder]:
                await asyncio.to_thread(remove_folder, one)
        except (OSError, LeftOver) as error:
            raise Retry(f"{_FOLDER_STAYS}: {error}") from None
        del self._folders[folder]
        self._gone()
        return Result(why.FolderGone())

    def _used(self) -> Iterator[Path]:
        """The folders of the volumes that are here or come here. One whose driver's name is no folder's has none."""
        states = (state.volume for state in self._actual.states.values())
        for volume in (*states, *self._desired.volumes):
            with contextlib.suppress(BadName):
                yield self._layout.block_volume(volume.spec_name)
                yield self._layout.staging(volume.driver, volume.handle).parent
