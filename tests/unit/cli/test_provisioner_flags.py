"""What csi-provisioner's flags and gates are and come to, beyond test_csi_provisioner.py. Issue 27, A12: items of the
documents.
"""

from __future__ import annotations

from pathlib import Path

from mooring.base.flagkinds import GateStage
from mooring.base.flags import parse
from mooring.cli.clusters import load_config
from mooring.cli.csi_provisioner import COMMAND, ProvisionerFlags, options, sidecar
from mooring.cli.process import Machine, Setup

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


def a_setup(*words: str) -> Setup[ProvisionerFlags]:
    parsed = parse(ProvisionerFlags, words)
    return Setup("x", parsed.flags, parsed.given, {name: gate.default for name, gate in COMMAND.gates.items()})


def test_the_gates_are_upstreams():
    """Names, stages and defaults of external-provisioner 6.3."""
    assert {
        "CrossNamespaceVolumeDataSource": (GateStage.ALPHA, False),
        "ReleaseLeaderElectionOnExit": (GateStage.ALPHA, False),
        "Topology": (GateStage.GA, True),
        "VolumeAttributesClass": (GateStage.GA, True),
    } == {name: (gate.stage, gate.default) for name, gate in COMMAND.gates.items()}


def test_flags_of_capacity_reach_the_publisher():
    words = ["--enable-capacity", "--capacity-threads=3", "--capacity-poll-interval=7s", "--capacity-ownerref-level=2"]
    machine = Machine(environ={"NAMESPACE": "ns", "POD_NAME": "pod"})
    found = options(a_setup(*words, "--capacity-for-immediate-binding"), machine).capacity
    assert found is not None
    assert (3, 7.0, 2, True) == (found.threads, found.poll_interval_s, found.owner_level, found.for_immediate_binding)
    usual = options(a_setup("--enable-capacity"), machine).capacity
    assert usual is not None
    assert (1, 60.0, 1, False) == (usual.threads, usual.poll_interval_s, usual.owner_level, usual.for_immediate_binding)


def test_the_master_goes_before_the_kubeconfigs_server(tmp_path: Path):
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    machine = Machine(environ={})
    one = sidecar(a_setup("--master=http://10.0.0.1:8080/"), machine)
    assert "http://127.0.0.1:1" == load_config(str(tmp_path / "kubeconfig"), machine).server
    assert "http://10.0.0.1:8080" == load_config(str(tmp_path / "kubeconfig"), machine, one.server).server
    assert "http://10.0.0.1:8080" == load_config("", machine, one.server).server
