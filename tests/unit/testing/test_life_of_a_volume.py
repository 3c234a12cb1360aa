"""The life of a volume, as the page of the plug-in tells it: claim, pod, the death of a node, deletion."""

from __future__ import annotations

from mooring.testing.opening import ClusterOfTest


def test_a_volume_outlives_the_node_of_its_pod(mooring_cluster: ClusterOfTest) -> None:
    cluster = mooring_cluster
    claim = cluster.claim("data", "1Gi").bound()
    web = cluster.pod("web", claim).running()
    (web.folder(claim) / "page").write_text("hello")
    dead = cluster.node_of(web).dies()
    dead.not_ready()
    cluster.passes(minutes=6)
    assert web.is_deleting
    assert dead.object["status"]["volumesAttached"], "nobody has said that the machine is off"
    dead.out_of_service()
    web.gone()
    again = cluster.pod("again", claim).running()
    assert again.node_name != dead.name
    assert (again.folder(claim) / "page").read_text() == "hello"
    again.delete().gone()
    claim.delete().gone()
    cluster.until(lambda: not cluster.objects("persistentvolumes"), "the volume is deleted")
    assert ["CreateVolume", "DeleteVolume"] == [
        call.rpc for call in cluster.calls() if call.rpc in ("CreateVolume", "DeleteVolume")
    ]
