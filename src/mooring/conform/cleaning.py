"""Deletes what the checks have made. What the driver breaks meanwhile is charged to the cleaning up, not to the check
before it.
"""

from __future__ import annotations

import asyncio
from typing import Final

from mooring.conform.asker import Asker
from mooring.conform.book.errors import DIED, REFUSED
from mooring.conform.check import Stopped
from mooring.conform.finder import CLEANING, told
from mooring.conform.made import Key
from mooring.wire.grpc.codes import Code

CLEAN_S_MAX: Final = 60.0
"""For deleting what is left after Ctrl-C."""


async def clean(asker: Asker, *, whole: bool) -> None:
    """Tries once for each object. whole: also for the volume that the checks share."""
    asker.check, asker.rule = CLEANING, None
    made = asker.made
    for key, (rpc, request) in made.undone_by():
        if asker.is_down:
            return
        if key in made.tried or (asker.is_shared(key[1]) and not whole):
            continue
        if key[0].endswith("named") and asker.has_found(DIED, rpc):
            made.tried[key] = "the call ends the driver"
            continue
        try:
            outcome = await asker.patiently(rpc, request)
        except Stopped:
            return
        if outcome.code == Code.NOT_FOUND:
            made.is_gone(key)
        elif outcome.error is not None:
            made.tried[key] = told(str(outcome.error), request)


async def cleaned(asker: Asker) -> list[str]:
    """Deletes all that is left, and gives what could not be deleted, in words."""
    try:
        async with asyncio.timeout(CLEAN_S_MAX):
            await clean(asker, whole=True)
            await clean(asker, whole=True)  # a creation that nobody was sure of has told its id by now
            await _once_more(asker)
    except TimeoutError:
        pass
    left = [_words(key, asker.made.tried.get(key, "")) for key, _ in asker.made.undone_by()]
    if left and not asker.findings:
        _found(asker)
    return left + asker.remove_folders()


async def _once_more(asker: Asker) -> None:
    """In silence: what another object was in the way of may go now."""
    with asker.silently():
        for key, (rpc, request) in asker.made.undone_by():
            if asker.is_down:
                return
            if key[0].endswith("named") and asker.has_found(DIED, rpc):
                continue
            if (outcome := await asker.ask(rpc, request)).code == Code.NOT_FOUND:
                asker.made.is_gone(key)
            elif outcome.code == Code.DEADLINE_EXCEEDED:
                return


def _found(asker: Asker) -> None:
    """One finding for all, and none where a rule is broken whose consequence this may be."""
    tried = [(key, undo) for key, undo in asker.made.undone_by() if key in asker.made.tried]
    if tried:
        key, (rpc, request) = tried[0]
        more = f"; {len(tried) - 1} more could not be deleted" if len(tried) > 1 else ""
        asker.finds(REFUSED, rpc, request, f"the driver answers {asker.made.tried[key]}{more}")


def _words(key: Key, error: str) -> str:
    kind, identity, where = key
    sure = (
        " (if CreateVolume made it)"
        if kind == "volume named"
        else " (if CreateSnapshot made it)"
        if kind == "snapshot named"
        else ""
    )
    text = f"{kind} {where or identity}{f' (volume {identity})' if where else ''}{sure}"
    return f"{text}: {error}" if error else text
