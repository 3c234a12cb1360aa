"""The provisioner on in-process ports, in virtual time: driver `csi.test`, class `sc`, claim `default/c` for 1 GiB.

    world = await ProvisioningWorld().base()
    async with world.provisioning():
        pv = await world.provisioned()
    assert [CREATE, POST_PV] == world.told

`told` is the story without events and without what the API server was asked only to read.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.apiserver.local import ServerFaults
from mooring.control.events import EventRecorder
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.session import probe_and_identify
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.controller import Provisioner
from mooring.sidecars.provisioner.intents.journal import Intents
from mooring.sidecars.provisioner.options import ProvisionerOptions, Rules
from tests.support.builders import DRIVER, a_claim, a_class, a_csi_node, a_node, a_secret
from tests.support.cluster_world import WAIT_S, ClusterWorld
from tests.support.volume_driver import CREATE, DELETE, GiB, VolumeDriver

__all__ = ["CREATE", "DELETE", "DRIVER", "AnsweringDriver", "GiB", "ProvisioningWorld", "an_answer"]

POST_PV, PUT_CLAIM = "create persistentvolumes", "update persistentvolumeclaims"
CLAIMS: Kind[Any] = PERSISTENT_VOLUME_CLAIMS
PVS: Kind[Any] = PERSISTENT_VOLUMES
SUCCEEDED, FAILED, PROVISIONING = "ProvisioningSucceeded", "ProvisioningFailed", "Provisioning"


def an_answer(**volume: Any) -> csi.CreateVolumeResponse:
    return csi.CreateVolumeResponse(volume={"volume_id": "vol-x", **volume})


class AnsweringDriver(VolumeDriver):
    """answers: of the next CreateVolume calls, in place of its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.answers: list[csi.CreateVolumeResponse] = []

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        own = await super().create_volume(request)
        if not self.answers:
            return own
        answer = self.answers.pop(0)
        handle = self.names.pop(request.name)
        size = self.volumes.pop(handle)
        if answer.volume.volume_id:
            self.volumes[answer.volume.volume_id] = size
        return answer


class ProvisioningWorld(ClusterWorld):
    """rules: the flags among `Rules`; options: the others."""

    def __init__(
        self,
        driver: VolumeDriver | None = None,
        faults: ServerFaults | None = None,
        rules: Rules | None = None,
        **options: Any,
    ) -> None:
        super().__init__(faults)
        self.driver = driver or AnsweringDriver()
        self.driver.story = self.story
        self.options = ProvisionerOptions(**{"rules": rules or Rules(), "worker_threads": 10, **options})
        self.intents: Intents = Intents()
        self.provisioner: Provisioner | None = None

    @contextlib.asynccontextmanager
    async def provisioning(self, calls: int = 0) -> AsyncIterator[Provisioner]:
        """A running provisioner; cancelled at the end, as by kill -9. calls: how many CreateVolume it has made to begin
        with.
        """
        port = InProcessDriver(self.driver, clock=self.clock)
        info = await probe_and_identify(port, clock=self.clock)
        events = EventRecorder(self.users, "csi.test_host_uid", clock=self.clock, randomness=self.randomness)
        self.provisioner = Provisioner(self.runtime, port, info, self.options, events, intents=self.intents)
        async with self.running(self.provisioner.run()):
            await self.calls(calls)
            yield self.provisioner

    # -- objects

    async def base(self, parameters: Mapping[str, str] | None = None, **claim: Any) -> ProvisioningWorld:
        """Class and claim."""
        await self.make_class(parameters)
        await self.make_claim(**claim)
        return self

    async def make_class(
        self,
        parameters: Mapping[str, str] | None = None,
        name: str = "sc",
        provisioner: str = DRIVER,
        binding: str = "Immediate",
        **more: Any,
    ) -> dict[str, Any]:
        fields = {"volumeBindingMode": binding, "parameters": dict(parameters or {}), **more}
        return await self.create(a_class(name, provisioner=provisioner, **fields))

    async def make_claim(
        self,
        name: str = "c",
        sc: str = "sc",
        *,
        node: str | None = None,
        annotations: Mapping[str, str] | None = None,
        ask: bool = True,
        **more: Any,
    ) -> dict[str, Any]:
        """ask: with the annotation by which the PV controller asks for a volume. more: as for `a_claim`."""
        notes = dict(annotations or {})
        if ask:
            notes.setdefault(names.STORAGE_PROVISIONER, DRIVER)
        if node is not None:
            notes[names.SELECTED_NODE] = node
        return await self.create(a_claim(name, sc=sc, annotations=notes, **more))

    async def make_node(self, name: str, zone: str, keys: tuple[str, ...] = ("zone",)) -> None:
        await self.create(a_node(name, labels={"zone": zone}))
        await self.make_csi_node(name, keys)

    async def make_csi_node(self, name: str, keys: tuple[str, ...] = ("zone",)) -> None:
        await self.create(a_csi_node(name, {DRIVER: f"id-{name}"}, keys=keys))

    async def make_secret(self, name: str = "s", **data: str) -> None:
        await self.create(a_secret(name, stringData=data or {"user": "me"}))

    async def annotate(self, annotations: Mapping[str, str | None], name: str = "c") -> None:
        await self.patch(CLAIMS, name, {"metadata": {"annotations": annotations}}, "default")

    async def touch(self, name: str = "c") -> None:
        """A change of the claim that means nothing."""
        await self.annotate({"touched": self.randomness.suffix()}, name)

    async def delete_claim(self, name: str = "c") -> None:
        """As a user does, with nobody protecting it."""
        await self.delete(CLAIMS, name, "default")
        if await self.find(CLAIMS, name, "default"):
            await self.patch(CLAIMS, name, {"metadata": {"finalizers": None}}, "default")

    # -- waiting, and what happened

    async def claim(self, name: str = "c") -> dict[str, Any]:
        return await self.get(CLAIMS, name, "default")

    async def provisioned(self, name: str = "c", wait_s: float = WAIT_S) -> dict[str, Any]:
        """The claim's PersistentVolume, once it is there and the user has been told."""
        uid = (await self.claim(name))["metadata"]["uid"]
        found = await self.volume(f"pvc-{uid}", wait_s)
        await self.event(SUCCEEDED, name)
        return found

    async def volume(self, name: str, wait_s: float = WAIT_S) -> dict[str, Any]:
        return await self.shown(PVS, name, bool, wait_s=wait_s)

    async def told_of(self, name: str = "c") -> list[tuple[str, str]]:
        """Reason and message of the claim's events, each as often as it happened."""
        found = await self.events_about(name)
        return [(event["reason"], event["message"]) for event in found for _ in range(event.get("count", 1))]

    async def event(self, reason: str, name: str = "c", text: str = "", wait_s: float = WAIT_S) -> str:
        """The message of the first such event, once there is one."""
        found: list[str] = []

        async def is_told() -> bool:
            found[:] = [message for why, message in await self.told_of(name) if why == reason and text in message]
            return bool(found)

        await self.until(is_told, wait_s)
        return found[0]

    async def failed(self, text: str = "", name: str = "c") -> str:
        return await self.event(FAILED, name, text)

    async def calls(self, count: int, method: str = CREATE) -> list[Any]:
        """The requests, once there were so many."""

        async def are_made() -> bool:
            return len(self.driver.made(method)) >= count

        await self.until(are_made)
        return [call.request for call in self.driver.made(method)]

    @property
    def told(self) -> list[str]:
        return [step for step in self.story if "events" not in step and not step.startswith("get ")]

    @property
    def request(self) -> csi.CreateVolumeRequest:
        request: csi.CreateVolumeRequest = self.driver.made(CREATE)[0].request
        return request
