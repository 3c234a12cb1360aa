"""Secrets for the driver's calls: their values as text, remembered for seconds."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Final

from mooring.api.core import SECRETS, Secret, SecretReference
from mooring.api.meta import Key, key_of
from mooring.base.clock import Clock, Instant
from mooring.base.errors import MooringError
from mooring.control.locks import KeyLocks
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError

FRESH_S: Final = 5.0
SECRETS_MAX: Final = 256


class SecretError(MooringError):
    """A Secret with a value that is no text."""


class SecretCache:
    """One GET serves a burst of calls that use one Secret. A failed call invalidates it, so that a corrected Secret is
    used at once.

    A request during the read gets the result of that read, also an error: a slow Secret costs each of them its time
    once.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster, self._clock = cluster, clock
        self._known: dict[Key, tuple[Instant, Mapping[str, str]]] = {}
        self._failed: dict[Key, tuple[Instant, ApiError | SecretError]] = {}  # when, for those who had asked by then
        self._asking: KeyLocks[Key] = KeyLocks()

    async def get(self, ref: SecretReference) -> Mapping[str, str]:
        """The Secret's values. Raises ApiError when it can't be read, SecretError when a value is no text."""
        key, asked_at = Key(ref.namespace, ref.name), self._clock.now()
        async with self._asking.of(key):
            known, failed = self._known.get(key), self._failed.get(key)
            if known is not None and self._clock.now() < known[0]:
                return known[1]
            if failed is not None and asked_at < failed[0]:
                raise failed[1]
            return await self._ask(key)

    async def _ask(self, key: Key) -> Mapping[str, str]:
        try:
            values = secret_values(await self._cluster.get(SECRETS, key.name, key.namespace))
        except (ApiError, SecretError) as error:
            self._drop_stale()
            self._failed[key] = (self._clock.now(), error)
            raise
        self._drop_stale()
        self._known[key] = (self._clock.now() + FRESH_S, values)
        return values

    def invalidate(self, ref: SecretReference) -> None:
        """Reads it anew next time."""
        self._known.pop(Key(ref.namespace, ref.name), None)

    def _drop_stale(self) -> None:
        now = self._clock.now()
        self._known = {key: known for key, known in self._known.items() if now < known[0]}
        if len(self._known) >= SECRETS_MAX:
            self._known.clear()
        if len(self._failed) >= SECRETS_MAX:
            self._failed.clear()


def secret_values(secret: Secret) -> dict[str, str]:
    """The Secret's values as CSI wants them: text. Raises SecretError naming the key, never showing the value."""
    values = {}
    for name, encoded in (secret.data or {}).items():
        try:
            values[name] = base64.b64decode(encoded, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            problem = (
                f'key "{name}" of secret "{key_of(secret)}" is not valid UTF-8 text: CSI secrets are strings, '
                "encode it (base64, say)"
            )
            raise SecretError(problem) from None
    return values
