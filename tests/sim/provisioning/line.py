"""A line to the API server with the attacher's faults, for processes that create and delete, too."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.kube.cluster import Patch
from mooring.kube.errors import ApiError, BadRequest, Forbidden, Invalid, ServerError, TooLarge, Unreachable
from tests.sim.line import Fate, Line
from tests.sim.mortal import Mortal
from tests.sim.world import World

T = TypeVar("T")


class WritingLine(Line):
    """watched: what provisioner and binder both follow."""

    watched = ("persistentvolumeclaims", "persistentvolumes", "storageclasses")
    faulty = True

    def __init__(self, world: World, mortal: Mortal) -> None:
        super().__init__(world, mortal)
        self._lost_saves: set[str] = set()  # the PersistentVolumes that were stored without an answer

    async def create(self, kind: Kind[T], body: Mapping[str, Any] | T, namespace: str = "") -> T:
        request = functools.partial(self._world.cluster.create, kind, body, namespace)
        if kind.plural == PERSISTENT_VOLUMES.plural:
            name = body["metadata"]["name"] if isinstance(body, Mapping) else ""
            request = functools.partial(self._save, name, request)
        return await self._write(f"create {kind.plural}", request)

    async def replace(self, kind: Kind[T], body: Mapping[str, Any], namespace: str = "", *, subresource: str = "") -> T:
        name = body["metadata"]["name"]
        return await self._write(
            f"update {kind.plural} {name}", lambda: self._world.cluster.replace(kind, body, namespace, subresource=subresource)
        )

    async def patch(self, kind: Kind[T], name: str, patch: Patch, namespace: str = "", *, subresource: str = "") -> T:
        what = f"patch {kind.plural}{'/' if subresource else ''}{subresource} {name}"
        return await self._write(what, lambda: self._world.cluster.patch(kind, name, patch, namespace, subresource=subresource))

    async def delete(
        self, kind: Kind[T], name: str, namespace: str = "", *, uid: str = "", grace_period_s: int | None = None, propagation: str = ""
    ) -> None:
        await self._write(f"delete {kind.plural} {name}", lambda: self._world.cluster.delete(kind, name, namespace, uid=uid))

    async def _save(self, name: str, request: Callable[[], Awaitable[T]]) -> T:
        """The creation of a PersistentVolume, as the plan has it: also one that was stored may be denied the next time."""
        faults = self._world.plan.saves
        if self._happens(faults.denied_then if name in self._lost_saves else faults.denied):
            raise self._denial()
        made = await request()
        if self._happens(faults.lost):
            self._lost_saves.add(name)
            raise Unreachable("the answer is lost")
        return made

    def _happens(self, share: float) -> bool:
        return self.faulty and self._world.faulty and self._chance.happens(share)

    def _denial(self) -> ApiError:
        """Of a policy, a quota, a webhook, or one that does not answer."""
        errors: list[ApiError] = [
            Invalid("not such a volume", reason="Invalid"),
            BadRequest("denied the request", reason="BadRequest"),
            TooLarge("too large", reason="RequestEntityTooLarge"),
            Forbidden("exceeded quota", reason="Forbidden"),
            ServerError("failed calling webhook", code=500),
        ]
        return errors[self._chance.below(len(errors))]

    async def _write(self, what: str, request: Callable[[], Awaitable[T]]) -> T:
        self._writing.append(what)
        try:
            fate = await self._asked(what, writes=True)
            try:
                answer = await request()
            except ApiError as error:
                self._tell(f"{what}: {error}")
                raise
            self._tell(f"{what}{': done, the answer is lost' if fate.lost else ''}")
            await self._mortal.point(f"after {what}")
            await self._answered(fate)
            return answer
        finally:
            self._writing.remove(what)

    def _fate(self, writes: bool) -> Fate:
        return super()._fate(writes) if self.faulty else Fate()


class QuietLine(WritingLine):
    """Without faults of its own; its process can be killed all the same."""

    faulty = False

    async def _is_cut(self, kind: Kind[T]) -> bool:
        return False
