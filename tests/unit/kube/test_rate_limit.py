"""The client's own limit, and what Retry-After says."""

from __future__ import annotations

import asyncio

import pytest

from mooring.kube.client.rate_limit import Throttle, TokenBucket, retry_after_s
from tests.support.rows import each_row
from tests.unit.kube.instant_clock import InstantClock


def test_a_bucket_starts_full_and_then_gives_by_the_rate() -> None:
    bucket = TokenBucket(5, 2)
    assert [0, 0, pytest.approx(0.2), pytest.approx(0.4)] == [bucket.take(0.0) for _ in range(4)]


def test_a_bucket_fills_up_to_its_burst_and_no_further() -> None:
    bucket = TokenBucket(10, 3)
    for _ in range(3):
        assert bucket.take(0.0) == 0
    assert [0, 0, 0, pytest.approx(0.1)] == [bucket.take(1000.0) for _ in range(4)]


@each_row(("qps", "burst"), [(None, 0), (-1.0, 0), (float("inf"), 1), (float("nan"), 0)])
async def test_without_a_limit_nothing_waits(qps: float | None, burst: int) -> None:
    clock = InstantClock()
    throttle = Throttle(qps, burst, clock)
    assert [0.0] * 100 == [await throttle.wait() for _ in range(100)]
    assert clock.slept_s == []


async def test_zero_means_client_go_s_default_of_five_and_ten() -> None:
    clock = InstantClock()
    throttle = Throttle(0, 0, clock)
    waits = [await throttle.wait() for _ in range(12)]
    assert [0.0] * 10 == waits[:10]
    assert [pytest.approx(0.2)] * 2 == waits[10:]


def test_a_rate_needs_a_burst() -> None:
    with pytest.raises(AssertionError):
        Throttle(5, 0, InstantClock())


async def test_a_cancelled_wait_gives_its_token_back() -> None:
    class Cancelled(InstantClock):
        async def sleep(self, seconds: float) -> None:
            raise asyncio.CancelledError

    clock = Cancelled()
    throttle = Throttle(1, 1, clock)
    await throttle.wait()
    for _ in range(5):
        with pytest.raises(asyncio.CancelledError):
            await throttle.wait()
    clock.pass_s(1.0)
    assert await throttle.wait() == 0.0


async def test_a_long_wait_is_told_once_in_a_while_and_names_the_flag(capsys: pytest.CaptureFixture[str]) -> None:
    clock = InstantClock()
    throttle = Throttle(0.5, 1, clock)
    for _ in range(4):
        await throttle.wait()
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "--kube-api-qps" in told
    for _ in range(5):
        await throttle.wait()
    assert "waited_before_count=4" in capsys.readouterr().err


@each_row(
    ("text", "seconds"),
    [
        ("1", 1.0),
        ("0", 0.0),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("Fri, 20 Nov 2026 10:00:00 GMT", None),
        ("9" * 400, None),
    ],
)
def test_retry_after_is_a_whole_number_or_nothing(text: str, seconds: float | None) -> None:
    assert seconds == retry_after_s(text)
