"""Whether the program that sets a finalizer would take it off by itself. Pure.

A program that lives and has not failed does: it is its move, and nobody else's. One that lives and fails may fail for ever, so the driver's
own answer counts there, and nothing less. One that nobody can see may live.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.names import sanitised
from mooring.inspect.locks import LOCKS, TOGETHER
from mooring.inspect.points import Objection, Point, Proof
from mooring.inspect.unstick.facts import Facts


def sidecar_points(facts: Facts, program: str, *, needs_word: bool, has_word: bool) -> Iterator[Point]:
    """On a sidecar of the driver. needs_word: without a Lease only the driver's answer counts. has_word: the driver's answer is a proof."""
    driver = facts.driver
    locks = (LOCKS[program].format(sanitised(driver)), TOGETHER.format(sanitised(driver)))
    live, silent = facts.live(*locks), facts.silent(*locks)
    if live is not None:
        yield _of_living(facts, f"{program} of {driver}", live.name, live.holder, has_word)
    elif silent:
        yield Proof(f"{program} of {driver} does not run: nobody renews its Lease {silent}")
    elif _is_removed(facts):
        yield Proof(f"the driver {driver} is removed: it has no CSIDriver object, and no node has it registered")
    elif needs_word and not has_word:
        yield Objection(
            f"no Lease of {program} of {driver} was found: it may run without leader election, where nobody sees it",
            ask_the_driver(facts),
        )


def _of_living(facts: Facts, program: str, lease: str, holder: str, has_word: bool) -> Point:
    if not facts.failure:
        move = f"mooring why {facts.kind}/{facts.name} says what it waits for"
        return Objection(f"it is the move of {program}: {holder} renews the Lease {lease}, and has reported no failure", move)
    if has_word:
        return Proof(f"{program} lives and fails: {facts.failure}")
    return Objection(
        f"{program} lives ({holder}) and fails, so only the driver's own answer counts: {facts.failure}", ask_the_driver(facts)
    )


def ask_the_driver(facts: Facts) -> str:
    """The way out where the facts of the API server do not suffice."""
    if facts.word is None:
        return f"run it with --csi-address=SOCKET where the driver {facts.driver} runs: that asks the driver itself"
    return f"ask the storage itself: {facts.word.why}" if facts.word.why else "take care of that first"


def _is_removed(facts: Facts) -> bool:
    traces = facts.traces
    return traces is not None and not (traces.is_installed or traces.registered_on)
