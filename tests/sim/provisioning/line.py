"""A line to the API server with the attacher's faults, for processes that create and delete, too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from mooring.api.meta import Kind
from mooring.kube.cluster import Patch
from mooring.kube.errors import ApiError
from tests.sim.line import Fate, Line

T = TypeVar("T")


class WritingLine(Line):
    """watched: what provisioner and binder both follow."""

    watched = ("persistentvolumeclaims", "persistentvolumes", "storageclasses")
    faulty = True

    def shown(self, plural: str) -> int:
        """The newest version of the kind that lists and watches have shown."""
        return self._seen.get(plural, 0)

    async def create(self, kind: Kind[T], body: Mapping[str, Any] | T, namespace: str = "") -> T:
        return await self._write(f"create {kind.plural}", lambda: self._world.cluster.create(kind, body, namespace))

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
