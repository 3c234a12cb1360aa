"""The volumes that the node is to report in use: those that pods want, those that are here, and those that may be here still."""

from __future__ import annotations

from collections.abc import Callable

from mooring.node.volumes.actual import ActualState
from mooring.node.volumes.unread import Unread


class NamesInUse:
    """before: volumes that the Node reported before the start and that may still be here.

    has_folder: whether a folder of this volume is left without a record: a call that a killed agent has sent may mount there.
    """

    def __init__(self, actual: ActualState, unread: Unread, has_folder: Callable[[str], bool]) -> None:
        self._actual, self._unread, self._has_folder = actual, unread, has_folder
        self.before = frozenset[str]()

    def all(self) -> set[str]:
        """A volume reported before the start stays until every pod was looked at, and while a record can't be read or its folder is
        left."""
        if not self._actual.desired.has_unseen:
            self.before = frozenset(name for name in self.before if self.may_be_unread(name) or self._has_folder(name))
        return self._actual.in_use | self.before

    def forget(self, unique: str) -> None:
        """Nothing was done with the volume, or all was undone."""
        if not self._has_folder(unique):
            self.before -= {unique}

    def may_be_unread(self, unique: str) -> bool:
        """True while the volume may be in a place of which no record can be read."""
        state = self._actual.states.get(unique)
        if state is None:
            return self._unread.may_hold(())
        return self._unread.may_hold(state.spec_names, is_block=state.volume.is_block)
