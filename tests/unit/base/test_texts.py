"""Equal texts become one, and nothing keeps them."""

import sys

import pytest

from mooring.base import texts
from mooring.base.texts import RecentTexts


def a_text(number: int) -> str:
    """A text of its own at each call."""
    return "".join(("a-name-of-an-object-", str(number)))


def test_equal_texts_become_one() -> None:
    one, other = a_text(1), a_text(1)
    assert one is not other
    assert texts.shared(one) is texts.shared(other)


@pytest.mark.skipif(
    not texts.INTERNED_END or not hasattr(sys, "getrefcount"), reason="this Python keeps interned texts"
)
def test_a_text_that_nobody_has_any_more_is_freed() -> None:
    shared = texts.shared(a_text(2))
    users = [shared] * 10
    assert sys.getrefcount(shared) - len(users) <= 3, "the table itself is no user"


def test_recent_texts_are_shared_in_a_bounded_table() -> None:
    recent = RecentTexts(size_max=10)
    first = recent.shared(a_text(0))
    for number in range(1, 200):
        assert recent.shared(a_text(number)) == a_text(number)
        assert recent.shared(a_text(0)) is first, "it is met again and again"
        assert len(recent._young) + len(recent._old) <= 20


def test_texts_that_are_not_met_again_are_forgotten() -> None:
    recent = RecentTexts(size_max=10)
    first = recent.shared(a_text(0))
    for number in range(1, 50):
        recent.shared(a_text(number))
    assert recent.shared(a_text(0)) is not first
