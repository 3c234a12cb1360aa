"""The metrics page."""

import asyncio
import platform

import pytest
from prometheus_client import Counter, Histogram

import mooring
from mooring.base.metrics import CONTENT_TYPE, Metrics


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


async def test_whoever_asks_gets_the_page_as_of_now_and_those_of_one_turn_share_it(monkeypatch: pytest.MonkeyPatch):
    """A detach that was seen in the API is counted on the page that is asked for next, as with the Go parts."""
    made, render = [], Metrics.render

    def counted(metrics: Metrics) -> bytes:
        made.append(metrics)
        return render(metrics)

    monkeypatch.setattr(Metrics, "render", counted)
    metrics = Metrics()
    calls = Counter("calls", "Calls.", registry=metrics.registry)
    for count in range(3):
        pages = [metrics.page() for _ in range(100)]
        assert {pages[0]} == set(pages)
        assert f"calls_total {count}.0".encode() in pages[0]
        assert count + 1 == len(made)
        calls.inc()
        await asyncio.sleep(0)


async def test_a_page_that_could_not_be_made_is_made_for_the_next_who_asks(monkeypatch: pytest.MonkeyPatch):
    def fail(metrics: Metrics) -> bytes:
        raise OSError("no /proc")

    metrics = Metrics()
    with monkeypatch.context() as patch:
        patch.setattr(Metrics, "render", fail)
        with pytest.raises(OSError, match="no /proc"):
            metrics.page()
    assert b"mooring_build_info" in metrics.page()


def test_the_build_is_told() -> None:
    labels = {"version": mooring.__version__, "python": platform.python_version()}
    assert 1 == Metrics().registry.get_sample_value("mooring_build_info", labels)
