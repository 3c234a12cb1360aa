"""What is written down of a claim's requests, where the API server does not take it at once."""

from __future__ import annotations

import pytest

from mooring.base.clock import LoopClock
from mooring.control.result import Retry
from mooring.control.topics import Bus
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import Conflict, Unreachable
from mooring.sidecars.provisioner.intents.journal import Intents
from mooring.sidecars.provisioner.intents.tracker import ClaimRecords, IntentTracker
from mooring.sidecars.provisioner.model.intent import ClaimIntents, Intent, IntentState, OwnVolume
from mooring.sidecars.provisioner.model.orders import Order
from tests.support.intents import an_entry
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time


def an_order(name: str) -> Order:
    return Order(Intent("u", "ns", "c", "pvc-u", f'{{"name":"{name}"}}', "{}"), csi.CreateVolumeRequest())


ONE, OTHER = an_order("one"), an_order("other")


class Shaky(Intents):
    """They take nothing while `fails`."""

    fails = False

    async def write(self, entry: ClaimIntents) -> None:
        if self.fails:
            raise Unreachable("connection reset")
        await super().write(entry)


@pytest.fixture
def intents() -> Shaky:
    return Shaky()


@pytest.fixture
async def tracker(intents: Shaky) -> IntentTracker:
    return IntentTracker(intents, ClaimRecords(), LoopClock(), Bus())


async def test_a_stored_volume_is_open_until_that_is_written_down(intents: Shaky, tracker: IntentTracker) -> None:
    """Else the next process would ask for what the other request has made, beside the claim's volume."""
    await tracker.begin(ONE)
    tracker.mark_unknown(ONE.intent)
    await tracker.begin(OTHER)
    before = tracker.open["u"]
    intents.fails = True
    with pytest.raises(Retry):
        await tracker.mark_stored(OTHER.intent)
    assert (OwnVolume.NONE, before) == (intents.open()["u"].own, tracker.open["u"])
    with pytest.raises(Conflict):
        await tracker.wait_for_end("u")
    intents.fails = False
    await tracker.mark_stored(OTHER.intent)
    await tracker.wait_for_end("u")
    stored = an_entry(ONE.intent, state=IntentState.REFUSED, own=OwnVolume.STORED)
    assert stored == intents.open()["u"] == tracker.open["u"]


async def test_a_call_that_could_not_be_written_down_was_never_begun(intents: Shaky, tracker: IntentTracker) -> None:
    intents.fails = True
    with pytest.raises(Unreachable):
        await tracker.begin(ONE)
    assert ({}, 0) == (tracker.open, tracker.count)
    intents.fails = False
    await tracker.begin(ONE)
    tracker.mark_unknown(ONE.intent)
    intents.fails = True
    with pytest.raises(Unreachable):
        await tracker.condemn(ONE.intent, "handle")
    assert {"u": an_entry(ONE.intent)} == tracker.open


async def test_the_claims_volume_is_not_released_while_one_of_its_requests_may_have_made_it(
    tracker: IntentTracker,
) -> None:
    await tracker.begin(ONE)
    tracker.mark_unknown(ONE.intent)
    await tracker.begin(ONE)
    await tracker.refuse(ONE.intent)
    with pytest.raises(Conflict):
        await tracker.wait_for_end("u")
    await tracker.refuse(ONE.intent, proves_absent=True)
    await tracker.wait_for_end("u")
