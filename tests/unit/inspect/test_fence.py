"""`mooring fence` and `mooring unfence` (issue 29) on the in-process port: proof, refusal, the record, and its end. In
virtual time.
"""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest

from mooring.api.coordination import LEASES
from mooring.api.core import EVENTS, NODES
from mooring.api.meta import Kind
from mooring.apiserver.local import ServerFaults
from mooring.base.clock import rfc3339_micro
from mooring.base.errors import ConfigError
from mooring.base.flags import UsageError
from mooring.cli import mooring as command
from mooring.cli.fence import CANNOT, DONE, LEFT, FenceCommand, FenceFlags, line_of
from mooring.cli.unfence import UnfenceCommand, UnfenceFlags
from mooring.control import object_writer
from mooring.inspect.fencing.judge import RECORD, NodeFacts, fence_points
from mooring.inspect.fencing.prover import asked, words_of
from mooring.inspect.objects import NotThere
from mooring.inspect.points import objections_in
from mooring.inspect.renewals import LeaseSight
from mooring.kube.errors import Forbidden
from tests.support.builders import Json, a_lease, a_ready_node, typed
from tests.support.cluster_world import ClusterWorld
from tests.support.programs import PYTHON
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

OUT = "node.kubernetes.io/out-of-service"
OTHER = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


class FenceWorld(ClusterWorld):
    def __init__(self, faults: ServerFaults | None = None) -> None:
        super().__init__(faults)
        self.out, self.err = io.StringIO(), io.StringIO()

    async def fence(self, *words: str, typed: str = "", **flags: Any) -> int:
        self._begin()
        streams = (io.StringIO(typed), self.out, self.err)
        return await FenceCommand(FenceFlags(**flags), words or ("n1",), self.cluster, self.clock, streams).run()

    async def unfence(self, *words: str, typed: str = "", **flags: Any) -> int:
        self._begin()
        streams = (io.StringIO(typed), self.out, self.err)
        return await UnfenceCommand(UnfenceFlags(**flags), words or ("n1",), self.cluster, self.clock, streams).run()

    def _begin(self) -> None:
        self.story.clear()
        self.out, self.err = io.StringIO(), io.StringIO()

    async def against(self) -> list[str]:
        await self.fence(dry_run=True, output="json")
        assert not [step for step in self.story if not step.startswith(("get", "list"))], self.story
        return [one["what"] for one in json.loads(self.out.getvalue())["against"]]

    async def taints(self) -> list[str]:
        """Without the one that the server gives each new Node."""
        keys = [one["key"] for one in (await self.get(NODES, "n1"))["spec"].get("taints", ())]
        return [key for key in keys if key != "node.kubernetes.io/not-ready"]

    async def record(self) -> Json | None:
        text = (await self.get(NODES, "n1"))["metadata"].get("annotations", {}).get("mooring.dev/fenced")
        return None if text is None else dict(json.loads(text))

    async def ready(self, status: str) -> None:
        conditions = [{"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
        await self.patch(NODES, "n1", {"status": {"conditions": conditions}}, subresource="status")

    async def lease(self, seconds: int = 40) -> None:
        """Of a kubelet that has ended."""
        renewed = rfc3339_micro(self.clock.wall_s())
        await self.create(
            a_lease(
                "n1", holderIdentity="n1", leaseDurationSeconds=seconds, renewTime=renewed, namespace="kube-node-lease"
            )
        )

    def renewing(self) -> asyncio.Task[None]:
        async def renew() -> None:
            while True:
                await asyncio.sleep(10)
                await self.patch(
                    LEASES, "n1", {"spec": {"renewTime": rfc3339_micro(self.clock.wall_s())}}, "kube-node-lease"
                )

        return asyncio.create_task(renew(), name="kubelet")


async def a_world(faults: ServerFaults | None = None, ready: str = "Unknown") -> FenceWorld:
    """With a node whose kubelet has ended."""
    world = FenceWorld(faults)
    await world.create(a_ready_node("n1", taints=(OTHER,)))
    await world.ready(ready)
    await world.lease()
    return world


@in_virtual_time
async def test_a_dead_node_is_fenced_with_a_record_and_an_event():
    world = await a_world()
    began = world.clock.now()
    assert DONE == await world.fence(typed="n1\n", reason="power supply burnt")
    assert 40 <= world.clock.now() - began < 42
    assert {"gpu", OUT} == set(await world.taints())
    (taint,) = (one for one in (await world.get(NODES, "n1"))["spec"]["taints"] if one["key"] == OUT)
    assert ("nodeshutdown", "NoExecute") == (taint["value"], taint["effect"])
    record = await world.record()
    assert record is not None
    assert "power supply burnt" == record["reason"]
    assert [
        "its condition Ready is Unknown since 2026-01-01T00:00:00Z",
        "nobody has renewed its Lease kube-node-lease/n1 while it was watched",
    ] == record["proof"]
    ((type_, reason, message, _),) = await world.events("n1")
    assert ("Warning", "NodeFenced") == (type_, reason)
    assert record["by"] in message
    assert "because: power supply burnt" in message


@in_virtual_time
async def test_the_question_says_what_nobody_can_know_and_shows_the_proof_first():
    world = await a_world()
    assert CANNOT == await world.fence(typed="yes\n")
    assert ["gpu"] == await world.taints()
    said = " ".join(world.err.getvalue().split())
    assert "proved its condition Ready is Unknown" in said
    assert "can't tell a machine that is off from one that it does not reach" in said
    assert "Type the node's name: n1 >" in said


@in_virtual_time
async def test_a_dry_run_writes_nothing():
    world = await a_world()
    assert LEFT == await world.fence(dry_run=True)
    assert not [step for step in world.story if not step.startswith(("get", "list"))]
    assert all(len(line) <= 80 for line in world.out.getvalue().splitlines())


@in_virtual_time
@each_row(("ready", "wanted"), [("True", "the node is Ready"), ("False", "its kubelet lives: it renews the Lease")])
async def test_a_live_node_is_refused(ready: str, wanted: str):
    world = await a_world(ready=ready)
    kubelet = world.renewing()
    assert any(text.startswith(wanted) for text in await world.against())
    assert CANNOT == await world.fence(typed="n1\n")
    assert ["gpu"] == await world.taints()
    kubelet.cancel()


@in_virtual_time
async def test_the_watch_of_a_lease_ends_with_its_first_renewal():
    world = await a_world(ready="False")
    kubelet, began = world.renewing(), world.clock.now()
    await world.against()
    assert world.clock.now() - began < 15
    kubelet.cancel()


@in_virtual_time
async def test_a_node_without_a_lease_needs_a_prover():
    world = FenceWorld()
    await world.create(a_ready_node("n1"))
    await world.ready("Unknown")
    assert ["it has no Lease in kube-node-lease, so nothing shows whether its kubelet lives"] == await world.against()


@in_virtual_time
async def test_a_node_that_was_never_seen_is_refused():
    world = FenceWorld()
    await world.create(a_ready_node("n1", ready=None))
    await world.lease()
    assert ["the node has no condition Ready: its kubelet has never reported"] == await world.against()


class ComesBack(ServerFaults):
    """Between the question and the write the node is changed: `change` is awaited at the write's own reading."""

    def __init__(self, verb: str, change: Json, subresource: str = "", reads: int = 1) -> None:
        self.world: FenceWorld | None = None
        self._verb, self._change, self._subresource, self._left = verb, change, subresource, reads

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == self._verb and kind.plural == "nodes" and self.world is not None:
            self._left -= 1
            if self._left == 0:
                await self.world.patch(NODES, "n1", self._change, subresource=self._subresource)


@in_virtual_time
async def test_a_node_that_is_back_by_the_time_of_the_answer_is_not_fenced():
    change = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    faults = ComesBack("get", change, "status", reads=3)
    world = await a_world(faults)
    faults.world = world
    assert CANNOT == await world.fence(typed="n1\n")
    assert ["gpu"] == await world.taints()
    assert "problem   the node is Ready" in world.out.getvalue()


@in_virtual_time
async def test_a_node_that_changes_at_the_write_is_judged_anew():
    faults = ComesBack("patch", {"metadata": {"labels": {"a": "b"}}})
    world = await a_world(faults)
    faults.world = world
    assert DONE == await world.fence(typed="n1\n")
    assert 2 == sum(step.startswith("patch") for step in world.story)
    assert {"gpu", OUT} == set(await world.taints())


@in_virtual_time
async def test_one_that_is_fenced_stays_so_without_a_word():
    world = await a_world()
    await world.fence(typed="n1\n")
    assert DONE == await world.fence()
    assert not [step for step in world.story if not step.startswith("get")]
    assert world.out.getvalue().startswith("node n1: fenced\n")


@in_virtual_time
async def test_a_fence_without_the_right_to_events_says_so():
    class NoEvents(ServerFaults):
        async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
            if kind.plural == "events":
                raise Forbidden("no right to events")

    world = await a_world(NoEvents())
    assert DONE == await world.fence(typed="n1\n")
    assert "no Event was left: no right to events" in world.err.getvalue()
    assert await world.record() is not None


@in_virtual_time
async def test_unfence_takes_back_our_own_taint_once_the_node_is_ready():
    world = await a_world()
    await world.fence(typed="n1\n")
    assert CANNOT == await world.unfence(yes=True)
    assert "against   the node is not Ready" in world.out.getvalue()
    assert OUT in await world.taints()
    await world.ready("True")
    assert LEFT == await world.unfence(dry_run=True)
    assert CANNOT == await world.unfence(typed="no\n")
    assert OUT in await world.taints()
    assert DONE == await world.unfence(typed="n1\n")
    assert (["gpu"], None) == (await world.taints(), await world.record())
    told = sorted((reason, type_) for type_, reason, _, _ in await world.events("n1"))
    assert [("NodeFenced", "Warning"), ("NodeUnfenced", "Normal")] == told
    assert DONE == await world.unfence()


@in_virtual_time
async def test_unfence_of_a_node_that_stays_away_has_to_be_wanted():
    world = await a_world()
    await world.fence(typed="n1\n")
    assert DONE == await world.unfence(yes=True, not_ready=True)
    assert ["gpu"] == await world.taints()


@in_virtual_time
async def test_the_taint_of_somebody_else_stays():
    world = FenceWorld()
    await world.create(a_ready_node("n1", taints=({"key": OUT, "value": "x", "effect": "NoExecute"},)))
    assert CANNOT == await world.unfence(yes=True, not_ready=True)
    assert "mooring fence has left no record of it" in " ".join(world.out.getvalue().split())
    assert [OUT] == await world.taints()


@in_virtual_time
async def test_a_node_that_is_not_there():
    with pytest.raises(NotThere, match='node "n1" does not exist'):
        await FenceWorld().fence()


def test_the_node_may_have_its_kind():
    world = FenceWorld.__new__(FenceWorld)
    with pytest.raises(UsageError, match="give one NODE"):
        FenceCommand(FenceFlags(), ("pod/web",), None, None, (io.StringIO(), io.StringIO(), io.StringIO()))
    del world


@each_row(
    ("words", "wrong"),
    [
        (["--yes"], "--yes: needs --prover"),
        (["--yes", "--dry-run", "--prover=true"], "--yes goes without --dry-run"),
        (["--prover=true", "--prover-timeout=0s"], "--prover-timeout: must be greater than zero"),
        (["-o=table"], "--output: must be text, json or yaml"),
    ],
)
def test_flags_that_do_not_go_together(words: list[str], wrong: str, capsys: pytest.CaptureFixture[str]):
    assert 2 == command.run(["fence", "n1", *words])
    assert wrong in capsys.readouterr().err


# -- the prover: a program of somebody's, in real time


async def test_a_prover_gets_the_nodes_name_and_says_why():
    script = "import sys; print('first'); print('chassis off:', sys.argv[1])"
    answer = await asked(f'{PYTHON} -c "{script}" {{node}}', "n1", 30.0)
    assert (0, "chassis off: n1") == (answer.exit_code, answer.said)
    answer = await asked(f"{PYTHON} -c 'import sys; sys.exit(\"it answers\")'", "n1", 30.0)
    assert (1, "it answers") == (answer.exit_code, answer.said)


async def test_a_prover_that_does_not_end_is_ended():
    answer = await asked(f"{PYTHON} -c 'import time; time.sleep(600)'", "n1", 0.2)
    assert answer.exit_code is None
    facts = NodeFacts(typed(a_ready_node("n1", ready=False)), LeaseSight(silent=("kube-node-lease/n1",)), answer)
    (objection,) = objections_in(fence_points(facts))
    assert objection.text.startswith("the prover did not end in time")


async def test_a_prover_that_is_not_there():
    with pytest.raises(ConfigError, match="--prover: /nowhere/prover can't be run: No such file or directory"):
        await asked("/nowhere/prover", "n1", 1.0)


def test_no_shell_reads_the_nodes_name():
    assert ("is-off", "--host=n1; rm -rf /") == words_of("is-off --host={node}", "n1; rm -rf /")
    with pytest.raises(ConfigError, match="--prover: can't be read"):
        words_of("is-off 'n1", "n1")


@pytest.mark.slow
@each_row(("end", "code"), [("true", DONE), ("false", CANNOT)])
async def test_the_provers_word_counts_beside_the_lease(end: str, code: int):
    """In real time: the Lease holds for a second."""
    world = FenceWorld()
    await world.create(a_ready_node("n1"))
    await world.ready("Unknown")
    await world.lease(seconds=1)
    assert code == await world.fence(prover=end, yes=True)
    assert ([OUT] if code == DONE else []) == await world.taints()
    assert [] == [one for one in await world.list(EVENTS) if code == CANNOT]


@in_virtual_time
async def test_a_lease_of_minutes_is_watched_for_as_long_as_it_says():
    """A cluster with another nodeLeaseDurationSeconds."""
    world = FenceWorld()
    await world.create(a_ready_node("n1", taints=(OTHER,)))
    await world.ready("Unknown")
    await world.lease(300)
    began = world.clock.now()
    assert DONE == await world.fence(typed="n1\n")
    assert 300 <= world.clock.now() - began < 303


@in_virtual_time
async def test_a_kubelet_that_renews_a_lease_of_minutes_lives():
    world = FenceWorld()
    await world.create(a_ready_node("n1", taints=(OTHER,)))
    await world.ready("Unknown")
    await world.lease(300)
    kubelet, began = world.renewing(), world.clock.now()
    assert ["its kubelet lives: it renews the Lease kube-node-lease/n1"] == await world.against()
    assert world.clock.now() - began < 15
    kubelet.cancel()


@in_virtual_time
async def test_a_lease_of_hours_proves_nothing_either_way():
    world = FenceWorld()
    await world.create(a_ready_node("n1", taints=(OTHER,)))
    await world.ready("Unknown")
    await world.lease(7200)
    (objection,) = await world.against()
    assert objection.startswith("nobody can tell whether its kubelet lives: kube-node-lease/n1: it holds for 2h0m0s")


@in_virtual_time
async def test_a_node_that_is_fenced_says_by_whom_and_when():
    world = await a_world()
    await world.fence(typed="n1\n", reason="power supply burnt")
    record = await world.record()
    assert record is not None
    assert DONE == await world.fence()
    assert "n1: fenced" in world.out.getvalue()
    said = " ".join(world.out.getvalue().split())
    assert (
        f"fenced by {record['by']} at {record['at']} because power supply burnt proved its condition Ready is Unknown"
        in said
    )
    await world.fence(output="json")
    assert record == json.loads(world.out.getvalue())["record"]


@in_virtual_time
async def test_the_record_is_not_the_mark_of_a_write():
    """A controller that ends the doubt about a write to a Node would take away who fenced it."""
    assert RECORD != object_writer.FENCED


async def test_a_fence_of_somebody_else_says_so():
    world = FenceWorld()
    taint = {"key": OUT, "value": "x", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    await world.create(a_ready_node("n1", taints=(taint,)))
    assert DONE == await world.fence()
    said = " ".join(world.out.getvalue().split())
    assert "somebody has set the taint at 2026-01-01T00:00:00Z; mooring fence has left no record of it" in said
    await world.fence(output="json")
    assert "record" not in json.loads(world.out.getvalue())


@in_virtual_time
async def test_a_dry_run_says_what_to_type_next():
    world = await a_world()
    assert LEFT == await world.fence(dry_run=True, reason="power supply burnt")
    assert world.out.getvalue().endswith("  next      mooring fence n1 '--reason=power supply burnt'\n")
    assert "mooring fence n1 '--prover=./is-off {node}' --kubeconfig=k" == line_of(
        "fence", "n1", [("--prover", "./is-off {node}")], "k"
    )
    await world.fence(dry_run=True, output="json")
    assert "mooring fence n1" == json.loads(world.out.getvalue())["next"]
    await world.fence(typed="n1\n")
    await world.unfence(dry_run=True, not_ready=True)
    assert "mooring unfence n1 --not-ready=true" in world.out.getvalue()


@in_virtual_time
async def test_a_dry_run_that_is_refused_has_nothing_to_type_next():
    world = await a_world(ready="True")
    assert CANNOT == await world.fence(dry_run=True)
    assert "next" not in world.out.getvalue()
