"""`mooring attachdetach` as a command: kube-controller-manager's flags."""

from __future__ import annotations

import re

import pytest

from mooring.base.errors import ConfigError
from mooring.base.flags import parse
from mooring.cli.attachdetach import COMMAND, AttachDetachFlags, run
from mooring.cli.process import Setup
from mooring.cluster.attachdetach.options import AttachDetachOptions
from tests.support.rows import each_row


def options(*argv: str) -> AttachDetachOptions:
    parsed = parse(AttachDetachFlags, argv, {})
    return Setup("x", parsed.flags, parsed.given, {}).options(AttachDetachOptions)


def test_defaults_are_kube_controller_managers() -> None:
    flags, default = parse(AttachDetachFlags, [], {}).flags, options()
    assert (60.0, False, False) == (flags.sync_period_s, flags.disable_sync, flags.disable_force_detach)
    assert (True, 15.0, 10.0, 2.0) == (
        flags.leader_election,
        flags.lease_duration_s,
        flags.renew_deadline_s,
        flags.retry_period_s,
    )
    assert ("kube-system", "mooring-attachdetach") == (flags.leader_election_namespace, flags.lock_name)
    assert (64, AttachDetachOptions()) == (flags.workers, default)


def test_flags_become_options() -> None:
    argv = ["--force-detach-after=90s", "--disable-force-detach-on-timeout", "--workers=3"]
    assert AttachDetachOptions(workers=3, force_after_s=90.0, disable_force_detach=True) == options(*argv)


@each_row(
    ("argv", "problem"),
    [
        (
            ["--attach-detach-reconcile-sync-period=500ms"],
            "duration time must be greater than one second as set via command line option reconcile-sync-loop-period",
        ),
        (["--force-detach-after=-1s"], "force-detach-after: must not be negative, got -1s"),
        (["--workers=0"], "workers: must be between 1 and 1000, got 0"),
        (["--leader-elect-resource-name="], "leader-elect-resource-name: must not be empty"),
        (["--metrics-path=x"], "metrics-path"),
    ],
)
def test_what_can_not_be_used_is_refused(argv: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)):
        COMMAND.check(parse(AttachDetachFlags, argv, {}))


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == run(["--help"], "mooring attachdetach")
    said = capsys.readouterr().out
    assert all(
        f"--{name}" in said for name in ("disable-force-detach-on-timeout", "leader-elect", "force-detach-after")
    )
    assert "--leader-election" not in said, "a flag has one name"
