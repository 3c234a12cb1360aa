"""The shelf of faults: the same life of a volume with each, and each really happens."""

from __future__ import annotations

import inspect
import itertools
from collections import Counter

import pytest

from mooring.testing import pytest_plugin
from mooring.testing.drivers import Reference
from mooring.testing.opening import ClusterOfTest
from mooring.testing.shelf import CHANGES, SHELF

pytestmark = pytest.mark.slow


def life(cluster: ClusterOfTest) -> None:
    claim = cluster.claim("data").bound()
    web = cluster.pod("web", claim).running()
    (web.folder(claim) / "page").write_text("hello")
    claim.grows_to("2Gi")
    cluster.snapshot("then", claim).ready()
    web.delete().gone()
    again = cluster.pod("again", claim).running()
    assert (again.folder(claim) / "page").read_text() == "hello"
    again.delete().gone()
    cluster.delete("volumesnapshots", "then")
    claim.delete().gone()
    cluster.until(lambda: not cluster.objects("persistentvolumes"), "the volume is deleted")
    cluster.until(lambda: not cluster.objects("volumesnapshotcontents"), "the snapshot is deleted")


def test_a_volume_lives_on_with_each_fault(mooring_each_fault: ClusterOfTest) -> None:
    life(mooring_each_fault)


def codes(cluster: ClusterOfTest) -> dict[str, list[str]]:
    """How the first call of each name has ended, and how many there were."""
    found: dict[str, list[str]] = {}
    for call in cluster.calls():
        found.setdefault(call.rpc, []).append("OK" if call.error is None else str(call.error))
    return {rpc: ends for rpc, ends in found.items() if rpc in CHANGES}


def test_each_first_answer_is_lost(mooring_lost_answers: ClusterOfTest) -> None:
    life(mooring_lost_answers)
    ends = codes(mooring_lost_answers)
    assert len(ends) > 8
    assert all("the connection was lost" in first and again for first, *again in ends.values())


def test_each_first_answer_is_late(mooring_late_answers: ClusterOfTest) -> None:
    life(mooring_late_answers)
    assert all("DeadlineExceeded" in first and again for first, *again in codes(mooring_late_answers).values())


def test_each_first_call_fails(mooring_failing_driver: ClusterOfTest) -> None:
    life(mooring_failing_driver)
    assert all("a bad day" in first and again for first, *again in codes(mooring_failing_driver).values())


def test_each_answer_comes_late(mooring_slow_driver: ClusterOfTest) -> None:
    life(mooring_slow_driver)
    calls = [call for call in mooring_slow_driver.calls() if call.rpc in CHANGES]
    assert {None} == {call.error for call in calls}
    each_s = [later.at_s - earlier.at_s for earlier, later in itertools.pairwise(calls)]
    assert sum(each_s) > 4 * len(calls), "most of them wait for each other"


def test_each_first_call_ends_with_the_driver_s_processes(mooring_driver_restarts: ClusterOfTest) -> None:
    life(mooring_driver_restarts)
    ends = codes(mooring_driver_restarts)
    assert all("Unavailable" in first and again for first, *again in ends.values())
    driver = mooring_driver_restarts.aio.plane.driver
    assert isinstance(driver, Reference)
    assert driver._controller.comings == 1 + len(ends)


def test_each_caller_is_killed_in_its_call(mooring_caller_restarts: ClusterOfTest) -> None:
    life(mooring_caller_restarts)
    killed = Counter(line.split()[1] for line in mooring_caller_restarts.story.splitlines() if "is killed" in line)
    assert {"provisioner", "attacher", "resizer", "snapshotter"} <= killed.keys()
    assert killed.keys() & {"n1", "n2"}


def test_the_node_is_off_for_two_minutes(mooring_node_reboots: ClusterOfTest) -> None:
    life(mooring_node_reboots)
    story = mooring_node_reboots.story
    assert story.count(" is off") == 1
    assert story.count(" is on") == 1


def test_the_api_server_is_away_in_the_middle_of_each_work(mooring_api_outage: ClusterOfTest) -> None:
    life(mooring_api_outage)
    assert "connection refused" in mooring_api_outage.story


def test_each_program_s_first_write_of_a_kind_is_done_unseen(mooring_lost_api_answers: ClusterOfTest) -> None:
    life(mooring_lost_api_answers)
    lost = mooring_lost_api_answers.story.count("connection reset by peer")
    assert lost > 15


def test_nobody_may_write_at_first(mooring_missing_rights: ClusterOfTest) -> None:
    claim = mooring_missing_rights.claim("early")
    mooring_missing_rights.passes(seconds=29)
    assert not claim.object["spec"].get("volumeName")
    claim.bound()
    assert "is forbidden" in mooring_missing_rights.story


def test_the_plug_in_has_a_fixture_for_each_with_the_same_words() -> None:
    """It imports nothing, so its names and words stand twice."""
    assert tuple(SHELF) == pytest_plugin.FAULTS
    for name, fault in SHELF.items():
        fixture = getattr(pytest_plugin, f"mooring_{name}")
        words = inspect.getdoc(fixture) or inspect.getdoc(inspect.unwrap(fixture)) or ""
        of_fault = " ".join((inspect.getdoc(fault) or "").split()).removesuffix(" Raises CantHappen.")
        assert " ".join(words.split()) == of_fault
