"""The ports that every controller needs, handed on as one."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

import msgspec

from mooring.base.clock import Clock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.decision import Decision
from mooring.control.events import EventRecorder
from mooring.control.result import Because
from mooring.kube.cluster import Cluster

Explained = Callable[[str, Hashable, Because], None]
"""Called with a controller's name, a key, and the reason of what was decided about it."""


class Steps(Protocol):
    """Follows the steps of controllers, as traces do.

    controller: its name. label: what it calls its keys, mostly a kind.
    """

    def begun(self, controller: str, label: str, key: Hashable) -> None:
        """The running task has begun with a key."""

    def decided(self, decision: Decision[Any]) -> None:
        """The decision about the key in hand is about to be carried out. One key may have several in a row."""

    def ended(self, controller: str, key: Hashable, failure: str, because: Because | None) -> None:
        """The work on a key has ended: well (""), or with a failure. because: its last reason, None where it failed."""


class Runtime(msgspec.Struct, frozen=True):
    """The API server, time, randomness and the registry of metrics. explained: called with every reason, where people
    watch. steps: follows the controllers' steps, None where traces are off.
    """

    cluster: Cluster
    clock: Clock
    randomness: Random
    metrics: Metrics
    explained: Explained | None = None
    steps: Steps | None = None

    def events(self, component: str) -> EventRecorder:
        """Makes a recorder of Events by this component; it sends what it gets while a manager runs it."""
        return EventRecorder(self.cluster, component, clock=self.clock, randomness=self.randomness)
