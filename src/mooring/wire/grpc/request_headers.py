"""The header block of a call: encoded once for each method and deadline, without the server's dynamic table.

Literals that are not indexed can be repeated byte by byte, whatever else was sent. The hundred bytes more for each call
cost less on a unix socket than an encoder does.
"""

from __future__ import annotations

import math
from typing import Final

from mooring.wire.grpc.literals import TABLE_EMPTIED, literal, named

_KEPT_MAX: Final = 256
_DIGITS_8: Final = 99_999_999
_UNITS: Final = ((b"n", 1_000_000_000), (b"u", 1_000_000), (b"m", 1_000), (b"S", 1))

# Where the static table has the name (RFC 7541, appendix A).
_METHOD_POST, _SCHEME_HTTP = b"\x83", b"\x86"
_AUTHORITY, _PATH, _CONTENT_TYPE, _USER_AGENT = 1, 4, 31, 58


class RequestHeaders:
    """Header blocks of one connection's calls."""

    def __init__(self, *, user_agent: str, authority: str) -> None:
        self._kept: dict[tuple[str, float], bytes] = {}
        self._table_reduced = False
        self._fixed = (
            named(_AUTHORITY, authority.encode())
            + named(_CONTENT_TYPE, b"application/grpc")
            + named(_USER_AGENT, user_agent.encode())
            + literal(b"te", b"trailers")
        )

    def table_reduced(self) -> None:
        """The server made its table smaller: the next block has to begin with the size that we use, which is
        nothing.
        """
        self._table_reduced = True

    def block(self, path: str, timeout_s: float) -> bytes:
        """The header block of one call, to be sent before the next one is asked for."""
        found = self._kept.get((path, timeout_s))
        if found is None:
            found = self._encoded(path, timeout_s)
            if len(self._kept) >= _KEPT_MAX:
                self._kept.clear()
            self._kept[path, timeout_s] = found
        if self._table_reduced:
            self._table_reduced = False
            return TABLE_EMPTIED + found
        return found

    def _encoded(self, path: str, timeout_s: float) -> bytes:
        return (
            _METHOD_POST
            + _SCHEME_HTTP
            + named(_PATH, path.encode())
            + self._fixed
            + literal(b"grpc-timeout", grpc_timeout(timeout_s))
        )


def grpc_timeout(timeout_s: float) -> bytes:
    """`15000000u`: in the finest unit that eight digits are enough for, rounded down; 1 ns at least. timeout_s: > 0,
    seconds.
    """
    assert timeout_s > 0
    for unit, per_second in _UNITS:
        if (count := timeout_s * per_second) < _DIGITS_8 + 1:
            return b"%d%s" % (max(1, math.floor(count)), unit)
    hours = timeout_s / 3600  # 99,999,999 s are three years: minutes would say no more
    return b"%dH" % min(_DIGITS_8, math.floor(min(hours, _DIGITS_8)))
