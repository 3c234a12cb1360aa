"""A test of an operator: the official client of Kubernetes, over TLS, against the cluster of a test."""

from __future__ import annotations

import pytest

from mooring.testing.opening import ClusterOfTest

pytestmark = pytest.mark.slow


@pytest.mark.mooring_cluster(serves=True)
def test_an_operator_sees_its_pod_leave_a_dead_node(mooring_cluster: ClusterOfTest) -> None:
    kubernetes = pytest.importorskip("kubernetes")
    cluster = mooring_cluster
    core = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(str(cluster.kubeconfig)))
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    core.create_namespaced_persistent_volume_claim("default", {"metadata": {"name": "data"}, "spec": spec})
    claim = cluster.claim_named("data").bound()
    web = cluster.pod("web", claim).running()
    dead = cluster.node_of(web).dies().not_ready()
    cluster.passes(minutes=6)
    assert core.read_namespaced_pod("web", "default").metadata.deletion_timestamp is not None
    dead.out_of_service()
    web.gone()
    again = cluster.pod("again", claim).running()
    assert core.read_namespaced_pod("again", "default").spec.node_name != dead.name
    again.delete().gone()
    core.delete_namespaced_persistent_volume_claim("data", "default")
    claim.gone()
