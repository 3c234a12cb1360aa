"""The CEL rules of a schema: compiled, and applied to objects."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from mooring.apiserver import effort, field_errors
from mooring.apiserver.cel import work
from mooring.apiserver.cel.checker import STRING, CelType, CompileError, checked, mentions
from mooring.apiserver.cel.compiler import CelScope, Program, compiled
from mooring.apiserver.cel.values import NONE, CelError, Optional
from mooring.apiserver.codecs.scalars import equal_json, type_of
from mooring.apiserver.custom.cel_types import Converter, cel_type_of, converter_of
from mooring.apiserver.custom.list_types import counterparts
from mooring.apiserver.custom.structural_schema import NOTHING, Structure
from mooring.apiserver.effort import Effort, TooMuch
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json


class CelRule(msgspec.Struct, frozen=True):
    """spec: as the schema says it. of_change: it speaks of the old value, so it needs one. steps: work of one
    evaluation, without loops.
    """

    spec: Json
    program: Program
    message: Program | None
    convert: Converter | None
    of_change: bool
    steps: int

    def violation(self, value: Any, old: Any, left: Effort) -> tuple[str, bool] | None:
        """The message of a broken rule, and whether it could be evaluated; None when it holds. Raises TooMuch."""
        optional = bool(self.spec.get("optionalOldSelf"))
        if self.of_change and old is NOTHING and not optional:
            return None
        try:
            scope = CelScope({}, left)
            scope.did(self.steps + (work.of_comparison(value, old, left.left) if self.convert is not None else 0))
            scope = scope.bound(self._names(value, old, optional))
            if self.program(scope) is True:
                return None
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

    def _message(self, scope: CelScope) -> str:
        if self.message is not None:
            try:
                text = self.message(scope)
            except CelError:
                text = None
            if isinstance(text, str) and text.strip() and "\n" not in text:
                return text
        return self.spec.get("message") or f"failed rule: {self.spec['rule'].strip()}"


def compiled_rule(spec: Json, structure: Structure, *, root: bool) -> CelRule:
    """Raises CompileError."""
    names = names_of(spec, structure, root=root)
    tree, _ = checked(spec["rule"], names)
    message = checked(spec["messageExpression"], names)[0] if spec.get("messageExpression") else None
    steps = work.ROUND + work.of_tree(tree) + (0 if message is None else work.of_tree(message))
    text = None if message is None else compiled(message)
    return CelRule(spec, compiled(tree), text, converter_of(structure), mentions(tree, "oldSelf"), steps)


def wrong_rule(spec: Json, structure: Structure, *, root: bool) -> str:
    """The error in the rule; "" if it is valid."""
    try:
        _, kind = checked(spec["rule"], names_of(spec, structure, root=root))
    except CompileError as error:
        return str(error)
    return "" if kind.name in ("bool", "dyn") else "cel expression must evaluate to a bool"


def wrong_message(spec: Json, structure: Structure, *, root: bool) -> str:
    """The error in the rule's messageExpression; "" if it is valid."""
    try:
        _, kind = checked(spec["messageExpression"], names_of(spec, structure, root=root))
    except CompileError as error:
        return f"messageExpression {error}"
    return "" if kind.name in (STRING.name, "dyn") else "messageExpression must evaluate to a string"


def is_of_change(spec: Json, structure: Structure, *, root: bool) -> bool:
    """True for a rule that speaks of the old value. The rule has been found right."""
    return mentions(checked(spec["rule"], names_of(spec, structure, root=root))[0], "oldSelf")


def names_of(spec: Json, structure: Structure, *, root: bool) -> dict[str, CelType]:
    kind = cel_type_of(structure, root=root)
    return {"self": kind, "oldSelf": CelType("optional") if spec.get("optionalOldSelf") else kind}


def _same(value: Any) -> Any:
    return value


_NO_PATH: Final = "<nil>"
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\['([^']*)'\]")


class CelRules:
    """The rules at one node of a schema and below it."""

    def __init__(
        self,
        structure: Structure,
        rules: list[CelRule],
        below: dict[str, CelRules],
        items: CelRules | None,
        others: CelRules | None,
    ) -> None:
        self._structure, self._rules = structure, rules
        self._below, self._items, self._others = below, items, others

    def broken(self, new: Json, old: Any) -> list[FieldCause]:
        """old: NOTHING at creation."""
        found: list[FieldCause] = []
        try:
            self._apply(new, old, "", effort.current(), found)
        except TooMuch:
            text = "validation failed due to running out of cost budget, no further validation rules will be run"
            found.append(FieldCause("FieldValueInvalid", _NO_PATH, f"Invalid value: null: {text}"))
        return found

    def _apply(self, value: Any, old: Any, path: str, left: Effort, found: list[FieldCause]) -> None:
        if value is None or (old is not NOTHING and equal_json(old, value)):
            return
        for rule in self._rules:
            violation = rule.violation(value, old, left)
            if violation is not None:
                found.append(_cause(rule.spec, violation, value, path))
        if isinstance(value, list) and self._items is not None:
            for number, (item, before) in enumerate(counterparts(value, old, self._structure.raw)):
                self._items._apply(item, before, f"{path}[{number}]", left, found)
        elif isinstance(value, dict):
            self._apply_below(value, old if isinstance(old, dict) else {}, path, left, found)

    def _apply_below(self, value: Json, old: Json, path: str, left: Effort, found: list[FieldCause]) -> None:
        for name, member in value.items():
            declared = name in self._structure.properties
            rules = self._below.get(name) if declared else self._others
            if rules is not None:
                dotted = f"{path}.{name}" if path else name
                rules._apply(member, old.get(name, NOTHING), dotted if declared else f"{path}[{name}]", left, found)


def rules_of(structure: Structure, *, root: bool = True) -> CelRules | None:
    """The compiled rules of a schema; None without any. They have been checked, so one that can't be compiled is an
    error of the server.
    """
    below = {
        name: found
        for name, inner in structure.properties.items()
        if (found := rules_of(inner, root=False)) is not None
    }
    items = None if structure.items is None else rules_of(structure.items, root=False)
    others = rules_of(structure.additional, root=False) if isinstance(structure.additional, Structure) else None
    rules = [compiled_rule(spec, structure, root=root) for spec in structure.rules]
    return CelRules(structure, rules, below, items, others) if rules or below or items or others else None


def _cause(spec: Json, violation: tuple[str, bool], value: Any, path: str) -> FieldCause:
    """violation: the message, and whether the rule could be evaluated."""
    text, evaluated = violation
    field, reason = (
        path + spec.get("fieldPath", "") if path else spec.get("fieldPath", "").removeprefix("."),
        spec.get("reason"),
    )
    field = _STEP.sub(lambda step: f".{step[1]}" if step[1] is not None else f"[{step[2]}]", field) or _NO_PATH
    if not evaluated:
        return field_errors.invalid(field, type_of(value), text)
    match reason:
        case "FieldValueRequired":
            return field_errors.required(field, text)
        case "FieldValueForbidden":
            return field_errors.forbidden(field, text)
        case "FieldValueDuplicate":
            return field_errors.duplicate(field, value, text)
    if isinstance(value, dict | list):
        return FieldCause("FieldValueInvalid", field, f"Invalid value: {text}")
    return field_errors.invalid(field, value, text)
