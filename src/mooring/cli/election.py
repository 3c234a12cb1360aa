"""The sidecar's part in an election: where it stands for leadership, and with which times (flags and the pod's
environment).
"""

from __future__ import annotations

from pathlib import Path

from mooring.api.names import sanitised
from mooring.base.randomness import Random
from mooring.cli.process import Machine
from mooring.cli.tables import ElectionFlags
from mooring.control.lease.record import Candidate, LeaseTimes, identity_of


def times(flags: ElectionFlags) -> LeaseTimes:
    return LeaseTimes(flags.lease_duration_s, flags.renew_deadline_s, flags.retry_period_s)


def candidate(flags: ElectionFlags, machine: Machine, lock_name: str, randomness: Random) -> Candidate:
    """This process as it stands for election. lock_name: as yet unsanitised."""
    identity = identity_of(machine.host_name(), randomness)
    return Candidate(sanitised(lock_name), namespace(flags, machine), identity, times(flags), flags.election_labels)


def namespace(flags: ElectionFlags, machine: Machine) -> str:
    """Where the Lease is: the flag, else $POD_NAMESPACE, else the pod's own, else `default`."""
    return flags.leader_election_namespace or namespace_of_pod(machine) or "default"


def namespace_of_pod(machine: Machine) -> str:
    """The namespace of this process' pod: $POD_NAMESPACE, else that of its service account; "" outside of pods."""
    return machine.environ.get("POD_NAMESPACE") or _own_namespace(machine.service_account / "namespace")


def _own_namespace(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
