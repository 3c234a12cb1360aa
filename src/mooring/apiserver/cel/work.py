"""The cost of an evaluation, known before it runs, in steps of about a third of a microsecond.

Differs from kube-apiserver, which also estimates the worst case when a definition is made, and refuses one that could
cost too much.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mooring.apiserver.cel.values import Unordered

ROUND: Final = 10
"""A loop's round, beside what is done in it."""
PATTERN: Final = 1000
"""To read a pattern that is not written in the rule itself."""
_LETTERS_A_STEP: Final = 8


def of_comparison(left: Any, right: Any, most: int) -> int:
    """Two values held against each other, or one against what another holds. most: it is not counted much further."""
    if not isinstance(left, list | dict) and not isinstance(right, list | dict):
        return of_arguments((left, right))
    found = _values_in(left, most) + _values_in(right, most)
    if isinstance(left, Unordered):
        found += len(left) * (len(right) if isinstance(right, list | dict) else 1)
    return found


def of_sides(left: Any, right: Any, _most: int) -> int:
    return of_arguments((left, right))


def of_arguments(args: Sequence[Any]) -> int:
    """A function that goes through each of its arguments once; and through each list for every item of the one
    before.
    """
    found, items = 0, 1
    for arg in args:
        if isinstance(arg, str | bytes):
            found += len(arg) // _LETTERS_A_STEP
        elif isinstance(arg, list | dict):
            items *= 1 + len(arg)
            found += items
    return found


def of_tree(part: Any) -> int:
    """An expression without loops; of a loop's body, once. part: a node, or a member of one."""
    if isinstance(part, tuple):
        return sum(map(of_tree, part))
    if not isinstance(part, msgspec.Struct):
        return 0
    return 1 + sum(of_tree(getattr(part, name)) for name in part.__struct_fields__)


def _values_in(value: Any, most: int) -> int:
    """A list of one list many times is small, and holds much: the count ends where it is over."""
    count, waiting = 1, [value]
    while waiting and count <= most:
        outer = waiting.pop()
        if isinstance(outer, list | dict):
            count += len(outer)
            waiting.extend(outer.values() if isinstance(outer, dict) else outer)
    return count
