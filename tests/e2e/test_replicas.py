"""Two replicas under the real API server, an unreliable driver, and kill -9 for the leader: nothing is lost, nothing is
on two nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from mooring.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment
from tests.e2e.processes import Attacher, ProcessTarget, on_server
from tests.support.control_plane import ControlPlane
from tests.support.unreliable_driver import PUBLISH, UNPUBLISH, Journal, start

SEED = 11
SHARED_COUNT, SHARED_NODES = 50, 2  # volumes for many nodes, each wanted on two of them
SINGLE_COUNT, MOVED_COUNT = 100, 20  # volumes for one node, and how many of them move while the leaders die
FLAGS = (
    "--leader-election",
    "--leader-election-lease-duration=8s",
    "--leader-election-renew-deadline=6s",
    "--leader-election-retry-period=500ms",
    "--timeout=2s",
    "--worker-threads=20",
    "--retry-interval-start=200ms",
    "--retry-interval-max=2s",
    "-v=2",
)


class Replicas:
    """Attachers that compete for one Lease."""

    def __init__(self, target: ProcessTarget) -> None:
        self._target = target
        self.alive: list[Attacher] = []
        self.killed: list[Attacher] = []

    def add(self) -> None:
        flags = (f"--csi-address={self._target.socket}", f"--kubeconfig={self._target.config}")
        self.alive.append(Attacher(self._target.folder, *flags, *FLAGS))

    async def leader(self) -> Attacher:
        """Who leads now."""

        async def found() -> Attacher | None:
            leading = [one for one in self.alive if _leads(one.log)]
            # A former leader may not have logged yet that it is none; whether two worked, the driver's journal says.
            return leading[0] if len(leading) == 1 else None

        return await self._target.until("somebody leads", found)

    async def kill_leader(self) -> None:
        """kill -9, and a new replica."""
        leader = await self.leader()
        self.alive.remove(leader)
        self.killed.append(leader)
        await leader.kill()
        self.add()

    def assert_alive(self) -> None:
        for one in self.alive:
            one.assert_alive()

    def kill(self) -> None:
        for one in self.alive:
            one.program.kill()


def _leads(log: str) -> bool:
    return log.rfind("Became leader") > log.rfind("Stopped leading")


class Wishes:
    """What shall be attached where. single: handles of the volumes for one node."""

    def __init__(self, target: ProcessTarget) -> None:
        self._target = target
        self.at: dict[str, set[str]] = {}  # volume handle -> node ids
        self.names: set[str] = set()  # of attachments
        self.single: set[str] = set()
        self.pvs: list[str] = []
        self.nodes: list[str] = []
        self.moved: list[tuple[str, str, str]] = []  # handle, from and to node id

    async def add_objects(self) -> None:
        async with asyncio.TaskGroup() as group:
            nodes = [group.create_task(self._target.node(f"node{number}")) for number in range(20)]
            shared = [group.create_task(self._target.volume(f"shared{number}")) for number in range(SHARED_COUNT)]
            single = [
                group.create_task(self._target.volume(f"single{number}", modes=("ReadWriteOnce",)))
                for number in range(SINGLE_COUNT)
            ]
        self.nodes = [task.result() for task in nodes]
        self.pvs = [task.result() for task in (*shared, *single)]
        self.single = {self._target.handle(task.result()) for task in single}

    async def express(self) -> None:
        """Makes all attachments."""
        shared, single = self.pvs[:SHARED_COUNT], self.pvs[SHARED_COUNT:]
        wanted = [
            (pv, self.nodes[(number + shift) % 20]) for number, pv in enumerate(shared) for shift in range(SHARED_NODES)
        ]
        for number, pv in enumerate(single):
            wanted.insert(2 * number, (pv, self.nodes[number % 20]))
        async with asyncio.TaskGroup() as group:
            for pv, node in wanted:
                group.create_task(self._want(pv, node))

    async def move_some(self) -> None:
        """Volumes for one node that are attached are wanted on another, both at once: the old wish ends, the new one
        begins.
        """
        single = {pv for pv in self.pvs if self._target.handle(pv) in self.single}

        async def enough() -> list[VolumeAttachment] | None:
            there = (await self.attachments()).values()
            found = [one for one in there if one.status.attached and one.spec.source.persistent_volume_name in single]
            return found if len(found) >= MOVED_COUNT else None

        attached = await self._target.until("volumes that can move", enough)
        for one in attached[:MOVED_COUNT]:
            pv, old = one.spec.source.persistent_volume_name or "", one.spec.node_name
            new = self.nodes[(self.nodes.index(old) + 7) % len(self.nodes)]
            await self._target.delete("VolumeAttachment", one.metadata.name)
            self.names.discard(one.metadata.name)
            self.at[self._target.handle(pv)].clear()
            await self._want(pv, new)
            self.moved.append((self._target.handle(pv), self._target.node_id(old), self._target.node_id(new)))

    async def _want(self, pv: str, node: str) -> None:
        self.at.setdefault(self._target.handle(pv), set()).add(self._target.node_id(node))
        self.names.add(await self._target.want(pv, node))

    async def attachments(self) -> dict[str, VolumeAttachment]:
        page = await self._target.users.list(VOLUME_ATTACHMENTS)
        return {one.metadata.name: one for one in page.items if one.spec.attacher == self._target.driver.name}

    async def attached(self, share: float) -> None:
        """At least this share of what is wanted is attached, and nothing else is there when it is all."""

        async def enough() -> bool:
            await asyncio.sleep(0.2)
            there = await self.attachments()
            done = {
                name for name, one in there.items() if one.status.attached and one.metadata.deletion_timestamp is None
            }
            return len(done & self.names) >= share * len(self.names) and (share < 1.0 or there.keys() == self.names)

        await self._target.until(f"{share:.0%} are attached", enough)

    async def end(self) -> None:
        """Deletes all attachments and waits for their end."""
        async with asyncio.TaskGroup() as group:
            for name in self.names:
                group.create_task(self._target.delete("VolumeAttachment", name))

        async def none_left() -> bool:
            await asyncio.sleep(0.2)
            return not await self.attachments()

        await self._target.until("all are detached", none_left)


@pytest.mark.long
async def test_leaders_that_are_killed_under_load_leave_every_volume_attached_once(control_plane: ControlPlane) -> None:
    async with asyncio.timeout(300), on_server(control_plane.kubeconfig()) as target:
        await target.stop_driver()
        target.wait_s = 60.0
        wishes, replicas = Wishes(target), Replicas(target)
        driver, journal = start(target.folder, target.socket, target.driver.name, seed=SEED, trouble=0.4)
        try:
            await wishes.add_objects()
            replicas.add()
            replicas.add()
            await replicas.leader()
            await wishes.express()
            await wishes.attached(0.15)
            await replicas.kill_leader()
            await wishes.attached(0.4)
            await wishes.move_some()
            await replicas.kill_leader()
            await wishes.attached(1.0)
            replicas.assert_alive()
            _judge_attached(Journal(journal), wishes)
            await _no_error_is_left(wishes)
            await wishes.end()
            replicas.assert_alive()
            _judge_detached(Journal(journal), wishes)
            await _volumes_are_free(target, wishes.pvs)
        except BaseException as error:
            error.add_note(_logs(target.folder))
            raise
        finally:
            replicas.kill()
            driver.kill()


def _judge_attached(journal: Journal, wishes: Wishes) -> None:
    """What the driver noted, against what was wanted."""
    assert {handle: nodes for handle, nodes in wishes.at.items() if nodes} == journal.published()
    assert [] == journal.on_two_nodes(wishes.single)
    assert [] == journal.overlaps()
    published, unpublished = journal.effects(PUBLISH), journal.effects(UNPUBLISH)
    assert {1} == {published[handle, node] for handle, nodes in wishes.at.items() for node in nodes}, "published again"
    left = {(handle, old) for handle, old, _ in wishes.moved}
    assert unpublished.keys() <= left, "something was unpublished that is wanted"
    assert published.keys() - left == {(handle, node) for handle, nodes in wishes.at.items() for node in nodes}
    codes = journal.seen_codes()
    assert len(codes) > 12, f"the driver was too kind: {codes}"


def _judge_detached(journal: Journal, wishes: Wishes) -> None:
    assert {} == journal.published()
    assert [] == journal.on_two_nodes(wishes.single)
    assert [] == journal.overlaps()
    assert journal.effects(PUBLISH) == journal.effects(UNPUBLISH)


async def _no_error_is_left(wishes: Wishes) -> None:
    there = await wishes.attachments()
    assert {} == {name: one.status for name, one in there.items() if one.status.attach_error or one.status.detach_error}


async def _volumes_are_free(target: ProcessTarget, pvs: Iterable[str]) -> None:
    """With their attachments gone, deleted volumes lose the attacher's finalizer."""
    async with asyncio.TaskGroup() as group:
        for pv in pvs:
            group.create_task(target.delete("PersistentVolume", pv))

    async def unheld() -> bool:
        found = await asyncio.gather(*(target.find("PersistentVolume", pv) for pv in pvs))
        return not any(target.finalizer in (pv["metadata"].get("finalizers") or ()) for pv in found if pv)

    await target.until("no volume is held", unheld)


def _logs(folder: Path) -> str:
    ends = ((path.name, path.read_text(errors="replace").splitlines()[-15:]) for path in sorted(folder.glob("*.log")))
    return "\n".join(f"-- {name}\n" + "\n".join(lines) for name, lines in ends)


def test_the_judge_finds_what_it_is_for(tmp_path: Path) -> None:
    """A journal with each fault that the run above must not show."""
    path = tmp_path / "journal"
    effect = '{"t":%s,"event":"effect","call":%s,"method":"publish","volume":"v","node":"%s","nodes":%s}\n'
    call = '{"t":%s,"event":"%s","call":%s,"method":"publish","volume":"v","node":"%s","code":"OK"}\n'
    path.write_text(
        call % (1, "begin", 1, "a")
        + call % (1.5, "begin", 2, "b")
        + effect % (1.8, 1, "a", '["a"]')
        + call % (2, "end", 1, "a")
        + effect % (2.1, 2, "b", '["a","b"]')
        + '{"half a li'
    )
    journal = Journal(path)
    assert {"v": {"a", "b"}} == journal.published()
    assert ["v on ['a', 'b'] at 2.100"] == journal.on_two_nodes({"v"})
    assert ["v: publish a 1.000-2.000, publish at 1.500"] == journal.overlaps()
    assert {("v", "a"): 1, ("v", "b"): 1} == journal.effects(PUBLISH)
