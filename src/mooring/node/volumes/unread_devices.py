"""Raw devices whose records can't be read, and that no pod tells of: looked at again until they can be, or nothing of them is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mooring.base.log import logger
from mooring.control.controller import Controller
from mooring.control.result import Result, Retry
from mooring.control.runtime import Runtime
from mooring.node.layout import Layout
from mooring.node.volumes import reasons as why
from mooring.node.volumes.found import Found, find_device
from mooring.node.volumes.in_use import Unread
from mooring.node.volumes.pods import FOLDER_BACK_OFF

_log = logger(__name__)

_UNREAD: Final = "A raw device's record can't be read, and is looked at again; put it right, or remove it and what is mounted beside it"


class UnreadDevices:
    """By the name of a device's folder. adopt: called with the device once its record can be read."""

    def __init__(self, runtime: Runtime, layout: Layout, unread: Unread, adopt: Callable[[Found], None]) -> None:
        self._layout, self._unread, self._adopt = layout, unread, adopt
        self.controller: Controller[str] = Controller(
            runtime, "node-unread-devices", self._look_again, workers=1, backoff=FOLDER_BACK_OFF, label="folder", log=_log
        )

    def begin(self) -> None:
        for folder in self._unread.devices:
            self.controller.add_after(folder, FOLDER_BACK_OFF.base_s)

    async def _look_again(self, folder: str) -> Result:
        """Raises Retry."""
        if folder not in self._unread.devices:
            return Result(why.DeviceRead())
        try:
            found = await asyncio.to_thread(find_device, self._layout, folder)
        except OSError as error:
            raise Retry(f"{_UNREAD}: {error}") from None
        if folder in found.unread.devices:
            raise Retry(f"{_UNREAD}: {self._layout.block_record_folder(folder)}")
        if folder in self._unread.devices:  # no pod has told what it is meanwhile
            self._adopt(found)
            self._unread.device_was_read(folder)
        return Result(why.DeviceRead())
