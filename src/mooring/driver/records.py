"""A driver's records of its volumes: one JSON object for each id, in a folder.

A record is written to a temporary file, synced, and renamed: after a crash it is the old one or the new one, never a
part. Everything here blocks for as long as the disk takes.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mooring.base.folders import sync_folder
from mooring.base.json_text import from_json

_ENDING: Final = ".json"


class Records:
    """The records in a folder, which is made where it is missing. Ids must be fit for file names
    (`idempotency.is_id`).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def get(self, record_id: str) -> dict[str, Any] | None:
        """The record, None where there is none. Raises OSError, ValueError for one that can't be read."""
        try:
            found = from_json(self._path(record_id).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ValueError(f"{self._path(record_id)}: {error}") from None
        if not isinstance(found, dict):
            raise ValueError(f"{self._path(record_id)}: no object")
        return found

    def put(self, record_id: str, record: Mapping[str, Any]) -> None:
        """On disk when this returns. Raises OSError."""
        path = self._path(record_id)
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                json.dump(record, file, indent=1, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(self._folder)

    def remove(self, record_id: str) -> None:
        """Gone from the disk when this returns; one that is not there is fine. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            self._path(record_id).unlink()
            sync_folder(self._folder)

    def ids(self) -> list[str]:
        """Sorted. Raises OSError."""
        names = (path.name for path in self._folder.iterdir() if not path.name.startswith("."))
        return sorted(name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING))

    def _path(self, record_id: str) -> Path:
        assert record_id == Path(record_id).name, f"{record_id!r} is no name of a file"
        return self._folder / f"{record_id}{_ENDING}"
