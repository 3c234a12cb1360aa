"""The Secret of a call, read for each call, since a corrected one has to count at once."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.api.core import SECRETS, PersistentVolumeClaim, SecretReference
from mooring.control.decision import Failed
from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretError, secret_values
from mooring.kube.errors import ApiError
from mooring.sidecars.resizer.memory import Memory


class Secrets:
    """memory: has the version that the driver had last."""

    def __init__(self, runtime: Runtime, memory: Memory) -> None:
        self._cluster, self._clock, self._memory = runtime.cluster, runtime.clock, memory

    async def load(self, claim: PersistentVolumeClaim, ref: SecretReference) -> Mapping[str, str]:
        """The values. Raises Failed."""
        try:
            secret = await self._cluster.get(SECRETS, ref.name, ref.namespace)
            values = secret_values(secret)
        except (ApiError, SecretError) as error:
            raise Failed(f"error getting secret {ref.name} in namespace {ref.namespace}: {error}") from error
        self._memory.change(claim, secret_version=secret.metadata.resource_version)
        return values

    async def look(self, claim: PersistentVolumeClaim, ref: SecretReference) -> None:
        """A claim whose Secret has changed is no longer held for infeasible. Raises nothing: a Secret that is gone heals nothing."""
        self._memory.change(claim, looked_at=self._clock.now())
        try:
            secret = await self._cluster.get(SECRETS, ref.name, ref.namespace)
        except ApiError:
            return
        if secret.metadata.resource_version != self._memory.of(claim).secret_version:
            self._memory.change(claim, slow_target="")
