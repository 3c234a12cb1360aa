"""Growths that are not done yet, as metrics: looked up in the caches when the page is rendered. external-resizer has
none of these.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mooring.api.core import PersistentVolumeClaim
from mooring.base.clock import Clock, Instant
from mooring.kube.cache.informer import Informer
from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.conditions import is_true
from mooring.sidecars.resizer.view import View, quantity, sizes_of, storage

CONTROLLER, NODE, USER = "controller", "node", "user"
"""Whose move it is: the resizer's and its driver's, the node's, or the user's, who asked for a size that the driver
refuses for good.
"""

OPEN: Final = "mooring_resizer_growths_open"
OLDEST: Final = "mooring_resizer_growths_oldest_seconds"
_OPEN_TEXT: Final = "Claims that wait for their growth, by whose move it is."
_OLDEST_TEXT: Final = "How long the oldest of them waits for that move, as far as this process has seen it."


def waits_for(view: View, claim: PersistentVolumeClaim) -> str:
    """Whose move a growth of the claim waits for; "" for a claim that has its size, or that is none of this
    driver's.
    """
    wanted, has = storage(claim.spec.resources.requests), storage(claim.status.capacity)
    if claim.status.phase != "Bound" or _is_served(wanted, has):
        return ""
    pv = view.volume(claim.spec.volume_name)
    if pv is None or not (view.is_ours(pv) or view.is_migrated(pv, claim)):
        return ""
    try:
        sizes = sizes_of(claim, pv)
    except ValueError:
        return USER
    if sizes.step in (names.CONTROLLER_INFEASIBLE, names.NODE_INFEASIBLE):
        return USER
    return NODE if sizes.step in names.NODE_STEPS or is_true(claim, names.FS_PENDING) else CONTROLLER


@functools.lru_cache(maxsize=1024)
def _is_served(wanted: str, has: str) -> bool:
    """Most claims of a cluster share a few sizes, and each page looks at all claims."""
    try:
        return wanted == has or quantity(wanted).value <= quantity(has).value
    except ValueError:
        return False


class GrowthMetrics(Collector):
    """Metrics of growths; nothing is shown before `show`, nor while the claims are not followed."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._shown: tuple[Informer[PersistentVolumeClaim], View, Clock] | None = None
        self._since: dict[tuple[str, str], Instant] = {}
        registry.register(self)

    def show(self, claims: Informer[PersistentVolumeClaim], view: View, clock: Clock) -> None:
        """claims: those of the view."""
        self._shown, self._since = (claims, view, clock), {}

    def describe(self) -> Iterable[Metric]:
        return [Metric(OPEN, _OPEN_TEXT, "gauge"), Metric(OLDEST, _OLDEST_TEXT, "gauge")]

    def collect(self) -> Iterable[Metric]:
        counts, oldest = (
            GaugeMetricFamily(OPEN, _OPEN_TEXT, labels=["waits_for"]),
            GaugeMetricFamily(OLDEST, _OLDEST_TEXT, labels=["waits_for"]),
        )
        if self._shown is not None and self._shown[0].has_synced:
            claims, view, clock = self._shown
            now = clock.now()
            found = ((claim.metadata.uid, waits_for(view, claim)) for claim in claims.store.values())
            self._since = {key: self._since.get(key, now) for key in found if key[1]}
            for move in (CONTROLLER, NODE, USER):
                ages = [now - since for (_, whose), since in self._since.items() if whose == move]
                counts.add_metric([move], len(ages))
                oldest.add_metric([move], max(ages, default=0.0))
        yield from (counts, oldest)
