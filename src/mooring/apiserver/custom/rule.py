"""One CEL rule, compiled."""

from __future__ import annotations

import dataclasses
from typing import Any

from mooring.apiserver.cel import work
from mooring.apiserver.cel.checker import STRING, CompileError, Kind, checked, mentions
from mooring.apiserver.cel.compiler import OverBudget, Program, Scope, compiled
from mooring.apiserver.cel.values import NONE, CelError, Optional
from mooring.apiserver.custom.celtypes import Converter, converter_of, kind_of
from mooring.apiserver.custom.structure import NOTHING, Structure

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """spec: as the schema says it. of_change: it speaks of the old value, so it needs one. steps: work of one evaluation, without loops."""

    spec: Json
    program: Program
    message: Program | None
    convert: Converter | None
    of_change: bool
    steps: int

    def told(self, value: Any, old: Any, left: list[int]) -> tuple[str, bool] | None:
        """What to say when the rule is broken, and whether it could be evaluated; None when all is well. Raises OverBudget."""
        optional = bool(self.spec.get("optionalOldSelf"))
        if self.of_change and old is NOTHING and not optional:
            return None
        try:
            scope = Scope({}, left)
            scope.did(self.steps + (work.of_comparison(value, old) if self.convert is not None else 0))
            scope = scope.bound(self._names(value, old, optional))
            if self.program(scope) is True:
                return None
        except OverBudget:
            raise
        except CelError as error:
            return f"{error} evaluating rule: {self.spec.get('message') or self.spec['rule'].strip()}", False
        return self._message(scope), True

    def _names(self, value: Any, old: Any, optional: bool) -> Json:
        convert = self.convert or _same
        names = {"self": convert(value)}
        if optional:
            names["oldSelf"] = NONE if old is NOTHING else Optional(there=True, value=convert(old))
        elif old is not NOTHING:
            names["oldSelf"] = convert(old)
        return names

    def _message(self, scope: Scope) -> str:
        if self.message is not None:
            try:
                text = self.message(scope)
            except OverBudget:
                raise
            except CelError:
                text = None
            if isinstance(text, str) and text.strip() and "\n" not in text:
                return text
        return self.spec.get("message") or f"failed rule: {self.spec['rule'].strip()}"


def compiled_rule(spec: Json, structure: Structure, *, root: bool) -> Rule:
    """Raises CompileError."""
    names = names_of(spec, structure, root=root)
    tree, _ = checked(spec["rule"], names)
    message = checked(spec["messageExpression"], names)[0] if spec.get("messageExpression") else None
    steps = work.ROUND + work.of_tree(tree) + (0 if message is None else work.of_tree(message))
    told = None if message is None else compiled(message)
    return Rule(spec, compiled(tree), told, converter_of(structure), mentions(tree, "oldSelf"), steps)


def wrong_rule(spec: Json, structure: Structure, *, root: bool) -> str:
    """Why the rule can't be one; "" if it can."""
    try:
        _, kind = checked(spec["rule"], names_of(spec, structure, root=root))
    except CompileError as error:
        return str(error)
    return "" if kind.name in ("bool", "dyn") else "cel expression must evaluate to a bool"


def wrong_message(spec: Json, structure: Structure, *, root: bool) -> str:
    """Why its messageExpression can't be one; "" if it can."""
    try:
        _, kind = checked(spec["messageExpression"], names_of(spec, structure, root=root))
    except CompileError as error:
        return f"messageExpression {error}"
    return "" if kind.name in (STRING.name, "dyn") else "messageExpression must evaluate to a string"


def is_of_change(spec: Json, structure: Structure, *, root: bool) -> bool:
    """True for a rule that speaks of the old value. The rule has been found right."""
    return mentions(checked(spec["rule"], names_of(spec, structure, root=root))[0], "oldSelf")


def names_of(spec: Json, structure: Structure, *, root: bool) -> dict[str, Kind]:
    kind = kind_of(structure, root=root)
    return {"self": kind, "oldSelf": Kind("optional") if spec.get("optionalOldSelf") else kind}


def _same(value: Any) -> Any:
    return value
