"""`--tracing`: off it costs nothing, without its package the start says so, and no collector keeps a program
waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cli import csi_attacher
from mooring.cli.process import Setup
from mooring.cli.sidecar import CallsDriver
from mooring.cli.tables import ManagerFlags
from mooring.cli.tracing import CLOSE_S_MAX, Traces
from mooring.control.program.terms import LeasedWork, LeasedWorks
from mooring.control.runtime import Runtime
from mooring.control.tracing.ports import TracingCluster, TracingDriver
from mooring.control.tracing.spans import spans_over_http
from mooring.control.tracing.steps import Span, Tracing
from mooring.csi.driver import Driver
from mooring.csi.in_process import InProcessDriver
from tests.support.cluster_world import ClusterWorld
from tests.support.rows import each_row

UID = "3f0c4bb0-9d2a-4a5e-8f13-0d5a1c2b7e66"
SPANS = 5000


def started(*, tracing: bool = True) -> Traces:
    traces = Traces("csi-attacher", Setup("csi-attacher", ManagerFlags(tracing=tracing), frozenset(), {}), LoopClock())
    traces.start()
    return traces


@pytest.fixture
def library() -> Iterator[logging.Logger]:
    """The SDK's logger, put back as it was."""
    found = logging.getLogger("opentelemetry")
    handlers, propagate = found.handlers, found.propagate
    yield found
    found.handlers, found.propagate = handlers, propagate


@pytest.mark.slow
def test_off_nothing_of_it_is_loaded_and_nothing_is_made() -> None:
    """A program makes its works by the very function that it has; nothing stands between them and their ports."""
    code = """
import sys
from mooring.base.clock import LoopClock
from mooring.cli import sidecar, csi_attacher, csi_provisioner, manager, node_agent, controller_parts
from mooring.cli.process import Setup
from mooring.cli.tables import ManagerFlags
from mooring.cli.tracing import Traces
def make(runtime, driver): ...
traces = Traces("csi-attacher", Setup("csi-attacher", ManagerFlags(), frozenset(), {}), LoopClock())
traces.start()
assert traces.beside(make, "d") is make
heavy = ("opentelemetry", "requests", "urllib3", "mooring.control.tracing")
print(*[name for name in sys.modules if name.startswith(heavy)])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (0, "\n", "") == (done.returncode, done.stdout, done.stderr)


def config_of(folder) -> str:
    """A kubeconfig whose server is never asked."""
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    users = [{"name": "u", "user": {}}]
    path = folder / "config"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [context],
        "clusters": [cluster],
        "users": users,
    }
    path.write_text(json.dumps(config))
    return str(path)


def test_without_the_package_the_start_says_what_to_install(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "mooring.control.tracing.spans")
    assert 1 == csi_attacher.run([f"--kubeconfig={config_of(tmp_path)}", "--tracing"], "csi-attacher")
    assert "pip install 'mooring[otel]'" in capsys.readouterr().err


@each_row("variable", ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"])
def test_another_protocol_is_refused(variable: str, monkeypatch) -> None:
    monkeypatch.setenv(variable, "grpc")
    with pytest.raises(ConfigError, match=f"{variable}: traces are sent by http/protobuf alone, not by grpc"):
        started()


@pytest.mark.usefixtures("library")
def test_a_variable_that_can_not_be_used_is_refused(monkeypatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    with pytest.raises(
        ConfigError, match="tracing: a variable of OpenTelemetry can't be used: max_queue_size must be a positive"
    ):
        started()


@contextlib.asynccontextmanager
async def hanging() -> AsyncIterator[int]:
    """A collector that takes connections and never answers; gives its port."""
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def refusing() -> AsyncIterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    yield port


@pytest.mark.slow
@pytest.mark.usefixtures("library")
@each_row("collector", [hanging, refusing])
@pytest.mark.long
async def test_a_collector_that_does_not_take_them_keeps_nobody_waiting(collector, monkeypatch, caplog) -> None:
    async with collector() as port:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "30")
        monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "1024")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        traces = started()
        assert traces._spans is not None
        longest = 0.0
        for number in range(SPANS):  # more than the queue holds
            began = time.perf_counter()
            traces._spans.put(UID, Span("one", 1, {"number": number}, 2))
            longest = max(longest, time.perf_counter() - began)
        assert longest < 10.0, "seconds; the collector has thirty for each batch"
        await asyncio.sleep(1.0)
        began = time.perf_counter()
        await traces.close()
        assert time.perf_counter() - began < CLOSE_S_MAX + 10.0
    for thread in threading.enumerate():
        if thread.name.startswith(("tracing/", "Otel")):
            await asyncio.to_thread(thread.join, 30.0)
    lines = [line for line in caplog.messages if "Traces are not sent as they should be" in line]
    assert 1 == len(lines), lines
    assert [] == [record.name for record in caplog.records if record.name.startswith("opentelemetry")]


@pytest.mark.usefixtures("library")
def test_a_collector_that_is_away_is_told_again_after_a_while(caplog) -> None:
    spans = spans_over_http("csi-attacher")
    log = logging.getLogger("opentelemetry.sdk")
    for number, at in enumerate((0.0, 1.0, 59.0, 61.0, 62.0, 200.0)):
        record = log.makeRecord(log.name, logging.WARNING, "f", 1, "connection refused %s", (number,), None)
        record.created = at
        log.handle(record)
    told = [line for line in caplog.messages if "Traces" in line]
    assert [(0, 1), (3, 3), (5, 2)] == [
        (number, count)
        for number in range(6)
        for count in range(9)
        if any(f'refused {number}" warnings={count}' in one for one in told)
    ]
    assert 3 == len(told)
    spans.close()


@pytest.mark.usefixtures("library")
async def test_each_of_several_works_has_traces_and_hears_that_the_driver_is_back() -> None:
    returned: list[str] = []

    class AWork:
        has_synced, obstacle = True, "none"

        def __init__(self, name: str) -> None:
            self.name = name

        async def run(self) -> None: ...

        async def drain(self, timeout_s: float) -> bool:
            return timeout_s == 3.0

        def driver_returned(self) -> None:
            returned.append(self.name)

    def make(runtime: Runtime, driver: Driver | None) -> LeasedWorks:
        assert isinstance(runtime.cluster, TracingCluster)
        assert isinstance(runtime.steps, Tracing)
        assert isinstance(driver, TracingDriver)
        return LeasedWorks(tuple(LeasedWork(name, f"lock-{name}", lambda name=name: AWork(name)) for name in "ab"))

    traces = started()
    runtime = Runtime(ClusterWorld().cluster, LoopClock(), Random(), Metrics())
    made = traces.beside(make, "d.csi")(runtime, InProcessDriver(object(), clock=LoopClock()))
    assert [("a", "lock-a"), ("b", "lock-b")] == [(one.component, one.lock_name) for one in made.works]
    for leased in made.works:
        work = leased.make_work()
        await work.run()
        assert (True, "none", True) == (work.has_synced, work.obstacle, await work.drain(3.0))
        assert isinstance(work, CallsDriver)
        work.driver_returned()
    assert ["a", "b"] == returned
    await traces.close()


async def test_off_the_end_waits_for_nothing() -> None:
    traces = started(tracing=False)
    assert LeasedWorks(()) == traces.beside(lambda *_: LeasedWorks(()))(None, None)  # type: ignore[arg-type]
    await asyncio.wait_for(traces.close(), 0.5)
