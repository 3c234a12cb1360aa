"""The objects that a test makes and waits for, in Kubernetes' words. Each method that waits returns the object itself.

Each has a limit, wait_s, in seconds of the cluster's time. Beyond it, it raises NotYet with the answer of
`mooring why`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Key, Kind
from mooring.api.nodes import OUT_OF_SERVICE_TAINT
from mooring.api.pods import PODS
from mooring.api.quantity import parse_quantity
from mooring.api.snapshot import VOLUME_SNAPSHOTS
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import NotFound
from mooring.node.layout import KubeletLayout
from mooring.testing.node import NodeUnderTest
from mooring.testing.waiting import WAIT_S

if TYPE_CHECKING:
    from mooring.testing.plane import PlaneUnderTest
    from mooring.testing.waiting import Waiting

Json = dict[str, Any]
_TAINT: Final = {"key": OUT_OF_SERVICE_TAINT, "value": "nodeshutdown", "effect": "NoExecute"}


class ApiObject:
    """One object of the API server."""

    kind: Kind[Any]
    short: str
    """As `mooring why` calls its kind."""

    def __init__(self, plane: PlaneUnderTest, waiting: Waiting, key: Key) -> None:
        self._plane, self._waiting, self.key = plane, waiting, key

    def __str__(self) -> str:
        return f"the {self.kind.name} {self.key}"

    @property
    def name(self) -> str:
        return self.key.name

    async def find(self) -> Json | None:
        """The whole object, None where it is not there."""
        try:
            found: Json = await self._plane.users.get(self.kind.whole(), self.key.name, self.key.namespace)
        except NotFound:
            return None
        return found

    async def read(self) -> Json:
        """The whole object. Raises NotFound."""
        found: Json = await self._plane.users.get(self.kind.whole(), self.key.name, self.key.namespace)
        return found

    async def patch(self, change: Mapping[str, Any], subresource: str = "") -> Self:
        """change: a merge patch."""
        patch = Patch(PatchType.MERGE, change)
        await self._plane.users.patch(self.kind, self.key.name, patch, self.key.namespace, subresource=subresource)
        return self

    async def delete(self, *, force: bool = False) -> Self:
        """Asks for it; `gone` waits for it. force: without waiting for a node."""
        await self._plane.users.delete(
            self.kind, self.key.name, self.key.namespace, grace_period_s=0 if force else None
        )
        return self

    async def gone(self, wait_s: float = WAIT_S) -> Self:
        async def is_gone() -> bool:
            return await self.find() is None

        await self._waiting.until(is_gone, f"{self} is gone", (self.short, self.key), wait_s)
        return self

    async def is_deleting(self) -> bool:
        """True from its deletion until it is gone."""
        found = await self.find()
        return found is not None and "deletionTimestamp" in found["metadata"]

    async def until(self, check: Callable[[Json], Any], what: str, wait_s: float = WAIT_S) -> Self:
        """Waits until the object is as the check wants it. what: ends the sentence "the claim is not ...". Raises
        NotYet.
        """

        async def holds() -> bool:
            found = await self.find()
            return found is not None and bool(check(found))

        await self._waiting.until(holds, f"{self} {what}", (self.short, self.key), wait_s)
        return self

    async def why(self) -> str:
        """Why it is stuck, and whose move it is, as `mooring why` says it."""
        return await self._waiting.why(self.short, self.key)


class AsyncClaim(ApiObject):
    kind = PERSISTENT_VOLUME_CLAIMS
    short = "pvc"
    _volume_name = ""

    async def bound(self, wait_s: float = WAIT_S) -> Self:
        return await self.until(lambda claim: claim["status"].get("phase") == "Bound", "is Bound", wait_s)

    async def delete(self, *, force: bool = False) -> Self:
        """Asks for it; `gone` waits for it and its volume."""
        await self._note_volume()
        return await super().delete(force=force)

    async def gone(self, wait_s: float = WAIT_S) -> Self:
        """Also its volume, where that is to be deleted with it: the driver has answered DeleteVolume."""
        await self._note_volume()
        await super().gone(wait_s)
        if self._volume_name:
            volume = Key("", self._volume_name)

            async def is_gone() -> bool:
                try:
                    found: Json = await self._plane.users.get(PERSISTENT_VOLUMES.whole(), volume.name)
                except NotFound:
                    return True
                return str(found["spec"].get("persistentVolumeReclaimPolicy")) != "Delete"

            await self._waiting.until(
                is_gone, f"{self} is gone, its PersistentVolume {volume.name} too", ("pv", volume), wait_s
            )
        return self

    async def _note_volume(self) -> None:
        if found := await self.find():
            self._volume_name = str(found["spec"].get("volumeName", ""))

    async def grows_to(self, size: str, wait_s: float = WAIT_S) -> Self:
        """Asks for more, and waits until the claim has it."""
        await self.patch({"spec": {"resources": {"requests": {"storage": size}}}})
        return await self.until(lambda claim: _size(claim) >= _bytes(size), f"has {size}", wait_s)

    async def volume(self) -> Json:
        """Its PersistentVolume. Raises NotFound."""
        found: Json = await self._plane.users.get(
            PERSISTENT_VOLUMES.whole(), (await self.read())["spec"].get("volumeName", "")
        )
        return found

    async def handle(self) -> str:
        """The driver's id of its volume."""
        return str((await self.volume())["spec"]["csi"]["volumeHandle"])


def _size(claim: Json) -> int:
    return _bytes((claim["status"].get("capacity") or {}).get("storage", "0"))


def _bytes(size: str) -> int:
    return parse_quantity(size).whole


class AsyncPod(ApiObject):
    kind = PODS
    short = "pod"

    async def running(self, wait_s: float = WAIT_S) -> Self:
        return await self.until(lambda pod: pod["status"].get("phase") == "Running", "is Running", wait_s)

    async def node_name(self) -> str:
        """ "" before it has a node."""
        return str((await self.read())["spec"].get("nodeName", ""))

    async def folder(self, claim: str) -> Path:
        """Where the pod finds the volume of a claim: the target path of NodePublishVolume."""
        pod = await self.read()
        volume = await AsyncClaim(self._plane, self._waiting, Key(self.key.namespace, claim)).volume()
        layout = KubeletLayout(self._plane.nodes[pod["spec"]["nodeName"]].root)
        return layout.target(pod["metadata"]["uid"], volume["metadata"]["name"])


class AsyncSnapshot(ApiObject):
    kind = VOLUME_SNAPSHOTS
    short = "volumesnapshot"

    async def ready(self, wait_s: float = WAIT_S) -> Self:
        return await self.until(
            lambda snapshot: (snapshot.get("status") or {}).get("readyToUse"), "is ready to use", wait_s
        )


class AsyncNode(ApiObject):
    kind = NODES
    short = "node"

    @property
    def _machine(self) -> NodeUnderTest:
        return self._plane.nodes[self.name]

    @property
    def is_on(self) -> bool:
        """Whether it has power, whatever its Node says."""
        return self._machine.is_on

    async def dies(self) -> Self:
        """The power goes: agent and driver end in the middle of their work, and nothing stays mounted."""
        await self._machine.dies()
        return self

    async def returns(self) -> Self:
        """The power comes back; returns when the driver is registered again."""
        await self._machine.returns()
        return self

    async def agent_restarts(self) -> Self:
        """The agent ends in the middle of its work, as after kill -9, and starts anew; what is mounted stays."""
        await self._machine.agent_restarts()
        return self

    async def is_ready(self) -> bool:
        conditions = (await self.read())["status"].get("conditions") or ()
        return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)

    async def ready(self, wait_s: float = WAIT_S) -> Self:
        await self._waiting.until(self.is_ready, f"{self} is Ready", (self.short, self.key), wait_s)
        return self

    async def not_ready(self, wait_s: float = WAIT_S) -> Self:
        async def is_not_ready() -> bool:
            return not await self.is_ready()

        await self._waiting.until(is_not_ready, f"{self} is not Ready", (self.short, self.key), wait_s)
        return self

    async def out_of_service(self) -> Self:
        """Taints it: somebody states that the machine is off, and others may take its pods and volumes."""
        return await self.patch({"spec": {"taints": [*(await self._taints()), _TAINT]}})

    async def in_service(self) -> Self:
        """Takes that taint off."""
        return await self.patch(
            {"spec": {"taints": [one for one in await self._taints() if one["key"] != OUT_OF_SERVICE_TAINT]}}
        )

    async def _taints(self) -> list[Json]:
        found: list[Json] = (await self.read())["spec"].get("taints") or []
        return found
