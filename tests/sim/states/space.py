"""Spaces of states: axes with named values, their whole product, and a part of it in which all tuples of values
occur.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from mooring.base.randomness import Random

State = Mapping[str, str]
"""By the name of each axis, the name of its value."""


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """One thing of a small world, and all that it may be. values: the first one is the ordinary one, which ids leave
    out.
    """

    name: str
    values: tuple[str, ...]


class Space:
    """axes: what is enumerated. same: gives the state that stands for all that mean the same, by default each for
    itself.
    """

    def __init__(self, *axes: Axis, same: Callable[[State], State] = dict) -> None:
        self.axes: Final = axes
        self._same = same

    def whole(self) -> Iterator[State]:
        """Every state once."""
        return self._distinct(itertools.product(*(range(len(axis.values)) for axis in self.axes)))

    def drawn(self, randomness: Random) -> State:
        """Any state."""
        return next(self._distinct(iter([tuple(randomness.below(len(axis.values)) for axis in self.axes)])))

    def covering(self, strength: int) -> Iterator[State]:
        """States among which each choice of values of any `strength` axes occurs.

        They are the values of all polynomials of a degree below `strength` over a prime field, at one point for each
        axis: as many of these points as the polynomial has coefficients may be anything (Reed and Solomon). A prime p
        makes p ** strength states.
        """
        prime = _prime_from(max(len(self.axes), *(len(axis.values) for axis in self.axes)))
        rows = (
            tuple(_at(point, coefficients, prime) % len(axis.values) for point, axis in enumerate(self.axes))
            for coefficients in itertools.product(range(prime), repeat=strength)
        )
        return self._distinct(rows)

    def id_of(self, state: State) -> str:
        """`pv=deleting,va=attached`: what is not ordinary."""
        return (
            ",".join(f"{axis.name}={state[axis.name]}" for axis in self.axes if state[axis.name] != axis.values[0])
            or "ordinary"
        )

    def state_of(self, text: str) -> State:
        """The state of an id. Raises ValueError for what is none."""
        given = dict(part.split("=", 1) for part in text.split(",") if part != "ordinary")
        state = {axis.name: given.pop(axis.name, axis.values[0]) for axis in self.axes}
        wrong = [f"{axis.name}={state[axis.name]}" for axis in self.axes if state[axis.name] not in axis.values] + list(
            given
        )
        if wrong:
            raise ValueError(f"no such state: {', '.join(wrong)}")
        return state

    def _distinct(self, rows: Iterator[tuple[int, ...]]) -> Iterator[State]:
        seen: set[tuple[str, ...]] = set()
        for row in rows:
            state = self._same({axis.name: axis.values[index] for axis, index in zip(self.axes, row, strict=True)})
            if (key := tuple(state.values())) not in seen:
                seen.add(key)
                yield state


def _at(point: int, coefficients: tuple[int, ...], prime: int) -> int:
    """The polynomial's value at a point, by Horner's rule."""
    value = 0
    for coefficient in coefficients:
        value = (value * point + coefficient) % prime
    return value


def _prime_from(least: int) -> int:
    return next(
        number for number in itertools.count(max(least, 2)) if all(number % divisor for divisor in range(2, number))
    )
