"""The Secrets of calls to the driver, and since when one is missing."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretCache, SecretError
from mooring.controllers.snapshotter.decision import Failed, Failure, LoadSecret
from mooring.controllers.snapshotter.memory import Memory
from mooring.kube.errors import ApiError, NotFound


class Secrets(SecretCache):
    """check_failed: the reason of failed questions, which a missing Secret says nothing about."""

    def __init__(self, runtime: Runtime, memory: Memory, check_failed: str) -> None:
        super().__init__(runtime.cluster, runtime.clock)
        self._now, self._memory, self._check_failed = runtime.clock.now, memory, check_failed

    async def load(self, load: LoadSecret, uid: str) -> Mapping[str, str]:
        """For a call about the content with this uid. Raises Failed."""
        reason, text = load.failed
        try:
            values = await self.get(load.ref)
        except (ApiError, SecretError) as error:
            if isinstance(error, NotFound) and self._memory.of(uid).secret_gone_at is None and reason != self._check_failed:
                self._memory.change(uid, secret_gone_at=self._now())
            where = f"failed to get credentials of secret {load.ref.namespace}/{load.ref.name}"
            raise Failed(Failure(reason, f"{text}{where}: {error}", saved=load.saved)) from error
        self._memory.change(uid, secret_gone_at=None)
        return values
