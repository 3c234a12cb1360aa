"""A driver whose calls are told by the one who makes them: for drivers that can't tell of themselves."""

from __future__ import annotations

import asyncio
from typing import Final

from mooring.base.clock import Clock
from mooring.csi.client import CallObserver
from mooring.csi.codes import Code, DriverError
from mooring.csi.driver import A, Call, Q, Rpc
from mooring.csi.redact import redacted
from mooring.csi.wire_driver import WireDriver
from mooring.dev.story import Story
from mooring.driver.guard import CallRecord

ROUTINE: Final = "NodeGetVolumeStats"
"""Asked once a minute for each volume of each pod: told when it fails."""


class TracedDriver(WireDriver):
    """who: the called part, in the story."""

    def __init__(self, address: str, who: str, story: Story, *, clock: Clock, metrics: CallObserver | None = None) -> None:
        super().__init__(address, clock=clock, metrics=metrics)
        self._who, self._story = who, story

    async def invoke(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        began = self._clock.now()
        try:
            response = await super().invoke(rpc, request, call)
        except DriverError as error:
            self._tell(rpc.name, request, "", error, began)
            raise
        except asyncio.CancelledError:
            self._tell(rpc.name, request, "", DriverError(Code.CANCELED, "the caller gave up"), began)
            raise
        self._tell(rpc.name, request, redacted(response), None, began)
        return response

    def _tell(self, name: str, request: Q, response: str, error: DriverError | None, began: float) -> None:
        tell(self._story, CallRecord(name, redacted(request), response, error, self._clock.now() - began), self._who)


def tell(story: Story, record: CallRecord, who: str) -> None:
    """Tells of a call, unless it is one that comes all the time and went well."""
    if record.rpc != ROUTINE or record.error is not None:
        story.called(record, who)
