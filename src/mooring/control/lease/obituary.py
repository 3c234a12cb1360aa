"""Whether the process that holds a Lease has surely ended: the word of its kubelet. Pure.

A process that stands for election writes its identities into its container's termination log, which is a file of that one run of the
container. When the run has ended, the kubelet puts the text into the pod's status. So a status with "terminated" beside an identity says
that the process of this identity is no more, whatever clocks, names and uids are.

Nothing else says that. A pod whose object is gone, was replaced by another of its name, is in deletion or has failed by a controller's word
may have a process that runs, on a node that nobody reaches. docs/decisions/0018 has the whole argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

_HEAD: Final = "leader election: this was "
_SEEN_TO_END: Final = frozenset({"Completed", "Error", "OOMKilled"})
"""The reasons of runs whose end the container runtime has seen; `Unknown` and `ContainerStatusUnknown` are those of runs that it lost."""
_STATUSES: Final = ("containerStatuses", "initContainerStatuses")
_UID_LENGTH: Final = 36


def note_of(identities: Iterable[str]) -> str:
    """The text for the termination log of the process with these identities."""
    return "".join(f"{_HEAD}{identity}\n" for identity in identities)


def pod_name_of(identity: str) -> str:
    """The pod of an identity that a process of ours made up, as far as it has its host's name; "" for another program's identity."""
    name, found, uid = identity.rpartition("_")
    return name if found and len(uid) == _UID_LENGTH else ""


def has_ended(pod: Mapping[str, Any], identity: str) -> bool:
    """True where the pod's status says that the run of a container with this identity has ended."""
    line = note_of((identity,)).strip()
    return any(
        ended.get("reason") in _SEEN_TO_END and line in str(ended.get("message") or "").splitlines()
        for ended in _ended_runs_in(pod)
    )


def _ended_runs_in(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """It reads the last ended run of each container, and the one before it."""
    status = pod.get("status") or {}
    for one in (one for field in _STATUSES for one in status.get(field) or ()):
        for state in ("state", "lastState"):
            ended = (one.get(state) or {}).get("terminated")
            if ended:
                yield ended
