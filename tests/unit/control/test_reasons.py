"""Reasons in one line each."""

import pytest

from mooring.control.reasons import reason


@reason('waits for "{pv_name}" ({times} times)')
class Waiting:
    pv_name: str
    count: int = 1

    @property
    def times(self) -> int:
        return self.count * 2


@reason("")
class OfItsOwn:
    def __str__(self) -> str:
        return "{braces} stay"


def test_a_reason_shows_its_fields_and_properties():
    assert 'waits for "pv{}" (4 times)' == str(Waiting("pv{}", 2))
    assert "{braces} stay" == str(OfItsOwn())


def test_a_reason_is_a_frozen_value_with_slots():
    assert Waiting("a") == Waiting("a")
    assert not hasattr(Waiting("a"), "__dict__")
    with pytest.raises(AttributeError):
        Waiting("a").count = 2
