"""The plug-in for pytest that comes with the package: the fixture `mooring_cluster`, its mark, and what a failed test shows.

pytest loads this file in every run, so it imports nothing but pytest before a test asks for the fixture.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

if TYPE_CHECKING:
    from mooring.testing.drivers import MakesDriver
    from mooring.testing.opening import ClusterOfTest

FIXTURE: Final = "mooring_cluster"
_STORY_LINES: Final = 80


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{FIXTURE}(driver, options, nodes, mounts, serves, seed): what the fixture {FIXTURE} is made of: the arguments of "
        "mooring.testing.opening.a_cluster",
    )


@pytest.fixture
def mooring_driver() -> MakesDriver | str:
    """The driver under test, to be overridden: a class, a function of a node's name, or the words of `mooring dev --driver`.

    The reference driver, as it is here.
    """
    return ""


@pytest.fixture
def mooring_cluster(request: pytest.FixtureRequest, mooring_driver: MakesDriver | str) -> Iterator[ClusterOfTest]:
    """A whole control plane in this process, with a driver and nodes. The mark `mooring_cluster` has its options."""
    from mooring.testing.opening import a_cluster  # noqa: PLC0415

    mark = request.node.get_closest_marker(FIXTURE)
    options: dict[str, Any] = {"driver": mooring_driver, **(mark.kwargs if mark is not None else {})}
    with a_cluster(**options) as cluster:
        yield cluster


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """A coroutine function runs on its cluster's own loop. A test that has passed fails where its driver broke a rule of CSI."""
    cluster = cast("ClusterOfTest | None", pyfuncitem.funcargs.get(FIXTURE))
    if cluster is None:
        return (yield)
    if inspect.iscoroutinefunction(inspect.unwrap(pyfuncitem.obj)):
        pyfuncitem.obj = _on_its_loop(cluster, pyfuncitem.obj)
    result = yield
    if cluster.breaches:
        from mooring.testing.driver_calls import told  # noqa: PLC0415

        pytest.fail("\n".join(["the driver broke rules of CSI:", *told(cluster.breaches)]), pytrace=False)
    return result


def _on_its_loop(cluster: ClusterOfTest, test: Callable[..., object]) -> Callable[..., object]:
    """The test as a plain function, which other plug-ins leave alone."""
    function, bound = inspect.unwrap(test), getattr(test, "__self__", None)

    def run(**arguments: object) -> None:
        cluster.run(function(**arguments) if bound is None else function(bound, **arguments))

    return run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows what happened in its cluster."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get(FIXTURE)
    if report.failed and report.when == "call" and cluster is not None:
        report.sections.append((FIXTURE, "\n".join(cluster.story.splitlines()[-_STORY_LINES:])))
    return report
