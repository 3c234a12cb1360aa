"""Everything that is wrong with a custom object: its schema first, then lists, then rules, as far as the value can bear them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mooring.apiserver.custom.checking import check
from mooring.apiserver.custom.embedded import wrong_embedded
from mooring.apiserver.custom.facts import ScalePaths
from mooring.apiserver.custom.lists import duplicates
from mooring.apiserver.custom.structure import NOTHING, Structure
from mooring.apiserver.field_errors import Cause

if TYPE_CHECKING:
    from mooring.apiserver.custom.rules import Rules

Json = dict[str, Any]

_BLOCKING: Final = {f"FieldValue{why}" for why in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")}
_UNCHECKED: Final = Cause(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
_REPLICAS_MAX: Final = 2**31 - 1


class Judge:
    """Of one version of a custom kind."""

    def __init__(self, structure: Structure, rules: Rules | None, scale: ScalePaths | None) -> None:
        self._structure, self._rules, self._scale = structure, rules, scale

    def created(self, new: Json) -> list[Cause]:
        return self._judge(new, NOTHING)

    def updated(self, new: Json, old: Json) -> list[Cause]:
        return self._judge(new, old)

    def _judge(self, new: Json, old: Any) -> list[Cause]:
        found = check(new, self._structure.raw, "", old)
        found += self._replicas(new)
        if self._structure.has_embedded:
            found += wrong_embedded(new, self._structure)
        if old is NOTHING or not any(duplicates(old, self._structure)):
            found += duplicates(new, self._structure)
        if self._rules is None:
            return found
        if any(cause.reason in _BLOCKING for cause in found):
            return [*found, _UNCHECKED]
        return [*found, *self._rules.broken(new, old)]

    def _replicas(self, new: Json) -> list[Cause]:
        """What the scale sub-resource shows must be a count."""
        found = []
        for steps in (self._scale.spec_replicas, self._scale.status_replicas) if self._scale is not None else ():
            value: Any = new
            for step in steps:
                value = value.get(step) if isinstance(value, dict) else None
            if isinstance(value, int) and not isinstance(value, bool) and not 0 <= value <= _REPLICAS_MAX:
                text = "should be a non-negative integer" if value < 0 else "should be less than or equal to 2147483647"
                found.append(Cause("FieldValueInvalid", f".{'.'.join(steps)}", f"Invalid value: {value}: {text}"))
        return found
