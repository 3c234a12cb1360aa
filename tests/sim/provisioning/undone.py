"""What nobody can know any more once the API server was set back to a backup: the laws ask for it no longer.

| what                                                 | why |
| --- | --- |
| a volume that was made, or asked for, since          | object and intent are gone; `mooring orphans` tells of it |
| an object of a volume that is deleted, or on its way | it is back, and nothing says that the volume is not |
| one call for a volume whose intent was just written  | the answer to that came before |
| a deletion by who was not shown the objects since    | to it the volume is released, as it was |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable


@dataclasses.dataclass(slots=True)
class Undone:
    """names: of volumes. unwritten: names of which one more call may be made. ghosts: handles. at_all: True once it has
    happened.
    """

    names: set[str] = dataclasses.field(default_factory=set)
    unwritten: set[str] = dataclasses.field(default_factory=set)
    ghosts: set[str] = dataclasses.field(default_factory=set)
    at_all: bool = False

    def happened(self, names: Iterable[str], unwritten: Iterable[str], ghosts: Iterable[str]) -> None:
        self.at_all = True
        self.names.update(names)
        self.unwritten.update(unwritten)
        self.ghosts.update(ghosts)

    def may_call(self, name: str) -> bool:
        """True once for a name."""
        is_first = name in self.unwritten
        self.unwritten.discard(name)
        return is_first
