"""The host-path driver's folder: one state file, a lock, and a folder for each volume.

    FOLDER/lock           held while a driver runs; the kernel frees it however the driver ends
    FOLDER/state.json     replaced whole: a reader sees the old state or the new one, never a part
    FOLDER/volumes/ID/    a volume's data

A volume's folder is made before the state that names it, and removed after the state that has forgotten it. So after a kill at any
moment the state names no folder that isn't there, and `opened` puts right what lies about: an empty folder that no volume owns is
a creation that was never answered, an id in `deleting` a deletion that did not get to its end. A folder with data that no volume
owns is nobody's guess: it is left alone, and told about.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from mooring.base.errors import ConfigError
from mooring.base.folders import hold, sync_folder
from mooring.base.log import logger
from mooring.driver.state import State, decoded, encoded, is_volume_id

_log = logger(__name__)

STATE_NAME: Final = "state.json"


def read_state(folder: Path) -> State:
    """The state of a folder, without its lock: for tests, and for people who look. Raises OSError, ValueError."""
    return decoded((folder / STATE_NAME).read_bytes())


class StateFolder:
    """The folder, held by this process until `close`. Everything here blocks: for milliseconds, or while data is removed."""

    def __init__(self, folder: Path, lock: int) -> None:
        self._folder = folder
        self._lock = lock

    @classmethod
    def opened(cls, folder: Path) -> tuple[StateFolder, State]:
        """The folder, made where it is missing, with its state. Raises ConfigError when it can't be used; nothing is changed then."""
        try:
            (folder / "volumes").mkdir(parents=True, exist_ok=True, mode=0o750)
            lock = hold(folder / "lock", "the driver")
        except OSError as error:
            raise ConfigError(f"state folder {str(folder)!r} can't be used: {error.strerror}: {error.filename!r}") from None
        opened = cls(folder, lock)
        try:
            return opened, opened._recovered(opened._read())
        except OSError as error:
            opened.close()
            raise ConfigError(f"state folder {str(folder)!r} can't be used: {error.strerror}: {error.filename!r}") from None
        except BaseException:
            opened.close()
            raise

    def close(self) -> None:
        """Lets other drivers in. Idempotent."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def volume(self, volume_id: str) -> Path:
        """Where a volume's data is."""
        assert is_volume_id(volume_id), "only ids of our own become paths"
        return self._folder / "volumes" / volume_id

    def make_volume(self, volume_id: str) -> None:
        self.volume(volume_id).mkdir(mode=0o777)  # whoever mounts it decides; the folders above keep others out

    def remove_volume(self, volume_id: str) -> None:
        """Removes the volume's data, as far as it is there. Raises OSError."""
        path = self.volume(volume_id)
        if path.exists():
            shutil.rmtree(path)

    def write(self, state: State) -> None:
        """Replaces the state file; returns when the disk has it, and the folders made before. Raises OSError."""
        assert self._lock >= 0, "closed"
        sync_folder(self._folder / "volumes")
        new = self._folder / f"{STATE_NAME}.new"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(encoded(state))
            file.flush()
            os.fsync(descriptor)
        new.replace(self._folder / STATE_NAME)
        sync_folder(self._folder)

    def _read(self) -> State:
        path = self._folder / STATE_NAME
        try:
            return read_state(self._folder)
        except FileNotFoundError:
            return self._first_state()
        except ValueError as error:
            raise ConfigError(
                f"state file {str(path)!r} is damaged: {error}; put a good copy in its place, or move the folder away"
            ) from None

    def _first_state(self) -> State:
        """An empty state, unless volumes are there that a lost state file must have known."""
        if self._orphans(State()):
            raise ConfigError(f"{str(self._folder)!r} has volumes and no {STATE_NAME}: put a copy of it back, or move the folder away")
        state = State()
        self.write(state)
        return state

    def _orphans(self, state: State) -> list[str]:
        """Ids of the folders that no volume owns."""
        return sorted(e.name for e in os.scandir(self._folder / "volumes") if is_volume_id(e.name) and e.name not in state.volumes)

    def _recovered(self, state: State) -> State:
        """The state after what a kill has left behind is put right. Raises OSError."""
        for volume_id in state.deleting:
            self.remove_volume(volume_id)
            state = state.forgotten(volume_id)
        for volume_id in self._orphans(state):
            self._remove_if_empty(volume_id)
        for volume_id in state.volumes:
            if not self.volume(volume_id).is_dir():
                _log.warning("The volume's folder is gone", volume_id=volume_id)
        return state

    def _remove_if_empty(self, volume_id: str) -> None:
        path = self.volume(volume_id)
        if any(path.iterdir()):
            _log.warning("A folder with data belongs to no volume and is left alone", path=str(path))
            return
        path.rmdir()
        _log.info(2, "Removed the empty folder of a volume that was never answered", path=str(path))
