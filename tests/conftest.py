"""Fixtures for all tests, and the block at the end of a run that names the layers which were not tested."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Generator, Iterator, Mapping

import pytest
from hypothesis import settings

from mooring.base import log
from tests.support import layers
from tests.support.control_plane import ControlPlane, shared_control_plane
from tests.support.virtual_loop import VirtualLoop

# No deadline per example: the machine is shared. In CI the same examples each time, so that a red run is about the change.
settings.register_profile("house", deadline=None, print_blob=True, derandomize="CI" in os.environ)
settings.load_profile("house")

log.configure()  # the tests are a program: its log goes to stderr, where some of them look for it

_REAL_FIXTURES = {"control_plane", "new_control_plane"}


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The real control plane of this run, shared by all tests and workers."""
    folder = tmp_path_factory.getbasetemp()
    with shared_control_plane(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as plane:
        yield plane


@pytest.fixture
def new_control_plane() -> Iterator[Callable[..., ControlPlane]]:
    """Starts a real control plane of the test's own; the arguments are those of ControlPlane.start."""
    with contextlib.ExitStack() as stack:

        def start(**arguments: object) -> ControlPlane:
            plane = ControlPlane.start(**arguments)  # type: ignore[arg-type]
            stack.callback(plane.stop)
            return plane

        yield start


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop of a test that is a coroutine function."""
    return {"loop": VirtualLoop if item.get_closest_marker("virtual_time") else asyncio.new_event_loop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a control plane is marked by its fixtures."""
    for item in items:
        if _REAL_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.real)
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows the end of its control plane's logs."""
    report = yield
    if report.failed and report.when == "call":
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, ControlPlane):
                report.sections.append((name, value.log_tails()))
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None, None, None]:
    """After all other summaries: what was not tested."""
    yield
    skipped = (report.longrepr for report in terminalreporter.stats.get("skipped", []))
    lines = layers.summary(text[2] for text in skipped if isinstance(text, tuple))
    if lines:
        terminalreporter.section("NOT TESTED", yellow=True, bold=True)
        for line in lines:
            terminalreporter.write_line(line)
