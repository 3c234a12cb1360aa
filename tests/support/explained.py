"""A world that notes which keys the part under test decides on."""

from __future__ import annotations

from typing import Any

from mooring.control.runtime import Runtime
from tests.support.cluster_world import ClusterWorld


class Explained(ClusterWorld):
    """Stands before another world among the bases. decided: each controller and key that was reconciled, in order."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.decided: list[tuple[str, str]] = []
        self._because: dict[tuple[str, str], object] = {}

    @property
    def runtime(self) -> Runtime:
        return Runtime(self.cluster, self.clock, self.randomness, self.metrics, self.explains)

    def explains(self, controller: str, key: object, because: object) -> None:
        what = controller, str(key)
        if self._because.get(what) is not because:  # else it is what came of a decision
            self.decided.append(what)
        self._because[what] = because

    def keys_of(self, controller: str) -> list[str]:
        """Those that this controller decided on."""
        return [key for one, key in self.decided if one == controller]

    def worked_on(self) -> int:
        """How many times any key became work for a controller."""
        adds = (
            sample
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == "workqueue_adds_total"
        )
        return round(sum(sample.value for sample in adds))
