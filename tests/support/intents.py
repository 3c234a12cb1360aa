"""Entries of the journal of intents, for tests."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.sidecars.provisioner.model.intent import ClaimIntents, Intent, IntentState


def an_entry(*requests: Intent, state: IntentState = IntentState.UNKNOWN, **more: Any) -> ClaimIntents:
    """The last request in this state, those before it refused."""
    *former, last = requests
    refused = (msgspec.structs.replace(one, state=IntentState.REFUSED) for one in former)
    return ClaimIntents(last.uid, (*refused, msgspec.structs.replace(last, state=state)), **more)
