"""Keys that wait for topics."""

import pytest

from mooring.control.topics import TOLD_MAX, Bus, Topics


def test_a_told_topic_finds_the_keys_that_wait_for_it_in_their_order():
    topics: Topics[str] = Topics()
    for key in ("b", "a", "c"):
        assert topics.wait(key, frozenset({"volume/1"} if key != "c" else {"volume/2"}))
    assert ("b", "a") == topics.tell(["volume/1"])
    assert ("c", "b", "a") == topics.tell(["volume/2", "volume/1"])
    assert () == topics.tell(["volume/3"])


def test_a_key_waits_for_its_newest_topics_alone():
    topics: Topics[str] = Topics()
    topics.wait("a", frozenset({"x", "y"}))
    topics.wait("a", frozenset({"y", "z"}))
    assert () == topics.tell(["x"])
    assert ("a",) == topics.tell(["y", "z"])
    topics.drop("a")
    assert () == topics.tell(["y", "z"])
    assert len(topics) == 0


def test_what_is_told_while_a_key_is_in_hand_keeps_it_from_waiting():
    topics: Topics[str] = Topics()
    topics.begin("a")
    topics.tell(["x"])
    assert not topics.wait("a", frozenset({"x", "y"}))
    assert "a" not in topics._topics


def test_what_a_key_tells_itself_does_not_keep_it_from_waiting_but_what_others_tell_does():
    topics: Topics[str] = Topics()
    for told_by, waits in (("a",), True), (("a", "b"), False), (("b", "a", "a"), False), ((None, "a"), False):
        topics.begin("a")
        for by in told_by:
            topics.tell(["x"], by)
        assert waits == topics.wait("a", frozenset({"x"})), told_by
        topics.end("a")


def test_what_was_told_before_a_key_was_in_hand_does_not_count():
    topics: Topics[str] = Topics()
    topics.begin("other")
    topics.tell(["x"])
    topics.begin("a")
    assert topics.wait("a", frozenset({"x"}))
    assert not topics.wait("other", frozenset({"x"}))


def test_what_was_told_is_remembered_for_the_keys_in_hand_only():
    topics: Topics[str] = Topics()
    topics.begin("a")
    topics.tell(["x"])
    topics.end("a")
    topics.begin("a")
    assert topics.wait("a", frozenset({"x"}))


def test_a_burst_of_topics_loses_none_for_a_key_in_hand_and_is_forgotten_for_the_others():
    topics: Topics[str] = Topics()
    topics.begin("old")
    topics.tell(["first"])
    for number in range(TOLD_MAX):
        topics.tell([f"t{number}"])
    assert not topics.wait("old", frozenset({"first"}))
    topics.begin("young")
    topics.end("old")
    topics.tell(["news"])
    assert {"news"} == set(topics._told), "nobody in hand is old enough for the rest"


def test_a_key_long_in_hand_does_not_make_each_topic_cost_a_walk_over_all_of_them(monkeypatch: pytest.MonkeyPatch):
    """A driver that hangs holds its key for minutes; a list after an outage tells thousands of topics."""
    topics: Topics[str] = Topics()
    walks = 0
    drop_old = topics._drop_old

    def counted() -> None:
        nonlocal walks
        walks += 1
        drop_old()

    monkeypatch.setattr(topics, "_drop_old", counted)
    topics.begin("old")
    for number in range(16 * TOLD_MAX):
        topics.tell([f"t{number}"])
    assert walks <= 5
    assert 16 * TOLD_MAX == len(topics._told)


def test_a_bus_brings_news_to_those_who_subscribed_to_their_kind_in_their_order():
    bus, heard = Bus(), list[tuple[object, ...]]()
    bus.tell("room", "nobody listens yet")
    bus.subscribe("room", lambda *about: heard.append(("first", *about)))
    bus.subscribe("source", lambda *about: heard.append(("of another kind", *about)))
    bus.subscribe("room", lambda *about: heard.append(("second", *about)))
    bus.tell("room", "a", 1)
    assert [("first", "a", 1), ("second", "a", 1)] == heard
    bus.tell("room")
    assert [("first",), ("second",)] == heard[2:]
