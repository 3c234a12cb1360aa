"""Whether the program that sets a finalizer would take it off by itself. Pure.

A program that lives and has not failed takes it off: the move is that program's. A program that lives and fails may
fail for ever: then only the driver's own answer counts. A program that nobody can see may live.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api.names import sanitised
from mooring.base.clock import seconds_of
from mooring.inspect.locks import CONTROLLER_LOCKS, LOCKS, PROTECTION_LOCKS, TOGETHER
from mooring.inspect.points import Objection, Point, Proof
from mooring.inspect.traces import LiveLease
from mooring.inspect.unstick.facts import Facts

PROTECTION: Final = "the protection controller"
SNAPSHOTS: Final = "snapshot-controller"
SOON_S: Final = 60.0
"""A program that nobody can see may act on a deletion that is younger than this."""


def sidecar_points(facts: Facts, program: str, *, needs_word: bool, has_word: bool) -> Iterator[Point]:
    """Points on a sidecar of the driver. needs_word: without a Lease only the driver's answer counts. has_word: the
    driver's answer is a proof.
    """
    driver = facts.driver
    locks = (LOCKS[program].format(sanitised(driver)), TOGETHER.format(sanitised(driver)))
    live, silent = facts.live(*locks), facts.silent(*locks)
    who, failure = f"{program} of {driver}", facts.failures.get(program, "")
    if live is not None and not failure:
        yield _its_move(facts, who, live)
    elif live is not None and has_word:
        yield Proof(f"{who} lives and fails: {failure}")
    elif live is not None:
        text = f"{who} lives ({live.holder}) and fails, so only the driver's own answer counts: {failure}"
        yield Objection(text, ask_the_driver(facts))
    elif silent:
        yield Proof(f"{who} does not run: nobody renews its Lease {silent}")
    elif is_removed(facts):
        yield Proof(f"the driver {driver} is removed: it has no CSIDriver object, and no node has it registered")
    elif needs_word and not has_word:
        text = f"no Lease of {who} was found: it may run without leader election, where nobody sees it"
        yield Objection(text, ask_the_driver(facts))
    else:
        yield from _too_soon(facts, who)


def protection_points(facts: Facts) -> Iterator[Point]:
    """Points on the controllers that protect claims and volumes in use."""
    yield from _controller_points(facts, PROTECTION, *PROTECTION_LOCKS)


def snapshot_controller_points(facts: Facts) -> Iterator[Point]:
    yield from _controller_points(facts, SNAPSHOTS, CONTROLLER_LOCKS[SNAPSHOTS])


def _controller_points(facts: Facts, who: str, *locks: str) -> Iterator[Point]:
    together = (TOGETHER.format(sanitised(facts.driver)),) if facts.driver else ()
    live, silent = facts.live(*locks, *together), facts.silent(*locks, *together)
    if live is not None:
        yield _its_move(facts, who, live)
    elif silent:
        yield Proof(f"{who} does not run: nobody renews its Lease {silent}")
    else:
        yield from _too_soon(facts, who)


def _its_move(facts: Facts, who: str, live: LiveLease) -> Objection:
    text = f"it is the move of {who}: {live.holder} renews the Lease {live.name}, and has reported no failure"
    namespace = facts.obj.metadata.namespace
    where = f"-n {namespace} " if namespace else ""
    return Objection(text, f"mooring why {where}{facts.kind}/{facts.name} says what it waits for")


def _too_soon(facts: Facts, who: str) -> Iterator[Point]:
    """The objection that a program whose Lease nobody sees may be about to act."""
    since_s = facts.scene.now_s - seconds_of(facts.obj.metadata.deletion_timestamp)
    if since_s < SOON_S:
        yield Objection(
            f"it was deleted a moment ago: {who}, whose Lease nobody sees, may be about to act",
            "look again in a minute",
        )


def ask_the_driver(facts: Facts) -> str:
    """The way out where the facts of the API server do not suffice."""
    if facts.word is None:
        return f"run it with --csi-address=SOCKET where the driver {facts.driver} runs: that asks the driver itself"
    return f"ask the storage itself: {facts.word.why}" if facts.word.why else "take care of that first"


def is_removed(facts: Facts) -> bool:
    traces = facts.traces
    return traces is not None and not (traces.is_installed or traces.registered_on)
