"""snapshot-controller and csi-snapshotter as programs: their flags, and how they start. Ids:
docs/behaviours/snapshotter.md.
"""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

import pytest

from mooring.base.errors import ConfigError
from mooring.base.flags import flags_of, parse
from mooring.cli import csi_snapshotter, snapshot_controller
from mooring.cli.csi_snapshotter import SnapshotterFlags
from mooring.cli.mooring import COMMANDS, UPSTREAM
from mooring.cli.process import Machine, Setup
from mooring.cli.sidecar import SidecarLife
from mooring.cli.snapshot_controller import SnapshotControllerFlags
from mooring.cluster.snapshots.options import SnapshotControllerOptions
from tests.support.builders import a_snapshot_class
from tests.support.rows import each_row
from tests.support.scripted_driver import ScriptedDriver
from tests.support.snapshotting import SnapshotWorld
from tests.support.virtual_loop import in_virtual_time
from tests.unit.cli.sidecar_life import PortsInProcess

# Names and defaults must stay external-snapshotter 8.6's.
ROOT = Path(__file__).resolve().parents[3]
COMMON = {
    "automaxprocs": False,
    "feature-gates": {},
    "http-endpoint": "",
    "kube-api-burst": 10,
    "kube-api-qps": 5.0,
    "kubeconfig": "",
    "leader-election": False,
    "leader-election-lease-duration": 15.0,
    "leader-election-namespace": "",
    "leader-election-renew-deadline": 10.0,
    "leader-election-retry-period": 5.0,
    "log-flush-frequency": 5.0,
    "log-json-info-buffer-size": "",
    "log-json-split-stream": False,
    "log-text-info-buffer-size": "",
    "log-text-split-stream": False,
    "logging-format": "text",
    "metrics-path": "/metrics",
    "resync-period": 900.0,
    "retry-interval-max": 300.0,
    "retry-interval-start": 1.0,
    "v": 0,
    "version": False,
    "vmodule": "",
    "worker-threads": 10,
    "leader-election-labels": {},
}
CONTROLLER = {
    "enable-distributed-snapshotting": False,
    "prevent-volume-mode-conversion": True,
    "retry-crd-interval-max": 30.0,
}
SIDECAR = {
    "csi-address": "/run/csi/socket",
    "extra-create-metadata": False,
    "groupsnapshot-name-prefix": "groupsnapshot",
    "groupsnapshot-name-uuid-length": -1,
    "metrics-address": "",
    "node-deployment": False,
    "snapshot-name-prefix": "snapshot",
    "snapshot-name-uuid-length": -1,
    "timeout": 60.0,
}
MANAGER = {
    "leader-election-warm-standby": True,
    "tracing": False,
}
OURS = {"connection-timeout": 30.0, "exit-on-lost-connection": False, **MANAGER}


def test_flags_and_defaults_are_upstreams():
    assert {**COMMON, **CONTROLLER, **MANAGER} == {
        name: row.default for name, row in flags_of(SnapshotControllerFlags).items()
    }
    assert {**COMMON, **SIDECAR, **OURS} == {name: row.default for name, row in flags_of(SnapshotterFlags).items()}


def test_every_program_of_upstream_is_a_subcommand():
    programs = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]) - {
        "mooring",
        "kubectl-mooring",
    }
    assert {
        "csi-attacher",
        "csi-provisioner",
        "csi-resizer",
        "csi-snapshotter",
        "snapshot-controller",
        "livenessprobe",
    } <= programs
    assert programs <= {*UPSTREAM, *COMMANDS}
    assert set(UPSTREAM.values()) <= set(COMMANDS)


def setup_of(command, *words):
    parsed = parse(command.table, words)
    command.check(parsed)
    gates = {name: parsed.flags.feature_gates.get(name, gate.default) for name, gate in command.gates.items()}
    return Setup("x", parsed.flags, parsed.given, gates)


def test_every_flag_reaches_the_controller():
    words = ["--worker-threads=4", "--retry-interval-start=2s", "--retry-interval-max=7s", "--resync-period=8s"]
    words += [
        "--enable-distributed-snapshotting",
        "--prevent-volume-mode-conversion=false",
        "--feature-gates=CSIVolumeGroupSnapshot=true",
    ]
    options = setup_of(snapshot_controller.COMMAND, *words).options(SnapshotControllerOptions)
    assert (4, 2.0, 7.0, 8.0, True, False, True) == dataclasses.astuple(options)


def test_every_flag_reaches_the_snapshotter():
    words = [
        "--timeout=3s",
        "--worker-threads=4",
        "--retry-interval-start=2s",
        "--retry-interval-max=7s",
        "--resync-period=8s",
    ]
    words += ["--snapshot-name-prefix=s", "--snapshot-name-uuid-length=9", "--groupsnapshot-name-prefix=g"]
    words += ["--groupsnapshot-name-uuid-length=10", "--extra-create-metadata", "--node-deployment"]
    words += ["--feature-gates=CSIVolumeGroupSnapshot=true"]
    options = csi_snapshotter.options(setup_of(csi_snapshotter.COMMAND, *words), Machine(environ={"NODE_NAME": "n1"}))
    assert (3.0, 4, 2.0, 7.0, 8.0, "s", 9, "g", 10, True, "n1", True) == dataclasses.astuple(options)


def test_groups_have_to_be_asked_for():
    assert not setup_of(snapshot_controller.COMMAND).options(SnapshotControllerOptions).groups
    assert not csi_snapshotter.options(setup_of(csi_snapshotter.COMMAND), Machine(environ={})).groups


@each_row(
    ("words", "text"),
    [
        (["--node-deployment", "--leader-election"], "leader election is not possible"),
        (["--snapshot-name-prefix="], "must not be empty"),
        (["--snapshot-name-uuid-length=33"], "between 1 and 32"),
        (["--groupsnapshot-name-uuid-length=0"], "between 1 and 32"),
        (["--worker-threads=0"], "worker-threads"),
        (["--timeout=0s"], "timeout"),
        (["--resync-period=-1s"], "resync-period"),
    ],
)
def test_S56_flags_that_can_only_be_mistakes(words, text):
    with pytest.raises(ConfigError, match=text):
        setup_of(csi_snapshotter.COMMAND, *words)


def test_S56_node_mode_needs_the_nodes_name():
    with pytest.raises(ConfigError, match="NODE_NAME"):
        csi_snapshotter.options(setup_of(csi_snapshotter.COMMAND, "--node-deployment"), Machine(environ={}))


def test_S56_the_name_of_groups_counts_only_where_groups_do():
    words = ["--groupsnapshot-name-prefix="]
    csi_snapshotter.options(setup_of(csi_snapshotter.COMMAND, *words), Machine(environ={}))
    with pytest.raises(ConfigError, match="groupsnapshot-name-prefix"):
        csi_snapshotter.options(
            setup_of(csi_snapshotter.COMMAND, *words, "--feature-gates=CSIVolumeGroupSnapshot=true"),
            Machine(environ={}),
        )


@in_virtual_time
async def test_S53_a_driver_without_snapshots_ends_the_program():
    """A ConfigError is exit code 1; it comes before any election."""
    world = SnapshotWorld()
    setup = setup_of(csi_snapshotter.COMMAND)
    sidecar = csi_snapshotter.sidecar(setup, Machine(environ={}))
    ports = PortsInProcess(ScriptedDriver("csi.test", controller=()), world.clock, cluster=world.users)
    life = SidecarLife(
        sidecar,
        setup,
        Machine(environ={}),
        ports,
        clock=world.clock,
        randomness=world.randomness,
        metrics=world.metrics,
    )
    with pytest.raises(ConfigError, match="does not support ControllerCreateSnapshot"):
        await life.run()


@in_virtual_time
async def test_S54_missing_kinds_are_waited_for_and_named():
    world = SnapshotWorld()
    async with world.controlling() as controller:
        await world.settle(40.0)
        assert not controller.has_synced
        assert "can't follow volumesnapshots" in controller.obstacle
        await world.make_snapshot_kinds()
        await world.create(a_snapshot_class())
        await world.snap()
        assert "cannot get claim" in await world.error()
        assert ("", True) == (controller.obstacle, controller.has_synced)
