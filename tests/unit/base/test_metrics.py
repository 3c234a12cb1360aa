"""The metrics page."""

from prometheus_client import Counter, Histogram

from mooring.base.metrics import CONTENT_TYPE, Metrics


def test_process_metrics_are_there_from_the_start():
    page = Metrics().render().decode()
    for name in ("process_start_time_seconds", "process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"):
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
    assert [f'seconds_bucket{{le="{le}"}} {n}' for le, n in (("0.1", 0.0), ("1", 0.0), ("2.5", 1.0), ("10", 1.0), ("+Inf", 1.0))] == rows


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
