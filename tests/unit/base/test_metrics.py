"""The metrics page."""

import platform

import pytest
from prometheus_client import Counter, Histogram

import mooring
from mooring.base import metrics as base_metrics
from mooring.base.clock import LoopClock
from mooring.base.metrics import CONTENT_TYPE, KEPT_TIMES, Metrics


def test_process_metrics_are_there_from_the_start():
    page = Metrics().render().decode()
    for name in (
        "process_start_time_seconds",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_open_fds",
    ):
        assert f"\n{name} " in page


def test_no_created_series_is_shown():
    metrics = Metrics()
    Counter("calls", "Calls.", ["method"], registry=metrics.registry).labels("Probe").inc()
    page = metrics.render().decode()
    assert '\ncalls_total{method="Probe"} 1.0\n' in page
    assert "_created" not in page


def test_bucket_bounds_are_written_as_go_writes_them():
    """Dashboards of the Go sidecars select buckets by this text."""
    metrics = Metrics()
    Histogram("seconds", "Time.", buckets=[0.1, 1, 2.5, 10], registry=metrics.registry).observe(2)
    rows = [line for line in metrics.render().decode().splitlines() if line.startswith("seconds_bucket")]
    assert [
        f'seconds_bucket{{le="{le}"}} {n}'
        for le, n in (("0.1", 0.0), ("1", 0.0), ("2.5", 1.0), ("10", 1.0), ("+Inf", 1.0))
    ] == rows


def test_two_registries_share_nothing():
    first, second = Metrics(), Metrics()
    Counter("mine", "Mine.", registry=first.registry)
    Counter("mine", "Also mine.", registry=second.registry)
    assert b"Also mine" not in first.render()


def test_the_content_type_is_the_text_format():
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")


def test_a_family_is_made_once_for_all_its_users():
    class Family:
        def __init__(self, registry):
            self.calls = Counter("calls", "Calls.", registry=registry)

    metrics = Metrics()
    assert metrics.once(Family) is metrics.once(Family)
    assert Metrics().once(Family) is not metrics.once(Family)


def test_to_make_pages_takes_a_tenth_of_the_time_however_often_they_are_asked_for(monkeypatch: pytest.MonkeyPatch):
    """Whoever reaches the port may ask: a page of 130 kB takes 14 ms, and each was made anew."""
    made, now = [], [0.0]

    def render(_self):
        made.append(now[0])
        now[0] += 0.01
        return b"page"

    monkeypatch.setattr(Metrics, "render", render)
    monkeypatch.setattr(base_metrics, "processor_s", lambda: now[0])
    monkeypatch.setattr(LoopClock, "now", lambda _self: now[0])
    metrics = Metrics()
    for _ in range(1000):
        assert b"page" == metrics.page()
        now[0] += 0.001
    assert len(made) * 0.01 * (KEPT_TIMES - 1) <= now[0] <= len(made) * 0.01 * (KEPT_TIMES + 2)


async def test_a_page_is_as_of_now_once_the_last_is_no_longer_kept():
    metrics = Metrics()
    counter = Counter("calls", "Calls.", registry=metrics.registry)
    assert b"calls_total 0.0" in metrics.page()
    counter.inc()
    metrics._page_until = LoopClock().now()
    assert b"calls_total 1.0" in metrics.page()


def test_the_build_is_told() -> None:
    labels = {"version": mooring.__version__, "python": platform.python_version()}
    assert 1 == Metrics().registry.get_sample_value("mooring_build_info", labels)
