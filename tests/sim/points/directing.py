"""The doors by which a director comes to calls, disks and laws, which a script's world has from the lives of seeds.

They are put into the backend, the disk and the world for a while: who is not led goes by them as if they were not
there.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import Final
from unittest import mock

from mooring.wire.grpc.codes import Code
from tests.sim.backend import Backend, Fate, Operation
from tests.sim.node.disk import Disk
from tests.sim.points.director import ARRIVES, CALL, DIRECTOR, DYING_S, LED
from tests.sim.points.trial import Way
from tests.sim.world import SimWorld

OVERDUE: Final = 1.5
"""How long a call takes that is carried out late, in deadlines of its caller."""


@contextlib.contextmanager
def directed() -> Iterator[None]:
    """While it lasts, the calls of programs that are led go by their director, and it is asked about laws that they
    break.
    """
    call, work, fail, step = Backend.call, Backend._work, SimWorld.fail, Disk._step

    async def directed_call(self: Backend, verb: str, handle: str, node_id: str, secrets: dict[str, str]) -> None:
        director, process = DIRECTOR.get(), LED.get()
        if director is None or process is None:
            await call(self, verb, handle, node_id, secrets)
        else:
            await director.called(process, verb, handle, node_id, lambda: call(self, verb, handle, node_id, secrets))

    async def directed_work(self: Backend, operation: Operation) -> None:
        operation.fate = _fate(CALL.get(), operation.fate, self._plan.timeout_s)
        await work(self, operation)

    def directed_step(self: Disk, what: str, path: object, code: int = errno.EIO) -> None:
        director, process = DIRECTOR.get(), LED.get()
        if director is not None and process is not None:
            director.stepped(process, f"{what} {self._machine.short(path)}")
        step(self, what, path, code)

    def directed_fail(self: SimWorld, invariant: str, what: str) -> None:
        director, process = DIRECTOR.get(), LED.get()
        if ARRIVES.get() or (
            director is not None and process is not None and director.excuses(process, invariant, what)
        ):
            return
        if director is None or not director.excuses_leak(invariant):
            fail(self, invariant, what)

    with (
        mock.patch.object(Backend, "call", directed_call),
        mock.patch.object(Backend, "_work", directed_work),
        mock.patch.object(SimWorld, "fail", directed_fail),
        mock.patch.object(Disk, "_step", directed_step),
    ):
        yield


def _fate(way: Way | None, fate: Fate, timeout_s: float) -> Fate:
    """With its effect, and an answer that leaves it open; or after its caller has given up."""
    if way is Way.LOST:
        return Fate(fate.before_s, error=Code.UNAVAILABLE)
    if way is Way.DOUBT:
        return Fate(fate.before_s, error=Code.DEADLINE_EXCEEDED)
    if way is Way.LATE:
        return Fate(OVERDUE * timeout_s)
    if way is Way.KILL_IN:
        return Fate(DYING_S)
    return fate
