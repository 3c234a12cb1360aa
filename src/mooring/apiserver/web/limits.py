"""How long one client may take, and how many there may be."""

from __future__ import annotations

import msgspec


class ConnectionLimits(msgspec.Struct, frozen=True):
    """slow_s: for one head, one body, one write. idle_s: between requests. leaving_s: to read a refusal."""

    slow_s: float = 30.0
    idle_s: float = 90.0
    leaving_s: float = 5.0
    connections: int = 10_000
