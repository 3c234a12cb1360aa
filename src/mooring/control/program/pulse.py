"""Whether the API server answers, for /readyz: asked when a probe asks, and for nothing that needs rights.

Filled caches do not show it: the watch of a server that hangs is as silent as a watch without news. A request of our own every few seconds
would be a load from thousands of nodes. So each probe causes one request, and probes at the same time share it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final

from mooring.base.clock import Clock, Instant
from mooring.kube.errors import ApiError, ServerError, Unreachable

FRESH_S: Final = 2.0
"""How long an answer counts."""
PATIENCE_S: Final = 0.8
"""With the API server: less than the second that a kubelet has with a probe, so that the reason still reaches it."""


class Pulse:
    """ask: one small request to the API server. Raises ApiError."""

    def __init__(self, ask: Callable[[], Awaitable[object]], clock: Clock) -> None:
        self._ask, self._clock = ask, clock
        self._known_at: Instant = -math.inf
        self._is_asking = False
        self._obstacle = ""

    async def obstacle(self) -> str:
        """The API server's silence or failure in words, "" when it answers. While one probe asks, others hear what was known before."""
        if not self._is_asking and self._clock.now() - self._known_at >= FRESH_S:
            self._is_asking = True
            try:
                self._obstacle = await self._asked()
                self._known_at = self._clock.now()
            finally:
                self._is_asking = False
        return self._obstacle

    async def _asked(self) -> str:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._ask()
        except TimeoutError:
            return f"the API server does not answer (within {PATIENCE_S:g} s)"
        except (Unreachable, ServerError) as error:
            return f"the API server does not answer: {error}"
        except ApiError:
            return ""  # a refusal is an answer
        return ""
