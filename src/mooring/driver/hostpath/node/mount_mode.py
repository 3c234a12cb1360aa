"""How volumes come to paths: by real mounts, or by links where this process may not mount."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from mooring.base.errors import ConfigError
from mooring.base.log import logger
from mooring.driver.hostpath.node import images
from mooring.driver.hostpath.node.mounting import Links, Mounts, RealMounts
from mooring.driver.hostpath.options import HostpathOptions
from mooring.mounts import filesystems, system
from mooring.mounts.targets import TRIAL, mount_table, mounting_refusal

_log = logger(__name__)

AUTO, MOUNT, LINK = "auto", "mount", "link"
MODES: Final = (AUTO, MOUNT, LINK)


class MountMode:
    """folder: for a trial. choice: of MODES; with `auto` a trial decides when the first volume comes to a path. Threads
    may enter it.

    The trial's folder is made at the start and stays: a disk that is full later does not keep the trial from being
    made.
    """

    def __init__(self, folder: Path, choice: str = AUTO) -> None:
        self._folder, self._choice = folder, choice
        self._lock = threading.Lock()
        self._mounts: Mounts | None = {MOUNT: RealMounts(), LINK: Links()}.get(choice)

    def mounts(self) -> Mounts:
        """Blocks while it tries. Raises OSError, ToolFailed where the trial tells nothing; the next call tries
        again.
        """
        with self._lock:
            if self._mounts is None:
                refusal = mounting_refusal(self._folder)
                if refusal:
                    _log.warning("This process may not mount: volumes are shown by links", reason=refusal)
                self._mounts = Links() if refusal else RealMounts()
            return self._mounts

    def check(self, options: HostpathOptions) -> None:
        """Raises ConfigError for options that need another mode."""
        refusal = ""
        if self._choice != LINK:
            with contextlib.suppress(OSError):  # told by the trial, if it comes to one
                (self._folder / TRIAL).mkdir(exist_ok=True)
        if options.images and self._choice == LINK:
            refusal = "volumes are to be shown by links"
        elif options.images or self._choice == MOUNT:
            refusal = self._refusal()
        if refusal:
            raise ConfigError(f"mounting is asked for, and not possible: {refusal}")
        tools = (system.LOOP_TOOL, *filesystems.tools_for(filesystems.FS_TYPE), images.FREEZER)
        if options.images and (missing := system.missing_tools(tools)):
            raise ConfigError(
                f"file systems are asked for, and {', '.join(missing)} not found on this machine: "
                "install util-linux and e2fsprogs"
            )

    def _refusal(self) -> str:
        """Raises ConfigError where the trial tells nothing."""
        try:
            return mounting_refusal(self._folder)
        except (OSError, system.ToolFailed) as error:
            raise ConfigError(f"mounting is asked for, and {error}") from None

    @contextlib.contextmanager
    def held_still(self, file: Path) -> Iterator[None]:
        """Nothing is written to the volume in this file while the block runs."""
        with images.held_still(file, mount_table()):
            yield

    def thaw(self, files: Iterable[Path]) -> None:
        """Lets the file systems in these files go on. A driver that was killed while it took a snapshot has left them
        frozen.
        """
        for file in files:
            images.thaw_all(file, mount_table())
