"""The order of a first look, and the keys that it leaves out."""

from __future__ import annotations

import random

from mooring.api.core import Node
from mooring.api.meta import ObjectMeta, key_of
from mooring.control.backlog import ORDERED_IN_STEP, newest_in_steps, newest_keys
from mooring.control.decision import Decision, rests
from mooring.control.reasons import reason
from mooring.kube.cache.store import Store, newest_first
from tests.support.rows import each_row

COUNT = 5 * ORDERED_IN_STEP + 7


@reason("nothing")
class Nothing:
    error = ""


def cache_of(count: int) -> Store[Node]:
    """Versions in any order; some objects have one that tells nothing."""
    store: Store[Node] = Store()
    versions = [str(number) if number % 50 else "" for number in range(1, count + 1)]
    random.Random(1).shuffle(versions)
    for number, version in enumerate(versions):
        store.apply(Node(metadata=ObjectMeta(name=f"n{number:05}", uid=f"u{number}", resource_version=version)))
    return store


def test_what_has_changed_last_comes_first_and_each_step_is_short() -> None:
    store = cache_of(COUNT)
    steps = list(newest_in_steps(store))
    waits = -(-COUNT // ORDERED_IN_STEP)
    assert [None] * waits == steps[:waits]
    assert newest_first(store.values()) == steps[waits:]


def test_the_cache_is_read_in_the_first_step() -> None:
    store = cache_of(3)
    keys = newest_keys(store, key_of)
    store.apply(Node(metadata=ObjectMeta(name="new", uid="new", resource_version="1000")))
    assert [None, "new"] == [key and key.name for key in keys][:2]


def test_no_object_is_no_key() -> None:
    assert [] == list(newest_keys(Store[Node](), key_of))


def test_only_a_decision_that_asks_for_nothing_gives_its_reason() -> None:
    reason = Nothing()
    assert reason is rests(lambda key: Decision(reason))("key")
    assert rests(lambda key: Decision(reason, ("act",)))("key") is None


@each_row(
    ("decision", "asks_nothing"),
    [
        (Decision(Nothing()), True),
        (Decision(Nothing(), uid="uid", done="done"), True),
        (Decision(Nothing(), ("act",)), False),
        (Decision(Nothing(), problem=Nothing()), False),
        (Decision(Nothing(), again=True), False),
        (Decision(Nothing(), waits_for=frozenset({"topic"})), False),
        (Decision(Nothing(), after_s=0.0), False),
    ],
)
def test_a_decision_asks_for_nothing_without_anything_to_do_to_tell_or_to_wait_for(
    decision: Decision[str], asks_nothing: bool
) -> None:
    assert asks_nothing == decision.asks_nothing
