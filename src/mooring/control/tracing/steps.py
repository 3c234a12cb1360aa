"""The steps of a program's controllers as spans: what was decided about a key, with the writes and calls that followed.

A step begins where a worker takes a key and ends with the key's result. Its spans are made at its end: by then the
program has learned whose volume it was. What a step has started, and ends later, follows as a span below it. A step
without writes, calls and failure makes a span only where its reason is another than the last one of that key: an object
that waits is woken often.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextvars import ContextVar
from typing import Any, Final, Protocol

import msgspec

from mooring.base.clock import Clock
from mooring.control.decision import Decision
from mooring.control.reasons import name_of
from mooring.control.result import Because, Failing
from mooring.control.tracing.kinship import Kinship, Place, place_of

TEXT_MAX: Final = 1000
"""Characters of a reason or an error; longer ones are cut."""
OPERATIONS_MAX: Final = 500
"""Writes and calls below one step. Further ones are not traced."""
REASONS_MAX: Final = 10_000
"""Keys whose last reason is known."""

Value = str | int | tuple[str, ...]


class Span(msgspec.Struct):
    """One span of a trace."""

    name: str
    #: Nanoseconds since 1970, as is `ended`.
    began: int
    attributes: dict[str, Value]
    ended: int = 0
    #: The error's text, None where all went well.
    error: str | None = None
    #: It is a request to another program.
    is_client: bool = True


class SpanSink(Protocol):
    """Takes spans that have ended."""

    def put(self, uid: str, span: Span, parent: Any = None) -> Any:
        """uid: of the volume whose trace it is. parent: what this has returned for another span of the trace. Never
        blocks.
        """
        ...


class Step(msgspec.Struct, eq=False):
    """One look of a controller at a key, with all that it asked of others."""

    #: The controller's name.
    controller: str
    #: What the controller calls its keys, mostly a kind.
    label: str
    key: Hashable
    began: int
    #: The last decision about the key; `because` is the last reason.
    decision: Decision[Any] | None = None
    because: Because | None = None
    operations: list[tuple[Span, Place | str]] = msgspec.field(default_factory=list)
    #: The step's spans, once they are made, by the volume's uid.
    parents: Mapping[str, Any] | None = None


STEP: Final[ContextVar[Step | None]] = ContextVar("mooring.tracing.step", default=None)
"""The step of the running task, and of the tasks that it starts."""


class Tracing:
    """Makes the spans of a program's controllers (`Steps` of its Runtime). It costs them no await, no draw and no
    request.
    """

    def __init__(self, sink: SpanSink, clock: Clock) -> None:
        self._sink, self._clock = sink, clock
        self._reasons: dict[tuple[str, Hashable], Because] = {}
        self.kinship = Kinship()

    # -- the steps of controllers

    def begun(self, controller: str, label: str, key: Hashable) -> None:
        self._end(STEP.get(), is_noticed=False)  # of the key before, if nothing has told its end
        STEP.set(Step(controller, label, key, self.now()))

    def decided(self, decision: Decision[Any]) -> None:
        step = STEP.get()
        assert step is not None, "a worker has begun with the key"
        if step.parents is not None or step.decision is not None:  # it has come again at once
            self._end(step)
            STEP.set(step := Step(step.controller, step.label, step.key, self.now()))
        step.decision, step.because = decision, decision.because

    def ended(self, controller: str, key: Hashable, failure: str, because: Because | None) -> None:
        step = STEP.get()
        if step is not None and (step.controller, step.key) == (controller, key):
            if step.decision is None:
                step.because = Failing(failure) if because is None else because
            self._end(step, failure)

    # -- from the ports

    def now(self) -> int:
        return int(self._clock.wall_s() * 1e9)

    def done(self, span: Span, error: str | None, place: Place | str = "") -> None:
        """Note a write or a call that has ended. place: the object that it is about; what belongs to no step is in the
        trace of that object's volume.
        """
        span.ended, span.error = max(span.began, self.now()), error
        step = STEP.get()
        if step is not None and step.parents is None:
            if len(step.operations) < OPERATIONS_MAX:
                step.operations.append((span, place))
        elif step is not None and step.parents:
            for uid, parent in step.parents.items():
                self._sink.put(uid, span, parent)
        else:
            self._put_alone(span, place)

    def _put_alone(self, span: Span, place: Place | str) -> None:
        for uid in self.kinship.volumes(place):
            self._sink.put(uid, span)

    def _end(self, step: Step | None, failure: str = "", *, is_noticed: bool = True) -> None:
        """Make the spans of a step that has ended. is_noticed: False where it may have ended before."""
        if step is None or step.parents is not None:
            return
        about, is_new = place_of(step.label, step.key), self._is_new(step)
        uids = self.kinship.volumes(about)
        if not uids:
            step.parents = {}
            for span, place in step.operations:
                self._put_alone(span, place)
            return
        if not step.operations and not failure and not is_new:
            step.parents = {}
            return
        span = self._span_of(step, about, failure)
        last = max((one.ended for one, _ in step.operations), default=step.began)
        span.ended = max(last, self.now()) if is_noticed else last
        step.parents = {uid: self._sink.put(uid, span) for uid in uids}
        for uid, parent in step.parents.items():
            for one, _ in step.operations:
                self._sink.put(uid, one, parent)

    def _is_new(self, step: Step) -> bool:
        """False for the reason that was told of this key last."""
        reason = step.because
        if reason is None or self._reasons.get(about := (step.controller, step.key)) == reason:
            return False
        self._reasons.pop(about, None)
        self._reasons[about] = reason
        if len(self._reasons) > REASONS_MAX:
            del self._reasons[next(iter(self._reasons))]
        return True

    def _span_of(self, step: Step, about: Place | str, failure: str) -> Span:
        reason, actions = step.because, () if step.decision is None else step.decision.actions
        attributes: dict[str, Value] = {
            "mooring.controller": step.controller,
            "mooring.object": str(step.key),
            **object_attributes(about),
        }
        if reason is not None:
            attributes["mooring.reason"] = str(reason)[:TEXT_MAX]
        if actions:
            attributes["mooring.actions"] = tuple(type(action).__name__ for action in actions)
        name = step.controller if reason is None else f"{step.controller} {name_of(reason)}"
        return Span(name, step.began, attributes, error=failure[:TEXT_MAX] or None, is_client=False)


_NAMED: Final = {
    "persistentvolumeclaims": "persistentvolumeclaim",
    "persistentvolumes": "persistentvolume",
    "pods": "pod",
    "nodes": "node",
}
"""Kinds for which the semantic conventions have an attribute, `k8s.pod.name`."""


def object_attributes(place: Place | str) -> dict[str, Value]:
    """Return what tells the object, named by OpenTelemetry's conventions."""
    if isinstance(place, str):
        return {}
    plural, namespace, name = place
    found: dict[str, Value] = {"k8s.namespace.name": namespace} if namespace else {}
    return {**found, f"k8s.{_NAMED[plural]}.name": name} if plural in _NAMED and name else found
