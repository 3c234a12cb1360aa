"""SIGSTOP and SIGCONT for a leader: what lay ready when it was stopped is neither written nor followed by a call once
its Lease is over.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from mooring.api.coordination import LEASES
from mooring.api.storage import VOLUME_ATTACHMENTS
from tests.e2e.processes import Attacher, ProcessTarget, on_embedded
from tests.support.scripted_driver import PUBLISH, UNPUBLISH

pytestmark = pytest.mark.slow
FLAGS = (
    "--worker-threads=1",
    "--timeout=60s",
    "--leader-election",
    "--leader-election-lease-duration=6s",
    "--leader-election-renew-deadline=4s",
    "--leader-election-retry-period=500ms",
)


async def take_the_lease(target: ProcessTarget) -> None:
    """As another replica does once the Lease has run out."""
    kind = LEASES.whole()
    (lease,) = (await target.users.list(kind)).items
    lease["spec"] |= {"holderIdentity": "another", "leaseTransitions": lease["spec"]["leaseTransitions"] + 1}
    await target.users.replace(kind, lease, lease["metadata"]["namespace"])


async def stand_still_beyond_the_lease(target: ProcessTarget, attacher: Attacher) -> None:
    """The driver answers what it is asked meanwhile."""
    attacher.program.send(signal.SIGSTOP)
    for method in (PUBLISH, UNPUBLISH):
        target.driver.gate(method).set()
    await asyncio.sleep(6.5)
    await take_the_lease(target)
    before = (await target.users.list(VOLUME_ATTACHMENTS.whole())).items
    attacher.program.send(signal.SIGCONT)
    await target.until("it knows", lambda: _noticed(attacher))
    assert before == (await target.users.list(VOLUME_ATTACHMENTS.whole())).items


async def test_LE08_a_leader_that_was_stopped_writes_no_answer_that_lay_ready(tmp_path: Path) -> None:
    async with on_embedded(tmp_path) as target:
        target.driver.gate(PUBLISH)
        va = await target.want(await target.volume(), await target.node())
        async with target.attaching(*FLAGS) as attacher:
            await target.until("a call", lambda: _called(target, PUBLISH))
            await stand_still_beyond_the_lease(target, attacher)
        async with target.attaching(*FLAGS):  # the other one never renews: the next term is ours again
            await target.attached(va)


async def test_LE08_a_leader_that_was_stopped_makes_no_call_that_is_next(tmp_path: Path) -> None:
    """Its one worker has a second attachment to unpublish, for which nothing is to be written before."""
    async with on_embedded(tmp_path) as target:
        node = await target.node()
        wanted = [await target.want(await target.volume(name), node) for name in ("first", "second")]
        async with target.attaching(*FLAGS) as attacher:
            for name in wanted:
                await target.attached(name)
            target.driver.gate(UNPUBLISH)
            for name in wanted:
                await target.delete("VolumeAttachment", name)
            await target.until("a call", lambda: _called(target, UNPUBLISH))
            await asyncio.sleep(0.2)
            await stand_still_beyond_the_lease(target, attacher)
            assert 1 == len(target.driver.made(UNPUBLISH))


async def _called(target: ProcessTarget, method: str) -> bool:
    return bool(target.driver.made(method))


async def _noticed(attacher: Attacher) -> bool:
    """It has lost the Lease, and has had its time to act nevertheless, or has ended."""
    if "Stopped leading" not in attacher.log:
        return False
    await asyncio.sleep(0.5)
    return True
