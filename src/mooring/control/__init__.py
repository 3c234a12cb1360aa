"""The kit of controllers: caches, queues, topics, back-off, locks, and the loop that joins them.

A controller reads caches, decides about one key with a pure function, carries the decision out and returns a `Result`.
Everything else is here, once:

    runtime = Runtime(cluster, clock, randomness, metrics)
    caches = Caches(runtime)
    volumes = caches.of(PERSISTENT_VOLUMES)

    async def reconcile(key: Key) -> Result:
        pv = volumes.store.get(key)
        ...
        return Result(Labelled(key.name), done="labelled")

    controller = Controller(runtime, "labels", reconcile)
    controller.watch(volumes)  # and keys for those of other objects, tells=… for the topics that a change tells
    manager = Manager(caches, controller)
    await manager.run()

`control` knows the API server's port, and no driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.base.lazy import lazy_names

if TYPE_CHECKING:
    from mooring.base.backoff import BackOff
    from mooring.base.clock import Clock, LoopClock
    from mooring.base.metrics import Metrics
    from mooring.base.randomness import Random
    from mooring.control.caches import Caches
    from mooring.control.call_slots import CallSlots, call_over
    from mooring.control.controller import Controller
    from mooring.control.decision import Deciding, Decision, Failed
    from mooring.control.events import EventOnce, EventRecorder
    from mooring.control.lease.elector import LeaderElector
    from mooring.control.manager import Manager, Managers
    from mooring.control.object_writer import ObjectWriter
    from mooring.control.queue import QueueClosed, WorkQueue
    from mooring.control.reasons import reason
    from mooring.control.result import Result, Retry, Stale, Vanished
    from mooring.control.runner import run
    from mooring.control.runtime import Runtime
    from mooring.control.secrets import SecretCache
    from mooring.control.topics import Topic

_HOMES = {
    "mooring.base.backoff": ("BackOff",),
    "mooring.base.clock": ("Clock", "LoopClock"),
    "mooring.base.metrics": ("Metrics",),
    "mooring.base.randomness": ("Random",),
    "mooring.control.caches": ("Caches",),
    "mooring.control.call_slots": ("CallSlots", "call_over"),
    "mooring.control.controller": ("Controller",),
    "mooring.control.decision": ("Deciding", "Decision", "Failed"),
    "mooring.control.events": ("EventOnce", "EventRecorder"),
    "mooring.control.lease.elector": ("LeaderElector",),
    "mooring.control.manager": ("Manager", "Managers"),
    "mooring.control.object_writer": ("ObjectWriter",),
    "mooring.control.queue": ("QueueClosed", "WorkQueue"),
    "mooring.control.reasons": ("reason",),
    "mooring.control.result": ("Result", "Retry", "Stale", "Vanished"),
    "mooring.control.runner": ("run",),
    "mooring.control.runtime": ("Runtime",),
    "mooring.control.secrets": ("SecretCache",),
    "mooring.control.topics": ("Topic",),
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)

__all__ = [
    "BackOff",
    "Caches",
    "CallSlots",
    "Clock",
    "Controller",
    "Deciding",
    "Decision",
    "EventOnce",
    "EventRecorder",
    "Failed",
    "LeaderElector",
    "LoopClock",
    "Manager",
    "Managers",
    "Metrics",
    "ObjectWriter",
    "QueueClosed",
    "Random",
    "Result",
    "Retry",
    "Runtime",
    "SecretCache",
    "Stale",
    "Topic",
    "Vanished",
    "WorkQueue",
    "call_over",
    "reason",
    "run",
]
