"""The ports that every controller needs, handed on as one."""

from __future__ import annotations

import dataclasses

from mooring.base.clock import Clock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.kube.cluster import Cluster


@dataclasses.dataclass(frozen=True, slots=True)
class Runtime:
    """The API server, time, randomness and the registry of metrics."""

    cluster: Cluster
    clock: Clock
    randomness: Random
    metrics: Metrics
