"""How fast the API server may be asked: the client's own token bucket, and what the server says by Retry-After."""

from __future__ import annotations

import math
from typing import Final

from mooring.base.clock import Clock, Instant
from mooring.base.log import logger

_log = logger(__name__)

DEFAULT_QPS: Final = 5.0
DEFAULT_BURST: Final = 10
LONG_WAIT_S: Final = 1.0
"""A request that waited longer than this for the bucket is logged."""
_TELL_EVERY_S: Final = 10.0


class TokenBucket:
    """golang.org/x/time/rate's limiter: `burst` requests at once, then `qps` a second, in order. Starts full. qps: > 0.
    burst: >= 1.
    """

    def __init__(self, qps: float, burst: int) -> None:
        assert qps > 0
        assert burst >= 1
        self._qps = qps
        self._burst = burst
        self._tokens = float(burst)
        self._filled_at: Instant | None = None

    def take(self, now: Instant) -> float:
        """Takes a token, perhaps one of the future. Returns the seconds until it may be used."""
        if self._filled_at is not None:
            self._tokens = min(float(self._burst), self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self._qps)

    def give_back(self) -> None:
        """Returns a token that was taken and not used."""
        self._tokens = min(float(self._burst), self._tokens + 1)


class Throttle:
    """Waits for the bucket before each request, and says so when that takes long."""

    def __init__(
        self, qps: float | None, burst: int, clock: Clock, flags: str = "--kube-api-qps and --kube-api-burst"
    ) -> None:
        """qps, burst: as client-go reads them: None or negative is no limit, 0 is 5; 0 for burst is 10 then. qps > 0
        needs burst > 0.

        flags: by which people raise the limit.
        """
        if qps == 0:
            qps, burst = DEFAULT_QPS, burst if burst > 0 else DEFAULT_BURST
        limited = qps is not None and qps > 0 and not math.isinf(qps)
        assert not limited or burst > 0, "the caller checks the flags: qps > 0 needs burst > 0"
        self._bucket = TokenBucket(qps, burst) if limited and qps is not None else None
        self._clock = clock
        self._flags = flags
        self._told_at: Instant | None = None
        self._untold_count = 0

    async def wait(self) -> float:
        """Returns when a request may go, with the seconds that it waited."""
        if self._bucket is None:
            return 0.0
        wait_s = self._bucket.take(self._clock.now())
        if wait_s > 0:
            try:
                await self._clock.sleep(wait_s)
            except BaseException:
                self._bucket.give_back()
                raise
            if wait_s > LONG_WAIT_S:
                self._log_wait(wait_s)
        return wait_s

    def _log_wait(self, wait_s: float) -> None:
        now = self._clock.now()
        if self._told_at is not None and now - self._told_at < _TELL_EVERY_S:
            self._untold_count += 1
            return
        _log.warning(
            f"Waited for our own limit of requests to the API server; raise {self._flags}",
            waited_s=round(wait_s, 3),
            waited_before_count=self._untold_count,
        )
        self._told_at, self._untold_count = now, 0


def retry_after_s(text: str) -> float | None:
    """The seconds of a Retry-After header, None when it is no whole number (client-go reads no dates)."""
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
