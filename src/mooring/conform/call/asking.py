"""One call to a driver, judged by the book."""

from __future__ import annotations

from typing import Any

import msgspec
from google.protobuf.message import Message

from mooring.base.clock import Clock
from mooring.conform.book.errors import SILENT
from mooring.conform.book.rule import Breach
from mooring.conform.book.watcher import Watcher
from mooring.conform.call.patience import patience_s
from mooring.conform.running_time import running_time
from mooring.conform.watched import Watch, WatchedDriver
from mooring.csi.driver import Call, Rpc
from mooring.csi.errors import DriverError


class Outcome(msgspec.Struct, frozen=True):
    """answer or error. breaches: of the book's rules, as far as one call shows them."""

    answer: Message | None
    error: DriverError | None
    breaches: tuple[Breach, ...]
    seconds: float


async def ask(
    address: str, rpc: Rpc[Any, Any], request: Message, *, timeout_s: float, connect_s: float, clock: Clock
) -> Outcome:
    """A deadline shorter than any of Kubernetes' breaks no rule. Raises ConfigError where nobody answers at the
    address.
    """
    breaches: list[Breach] = []
    async with running_time(clock) as ran:
        driver = WatchedDriver(address, watch=Watch(Watcher(breaches.append, now=ran.now), "", None), clock=clock)
        await driver.connect(connect_s)
        began = clock.now()
        try:
            answer, error = await driver.invoke(rpc, request, Call(timeout_s)), None
        except DriverError as failed:
            answer, error = None, failed
        finally:
            await driver.close()
    told = tuple(breach for breach in breaches if breach.rule is not SILENT or timeout_s >= patience_s(rpc))
    return Outcome(answer, error, told, clock.now() - began)
