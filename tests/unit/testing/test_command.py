"""A driver that is a command: a process of its own for each node, and a clock that leaps only while nobody is called."""

from __future__ import annotations

import sys

import pytest

from mooring.testing.opening import ClusterOfTest

pytestmark = pytest.mark.slow

HOSTPATH = f"{sys.executable} -m mooring.cli.mooring driver hostpath --endpoint unix://{{socket}} --node-id {{node}} --state STATE"


@pytest.fixture
def mooring_driver(tmp_path: object) -> str:
    return HOSTPATH.replace("STATE", str(tmp_path))


@pytest.mark.mooring_cluster(nodes=1)
def test_a_command_is_a_driver(mooring_cluster: ClusterOfTest) -> None:
    claim = mooring_cluster.claim("data").bound()
    mooring_cluster.faults.lose_answer("DeleteVolume")
    mooring_cluster.passes(hours=1)
    claim.delete().gone()
    mooring_cluster.until(lambda: not mooring_cluster.objects("persistentvolumes"), "the volume is deleted")
    assert 2 == len(mooring_cluster.calls("DeleteVolume"))
