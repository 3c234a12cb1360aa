"""Leader election on a Lease: of several candidates one works.

    elector = LeaderElector(
        cluster, candidate, clock=clock, randomness=randomness, events=recorder, metrics=LeaseMetrics(registry)
    )
    await elector.run(controller.run)

The leader renews each retry period. Not renewed within the renew deadline, the work is cancelled at once; it has until
the Lease would have run out, counted from the last renewal, for then another may lead. From the deadline on it can
neither write nor call a driver (`base/fence.py`), also when the process was stopped meanwhile. If it is still there,
WorkOutlivesLease ends the process. Else we stand again. When `run` is cancelled, or the work ends by itself, the Lease
is renewed until the work is over and then given back.

Differs from client-go: the renew deadline counts from when the last successful renewal was sent, so that two never lead
at once while clocks run at about the same speed (there it counts from the next try, which makes it as long as the lease
duration); failed renewals are tried again soon; a lost Lease does not end the process; a candidate that sees the
leader's Lease run out, or given back, looks again then and not only at its next poll (the reads and writes are no more
than upstream's while a leader is alive). A watch tells it; without the right to watch, polling remains.

`control/lease/roles.py` decides, `control/lease/record.py` has the written fields. Source: client-go
tools/leaderelection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from mooring.base import fence
from mooring.base.clock import Clock, Instant
from mooring.base.errors import InvariantError, MooringError
from mooring.base.log import LogOnce, logger
from mooring.base.randomness import Random
from mooring.control.lease.lock import LeaseLock, OnLook, WholeLease
from mooring.control.lease.record import JITTER, Candidate, LeaseTimes
from mooring.control.lease.reporter import LeadershipReporter, LeaseMetrics, Recorder
from mooring.control.lease.roles import HOLDING, NEXT, STEPS, Happening, Role, Step
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, Conflict, Forbidden, Gone, MethodNotAllowed, Unauthorized

__all__ = ["Candidate", "LeaderElector", "LeaseMetrics", "LeaseTimes", "Role", "WorkOutlivesLease"]

Work = Callable[[], Awaitable[None]]

HEALTH_GRACE_S: Final = 20.0
# Upstream's text; its lease has no name there.
UNHEALTHY: Final = "internal server error: failed election to renew leadership on lease "
_RETRIES_PER_PERIOD: Final = 4.0  # while renewals fail
_SPREAD: Final = 0.2  # of the retry period: how far candidates that are woken together part
_ATTEMPT_S_MIN: Final = 1.0
_WATCH_S: Final = (300.0, 600.0)

_WITHOUT_WORK: Final = frozenset({Role.STANDBY, Role.ENDED})

_log = logger(__name__)


class WorkOutlivesLease(MooringError):
    """The Lease is lost and about to run out, and the work has not ended: only the end of the process can stop it
    now.
    """


class LeaderElector:
    """candidate: with its identity, which must be this process' own. events: for the begin and end of leadership."""

    def __init__(
        self,
        cluster: Cluster,
        candidate: Candidate,
        *,
        clock: Clock,
        randomness: Random,
        events: Recorder | None = None,
        metrics: LeaseMetrics | None = None,
    ) -> None:
        """Raises ConfigError (exit code 2) for impossible times."""
        candidate.times.check()
        self._me = candidate
        self._times = candidate.times
        self._lock = LeaseLock(cluster, candidate, clock)
        self._clock, self._randomness = clock, randomness
        self._role = Role.STANDBY
        self._next_try: Instant = 0.0  # when to renew next
        self._term = 0
        self._given_back = asyncio.Event()
        self._log = _log.bind(lock=f"{candidate.namespace}/{candidate.lock_name}", identity=candidate.identity)
        self._log_once = LogOnce(self._log)
        self._refusal = ""
        self._reporter = LeadershipReporter(candidate, self._log, events, metrics)

    @property
    def role(self) -> Role:
        return self._role

    @property
    def is_leader(self) -> bool:
        """True while the Lease is ours and renewed in time; also false when the loop was held up and the time is
        over.
        """
        return self._role in HOLDING and self._clock.now() < self._deadline()

    def healthy(self) -> str:
        """Empty when all is well. Else the text for status 500: we hold the Lease and have long not renewed it."""
        late = (
            self._role in HOLDING and self._clock.now() > self._lock.renewed_at + self._times.lease_s + HEALTH_GRACE_S
        )
        return UNHEALTHY if late else ""

    @property
    def obstacle(self) -> str:
        """The refusal that keeps us from standing for election, "" for none: the API server refuses us the Lease."""
        return self._refusal

    async def run(self, work: Work, on_look: OnLook | None = None) -> None:
        """Stands for election and works while leading, again and again. on_look: see LeaseLock.

        Returns when the work returned. Raises what the work raised, CancelledError once the work has ended and the
        Lease was given back, WorkOutlivesLease. A second cancellation gives nothing back.
        """
        assert self._role is Role.STANDBY, "an elector runs once"
        self._lock.on_look = on_look or self._lock.on_look
        while not self._is(Role.ENDED):
            await self._stand()
            await self._lead(work)

    # Standing by

    async def _stand(self) -> None:
        """Returns when we lead."""
        self._log.info(0, "Standing for leader election")
        try:
            await self._try_to_win()
            if not self._is(Role.LEADING):
                async with asyncio.TaskGroup() as group:
                    listening = group.create_task(self._listen(), name=f"lease/{self._me.lock_name}/listen")
                    while not self._is(Role.LEADING):
                        await self._pause()
                        await self._try_to_win()
                    listening.cancel()
        except asyncio.CancelledError:
            self._happens(Happening.CALLED_OFF)
            if self._is(Role.DRAINING):
                self._happens(Happening.WORK_ENDED)  # it was won, and no work has begun
            self._announce()
            if self._is(Role.RELEASING):
                await self._release()
            raise

    async def _try_to_win(self) -> None:
        """One look, and one claim if the Lease is to be had."""
        self._given_back.clear()
        try:
            async with asyncio.timeout(self._times.renew_s):
                lease = await self._lock.read()
                if STEPS[self._role, self._lock.observed(lease)] is Step.WRITE:
                    self._happens(Happening.CLAIMS)
                    await self._write(lease)
                    self._announce()
                else:
                    self._happens(Happening.REFUSED)
                self._log_once.reset()
                self._refusal = ""
        except (ApiError, TimeoutError) as error:
            self._refusal = (
                f"may not stand for leader election: {error}" if isinstance(error, Forbidden | Unauthorized) else ""
            )
            self._log_once.error("Failed to acquire the Lease, trying again", _said(error))

    async def _pause(self) -> None:
        """Wait for the next poll, or until the Lease runs out or is given back."""
        delay_s = self._times.retry_s * self._randomness.uniform(1.0, 1.0 + JITTER)
        spread_s = self._randomness.uniform(0.0, self._times.retry_s * _SPREAD)
        left_s = self._lock.left_s()
        if left_s > 0.0:
            delay_s = min(delay_s, left_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._given_back.wait()
        if (self._lock.look_again() and left_s > 0.0) or self._given_back.is_set():
            await self._clock.sleep(spread_s)

    async def _listen(self) -> None:
        """Watches the Lease while we stand by: its changes are known when they happen, and one that is given back ends
        the pause.
        """
        while True:
            try:
                if self._lock.version:
                    async with contextlib.aclosing(self._lock.changes(self._randomness.uniform(*_WATCH_S))) as changes:
                        async for record in changes:
                            if not record.holder:
                                self._given_back.set()
            except (Unauthorized, Forbidden, MethodNotAllowed) as error:
                self._log.info(2, "Not allowed to watch the Lease, polling it only", why=str(error))
                return
            except Gone:
                self._lock.version = ""  # the next poll knows a newer one
            except ApiError as error:
                self._log.info(4, "The watch of the Lease failed", why=str(error))
            await self._clock.sleep(self._times.retry_s * self._randomness.uniform(1.0, 1.0 + JITTER))

    # Leading

    async def _lead(self, work: Work) -> None:
        """Works until the Lease is lost or the work has ended; the role says which.

        The work's task is in no group: a group would wait for work that refuses to end, and leaving that is the point
        of WorkOutlivesLease.
        """
        self._announce()  # once more: the process may have been stopped since it won
        # The work first awaits the catching up that began with the look before the claim (`control/program/terms.py`).
        task = asyncio.get_running_loop().create_task(
            _run(work, self._fence_of_term()), name=f"lease/{self._me.lock_name}/work"
        )
        called_off: asyncio.CancelledError | None = None
        try:
            while self._role not in _WITHOUT_WORK:
                try:
                    await self._advance(task)
                except asyncio.CancelledError as cancelled:
                    called_off = cancelled
                    self._happens(Happening.CALLED_OFF)
                    _call_off(task)
        finally:
            _call_off(task)
            self._announce()
        if task.done() and not task.cancelled():
            task.result()
        if called_off is not None:
            raise called_off

    async def _advance(self, task: asyncio.Task[None]) -> None:
        """The next step of the role."""
        if self._role in HOLDING:
            await asyncio.wait((task,), timeout=max(0.0, self._next_try - self._clock.now()))
            if not self._noticed_end_of(task):
                await self._renew()
                if self._role not in HOLDING:
                    self._announce()
                    _call_off(task)
        elif self._role is Role.RELEASING:
            await self._release()
        else:
            assert self._role in (Role.LOSING, Role.QUITTING)
            await asyncio.wait(
                (task,), timeout=max(0.0, self._lock.renewed_at + self._times.lease_s - self._clock.now())
            )
            if not self._noticed_end_of(task):
                self._happens(Happening.OVERDUE)
                raise WorkOutlivesLease(
                    f"lost the Lease {self._me.lock_name!r}, and the work did not end before it ran out"
                )

    def _noticed_end_of(self, task: asyncio.Task[None]) -> bool:
        if not task.done():
            return False
        failed = not task.cancelled() and task.exception() is not None
        self._happens(Happening.WORK_FAILED if failed else Happening.WORK_ENDED)
        return True

    async def _renew(self) -> None:
        """One renewal. Half of the time left is for it, so that a request that hangs is not the last one."""
        left_s = self._deadline() - self._clock.now()
        if left_s <= 0:
            self._happens(Happening.OVERDUE)
            self._log.error("Failed to renew the Lease in time, stopping the work")
            return
        try:
            async with asyncio.timeout(min(left_s, max(left_s / 2, _ATTEMPT_S_MIN))):
                await self._renew_once()
        except (ApiError, TimeoutError) as error:
            self._log_once.error("Failed to renew the Lease, trying again", _said(error))
            self._lock.last = None
            soon_s = self._randomness.jittered(self._times.retry_s / _RETRIES_PER_PERIOD, _SPREAD)
            self._next_try = min(self._deadline(), self._clock.now() + soon_s)

    async def _renew_once(self) -> None:
        """Writes over our last write; when that fails, over what a read shows. Raises ApiError."""
        if self._lock.last is not None:
            try:
                await self._write(self._lock.last)
                return
            except ApiError as error:
                self._lock.last = None
                self._log.info(2, "Failed to renew the Lease without reading it first", why=str(error))
        lease = await self._lock.read()
        if STEPS[self._role, self._lock.observed(lease)] is not Step.WRITE:
            self._happens(Happening.REFUSED)
            self._log.error("The Lease was taken by another, stopping the work")
            return
        self._reporter.renewed_slowly()
        await self._write(lease)

    async def _release(self) -> None:
        """Gives the Lease back, if it is still ours and the renew deadline allows; then it is over."""
        try:
            async with asyncio.timeout(self._times.renew_s):
                lease = await self._lock.read()
                if lease is not None and STEPS[self._role, self._lock.observed(lease)] is Step.RELEASE:
                    await self._lock.give_back(lease)
                    self._log.info(0, "Gave the Lease back")
        except (ApiError, TimeoutError) as error:
            self._log_once.error("Failed to give the Lease back", _said(error))
        self._happens(Happening.RELEASED)

    # What both need

    def _deadline(self) -> Instant:
        return self._lock.renewed_at + self._times.renew_s

    def _fence_of_term(self) -> fence.Fence:
        """Closes with the renew deadline: what was sent just before has the rest of the lease duration to arrive. It
        never opens again for what an earlier term has left behind.
        """
        self._term += 1
        term, closed = self._term, f"the Lease {self._me.namespace}/{self._me.lock_name} may have run out"
        return lambda: "" if self._term == term and self.is_leader else closed

    def _is(self, role: Role) -> bool:
        return self._role is role

    def _announce(self) -> None:
        """A process that was stopped between its claim and the answer may have lost the Lease already, and then never
        says that it leads.
        """
        self._reporter.leads(self.is_leader, self._lock.reference())

    def _happens(self, what: Happening) -> None:
        before = self._role
        after = NEXT[before, what]
        if after is None:
            raise InvariantError(f"leader election: {what.name} can't happen to a candidate that is {before.value}")
        self._role = after
        if after is not before:
            self._log.info(4, "Changed role", before=before.value, after=after.value, why=what.value)

    async def _write(self, lease: WholeLease | None) -> None:
        """Raises ApiError; one that says for sure that nothing was written ends a claim."""
        try:
            await self._lock.write(lease)
        except ApiError as error:
            refused = 400 <= error.status_code < 500 and not isinstance(
                error, Conflict
            )  # a conflict may be with our own lost write
            if refused and self._role is Role.CLAIMING:
                self._happens(Happening.REFUSED)
            raise
        self._happens(Happening.WON)
        self._next_try = self._lock.renewed_at + self._times.retry_s
        self._log_once.reset()


def _call_off(task: asyncio.Task[None]) -> None:
    """Cancels the work, but once only: a second time would disturb it while it ends."""
    if not task.cancelling():
        task.cancel()


async def _run(work: Work, of_term: fence.Fence) -> None:
    with fence.behind(of_term):
        await work()


def _said(error: ApiError | TimeoutError) -> Exception:
    return error if isinstance(error, ApiError) else TimeoutError("no answer in time")
