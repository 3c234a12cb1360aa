"""This process' identities in its container's termination log, for those who stand by (`control/lease/obituary.py`).

The file is that of one run of the container, so only its main process may speak for it: that with the number 1. Where there is no such
file there is no pod. A failing program removes the note: then its log can be the kubelet's message, if the pod asks for that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from mooring.base.log import logger
from mooring.cli.process import Machine
from mooring.control.lease.obituary import note_of

_log = logger(__name__)


class TerminationNote:
    def __init__(self, machine: Machine, *, is_on: bool) -> None:
        self._file = machine.termination_log
        self._is_on = is_on and machine.is_main() and self._file.is_file()
        self._identities: list[str] = []

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """The note stays after the block, unless that fails."""
        has_failed = True
        try:
            yield
            has_failed = False
        finally:
            if has_failed and self._identities:
                self._write("")

    def add(self, identity: str) -> None:
        """Before it stands for election."""
        if self._is_on:
            self._identities.append(identity)
            self._write(note_of(self._identities))

    def _write(self, text: str) -> None:
        try:
            self._file.write_text(text, encoding="utf-8")
        except OSError as error:
            _log.info(2, "Could not write the termination log: the end of this process is known by that of its Lease", why=str(error))
