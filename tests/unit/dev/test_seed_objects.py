"""What `mooring dev` tells the API server of its nodes, at the first start and at later ones."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mooring.api.core import NODES
from mooring.api.storage import CSI_NODES
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.dev.seed_objects import register
from mooring.kube.cluster import Cluster

DRIVER = "csi.test"


def a_cluster() -> Cluster:
    return LocalCluster(new_store(Random(1), 0.0), clock=LoopClock(), randomness=Random(1))


async def shown(cluster: Cluster) -> tuple[Mapping[str, str], list[str]]:
    """The node's labels, and the topology keys that the driver has there."""
    node, csi_node = await cluster.get(NODES.whole(), "n"), await cluster.get(CSI_NODES.whole(), "n")
    return node["metadata"]["labels"], csi_node["spec"]["drivers"][0].get("topologyKeys") or []


async def test_a_node_has_its_segments_as_labels() -> None:
    cluster = a_cluster()
    await register(cluster, DRIVER, ["n"], {"n": {"zone": "a"}})
    assert ({"kubernetes.io/hostname": "n", "zone": "a"}, ["zone"]) == await shown(cluster)


@pytest.mark.parametrize("before", [{}, {"n": {"zone": "b"}}, {"n": {"zone": "a"}}], ids=["without", "elsewhere", "the same"])
async def test_a_kept_node_gets_the_segments_that_it_has_by_now(before: Mapping[str, Mapping[str, str]]) -> None:
    """Who tries zones keeps the folder."""
    cluster = a_cluster()
    await register(cluster, DRIVER, ["n"], before)
    await register(cluster, DRIVER, ["n"], {"n": {"zone": "a"}})
    assert ({"kubernetes.io/hostname": "n", "zone": "a"}, ["zone"]) == await shown(cluster)


async def test_a_second_start_writes_nothing() -> None:
    cluster = a_cluster()
    await register(cluster, DRIVER, ["n"], {"n": {"zone": "a"}})
    before = [(await cluster.list(kind.whole())).items for kind in (NODES, CSI_NODES)]
    await register(cluster, DRIVER, ["n"], {"n": {"zone": "a"}})
    assert before == [(await cluster.list(kind.whole())).items for kind in (NODES, CSI_NODES)]
