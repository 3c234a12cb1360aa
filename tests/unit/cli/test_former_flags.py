"""Words of manifests of old: accepted by the programs of today, each with a warning that says what became of it."""

from __future__ import annotations

from typing import Any

from mooring.base.flagkinds import decide_gates
from mooring.base.flags import gates_of, parse
from mooring.cli import (
    csi_attacher,
    csi_provisioner,
    csi_resizer,
    csi_snapshotter,
    livenessprobe_program,
    registrar_program,
    snapshot_controller,
)
from tests.support.rows import each_row

ALL = (
    csi_attacher,
    csi_provisioner,
    csi_resizer,
    csi_snapshotter,
    livenessprobe_program,
    registrar_program,
    snapshot_controller,
)


def read(program: Any, *words: str) -> Any:
    command = program.COMMAND
    return parse(command.table, words, command.removed, command.spellings)


@each_row(
    ("words", "became"),
    [
        (["--leader-election-type=leases"], "a Lease is used"),
        (["--leader-election-type", "endpoints"], "a Lease is used"),
        (["--provisioner=csi.example.com"], "the driver itself says its name"),
        (["--snapshotter", "csi.example.com"], "the driver itself says its name"),
        (["--driver-requires-attachment=true"], "the CSIDriver object of the driver says it"),
        (["--driver-requires-attachment"], "the CSIDriver object of the driver says it"),
        (["--pod-info-mount-version=v1"], "the CSIDriver object of the driver says it"),
    ],
)
def test_what_has_no_effect_says_why(words: list[str], became: str) -> None:
    for program in ALL:
        parsed = read(program, *words)
        assert [became] == [why for _, _, why in parsed.removed]
        assert () == parsed.rest


@each_row(
    ("program", "words", "now"),
    [
        (csi_attacher, ["--enable-leader-election"], ("leader_election", True)),
        (csi_provisioner, ["--enable-leader-election=true"], ("leader_election", True)),
        (csi_resizer, ["--enable-leader-election=false"], ("leader_election", False)),
        (csi_resizer, ["--csiTimeout=150s"], ("timeout_s", 150.0)),
        (csi_resizer, ["--csiTimeout", "150s"], ("timeout_s", 150.0)),
        (livenessprobe_program, ["--connection-timeout=7s"], ("probe_timeout_s", 7.0)),
        (
            csi_snapshotter,
            ["--enable-volume-group-snapshots=true"],
            ("feature_gates", {"CSIVolumeGroupSnapshot": True}),
        ),
        (snapshot_controller, ["--enable-volume-group-snapshots"], ("feature_gates", {"CSIVolumeGroupSnapshot": True})),
    ],
)
def test_what_has_another_name_is_read_under_that(program: Any, words: list[str], now: tuple[str, Any]) -> None:
    parsed = read(program, *words)
    assert now[1] == getattr(parsed.flags, now[0])
    assert words[0].partition("=")[0] in parsed.respelled[0][0]


@each_row("value", ["true", "false"])
def test_a_gate_that_is_always_on_by_now_is_no_error(value: str) -> None:
    parsed = read(csi_provisioner, f"--feature-gates=HonorPVReclaimPolicy={value},Topology=true")
    gates = decide_gates(parsed.flags.feature_gates, gates_of(csi_provisioner.COMMAND.table))
    assert any("HonorPVReclaimPolicy has no effect here" in warning for warning in gates.warnings)
