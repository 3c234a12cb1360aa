"""`mooring fence` and `mooring unfence` (issue 29) where things change unseen: another node, another taint, a prover's
second word.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mooring.api.coordination import LEASES
from mooring.api.core import NODES
from mooring.api.meta import Kind
from mooring.apiserver.local import ServerFaults
from mooring.base.clock import rfc3339_micro
from mooring.cli.fence import CANNOT, DONE
from mooring.cli.people import typed
from mooring.inspect.fencing.judge import NodeFacts, fence_points
from mooring.inspect.fencing.prover import asked
from mooring.inspect.objects import NotThere
from mooring.inspect.renewals import LeaseSight
from tests.support.builders import a_lease, a_ready_node
from tests.support.programs import PYTHON
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.support.waiting import eventually
from tests.unit.inspect.test_fence import OUT, FenceWorld, a_world

FOREIGN = {"key": OUT, "value": "nodeshutdown", "effect": "NoExecute"}


@in_virtual_time
@each_row("more", [{}, {"timeAdded": "2026-01-01T00:00:00Z"}])
async def test_a_record_of_an_older_taint_is_no_right_to_another(more: dict[str, Any]):
    """Somebody has taken our taint away, and our record stayed; later somebody else has set the taint."""
    world = await a_world()
    assert DONE == await world.fence(typed="n1\n")
    await world.patch(NODES, "n1", {"spec": {"taints": None}})
    await world.patch(NODES, "n1", {"spec": {"taints": [{**FOREIGN, **more}]}})
    await world.ready("True")
    assert CANNOT == await world.unfence(yes=True)
    assert [OUT] == await world.taints()


class MadeAnew(ServerFaults):
    """While the question waits, the Node is deleted, and one of a new machine registers under its name."""

    def __init__(self) -> None:
        self.world: FenceWorld | None = None
        self._reads = 0

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "get" and kind.plural == "nodes" and self.world is not None:
            self._reads += 1
            if self._reads == 3:
                await self.world.remove(NODES, "n1")
                await self.world.create(a_ready_node("n1", ready=False))


@in_virtual_time
async def test_a_node_that_was_made_anew_meanwhile_is_not_fenced():
    faults = MadeAnew()
    world = await a_world(faults)
    faults.world = world
    with pytest.raises(NotThere, match='node "n1" is another one than a moment ago'):
        await world.fence(typed="n1\n")
    assert [] == await world.taints()


@in_virtual_time
async def test_a_lease_without_a_holder_is_watched_too():
    world = FenceWorld()
    await world.create(a_ready_node("n1", ready=False))
    renewed = rfc3339_micro(world.clock.wall_s())
    await world.create(
        a_lease("n1", holderIdentity="", leaseDurationSeconds=40, renewTime=renewed, namespace="kube-node-lease")
    )

    async def renew() -> None:
        while True:
            await asyncio.sleep(10)
            await world.patch(
                LEASES, "n1", {"spec": {"renewTime": rfc3339_micro(world.clock.wall_s())}}, "kube-node-lease"
            )

    kubelet = asyncio.create_task(renew(), name="kubelet")
    assert ["its kubelet lives: it renews the Lease kube-node-lease/n1"] == await world.against()
    kubelet.cancel()


async def test_the_provers_passwords_and_escapes_are_kept_nowhere():
    answer = await asked(f"{PYTHON} -c 'print(\"off \\x1b[2J\")' -P s3cret", "n1", 30.0)
    world = FenceWorld()
    await world.create(a_ready_node("n1", ready=False))
    facts = NodeFacts(await world.cluster.get(NODES, "n1"), LeaseSight(silent=("kube-node-lease/n1",)), answer)
    said = json.dumps([point.text for point in fence_points(facts)])
    assert "the prover says that it is dead" in said
    assert "s3cret" not in said
    assert "\\u001b" not in said


@pytest.mark.slow
async def test_the_prover_is_asked_again_after_the_answer(tmp_path: Path):
    """In real time: the Lease holds for a second. The machine is switched on while the question waits."""
    world = FenceWorld()
    await world.create(a_ready_node("n1", ready=False))
    await world.lease(seconds=1)
    prover = f"sh -c 'test ! -e {tmp_path}/on && touch {tmp_path}/on'"
    assert CANNOT == await world.fence(prover=prover, typed="n1\n")
    assert [] == await world.taints()
    assert "the prover ended with exit code 1" in " ".join(world.out.getvalue().split())


ASKS = """
import asyncio, signal, sys
from mooring.cli.people import typed

signal.signal(signal.SIGINT, signal.default_int_handler)  # where the tests run in the background it would be ignored

async def main():
    print("asked", flush=True)
    typed(sys.stdin)

asyncio.run(main())
"""


def test_one_ctrl_c_at_the_question_ends_the_command():
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", ASKS], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            assert b"asked\n" == process.stdout.readline()
            eventually(lambda: "pipe" in Path(f"/proc/{process.pid}/wchan").read_text(), 30, "it reads")
            process.send_signal(signal.SIGINT)
            assert -signal.SIGINT == process.wait(10)
        finally:
            process.kill()


def test_nobody_types_at_a_closed_stdin():
    assert "" == typed(None)
