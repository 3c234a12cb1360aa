"""The terms of a work under its Lease: the elector with its events, which are sent until the last one is out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.events import EventRecorder
from mooring.control.lease.elector import Candidate, LeaderElector, LeaseMetrics, WorkOutlivesLease
from mooring.control.program.terms import Terms
from mooring.kube.cluster import Cluster

_log = logger(__name__)

EVENTS_S_MAX: Final = 2.0
"""How long the end waits for the event that tells of the election."""


async def stand_for_election(
    terms: Terms,
    me: Candidate,
    cluster: Cluster,
    *,
    name: str,
    lock_name: str,
    asks_first: bool,
    clock: Clock,
    randomness: Random,
    metrics: Metrics,
    exit_now: Callable[[int], NoReturn],
) -> None:
    """As many terms as the candidate wins. name: of the program, for its tasks. lock_name: as its events have it.

    asks_first: it may have no right to events. exit_now: ends the process where a work can't be stopped that may no longer act.
    """
    events = EventRecorder(cluster, f"{lock_name}/{me.identity}", clock=clock, randomness=randomness, asks_first=asks_first)
    elector = LeaderElector(cluster, me, clock=clock, randomness=randomness, events=events, metrics=metrics.once(LeaseMetrics))
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(events.run(), name=f"{name}/election-events")
        try:
            await terms.run(elector)
        except WorkOutlivesLease as error:
            _log.error("Exiting at once", error=error)
            exit_now(1)
        await events.drain(EVENTS_S_MAX)
        sending.cancel()
