"""What a process that stands for election leaves for its kubelet to tell (issue 27, A8), and what others make of it. In virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.api.pods import PODS
from mooring.base.randomness import Random
from mooring.cli.election import TerminationNote, candidate
from mooring.cli.process import Machine
from mooring.cli.tables import ElectionFlags
from mooring.control.lease.obituary import note_of
from mooring.kube.cluster import Patch, PatchType
from tests.support.builders import a_pod
from tests.support.virtual_loop import in_virtual_time
from tests.unit.cli.sidecar_life import SlowWork
from tests.unit.cli.test_election import Refusing, Server

pytestmark = in_virtual_time


def container(name: str, log: Path, *, is_main: bool = True) -> Machine:
    """The surroundings of a container's process."""
    return Machine({"POD_NAMESPACE": "default"}, lambda: name, log, log.parent / "none", is_main=lambda: is_main)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """As the kubelet makes it."""
    file = tmp_path / "termination-log"
    file.touch()
    return file


def left_in(log: Path) -> str:
    return log.read_text()


async def tell_of_the_end(server: Server, name: str, message: str) -> None:
    """The kubelet tells that a container was killed."""
    over = {"terminated": {"exitCode": 137, "reason": "Error", "message": message}}
    one = {"name": "c", "image": "i", "imageID": "i", "ready": False, "restartCount": 0, "state": over}
    patch = Patch(PatchType.MERGE, {"status": {"containerStatuses": [one]}})
    await server.users.patch(PODS, name, patch, "default", subresource="status")


async def takeover_s(server: Server, log: Path, *flags: str) -> float:
    """From the moment that a leader is killed, and its kubelet tells of it."""
    faults = Refusing()
    first = server.sidecar(*flags, machine=container("a", log), faults=faults)
    second = server.sidecar(*flags, machine=container("b", log.parent / "other"), seed=2)
    await server.users.create(PODS.whole(), a_pod("a", node="n1"), "default")
    async with first.living():
        await server.until(lambda: first.works)
        async with second.living():
            await server.clock.sleep(20)
            holder = (await server.lease()).spec.holder_identity
            assert holder.startswith("a_")
            faults.on = True  # nothing of it reaches the server any more
            began = server.clock.now()
            await tell_of_the_end(server, "a", note_of([holder]))
            await server.until(lambda: second.works)
            return float(server.clock.now() - began)


async def test_LE09_a_killed_leaders_lease_is_taken_in_less_than_three_seconds(log: Path):
    assert 3 > await takeover_s(Server(), log)


async def test_LE10_by_the_flag_it_runs_out(log: Path):
    assert 9 < await takeover_s(Server(), log, "--leader-election-early-takeover=false")


async def test_a_process_leaves_the_identity_under_which_it_leads(log: Path):
    server = Server()
    world = server.sidecar(machine=container("a", log))
    async with world.living():
        await server.until(lambda: world.works)
        assert note_of([(await server.lease()).spec.holder_identity]) == left_in(log)


async def test_a_process_that_ends_in_good_order_leaves_its_note_and_one_that_fails_does_not(log: Path):
    """Its log may be the kubelet's message then."""
    server = Server()
    world = server.sidecar(machine=container("a", log))
    async with world.living():
        await server.until(lambda: world.works)
    assert left_in(log).startswith("leader election: this was a_")
    failing = server.sidecar(
        machine=container("a", log), make=lambda: SlowWork(world.clock, fail=ValueError("no")), seed=3
    )
    with pytest.raises(ValueError, match="no"):
        await failing.life.run()
    assert "" == left_in(log)


@pytest.mark.parametrize("flags", [("--leader-election-early-takeover=false",), ("--leader-election=false",)])
async def test_by_its_flag_nothing_is_written(flags: tuple[str, ...], log: Path):
    server = Server()
    world = server.sidecar(*flags, machine=container("a", log))
    async with world.living():
        await server.until(lambda: world.works)
        assert "" == left_in(log)


def test_only_the_main_process_of_a_container_speaks_for_it(log: Path):
    """Another one may be started beside it, by hand."""
    TerminationNote(container("a", log, is_main=False), is_on=True).add("a_1")
    assert "" == left_in(log)


def test_outside_of_a_pod_no_file_is_made(tmp_path: Path):
    TerminationNote(container("a", tmp_path / "termination-log"), is_on=True).add("a_1")
    assert [] == list(tmp_path.iterdir())


def test_a_process_with_several_leases_names_each_identity(log: Path):
    note = TerminationNote(container("a", log), is_on=True)
    note.add("a_1")
    note.add("a_2")
    assert note_of(["a_1", "a_2"]) == left_in(log)


def test_a_log_that_cannot_be_written_is_no_reason_to_end(log: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError("read-only")

    monkeypatch.setattr(Path, "write_text", refuse)
    TerminationNote(container("a", log), is_on=True).add("a_1")


@pytest.mark.parametrize(
    ("flags", "environ", "pods_in"),
    [
        (ElectionFlags(), {"POD_NAMESPACE": "storage"}, "storage"),
        (ElectionFlags(leader_election_namespace="elsewhere"), {"POD_NAMESPACE": "storage"}, "storage"),
        (ElectionFlags(leader_election_namespace="elsewhere"), {}, ""),
        (ElectionFlags(early_takeover=False), {"POD_NAMESPACE": "storage"}, ""),
    ],
)
def test_pods_are_looked_for_in_the_processs_own_namespace(
    flags: ElectionFlags, environ: dict[str, str], pods_in: str, tmp_path: Path
):
    machine = Machine(environ, lambda: "a", service_account=tmp_path)
    assert pods_in == candidate(flags, machine, "lock", Random(1)).pods_in
