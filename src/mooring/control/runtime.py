"""The ports that every controller needs, handed on as one."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import msgspec

from mooring.base.clock import Clock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.result import Because
from mooring.kube.cluster import Cluster

Explained = Callable[[str, Hashable, Because], None]
"""Called with a controller's name, a key, and the reason of what was decided about it."""


class Runtime(msgspec.Struct, frozen=True):
    """The API server, time, randomness and the registry of metrics. explained: hears every reason, where people watch."""

    cluster: Cluster
    clock: Clock
    randomness: Random
    metrics: Metrics
    explained: Explained | None = None
