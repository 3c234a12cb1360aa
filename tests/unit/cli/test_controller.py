"""`mooring controller` as a command: which controllers, and whose flags."""

from __future__ import annotations

import re

import pytest

from mooring.base.errors import ConfigError
from mooring.base.flags import Section, flags_of, parse
from mooring.cli.attachdetach import AttachDetachFlags
from mooring.cli.controller import COMMAND, run
from mooring.cli.controller_flags import COMPONENTS, OWN, ControllerFlags, enabled, setup_of
from mooring.cli.csi_provisioner import options as provisioner_options
from mooring.cli.csi_snapshotter import options as snapshotter_options
from mooring.cli.process import Machine, Setup
from mooring.cluster.attachdetach.options import AttachDetachOptions
from mooring.cluster.nodehealth.options import NodeHealthOptions
from mooring.cluster.snapshots.options import SnapshotControllerOptions
from mooring.sidecars.attacher.options import AttacherOptions
from mooring.sidecars.provisioner.options import ProvisionerOptions
from mooring.sidecars.resizer.options import ResizerOptions
from mooring.sidecars.snapshotter.options import SnapshotterOptions
from tests.support.rows import each_row


def setup(*argv):
    parsed = parse(ControllerFlags, argv, {})
    gates = {name: gate.default for name, gate in COMMAND.gates.items()}
    COMMAND.check(parsed)
    return Setup("mooring controller", parsed.flags, parsed.given, gates)


def of(name, *argv):
    return setup_of(COMPONENTS[name], setup(f"--enable={name}", *argv))


def test_without_flags_each_has_the_options_of_its_own_program():
    assert AttacherOptions() == of("attacher").options(AttacherOptions)
    assert ProvisionerOptions() == provisioner_options(of("provisioner"), Machine(environ={}))
    assert AttachDetachOptions() == of("attachdetach").options(AttachDetachOptions)
    assert ResizerOptions() == of("resizer").options(ResizerOptions)
    assert SnapshotterOptions() == snapshotter_options(of("snapshotter"), Machine(environ={}))
    assert SnapshotControllerOptions() == of("snapshot-controller").options(SnapshotControllerOptions)
    assert NodeHealthOptions() == of("nodehealth").options(NodeHealthOptions)


def test_a_flag_that_two_have_is_each_ones_own():
    both = setup(
        "--enable=attacher,provisioner",
        "--attacher-timeout=3s",
        "--provisioner-timeout=4s",
        "--provisioner-worker-threads=7",
    )
    attacher, provisioner = (setup_of(COMPONENTS[name], both) for name in ("attacher", "provisioner"))
    assert (3.0, 4.0) == (attacher.flags.timeout_s, provisioner.flags.timeout_s)
    assert (10, 7) == (attacher.flags.worker_threads, provisioner.flags.worker_threads)
    assert {"timeout", "worker-threads"} <= provisioner.given


def test_a_flag_that_one_has_keeps_its_name():
    found = setup("--enable=provisioner,attachdetach", "--provisioner-extra-create-metadata", "--force-detach-after=9s")
    assert setup_of(COMPONENTS["provisioner"], found).flags.extra_create_metadata
    assert 9.0 == setup_of(COMPONENTS["attachdetach"], found).flags.force_after_s


def test_a_controller_of_two_words_has_its_flags_under_both():
    found = setup(
        "--enable=snapshot-controller,snapshotter",
        "--snapshot-controller-worker-threads=7",
        "--snapshotter-worker-threads=8",
    )
    assert [7, 8] == [
        setup_of(COMPONENTS[name], found).flags.worker_threads for name in ("snapshot-controller", "snapshotter")
    ]


def test_what_is_the_process_is_said_once_and_holds_for_all():
    given = (
        "--kube-api-qps=7",
        "--kube-api-burst=9",
        "--csi-address=/x/s",
        "--leader-election",
        "--leader-election-retry-period=3s",
    )
    found = setup("--enable=attacher,attachdetach", *given)
    flags = [setup_of(COMPONENTS[name], found).flags for name in ("attacher", "attachdetach")]
    assert [(7.0, 9, True, 3.0)] * 2 == [
        (one.kube_api_qps, one.kube_api_burst, one.leader_election, one.retry_period_s) for one in flags
    ]
    assert "/x/s" == flags[0].csi_address


def test_the_lease_of_the_attach_detach_controller_is_where_its_own_program_has_it():
    flags = of("attachdetach", "--leader-election-namespace=storage").flags
    assert ("kube-system", "mooring-attachdetach") == (flags.leader_election_namespace, flags.lock_name)


def test_every_flag_that_does_something_is_there():
    """Of each program; `--master` aside, which a kubeconfig says, and the names of an election that is the process'
    own.
    """
    there = {row.name for rows in OWN.values() for row in rows.values()} | set(flags_of(ControllerFlags))
    for component in COMPONENTS.values():
        rows = flags_of(component.table).values()
        wanted = {row.name for row in rows if row.section not in (Section.COMPATIBLE, Section.UNAVAILABLE)}
        missing = wanted - there - {"master"}
        election = {row.name for row in flags_of(AttachDetachFlags).values() if row.section is Section.ELECTION}
        assert missing <= election


def test_they_run_in_one_order_however_they_are_named():
    assert ["attacher", "provisioner", "binder"] == [
        one.name for one in enabled(setup("--enable=binder, provisioner,attacher").flags)
    ]


@each_row(
    ("argv", "problem"),
    [
        (
            [],
            (
                "enable: name the controllers that are to run, as in --enable=attacher,provisioner; there are "
                "attacher, provisioner,"
            ),
        ),
        (["--enable="], "enable: name the controllers that are to run"),
        (
            ["--enable=attacher,resiser"],
            "enable: 'resiser' is not known; there are attacher, provisioner, resizer, snapshotter,",
        ),
        (["--enable=attacher,binder,attacher"], "enable: attacher is named twice"),
        (
            ["--enable=attacher", "--provisioner-timeout=3s"],
            "provisioner-timeout: is a flag of provisioner, which is not enabled",
        ),
        (
            ["--enable=binder", "--csi-address=/x"],
            "csi-address: of the controllers that are enabled none calls a driver; drop it",
        ),
        (["--enable=attacher", "--attacher-timeout=0s"], "attacher: timeout: must be greater than zero"),
        (
            ["--enable=attachdetach", "--force-detach-after=-1s"],
            "attachdetach: force-detach-after: must not be negative",
        ),
        (
            ["--enable=nodehealth", "--unhealthy-zone-threshold=2"],
            "nodehealth: unhealthy-zone-threshold: must be between 0 and 1, got 2",
        ),
        (
            ["--enable=nodehealth", "--node-monitor-grace-period=0s"],
            "nodehealth: node-monitor-grace-period: must be greater than zero",
        ),
        (
            ["--enable=nodehealth", "--node-eviction-rate=-1"],
            "nodehealth: node-eviction-rate: must not be negative, got -1",
        ),
        (["--enable=binder", "--leader-election-lease-each"], "leader-election-lease-each: needs --leader-election"),
        (["--enable=binder", "--http-endpoint=x"], "http-endpoint"),
        (
            ["--enable=attacher", "--leader-election", "--leader-election-lease-duration=1s"],
            "the lease duration must be greater than the renew deadline",
        ),
    ],
)
def test_what_can_not_be_used_is_refused(argv, problem):
    with pytest.raises(ConfigError, match=re.escape(problem)):
        COMMAND.check(parse(ControllerFlags, argv, {}))


def test_a_wrong_command_line_is_exit_code_2_and_one_line(capsys):
    assert 2 == run(["--enable=nothing"], "mooring controller")
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("mooring controller: enable: 'nothing' is not known")


def test_a_node_of_ones_own_has_to_be_named(capsys):
    """As csi-provisioner: it serves the node that it runs on."""
    assert 1 == run(
        ["--enable=provisioner", "--provisioner-node-deployment"], "mooring controller", Machine(environ={})
    )
    assert "NODE_NAME" in capsys.readouterr().err


def test_help_says_whose_each_flag_is(capsys):
    assert 0 == run(["--help"], "mooring controller")
    said = capsys.readouterr().out
    assert "--attacher-timeout duration\n                          attacher: Timeout for" in said
    assert "--force-detach-after duration\n                          attachdetach: How long" in said
