"""What speaks for the end of a finalizer, and what against it. Pure."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Proof:
    """A fact that was seen, and says that nothing needs the finalizer any more."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Objection:
    """A reason to leave the finalizer on. way_out: what to do about it."""

    text: str
    way_out: str


Point = Proof | Objection


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """On one finalizer. setter: the program that sets it and takes it off. protects: what would be lost or leaked without it."""

    finalizer: str
    setter: str
    protects: str
    points: tuple[Point, ...]

    @property
    def proofs(self) -> tuple[Proof, ...]:
        return tuple(one for one in self.points if isinstance(one, Proof))

    @property
    def objections(self) -> tuple[Objection, ...]:
        return tuple(one for one in self.points if isinstance(one, Objection))

    @property
    def may_go(self) -> bool:
        """True where something proves it, and nothing speaks against it."""
        return bool(self.proofs) and not self.objections
