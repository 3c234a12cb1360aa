"""Which pods use a claim: a cache of pods that runs only once a driver has refused to grow a volume in use.

Differs from external-resizer, which watches all pods from its start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mooring.api.binding import claims_of, is_finished
from mooring.api.meta import Key
from mooring.api.pods import PODS, Pod
from mooring.base.clock import Instant
from mooring.control.runtime import Runtime
from mooring.control.slim import Pruner, always
from mooring.control.topics import Topic
from mooring.kube.cache.informer import Change, Informer
from mooring.kube.cache.watch_metrics import WatchMetrics
from mooring.sidecars.resizer.decision import PODS_KNOWN, unused
from mooring.sidecars.resizer.view import BY_CLAIM, POD, POD_INDEXES

NAMES_MAX: Final = 10
"""The most pods that are named as users of one claim."""


class PodsInUse:
    """The users of claims, while `run` runs. tell: called once the pods are known."""

    def __init__(self, runtime: Runtime, tell: Callable[[Topic], None]) -> None:
        self.informer: Informer[Pod] = Informer(
            runtime.cluster,
            PODS,
            clock=runtime.clock,
            randomness=runtime.randomness,
            prune=Pruner([always(POD)]),
            indexes=POD_INDEXES,
            name="resizer/pods",
        )
        runtime.metrics.once(WatchMetrics).show(self.informer)
        self._clock, self._tell = runtime.clock, tell
        self._wanted = asyncio.Event()
        self._wanted_at: Instant | None = None

    @property
    def wanted_at(self) -> Instant | None:
        """When the pods were asked for first, None for not yet."""
        return self._wanted_at

    def want(self) -> None:
        """Watch the pods from now on."""
        if self._wanted_at is None:
            self._wanted_at = self._clock.now()
            self._wanted.set()

    def users_of(self, claim: Key) -> tuple[str, ...] | None:
        """The names of the pods that use the claim, NAMES_MAX at the most; None as long as that is not known."""
        if not self.informer.has_synced:
            return None
        return tuple(pod.metadata.name for pod in self.informer.store.by(BY_CLAIM, str(claim))[:NAMES_MAX])

    async def run(self) -> None:
        """Watches the pods once they are wanted."""
        await self._wanted.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informer.run(), name=self.informer.name)
            await self.informer.synced()
            self._tell(PODS_KNOWN)


def released(change: Change[Pod]) -> tuple[Topic, ...]:
    """The topics of the claims that a pod used and uses no more."""
    before, after = _claims(change.old), _claims(change.new)
    return tuple(unused(claim) for claim in before if claim not in after)


def _claims(pod: Pod | None) -> tuple[Key, ...]:
    return () if pod is None or is_finished(pod) else claims_of(pod)
