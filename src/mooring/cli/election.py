"""The sidecar's part in an election: where it stands for leadership, and with which times (flags and the pod's environment).

The process writes its identities into its container's termination log, for the replicas that stand by (`control/lease/obituary.py`). The
file belongs to one run of the container, so only the main process, number 1, may write it. If there is no such file, there is no pod. A
failing program removes its identities: then its log can be the kubelet's message, if the pod asks for that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from mooring.api.names import sanitised
from mooring.base.log import logger
from mooring.base.randomness import Random
from mooring.cli.process import Machine
from mooring.cli.tables import ElectionFlags
from mooring.control.lease.obituary import note_of
from mooring.control.lease.record import Candidate, LeaseTimes, identity_of


def times(flags: ElectionFlags) -> LeaseTimes:
    return LeaseTimes(flags.lease_duration_s, flags.renew_deadline_s, flags.retry_period_s)


def candidate(flags: ElectionFlags, machine: Machine, lock_name: str, randomness: Random) -> Candidate:
    """This process as it stands for election. lock_name: as yet unsanitised."""
    identity = identity_of(machine.host_name(), randomness)
    pods_in = namespace_of_pod(machine) if flags.early_takeover else ""
    return Candidate(
        sanitised(lock_name), namespace(flags, machine), identity, times(flags), flags.election_labels, pods_in
    )


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


_log = logger(__name__)


class TerminationNote:
    def __init__(self, machine: Machine, *, is_on: bool) -> None:
        self._file = machine.termination_log
        self._is_on = is_on and machine.is_main() and self._file.is_file()
        self._identities: list[str] = []

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """The note stays after the block, unless that fails."""
        has_failed = True
        try:
            yield
            has_failed = False
        finally:
            if has_failed and self._identities:
                self._write("")

    def add(self, identity: str) -> None:
        """Before it stands for election."""
        if self._is_on:
            self._identities.append(identity)
            self._write(note_of(self._identities))

    def _write(self, text: str) -> None:
        try:
            self._file.write_text(text, encoding="utf-8")
        except OSError as error:
            _log.info(
                2,
                "Could not write the termination log: the end of this process is known by that of its Lease",
                why=str(error),
            )
