"""Who stands for leadership, where, and whether the durations make sense. Source: csi-lib-utils leaderelection, client-go."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from mooring.base.chance import Chance
from mooring.base.errors import ConfigError
from mooring.base.units import format_duration
from mooring.cli.process import Machine
from mooring.cli.tables import ElectionFlags

_UNFIT: Final = re.compile(r"[^a-zA-Z0-9-]")
_JITTER: Final = 1.2  # client-go's: a leader must be able to miss one retry


def sanitised(name: str) -> str:
    """The name as the Go sidecars put it into Lease names and identities: `ebs.csi.aws.com` is `ebs-csi-aws-com`."""
    clean = _UNFIT.sub("-", name)
    return f"{clean}X" if clean.endswith("-") else clean


def identity(machine: Machine, chance: Chance) -> str:
    """This candidate's name: the host's, and a random end.

    Differs from csi-lib-utils: there it is the host name alone, so that two processes on one host take each other for themselves.
    """
    return f"{sanitised(machine.host_name())}_{chance.suffix()}"


def namespace(flags: ElectionFlags, machine: Machine) -> str:
    """Where the Lease is: the flag, else $POD_NAMESPACE, else the pod's own, else `default`."""
    if flags.leader_election_namespace:
        return flags.leader_election_namespace
    return machine.environ.get("POD_NAMESPACE") or _own_namespace(machine.service_account / "namespace") or "default"


def _own_namespace(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def check_durations(flags: ElectionFlags) -> None:
    """Raises ConfigError (exit code 2, as the Go sidecars end there) for durations under which no leader could live."""
    lease, renew, retry = flags.lease_duration_s, flags.renew_deadline_s, flags.retry_period_s
    shown = f"lease-duration {format_duration(lease)}, renew-deadline {format_duration(renew)}, retry-period {format_duration(retry)}"
    if lease < 1 or renew <= 0 or retry <= 0:  # a Lease holds whole seconds
        raise ConfigError(f"leader-election: durations must be greater than zero, and the lease's at least 1s; got {shown}", exit_code=2)
    if not lease > renew:
        raise ConfigError(f"leader-election-lease-duration must be greater than leader-election-renew-deadline; got {shown}", exit_code=2)
    if not renew > _JITTER * retry:
        raise ConfigError(f"leader-election-renew-deadline must be greater than leader-election-retry-period*1.2; got {shown}", exit_code=2)
