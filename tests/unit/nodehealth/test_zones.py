"""How many nodes of a zone may be evicted from."""

from __future__ import annotations

import math
from typing import Any

from mooring.cluster.nodehealth.lifecycle.zones import Limiter, Shift, Zones
from mooring.cluster.nodehealth.options import NodeHealthOptions
from mooring.cluster.nodehealth.view import zone_of
from tests.support.builders import a_ready_node, typed

ZONE = "topology.kubernetes.io/zone"
OPTIONS = NodeHealthOptions(large_cluster_size_threshold=4)


def a_member(zone: str = "a", *, ready: bool | None = True, **labels: str) -> Any:
    return typed(a_ready_node(ready=ready, **{ZONE: zone, **labels}))


def zones_with(**members: tuple[int, int]) -> Zones:
    """Zone by zone, how many nodes are ready, and how many are not."""
    zones = Zones(OPTIONS)
    for zone, (ready, unwell) in members.items():
        for is_ready, count in ((True, ready), (False, unwell)):
            for _ in range(count):
                zones.moved(None, a_member(zone, ready=is_ready))
    zones.refresh(0.0)
    return zones


def test_NL11_one_node_every_ten_seconds() -> None:
    zones = zones_with(a=(3, 2), b=(1, 1))
    assert 0.0 == zones.wait_s("/a", 0.0)
    zones.take("/a", 0.0)
    assert (10.0, 4.0, 0.0) == (zones.wait_s("/a", 0.0), zones.wait_s("/a", 6.0), zones.wait_s("/a", 10.0))
    assert 0.0 == zones.wait_s("/b", 0.0), "each zone has a limit of its own"


def test_NL12_a_zone_that_is_disrupted_in_part_is_slow_or_stops() -> None:
    assert math.inf == zones_with(a=(1, 3)).wait_s("/a", 0.0), "four nodes are a small zone"
    zones = zones_with(a=(2, 3))
    assert 0.0 == zones.wait_s("/a", 0.0)
    zones.take("/a", 0.0)
    assert 100.0 == zones.wait_s("/a", 0.0), "a large one goes on, slowly"
    assert 0.0 == zones_with(a=(0, 3), b=(1, 0)).wait_s("/a", 0.0), "one that is down as a whole goes on: others are up"
    assert 0.0 == zones_with(a=(1, 2)).wait_s("/a", 0.0), "two nodes are no disruption"
    assert 0.0 == zones_with(a=(3, 3)).wait_s("/a", 0.0), "below the threshold"


def test_NL7_it_is_told_when_no_node_is_ready_and_when_one_is_again() -> None:
    zones = zones_with(a=(1, 1), b=(0, 1))
    assert not zones.all_down
    zones.moved(a_member(), a_member(ready=False))
    assert Shift(("/a", "/b"), began=True) == zones.refresh(1.0)
    assert zones.all_down
    assert math.inf == zones.wait_s("/a", 1.0)
    zones.moved(a_member(ready=False), a_member())
    assert Shift(("/a", "/b"), ended=True) == zones.refresh(2.0)
    assert 10.0 == zones.wait_s("/a", 2.0), "nobody is evicted from at once: the others may be back in a moment"
    assert Shift() == zones.refresh(3.0)


def test_a_node_without_the_condition_is_not_ready_and_an_excluded_one_does_not_count() -> None:
    zones = Zones(OPTIONS)
    zones.moved(None, a_member(ready=None))
    zones.moved(None, a_member(**{"node.kubernetes.io/exclude-disruption": ""}))
    zones.refresh(0.0)
    assert zones.all_down
    assert ("/a",) == zones.names
    zones.moved(a_member(ready=None), None)
    zones.refresh(0.0)
    assert (False, ()) == (zones.all_down, zones.names)


def test_the_zone_of_a_node() -> None:
    assert "" == zone_of(typed(a_ready_node()))
    assert "r/z" == zone_of(typed(a_ready_node(**{ZONE: "z", "topology.kubernetes.io/region": "r"})))
    assert "/old" == zone_of(typed(a_ready_node(**{ZONE: "z", "failure-domain.beta.kubernetes.io/zone": "old"})))


def test_a_limiter_with_a_token_has_one_at_another_rate() -> None:
    limiter = Limiter(0.1, 0.0)
    limiter.set_rate(0.01, 0.0)
    assert 0.0 == limiter.wait_s(0.0)
    limiter.take(0.0)
    limiter.set_rate(0.1, 50.0)
    assert 10.0 == limiter.wait_s(50.0)


def test_NL11_a_zone_whose_nodes_do_not_count_keeps_its_turn_while_others_change() -> None:
    zones = zones_with(a=(2, 0))
    assert 0.0 == zones.wait_s("/left-out", 0.0)
    zones.take("/left-out", 0.0)
    zones.moved(None, a_member("a"))
    zones.refresh(1.0)
    assert 9.0 == zones.wait_s("/left-out", 1.0)
