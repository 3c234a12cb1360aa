"""Which volumes the provisioner owes an account of.

It owes one of each volume that a call may have made which was not answered for good. By design the first word counts:
where a driver answers the only call for a volume with an error that is final in gRPC's table (Internal, say) and has
made the volume all the same, the provisioner takes its word, as external-provisioner does, and nothing is written down.
Such a volume is known to `mooring orphans` alone.
"""

from __future__ import annotations

from collections.abc import Callable

from mooring.csi.errors import DriverError
from mooring.wire.grpc.codes import Code

_UNSURE = frozenset({Code.CANCELED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.ABORTED})


class Owed:
    """handles_at: gives the handles of a name in a scope. lied: those that the driver denied with its first word, and
    each one since.

    acknowledged: those that it has told. unreachable: names of which a volume may be in an account whose Secret was
    gone when the claim was, too: then the driver is asked without, by design, and tells of its own account. begun_anew:
    names that a process has begun without knowing of the calls before, since somebody had spoilt the page that told of
    them: to it the driver's first word is the first one.
    """

    def __init__(self, handles_at: Callable[[str, str], list[str]]) -> None:
        self._handles_at = handles_at
        self._unsure: set[tuple[str, str]] = set()
        self._last_unsure: set[str] = set()
        self.lied: set[str] = set()
        self.acknowledged: set[str] = set()
        self.unreachable: set[str] = set()
        self.begun_anew: set[str] = set()

    def answered(self, name: str, scope: str, handle: str) -> None:
        """OK, with this handle."""
        self._unsure.discard((name, scope))
        self._last_unsure.discard(name)
        self.acknowledged.add(handle)
        self.lied.discard(handle)

    def is_unsure(self, name: str) -> bool:
        """True where the end of the last call for the name is not known: one that is may have ruled out all before."""
        return name in self._last_unsure

    def ended(self, name: str, scope: str, error: BaseException | None) -> None:
        """Not with OK. error: None when nobody heard."""
        is_final = isinstance(error, DriverError) and error.code not in _UNSURE
        (self._last_unsure.discard if is_final else self._last_unsure.add)(name)
        if is_final and (name, scope) not in self._unsure:
            self.lied.update(handle for handle in self._handles_at(name, scope) if handle not in self.acknowledged)
        elif not is_final:
            self._unsure.add((name, scope))
            self.lied.difference_update(self._handles_at(name, scope))
