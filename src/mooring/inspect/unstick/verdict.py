"""The proofs that one finalizer may go, and the objections to it. Pure."""

from __future__ import annotations

import dataclasses

from mooring.inspect.points import Objection, Point, Proof, objections_in, proofs_in


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """On one finalizer. setter: the program that sets it and takes it off. protects: what would be lost or leaked without it."""

    finalizer: str
    setter: str
    protects: str
    points: tuple[Point, ...]

    @property
    def proofs(self) -> tuple[Proof, ...]:
        return proofs_in(self.points)

    @property
    def objections(self) -> tuple[Objection, ...]:
        return objections_in(self.points)

    @property
    def may_go(self) -> bool:
        """True where something proves it, and nothing speaks against it."""
        return bool(self.proofs) and not self.objections
