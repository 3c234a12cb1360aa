"""How much one body may be: so that no request holds up the server for everybody, whatever is done with its values later.

kube-apiserver bounds bytes, patch operations and what they copy, and takes a depth of 10,000; it has many threads, and here is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from mooring.apiserver import api_errors

DEPTH_MAX: Final = 128
VALUES_MAX: Final = 50_000
"""Four times what the largest definition in use has."""
TOO_DEEP: Final = f"exceeded max depth: the body is nested deeper than {DEPTH_MAX} levels"


def check_bounds(value: Any) -> None:
    """Raises BadRequest for a JSON value that is nested too deeply, TooLarge for one with too many values in it."""
    level, count = [value], 0
    for _ in range(DEPTH_MAX + 1):
        count += len(level)
        if count > VALUES_MAX:
            raise api_errors.too_large(f"more than {VALUES_MAX} values")
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise api_errors.bad_request(TOO_DEEP)


def count_of(value: Any) -> int:
    """How many values a JSON value consists of."""
    return 1 + sum(map(count_of, _inside(value)))


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
