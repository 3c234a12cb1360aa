"""What is written down of a claim's requests, where the API server does not take it at once."""

from __future__ import annotations

import pytest

from mooring.base.clock import LoopClock
from mooring.control.topics import Bus
from mooring.kube.errors import Unreachable
from mooring.sidecars.provisioner.intents.journal import Intents
from mooring.sidecars.provisioner.intents.tracker import ClaimRecords, IntentTracker
from mooring.sidecars.provisioner.model.intent import Intent
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

ONE, OTHER = (Intent("u", "ns", "c", "pvc-u", f'{{"name":"{name}"}}', "{}") for name in ("one", "other"))


class Shaky(Intents):
    """They take nothing while `fails`."""

    fails = False

    async def begin(self, intent: Intent) -> None:
        if self.fails:
            raise Unreachable("connection reset")
        await super().begin(intent)


async def test_a_stored_volume_that_could_not_be_written_down_is_before_it_is_released() -> None:
    """Else its deletion would wait for the second volume to be asked for, and that for the deletion."""
    intents = Shaky()
    tracker = IntentTracker(intents, ClaimRecords(), LoopClock(), Bus())
    await tracker.begin(ONE)
    tracker.mark_unknown(ONE)
    await tracker.begin(OTHER)
    intents.fails = True
    await tracker.store("u", "handle")
    assert intents.open()["u"].stored_handle is None
    with pytest.raises(Unreachable):
        await tracker.wait_for_end("u")
    intents.fails = False
    await tracker.wait_for_end("u")
    assert (intents.open()["u"].request, intents.open()["u"].stored_handle) == (ONE.request, "handle")
