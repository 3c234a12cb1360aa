"""Intents: volumes that are about to be created, stored before the driver is called, so that no volume is ever lost.

An intent is open from before CreateVolume until its volume is stored as a PersistentVolume, or surely does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from mooring.kube.errors import Conflict
from mooring.sidecars.provisioner.model.intent import STILL_OPEN, Intent

Found: TypeAlias = Callable[[Mapping[str, "Intent"]], None]


class Intents:
    """Open intents, in memory: they are lost with the process, as external-provisioner's are. A `Journal` makes them durable.

    start() once, then run() for as long as they are used.
    """

    def __init__(self) -> None:
        self._open: dict[str, Intent] = {}

    def on_found(self, handler: Found) -> None:
        """Calls the handler with open intents that a former process, or another one, left."""

    async def start(self) -> None:
        """Reads the open intents. Raises ApiError."""

    async def run(self) -> None:
        """Keeps them until cancelled."""

    def open(self) -> Mapping[str, Intent]:
        """The open ones, live, by the claim's uid; those whose begin is under way among them."""
        return self._open

    async def begin(self, intent: Intent) -> None:
        """Opens it, or lets it take the place of the open one of the same claim; returns when that is durable.

        Raises ApiError; then the intent that was open before is open.
        """
        self._open[intent.uid] = intent

    async def end(self, uid: str) -> None:
        """The volume is stored, or surely does not exist. May become durable later; nothing happens if none is open."""
        self._open.pop(uid, None)

    async def wait_for_end(self, uid: str) -> None:
        """Returns once the end of this uid's intent is durable, or that it is about a second volume alone. Raises ApiError, Conflict
        while it is open.

        For callers that release a PersistentVolume: a volume that was kept on purpose must not be found again as a lost one.
        """
        intent = self._open.get(uid)
        if intent is not None and intent.stored_handle is None:
            raise Conflict(STILL_OPEN)

    async def tidy(self) -> None:
        """Makes all ends durable, as far as that works: for an orderly end of the process."""
