"""The process dies at every turn of the loop between a claim and its bound volume, and each time nothing is left
behind.

A turn is as fine as it gets: no await is resumed between two of them. Each death is tried with a claim that stays, one
that is deleted while nobody is there, and one that is deleted at some moment before; with class and secret going with
it, too.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import random
from typing import Any

import pytest

from mooring.api.coordination import LEASES
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, SECRETS
from mooring.api.storage import STORAGE_CLASSES
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cluster.binder import options as binding
from mooring.cluster.binder.controller import make_binder
from mooring.cluster.binder.options import BinderOptions
from mooring.control.events import EventRecorder
from mooring.control.runtime import Runtime
from mooring.csi.capabilities import DriverInfo
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import NotFound
from mooring.sidecars.provisioner.controller import Provisioner
from mooring.sidecars.provisioner.intents import lease_codec
from mooring.sidecars.provisioner.intents.journal import Intents, Journal
from mooring.sidecars.provisioner.intents.lease_codec import JournalLocation
from mooring.sidecars.provisioner.options import ProvisionerOptions
from tests.support.builders import a_claim, a_class, a_secret
from tests.support.cluster_world import ClusterWorld
from tests.support.killing import ActingLoop, Backend, Life, MortalCluster, MortalDriver
from tests.support.rows import each_row

RPC = csi.ControllerServiceCapability.RPC
INFO = DriverInfo(
    "csi.test",
    "1",
    frozenset({csi.PluginCapability.Service.CONTROLLER_SERVICE}),
    frozenset(),
    frozenset({RPC.CREATE_DELETE_VOLUME}),
)
TIMEOUT_S = 2.0
OPTIONS = ProvisionerOptions(
    timeout_s=TIMEOUT_S, worker_threads=4, retry_interval_start_s=0.2, retry_interval_max_s=1.0
)
PARTS = frozenset({binding.BINDER, binding.CLAIM_PROTECTION, binding.VOLUME_PROTECTION})
SECRET_KEYS = {
    "csi.storage.k8s.io/provisioner-secret-name": "s",
    "csi.storage.k8s.io/provisioner-secret-namespace": "default",
}
FATES = (["ok"], ["lost"], ["slow"], ["refused", "lost"], ["lost", "slow"])


@dataclasses.dataclass(frozen=True)
class Run:
    """One run. deletes: None, "while it is down", or the turn at which the claim goes. kill_at: the turn, None for no
    death.
    """

    seed: int
    fates: list[str]
    policy: str
    deletes: str | int | None
    kill_at: int | None
    everything_goes: bool = False
    durable: bool = True


class CrashWorld(ClusterWorld):
    def __init__(self, run: Run) -> None:
        super().__init__(seed=run.seed)
        self.run = run
        self.backend = Backend(slow_s=2.5 * TIMEOUT_S)
        self.backend.fates = list(run.fates)
        self.starts = 0

    async def prepare(self) -> None:
        fields = {"reclaimPolicy": self.run.policy, "parameters": SECRET_KEYS}
        await self.create(a_secret("s", {"token": base64.b64encode(b"t").decode()}), a_class(**fields))
        binder = make_binder(
            Runtime(self.users, self.clock, self.randomness, Metrics()), BinderOptions(parts=PARTS, workers=2)
        )
        self._binder = asyncio.get_running_loop().create_task(binder.run(), name="binder")
        self.life = self.start()
        await asyncio.sleep(1)

    def start(self) -> Life:
        self.starts += 1
        life, clock, randomness = Life(), self.clock, Random(self.run.seed * 100 + self.starts)
        cluster: Any = MortalCluster(self.users, life)
        driver = InProcessDriver(MortalDriver(self.backend, life), clock=clock)
        identity = f"me{self.starts}"
        intents = (
            Journal(cluster, JournalLocation("default", "csi.test"), identity, clock) if self.run.durable else Intents()
        )
        events = EventRecorder(cluster, identity, clock=clock, randomness=randomness)
        life.start(
            Provisioner(
                Runtime(cluster, clock, randomness, Metrics()), driver, INFO, OPTIONS, events, intents=intents
            ).run()
        )
        return life

    async def delete_claim(self) -> None:
        try:
            await self.delete(PERSISTENT_VOLUME_CLAIMS, "c")
        except NotFound:
            return
        if self.run.everything_goes:
            await self.delete(STORAGE_CLASSES, "sc")
            await self.delete(SECRETS, "s")

    def delete_claim_soon(self) -> None:
        self._deleting = asyncio.get_running_loop().create_task(self.delete_claim(), name="user")

    async def phase(self) -> str:
        """The claim's, "" when it is gone."""
        claim = await self.find(PERSISTENT_VOLUME_CLAIMS, "c")
        return str(claim["status"]["phase"]) if claim else ""

    async def handles(self) -> list[str]:
        return sorted(
            pv.spec.csi.volume_handle for pv in (await self.users.list(PERSISTENT_VOLUMES)).items if pv.spec.csi
        )

    async def open_intents(self) -> list[str]:
        found = (await self.users.list(LEASES.whole())).items
        return [intent.uid for lease in found for intent in lease_codec.entries_of(lease)]

    async def end(self) -> None:
        self._binder.cancel()
        self.life.kill()
        await asyncio.wait([self._binder])


async def lived(loop: ActingLoop, story: Run) -> tuple[int, str]:
    """How many turns there were until the claim was bound, if it was; and what was wrong in the end."""
    world = CrashWorld(story)
    await world.prepare()
    acts: dict[int, Any] = {}
    if isinstance(story.deletes, int):
        acts[story.deletes] = world.delete_claim_soon
    if story.kill_at is not None:
        acts[story.kill_at] = world.life.kill  # also when it is the same turn
    loop.arm(acts)
    await world.create(a_claim("c"))
    while await world.phase() not in ("Bound", "") and world.life.alive:  # noqa: ASYNC110  (a look is part of the turns: few of them,
        await asyncio.sleep(1)  # since each is one more moment of death in which the process does nothing)
    turns = loop.turns_count
    await asyncio.sleep(20)
    loop.arm({})
    if not world.life.alive:
        if story.deletes == "while it is down":
            await world.delete_claim()
            await asyncio.sleep(0.1)
        world.life = world.start()
    await asyncio.sleep(150)
    world.life.check()
    wrong = await what_is_wrong(world)
    await world.end()
    return turns, wrong


async def what_is_wrong(world: CrashWorld) -> str:
    """Backend = cluster, the claim has its volume, nobody waits for anything."""
    volumes, handles, phase = sorted(world.backend.volumes), await world.handles(), await world.phase()
    found = []
    if volumes != handles:
        found.append(f"the backend has {volumes}, the cluster {handles}")
    if phase not in ("", "Bound"):
        found.append(f"the claim is {phase}")
    if phase == "Bound" and len(volumes) != 1:
        found.append(f"one claim, volumes {volumes}")
    if not phase and world.run.policy == "Delete" and volumes:
        found.append(f"no claim, and still {volumes}")
    if not world.backend.is_idle:
        found.append("a call is still at work")
    if len({request.SerializeToString() for request in world.backend.requests if request.secrets}) > 1:
        found.append("the request has changed on the way")
    if await world.open_intents():
        found.append(f"intents are open: {await world.open_intents()}")
    return "; ".join(found)


def live(story: Run) -> tuple[int, str]:
    loop = ActingLoop(story.seed)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(lived(loop, story))


def stories(seed: int) -> list[Run]:
    """Every turn of one undisturbed run as the moment of death, each with one of the ways in which the claim ends."""
    draw = random.Random(seed)
    fates = FATES[seed % len(FATES)]
    policy = "Retain" if seed % 4 == 3 else "Delete"
    turns, wrong = live(Run(seed, fates, policy, None, None))
    assert wrong == "", wrong
    made = []
    for kill_at in range(1, turns + 2):
        deletes = (None, "while it is down", "while it is down", draw.randrange(1, max(2, kill_at)))[draw.randrange(4)]
        made.append(Run(seed, fates, policy, deletes, kill_at, everything_goes=draw.random() < 0.5))
    return made


@pytest.mark.slow
@each_row("seed", [0, 1], parts=2)
def test_a_death_at_any_await_leaves_no_volume_behind(seed: int):
    for story in stories(seed):
        _, wrong = live(story)
        assert wrong == "", f"{story}: {wrong}"


@pytest.mark.long
@each_row("seed", range(2, 10), parts=8)
def test_and_in_more_courses(seed: int):
    for story in stories(seed):
        _, wrong = live(story)
        assert wrong == "", f"{story}: {wrong}"


@pytest.mark.slow
def test_without_durable_intents_a_volume_is_lost():
    """What the test above would see, if there were anything to see."""
    told = [live(dataclasses.replace(story, durable=False, deletes="while it is down"))[1] for story in stories(0)]
    assert any("the cluster []" in wrong for wrong in told)
