"""What the acts of all parts are made with.

An act is a method, drawn by its weight in the plan. Acts see the truth, and nothing fails them.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from mooring.api.meta import Kind
from mooring.base.randomness import Random
from mooring.kube.cluster import Cluster, Patch, PatchType
from mooring.kube.errors import ApiError

T = TypeVar("T")


class Acting:
    """_randomness: what the acts are drawn from."""

    _world: Any
    _randomness: Random
    _teller = "actor"

    async def disturb(self) -> None:
        """One act."""
        await self._one_act(self._world.plan.acts)

    async def tend(self) -> None:
        """One round of the controllers beside our programs."""

    async def _one_act(self, names: Sequence[str]) -> None:
        act: Callable[[], Awaitable[None]] = getattr(self, self._one_of(names))
        await act()

    def _tell(self, what: str) -> None:
        self._world.story.tell(self._teller, what)

    def _one_of(self, items: Sequence[T]) -> T:
        return items[self._randomness.below(len(items))]


class Requesting(Acting):
    """Acts that make their requests themselves, and tell of those that were not refused."""

    _cluster: Cluster

    async def _merge(self, kind: Kind[Any], name: str, body: Any, namespace: str = "", subresource: str = "") -> None:
        patch = Patch(PatchType.MERGE, body)
        request = self._cluster.patch(kind.whole(), name, patch, namespace, subresource=subresource)
        await self._do(f"patch {kind.name} {name} {body}", request)

    async def _delete(self, kind: Kind[Any], name: str, namespace: str = "") -> None:
        await self._do(f"delete {kind.name} {name}", self._cluster.delete(kind, name, namespace))

    async def _do(self, what: str, request: Awaitable[Any]) -> None:
        with contextlib.suppress(ApiError):
            await request
            self._tell(what)


def secret_data(token: str) -> dict[str, str]:
    """The data of a Secret that holds a token."""
    return {"token": base64.b64encode(token.encode()).decode()}
