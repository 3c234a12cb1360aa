"""Each query of each dashboard is read by the real Prometheus, and finds series that whole programs wrote."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest
import yaml

from hack.monitoring.__main__ import FOLDER
from mooring.node.options import AgentOptions
from mooring.wire.grpc.codes import Code
from tests.sim.course import lived
from tests.sim.node import life, run
from tests.sim.node.disk import NodeLoop
from tests.sim.node.plan import plan_of
from tests.sim.node.world import NodeWorld
from tests.support.builders import Json, a_claim, a_pod
from tests.support.real import binary
from tests.support.scripted_driver import PUBLISH, Fail
from tests.support.virtual_loop import run_virtual
from tests.unit.monitoring.faults import Refused
from tests.unit.monitoring.prometheus import judged
from tests.unit.monitoring.world import SCRAPE_S, Scrapes, Series, monitored

BOARDS: Final = sorted(path.stem for path in FOLDER.glob("dashboards/*.json"))
ZERO: Final = " or vector(0)"
"""What a panel shows in place of nothing. Such a query has to find something, too, if only in some program."""


def queries(board: str, series: Iterable[Series]) -> Iterator[str]:
    """As Grafana sends them, with all chosen that it offers for these series."""
    model = json.loads((FOLDER / f"dashboards/{board}.json").read_text())
    offered = {f"${label}": "|".join(sorted(values)) for label, values in choices(model, series).items()}
    assert all(offered.values())
    for panel in model["panels"]:
        for target in panel["targets"]:
            values = offered | {"$__rate_interval": "5m", ZERO: ""}
            if ZERO in target["expr"]:
                values |= dict.fromkeys(offered, ".*")
            yield functools.reduce(lambda text, name: text.replace(name, values[name]), values, target["expr"])


def choices(model: Json, series: Iterable[Series]) -> dict[str, set[str]]:
    """By variable, the values that Grafana lists, each under all of those before it."""
    found: dict[str, set[str]] = {}
    for variable in model["templating"]["list"][1:]:
        (query,) = re.findall(r"label_values\((.*), \w+\)", variable["definition"])
        name, _, rest = query.rstrip("}").partition("{")
        matchers = {label: found.get(value[1:]) or {value} for label, value in re.findall(r'(\w+)=~?"([^"]*)"', rest)}
        found[variable["name"]] = {
            labels[variable["name"]]
            for labels in (dict(labels) for metric, labels in series if metric == name)
            if all(any(re.fullmatch(value, labels[label]) for value in values) for label, values in matchers.items())
        }
    return found


@pytest.fixture(scope="module")
def of_controllers() -> Scrapes:
    """Users work; at the end a volume is wanted on two nodes, a call has failed, and claims may not be watched any
    more.
    """

    async def main() -> Scrapes:
        refused = Refused("persistentvolumeclaims", on=False)
        async with monitored(faults=refused) as world:
            users = asyncio.create_task(world.traffic())
            await asyncio.sleep(10 * 60)
            assert not users.done(), users.exception()
            users.cancel()
            world.driver.script(PUBLISH, Fail(Code.INTERNAL))
            await world.create(
                a_claim("books"), a_pod("reader", "books", node="n1"), a_pod("other", "books", node="n2")
            )
            await asyncio.sleep(60)
            refused.on = True
            await world.create(a_claim("unseen"))
            await asyncio.sleep(60)
        return world.scrapes

    return run_virtual(main())


@pytest.fixture(scope="module")
def of_nodes() -> Scrapes:
    """A life of the simulation: agents that die, drivers that fail."""
    scrapes = Scrapes()

    class Agent(life.Agent):
        def __init__(self, runtime: Any, options: AgentOptions, **more: Any) -> None:
            labels = {"namespace": "storage", "job": "node-agent", "pod": options.node_name, "container": "node-agent"}
            scrapes.pods[options.node_name] = labels, runtime.metrics
            super().__init__(runtime, options, **more)

    class Life(run.NodeLife):
        async def live(self, world: NodeWorld) -> None:
            scraping = asyncio.create_task(scrapes.run(), name="prometheus")
            await super().live(world)
            assert not scraping.done(), scraping.exception()
            scraping.cancel()

    with mock.patch.object(life, "Agent", Agent), run.few_workers():
        course = Life(plan_of(2))
        outcome = lived(course, 2, None, "node", (), make_loop=NodeLoop, verbosity=0)
    assert course.world is not None
    course.world.close()
    assert outcome.broken is None, outcome.report()
    return scrapes


@pytest.mark.parametrize("board", BOARDS)
def test_each_query_finds_series(board: str, of_controllers: Scrapes, of_nodes: Scrapes, tmp_path: Path) -> None:
    late: list[float | None] = [None] * (of_controllers.count - of_nodes.count)
    assert late
    series = of_controllers.series | {key: [*late, *values] for key, values in of_nodes.series.items()}
    expected = {f"count({expr}) > bool 0": ["{} 1"] for expr in queries(board, series)}
    assert len(expected) >= 8
    assert "" == judged(tmp_path, series, int((of_controllers.count - 1) * SCRAPE_S // 60), expected)


@pytest.mark.parametrize("board", BOARDS)
def test_no_panel_covers_another(board: str) -> None:
    panels = json.loads((FOLDER / f"dashboards/{board}.json").read_text())["panels"]
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken))
    assert {x for x, _ in taken} <= set(range(24))
    assert len(panels) == len({panel["id"] for panel in panels})


def test_kubectl_makes_the_rules_and_a_config_map_with_every_dashboard() -> None:
    done = subprocess.run(
        [binary("kubectl"), "kustomize", FOLDER], capture_output=True, text=True, timeout=60, check=True
    )
    rules, boards = sorted(yaml.safe_load_all(done.stdout), key=lambda one: one["kind"], reverse=True)
    assert ("PrometheusRule", "ConfigMap") == (rules["kind"], boards["kind"])
    assert {f"{board}.json" for board in BOARDS} == boards["data"].keys()
    assert 2**18 > len(json.dumps(boards))  # what `kubectl apply` notes beside it is as long at the most


def test_the_picture_shows_the_dashboard_as_it_is() -> None:
    panels = json.loads((FOLDER / "dashboards/plane.json").read_text())["panels"]
    wanted = {panel["title"] for panel in panels if "process_" not in panel["targets"][0]["expr"]}
    picture = (FOLDER.parents[1] / "docs/monitoring.svg").read_text()
    drawn = set(re.findall('font-weight="bold">([^<]+)<', picture)) - {"Mooring: the whole plane"}
    assert wanted == drawn, "out of date: make picture"
