"""Secrets for the driver's calls, remembered for seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mooring.api.core import SECRETS, SecretReference
from mooring.api.meta import Key
from mooring.attacher.requests import secret_values
from mooring.base.clock import Clock, Instant
from mooring.kube.cluster import Cluster

FRESH_S: Final = 5.0
SECRETS_MAX: Final = 256


class SecretCache:
    """One GET serves a burst of calls that use the same Secret. A failed call makes it forget, so that a mended Secret is used at once."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._known: dict[Key, tuple[Instant, Mapping[str, str]]] = {}

    async def get(self, ref: SecretReference) -> Mapping[str, str]:
        """The Secret's values. Raises ApiError when it can't be read, RequestError when a value is no text."""
        key = Key(ref.namespace, ref.name)
        known = self._known.get(key)
        if known is not None and self._clock.now() < known[0]:
            return known[1]
        values = secret_values(await self._cluster.get(SECRETS, ref.name, ref.namespace))
        if len(self._known) >= SECRETS_MAX:
            self._known.clear()
        self._known[key] = (self._clock.now() + FRESH_S, values)
        return values

    def forget(self, ref: SecretReference) -> None:
        self._known.pop(Key(ref.namespace, ref.name), None)
