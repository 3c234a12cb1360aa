"""A sequence run on both servers, up to the first difference."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

from tests.differential.known_differences import Seen, known_in
from tests.differential.normalise import Alike, differences, ranks_of, settled
from tests.differential.servers import Answer, Target
from tests.differential.steps import Step
from tests.differential.subjects import SUBJECTS, Subject

SHOWN_MAX = 700


@dataclasses.dataclass(frozen=True)
class Difference:
    """Where the servers part. answers: as they came, ours first."""

    step: Step
    differences: tuple[str, ...]
    answers: tuple[Answer, Answer]

    @property
    def kind(self) -> str:
        """What differences that are shrunk have in common."""
        return f"{self.differences[0].split(':')[0]}"

    def __str__(self) -> str:
        said = [
            f"    {name}: {answer.status} {str(answer.value)[:SHOWN_MAX]}{_shown(answer.events)}"
            for name, answer in zip(("ours", "real"), self.answers, strict=True)
        ]
        return "\n".join(
            ["differences (ours / real):", *(f"    {text[:600]}" for text in self.differences[:12]), *said]
        )


def _shown(events: tuple[Any, ...]) -> str:
    return f" {len(events)} events {str(events)[:SHOWN_MAX]}" if events else ""


def crash_of(target: Target, steps: tuple[Step, ...]) -> str:
    """What the server alone can't answer: a cut connection, or an error of its own. Nothing if all is well."""
    target.begin()
    try:
        for step in steps:
            answer = target.receive(step, target.send(step))
            if answer.status == 0 or "Internal error occurred" in str(answer.value):
                return f"{step}\n{answer}"
        return ""
    finally:
        target.clean(touched_by(steps))


def touched_by(steps: tuple[Step, ...]) -> tuple[Subject, ...]:
    paths = " ".join(step.path for step in steps)
    return tuple(subject for subject in SUBJECTS if f"/{subject.plural}" in paths)


class Judge:
    """Runs sequences. known: how often each known difference was met."""

    def __init__(self, targets: tuple[Target, Target]) -> None:
        self._targets = targets
        self.known: Counter[str] = Counter()
        self.requests = 0

    def first_difference(self, steps: tuple[Step, ...]) -> Difference | None:
        """None where they agree. Both are clean afterwards."""
        try:
            return self._run(steps)
        finally:
            self._clean(steps)

    def _run(self, steps: tuple[Step, ...]) -> Difference | None:
        views = Alike(), Alike()
        seen: list[tuple[Step, tuple[Any, Any], tuple[Answer, Answer]]] = []
        for target in self._targets:
            target.begin()
        for step in steps:
            answers = self._ask(step)
            alike = views[0].of(step, answers[0]), views[1].of(step, answers[1])
            seen.append((step, alike, answers))
            if _coarse(alike[0]) != _coarse(alike[1]):
                break
        ranks = ranks_of(views[0].versions), ranks_of(views[1].versions)
        for step, alike, answers in seen:
            ours, theirs = settled(alike[0], ranks[0]), settled(alike[1], ranks[1])
            found = tuple(differences(ours, theirs))
            if ours["status"] == 0 or (ours["status"] == 500 and "Internal error" in str(answers[0].value)):
                return Difference(step, (f"status: {ours['status']} / {theirs['status']}", *found), answers)
            if found:
                known = known_in(Seen(step, ours, theirs, found, tuple(step for step, _, _ in seen)))
                if known is None:
                    return Difference(step, found, answers)
                self.known[known.name] += 1
                if known.ends:
                    return None
        return None

    def _ask(self, step: Step) -> tuple[Answer, Answer]:
        self.requests += 1
        connections = [target.send(step) for target in self._targets]
        ours = self._targets[0].receive(step, connections[0])
        return ours, self._targets[1].receive(step, connections[1], len(ours.events))

    def _clean(self, steps: tuple[Step, ...]) -> None:
        for target in self._targets:
            target.clean(touched_by(steps))


def _coarse(alike: dict[str, Any]) -> Any:
    return alike["status"] if alike["status"] in (200, 201) else "refused"
