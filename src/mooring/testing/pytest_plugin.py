"""The plug-in for pytest that comes with the package: the fixture `mooring_cluster`, its mark, and what a failed test
shows.

pytest loads this file in every run, so it imports nothing but pytest before a test asks for the fixture.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
import os
from collections.abc import Callable, Generator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

if TYPE_CHECKING:
    from mooring.testing.drivers import MakesDriver
    from mooring.testing.opening import ClusterOfTest

FIXTURE: Final = "mooring_cluster"
_STORY_LINES: Final = 80
_OUR_FOLDERS: Final = tuple(
    f"{os.path.dirname(file)}/" for file in (os.path.dirname(__file__), asyncio.__file__, concurrent.futures.__file__)
)
"""Where frames say nothing about a user's test: in this package, and in the loop on which it runs."""
FAULTS: Final = (
    "lost_answers",
    "late_answers",
    "failing_driver",
    "slow_driver",
    "driver_restarts",
    "caller_restarts",
    "node_reboots",
    "api_outage",
    "lost_api_answers",
    "missing_rights",
)
"""The names on the shelf."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{FIXTURE}(driver, options, nodes, mounts, serves, seed): what the fixture {FIXTURE} is made of: the "
        "arguments of "
        "mooring.testing.opening.a_cluster",
    )


@pytest.fixture
def mooring_driver() -> MakesDriver | str:
    """The driver under test, to be overridden: a class, a function of a node's name, or the words of
    `mooring dev --driver`.

    The reference driver, as it is here.
    """
    return ""


@pytest.fixture
def mooring_cluster(request: pytest.FixtureRequest, mooring_driver: MakesDriver | str) -> Iterator[ClusterOfTest]:
    """A whole control plane in this process, with a driver and nodes. The mark `mooring_cluster` has its options."""
    from mooring.base.errors import ConfigError  # noqa: PLC0415
    from mooring.testing.opening import a_cluster  # noqa: PLC0415

    mark = request.node.get_closest_marker(FIXTURE)
    options: dict[str, Any] = {"driver": mooring_driver, **(mark.kwargs if mark is not None else {})}
    with contextlib.ExitStack() as stack:
        refusal, cluster = "", None
        try:
            cluster = stack.enter_context(a_cluster(**options))
        except ConfigError as error:
            refusal = f"{FIXTURE}: {error}"
        if cluster is None:  # told without the errors that it came from, whose frames are our own
            pytest.fail(refusal, pytrace=False)
        yield cluster


# -- the shelf of faults: each of these fixtures is the cluster, with a fault that heals by itself.
# `mooring.testing.shelf` makes them.


@pytest.fixture
def mooring_lost_answers(mooring_cluster: ClusterOfTest) -> ClusterOfTest:
    """The first call of each kind takes effect, and the connection breaks before its answer."""
    return _with(mooring_cluster, "lost_answers")


@pytest.fixture
def mooring_late_answers(mooring_cluster: ClusterOfTest) -> ClusterOfTest:
    """The first call of each kind takes effect, and its caller waits until its deadline."""
    return _with(mooring_cluster, "late_answers")


@pytest.fixture
def mooring_failing_driver(mooring_cluster: ClusterOfTest) -> ClusterOfTest:
    """The first call of each kind fails with Internal, and has no effect."""
    return _with(mooring_cluster, "failing_driver")


@pytest.fixture
def mooring_slow_driver(mooring_cluster: ClusterOfTest) -> ClusterOfTest:
    """The answer of every call comes five seconds late."""
    return _with(mooring_cluster, "slow_driver")


@pytest.fixture
def mooring_driver_restarts(mooring_cluster: ClusterOfTest) -> ClusterOfTest:
    """In the first call of each kind, after its effect, all processes of the driver end, and start anew."""
    return _with(mooring_cluster, "driver_restarts")


@pytest.fixture
def mooring_caller_restarts(mooring_cluster: ClusterOfTest) -> ClusterOfTest:
    """In the first call of each kind, after its effect, its caller is killed, and starts anew: a controller, or the
    agent of a node.
    """
    return _with(mooring_cluster, "caller_restarts")


@pytest.fixture
def mooring_node_reboots(mooring_cluster: ClusterOfTest) -> ClusterOfTest:
    """In the first NodePublishVolume, after its effect, the power of its node goes; it is back two minutes later."""
    return _with(mooring_cluster, "node_reboots")


@pytest.fixture
def mooring_api_outage(mooring_cluster: ClusterOfTest) -> ClusterOfTest:
    """From the first call of each kind on, after its effect, no program reaches the API server, for a minute."""
    return _with(mooring_cluster, "api_outage")


@pytest.fixture
def mooring_lost_api_answers(mooring_cluster: ClusterOfTest) -> ClusterOfTest:
    """Of each program's writes of each kind, the API server carries the first one out, and its answer is lost."""
    return _with(mooring_cluster, "lost_api_answers")


@pytest.fixture
def mooring_missing_rights(mooring_cluster: ClusterOfTest) -> ClusterOfTest:
    """No program may write for the first thirty seconds."""
    return _with(mooring_cluster, "missing_rights")


@pytest.fixture(params=FAULTS)
def mooring_each_fault(request: pytest.FixtureRequest, mooring_cluster: ClusterOfTest) -> ClusterOfTest:
    """The cluster with each fault of the shelf in turn: the test runs once for each."""
    from mooring.testing.shelf import CantHappen  # noqa: PLC0415

    try:
        return _with(mooring_cluster, request.param)
    except CantHappen as error:
        pytest.skip(str(error))


def _with(cluster: ClusterOfTest, fault: str) -> ClusterOfTest:
    from mooring.testing.shelf import SHELF  # noqa: PLC0415

    cluster.run(SHELF[fault](cluster.aio))
    return cluster


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """A coroutine function runs on its cluster's own loop. A test that has passed fails where its driver broke a rule
    of CSI.
    """
    cluster = cast("ClusterOfTest | None", pyfuncitem.funcargs.get(FIXTURE))
    if cluster is None:
        return (yield)
    if inspect.iscoroutinefunction(inspect.unwrap(pyfuncitem.obj)):
        pyfuncitem.obj = _on_its_loop(cluster, pyfuncitem.obj)
    result = yield
    if cluster.breaches:
        pytest.fail("\n".join(["the driver broke rules of CSI:", *_told(cluster)]), pytrace=False)
    return result


def _told(cluster: ClusterOfTest) -> list[str]:
    from mooring.testing.driver_calls import told  # noqa: PLC0415

    return list(told(cluster.breaches))


def _on_its_loop(cluster: ClusterOfTest, test: Callable[..., object]) -> Callable[..., object]:
    """The test as a plain function, which other plug-ins leave alone."""
    function, bound = inspect.unwrap(test), getattr(test, "__self__", None)

    def run(**arguments: object) -> None:
        cluster.run(function(**arguments) if bound is None else function(bound, **arguments))

    return run


def _without_our_frames(error: BaseException) -> BaseException:
    """The error, from whose traceback our frames are taken out."""
    frames, one = [], error.__traceback__
    while one is not None:
        frames.append(one)
        one = one.tb_next
    kept = None
    for frame in reversed(frames):
        if not frame.tb_frame.f_code.co_filename.startswith(_OUR_FOLDERS):
            kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return error.with_traceback(kept)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows what happened in its cluster, and the rules that its driver broke, which may be why it
    failed. The traceback has the user's own frames; --full-trace has all.
    """
    cluster = getattr(item, "funcargs", {}).get(FIXTURE)
    asks = FIXTURE in getattr(item, "fixturenames", ())
    if call.excinfo is not None and asks and not item.config.getoption("fulltrace"):
        call.excinfo = pytest.ExceptionInfo.from_exception(_without_our_frames(call.excinfo.value))
    report = yield
    if report.failed and report.when == "call" and cluster is not None:
        report.sections.append((FIXTURE, "\n".join(cluster.story.splitlines()[-_STORY_LINES:])))
        if cluster.breaches and (call.excinfo is None or not isinstance(call.excinfo.value, pytest.fail.Exception)):
            report.sections.append((f"{FIXTURE}: the driver broke rules of CSI", "\n".join(_told(cluster))))
    return report
