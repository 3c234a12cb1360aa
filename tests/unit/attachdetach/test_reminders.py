"""The API server keeps Events for an hour: whoever waits longer for a volume hears the reason again."""

from __future__ import annotations

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from tests.support.attachdetaching import AttachDetachWorld, Vol, attaching
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
HOURS_S = 3 * 3600.0


async def told_again(world: AttachDetachWorld, pod: str, text: str) -> None:
    """The text stands there now, was there before, and was not told all the time."""
    await world.settle(HOURS_S)
    found = [message for _, _, message in await world.told(pod) if text in message]
    writes = [one for one in world.cluster.requests if one.resource == "events"]
    assert (True, True) == (len(found) > 0, 4 < len(writes) < 30), (found, len(writes))


async def test_a_pod_whose_claim_leads_nowhere_hears_it_again() -> None:
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        await world.patch(PERSISTENT_VOLUME_CLAIMS, volume.claim, {"status": {"phase": "Lost"}}, subresource="status")
        await told_again(world, await world.pod(node, volume), "is not bound")


async def test_a_pod_that_waits_for_another_hears_it_again() -> None:
    async with attaching() as world:
        volume: Vol = await world.volume()
        one, _ = await world.attached(volume, node=await world.node("n-one"))
        await world.set_in_use(one, volume)
        await told_again(world, await world.pod(await world.node("n-two"), volume), "Multi-Attach error")


async def test_a_pod_whose_attach_failed_once_and_for_all_hears_it_again() -> None:
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        pod = await world.pod(node, volume)
        await world.wait_va(volume, node)
        await world.va_status(volume, node, attachError={"message": "never"})
        await told_again(world, pod, "never")
