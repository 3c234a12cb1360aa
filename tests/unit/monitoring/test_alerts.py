"""Each alert fires by its fault, and none in a healthy hour: the real Prometheus judges series that real programs
wrote.

The faults are injected into whole programs in virtual time. The expected alerts are all that fire in a run: none too
many.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from hack.monitoring.__main__ import FOLDER, files
from hack.monitoring.alerts import ALERTS, Alert
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.apiserver.local import ServerFaults
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_claim, a_class, a_new_snapshot, a_pod
from tests.support.scripted_driver import PUBLISH, Fail
from tests.support.virtual_loop import run_virtual
from tests.unit.monitoring.faults import Refused, Unanswered, WithoutJournal
from tests.unit.monitoring.prometheus import FIRED, RULES, judged, promtool
from tests.unit.monitoring.world import ROLES, SCRAPE_S, MonitoredWorld, monitored

READ: Final = frozenset(re.findall(r"[a-z_]{8,}", " ".join(alert.expr for alert in ALERTS)))
"""The names of the metrics that the rules read, among other words."""

ROOT: Final = Path(__file__).resolve().parents[3]

Fault = Callable[[MonitoredWorld], Awaitable[None]]


async def nothing(world: MonitoredWorld) -> None:
    """The fault is the API server's."""


async def lose_the_driver(world: MonitoredWorld) -> None:
    world.pods["attacher-1"].ports.connection.lose()


async def attach(world: MonitoredWorld) -> None:
    await world.create(a_claim("books"))
    await world.create(a_pod("reader", "books", node="n1"))


async def fail_to_attach(world: MonitoredWorld) -> None:
    world.driver.always(PUBLISH, Fail(Code.INTERNAL))
    await attach(world)


async def fail_to_provision(world: MonitoredWorld) -> None:
    world.driver.always("CreateVolume", Fail(Code.INTERNAL))
    await world.create(a_claim("books"))


async def never_end_provisioning(world: MonitoredWorld) -> None:
    world.driver.always("CreateVolume", Fail(Code.ABORTED))
    await world.create(a_claim("books"))


async def take_the_journal(world: MonitoredWorld) -> None:
    """The next provisioner has no right to write intents."""
    world.make_cluster = WithoutJournal
    await world.replace("provisioner", 1)


async def attach_twice(world: MonitoredWorld) -> None:
    await attach(world)
    await asyncio.sleep(30)
    await world.create(a_pod("other", "books", node="n2"))


async def never_end_growing(world: MonitoredWorld) -> None:
    world.driver.always("ControllerExpandVolume", Fail(Code.ABORTED))
    await grow(world)


async def refuse_to_grow(world: MonitoredWorld) -> None:
    world.driver.always("ControllerExpandVolume", Fail(Code.OUT_OF_RANGE))
    await grow(world)


async def never_grow_on_the_node(world: MonitoredWorld) -> None:
    world.driver.node_step = True
    await grow(world)


async def grow(world: MonitoredWorld) -> None:
    await world.create(a_claim("books"))
    await world.shown(PERSISTENT_VOLUME_CLAIMS, "books", lambda claim: claim["status"]["phase"] == "Bound")
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "books", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})


async def never_end_a_snapshot(world: MonitoredWorld) -> None:
    world.driver.always("CreateSnapshot", Fail(Code.ABORTED))
    await snapshot(world)


async def never_get_ready(world: MonitoredWorld) -> None:
    world.driver.ready = False
    await snapshot(world)


async def snapshot(world: MonitoredWorld) -> None:
    await world.create(a_claim("books"))
    await world.shown(PERSISTENT_VOLUME_CLAIMS, "books", lambda claim: claim["status"]["phase"] == "Bound")
    await world.create(a_new_snapshot("snap", claim="books"))


FAULTS: Final[dict[str, tuple[Fault, ServerFaults | None, int, set[str]]]] = {
    "MooringDriverLost": (lose_the_driver, None, 10, set()),
    "MooringNoLeader": (nothing, Refused("leases", "external-attacher-leader-csi-test"), 10, set()),
    "MooringWatchBroken": (nothing, Refused("volumeattachments"), 20, set()),
    "MooringQueueStuck": (attach, Unanswered("volumeattachments"), 25, set()),
    "MooringKeyStuck": (fail_to_provision, None, 45, {"MooringCallsFail"}),
    "MooringCallsFail": (fail_to_attach, None, 25, set()),
    "MooringIntentsOld": (never_end_provisioning, None, 25, set()),
    "MooringIntentsNotStored": (take_the_journal, None, 10, set()),
    "MooringMultiAttachBlocked": (attach_twice, None, 20, set()),
    "MooringGrowthStuck": (never_end_growing, None, 30, set()),
    "MooringSnapshotStuck": (never_end_a_snapshot, None, 30, set()),
}
"""By alert: the fault, that of the API server, how many minutes it lasts, and the further alerts that it is a reason
for.
"""


async def _faulty(fault: Fault, server: ServerFaults | None, minutes: int) -> MonitoredWorld:
    async with monitored(faults=server, kept=READ) as world:
        await asyncio.sleep(60)
        await fault(world)
        await asyncio.sleep(minutes * 60)
    return world


async def _healthy(minutes: int) -> MonitoredWorld:
    """Also a healthy cluster rolls its Deployments out anew, and restarts a driver."""
    async with monitored(replicas=2, kept=READ) as world:
        users = asyncio.create_task(world.traffic(), name="users")
        await asyncio.sleep(minutes * 20)
        for role in ROLES:
            for replica in (1, 2):
                await world.replace(role, replica)
        await asyncio.sleep(minutes * 20)
        connections = [pod.ports.connection for pod in world.pods.values() if pod.ports.connection is not None]
        for connection in connections:
            connection.lose()
        await asyncio.sleep(45)
        for connection in connections:
            connection.come_back()
        await asyncio.sleep(minutes * 20)
        assert not users.done(), users.exception()
        users.cancel()
    return world


@pytest.mark.parametrize("name", FAULTS)
def test_an_alert_fires_by_its_fault(name: str, tmp_path: Path) -> None:
    fault, server, minutes, others = FAULTS[name]
    world = run_virtual(_faulty(fault, server, minutes))
    fired = [f'{{alertname="{one}"}} 1' for one in sorted({name, *others})]
    assert "" == judged(tmp_path, world.scrapes.series, minutes, {FIRED % minutes: fired})


@pytest.mark.parametrize(
    ("name", "fault", "minutes"),
    [
        ("MooringGrowthStuck", refuse_to_grow, 30),
        pytest.param("MooringGrowthStuck", never_grow_on_the_node, 70, marks=pytest.mark.long),
        pytest.param("MooringSnapshotStuck", never_get_ready, 370, marks=pytest.mark.long),
    ],
    ids=["the user's move", "the node's move", "not ready for hours"],
)
def test_an_alert_with_several_bounds_fires_by_each(name: str, fault: Fault, minutes: int, tmp_path: Path) -> None:
    world = run_virtual(_faulty(fault, None, minutes))
    assert "" == judged(tmp_path, world.scrapes.series, minutes, {FIRED % minutes: [f'{{alertname="{name}"}} 1']})


@pytest.mark.parametrize("name", [alert.name for alert in ALERTS if alert.go_too])
def test_an_alert_for_the_go_programs_fires_without_our_own_metrics(name: str, tmp_path: Path) -> None:
    fault, server, minutes, _ = FAULTS[name]
    world = run_virtual(_faulty(fault, server, minutes))
    theirs = {key: values for key, values in world.scrapes.series.items() if not key[0].startswith("mooring_")}
    assert len(theirs) < len(world.scrapes.series)
    assert "" == judged(tmp_path, theirs, minutes, {FIRED % minutes: [f'{{alertname="{name}"}} 1']})


@pytest.mark.long
def test_no_alert_fires_in_a_healthy_hour(tmp_path: Path) -> None:
    world = run_virtual(_healthy(60))
    assert 60 * 60 / SCRAPE_S <= world.scrapes.count
    assert len(world.driver.made("CreateVolume")) > 20
    assert "" == judged(tmp_path, world.scrapes.series, 60, {FIRED % 60: [], 'group(ALERTS{alertstate="firing"})': []})


@pytest.mark.long
def test_a_users_mistakes_with_claims_raise_no_alert(tmp_path: Path) -> None:
    async def mistakes(world: MonitoredWorld) -> None:
        world.driver.always("CreateVolume", Fail(Code.INVALID_ARGUMENT))
        await world.create(
            a_class("lost", provisioner="nobody.example.com"), a_claim("refused"), a_claim("lost", sc="lost")
        )
        await world.create(a_claim("classless", sc="no-such-class"), a_pod("reader", "classless", node="n1"))

    world = run_virtual(_faulty(mistakes, None, 60))
    assert len(world.driver.made("CreateVolume")) > 5
    assert "" == judged(tmp_path, world.scrapes.series, 60, {FIRED % 60: []})


def test_each_alert_is_made_to_fire() -> None:
    assert {alert.name for alert in ALERTS} == FAULTS.keys()


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_the_texts_of_an_alert_name_labels_that_it_has(alert: Alert) -> None:
    there = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", alert.expr))))
    named = set(re.findall(r"\$labels\.(\w+)", alert.summary + alert.description))
    assert named
    assert named <= there


HEADINGS: Final = ("What it means", "What users see", "What to type", "What is safe", "When to wake somebody")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_has_its_runbook(alert: Alert) -> None:
    text = (ROOT / alert.runbook).read_text()
    assert f"# {alert.name}" == text.splitlines()[0]
    assert HEADINGS == tuple(re.findall("^## (.*)$", text, re.MULTILINE))
    assert f"| [{alert.name}]({alert.name}.md) | {alert.severity} |" in (ROOT / "docs/runbooks/README.md").read_text()


def test_the_files_are_those_of_their_source() -> None:
    for name, text in files().items():
        assert text == (FOLDER / name).read_text(), f"{name} is out of date: make monitoring"


def test_the_rules_are_such_as_prometheus_reads() -> None:
    assert "" == promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
