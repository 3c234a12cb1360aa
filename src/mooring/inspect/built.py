"""A CSI request that was built for `mooring call`, and how the objects and Secrets for it are read. Nothing here writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
from google.protobuf.message import Message

from mooring.api.core import SecretReference
from mooring.api.meta import Kind
from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.control.secrets import SecretCache
from mooring.inspect.served import as_served
from mooring.kube.cluster import Cluster
from mooring.kube.errors import NotFound

T = TypeVar("T")

NOT_NOW: Final = "it would not be sent now"


class NoRequest(ConfigError):
    """Nobody would send this call about the object."""

    def __init__(self, text: str) -> None:
        super().__init__(text, exit_code=2)


class Built(msgspec.Struct, frozen=True):
    """notes: for people, above all that Mooring would not send it now."""

    request: Message
    notes: tuple[str, ...] = ()


def not_now(*reasons: str) -> tuple[str, ...]:
    """A note for each reason that is not ""."""
    return tuple(f"{NOT_NOW}: {reason}" for reason in reasons if reason)


class Objects:
    """What is read. secrets: in place of those in the cluster, None to read these."""

    def __init__(self, cluster: Cluster, clock: Clock, secrets: Mapping[str, str] | None = None) -> None:
        self.cluster, self.clock, self.given = as_served(cluster), clock, secrets
        self.secrets = SecretCache(cluster, clock)

    async def find(self, kind: Kind[T], name: str, namespace: str = "") -> T | None:
        """None where it is not there. Raises ApiError."""
        try:
            return await self.cluster.get(kind, name, namespace)
        except NotFound:
            return None

    async def secret(self, ref: SecretReference | None) -> Mapping[str, str]:
        """The values; nothing for no Secret. Raises NoRequest where it is missing, ApiError, SecretError."""
        if ref is None:
            return {}
        if self.given is not None:
            return self.given
        try:
            return await self.secrets.get(ref)
        except NotFound:
            raise NoRequest(
                f"there is no Secret {ref.namespace}/{ref.name}, which the call needs: give --secrets-file instead"
            ) from None
