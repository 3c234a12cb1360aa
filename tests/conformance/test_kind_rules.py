"""CEL rules in schemas: which objects they refuse, and which rules may be ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.customkinds import DEFINITIONS, a_definition, a_version, an_object, installed, spec_of
from tests.support.rest import Rest
from tests.support.rows import each_row

INVALID, REQUIRED, FORBIDDEN, TYPE = (
    "FieldValueInvalid",
    "FieldValueRequired",
    "FieldValueForbidden",
    "FieldValueTypeInvalid",
)
TEXT: dict[str, Any] = {"type": "string", "maxLength": 10}
WHOLE: dict[str, Any] = {"type": "integer"}
Json = dict[str, Any]


def ruled(schema: Json, *rules: str | Json) -> Json:
    """The schema with these rules."""
    return {**schema, "x-kubernetes-validations": [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]}


def rule(text: str, **more: Any) -> Json:
    return {"rule": text, **more}


ITEM = {
    "type": "object",
    "required": ["k"],
    "properties": {"k": TEXT, "v": ruled({**WHOLE, "default": 0}, "self >= oldSelf")},
}
PARTS = {"x": TEXT, "y": {**WHOLE, "nullable": True}, "namespace": TEXT, "a-b": TEXT}
PLACES: dict[str, Any] = {
    "fixed": ruled(TEXT, rule("self == oldSelf", message="fixed is immutable")),
    "number": ruled(WHOLE, "self > 3", rule("self < 10", messageExpression="'got ' + 'it'", reason=FORBIDDEN)),
    "parts": ruled(
        {"type": "object", "properties": PARTS},
        rule("has(self.x) || has(self.y)", fieldPath=".x", reason=REQUIRED, message="x or y"),
        "!has(self.__namespace__) || self.__namespace__ != 'bad'",
        "!has(self.a__dash__b) || self.a__dash__b.startsWith('q')",
        rule("!has(oldSelf.x) || has(self.x)", message="x stays"),
    ),
    "list": ruled(
        {
            "type": "array",
            "maxItems": 10,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": ITEM,
        },
        "self.all(i, i.v < 5)",
        rule("self.size() < 3", message="too many"),
    ),
    "map": ruled(
        {"type": "object", "maxProperties": 10, "additionalProperties": ruled(WHOLE, "self != 7")},
        "self.all(k, self[k] > 0)",
        "'q' in self ? self['q'] == 1 : true",
    ),
    "deep": ruled(
        {"type": "object", "properties": {"d": {"type": "object", "additionalProperties": WHOLE}}}, "self.d['zz'] == 1"
    ),
    "divisor": ruled(WHOLE, "10 / self == 2"),
    "first": ruled(TEXT, rule("oldSelf.hasValue() || self == 'first'", optionalOldSelf=True)),
    "moment": ruled({"type": "string", "format": "date-time"}, "self < timestamp('2030-01-01T00:00:00Z')"),
    "while": ruled({"type": "string", "format": "duration"}, "self < duration('1h')"),
    "either": ruled({"x-kubernetes-int-or-string": True}, "type(self) == int ? self < 5 : self == 'x'"),
    "amount": ruled(TEXT, "isQuantity(self) && quantity(self).isLessThan(quantity('1Gi'))"),
    "pattern": ruled(TEXT, "self.matches('^[a-c]+$') && self.split('b').size() == 2"),
    "set": ruled(
        {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "set", "items": TEXT},
        "self == ['a', 'b'] || self.exists(i, i == 'c')",
    ),
    "told": ruled(TEXT, rule("self == 'z'", messageExpression="string(1 / 0)", message="told instead")),
}
PLURAL = "ruleds"


@pytest.fixture
def things(api: Rest) -> str:
    schema = spec_of(**PLACES)
    schema["properties"]["metadata"] = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 40}}}
    return installed(api, a_definition(PLURAL, a_version(ruled(schema, "!self.metadata.name.startsWith('evil')"))))


BROKEN: dict[str, tuple[Any, tuple[str, str, str]]] = {
    "number": (3, (INVALID, "spec.number", "Invalid value: 3: failed rule: self > 3")),
    "number_by_reason": (10, (FORBIDDEN, "spec.number", "Forbidden: got it")),
    "parts_by_path": ({}, (REQUIRED, "spec.parts.x", "Required value: x or y")),
    "parts_null_is_not_there": ({"y": None}, (REQUIRED, "spec.parts.x", "x or y")),
    "parts_escaped_word": (
        {"y": 1, "namespace": "bad"},
        (INVALID, "spec.parts", "failed rule: !has(self.__namespace__)"),
    ),
    "parts_escaped_dash": ({"y": 1, "a-b": "z"}, (INVALID, "spec.parts", "failed rule: !has(self.a__dash__b)")),
    "list": ([{"k": "a", "v": 9}], (INVALID, "spec.list", "failed rule: self.all(i, i.v < 5)")),
    "list_size": ([{"k": "a"}, {"k": "b"}, {"k": "c"}], (INVALID, "spec.list", "too many")),
    "map": ({"a": 0}, (INVALID, "spec.map", "failed rule: self.all(k, self[k] > 0)")),
    "map_member": ({"a": 7}, (INVALID, "spec.map[a]", "Invalid value: 7: failed rule: self != 7")),
    "map_choice": ({"q": 2}, (INVALID, "spec.map", "failed rule: 'q' in self")),
    "deep_missing": ({}, (INVALID, "spec.deep", 'Invalid value: "object": no such key: d evaluating rule')),
    "deep_key": ({"d": {}}, (INVALID, "spec.deep", "no such key: zz evaluating rule")),
    "divisor_zero": (
        0,
        (INVALID, "spec.divisor", 'Invalid value: "integer": division by zero evaluating rule: 10 / self == 2'),
    ),
    "divisor_cut": (3, (INVALID, "spec.divisor", "Invalid value: 3: failed rule: 10 / self == 2")),
    "first": ("other", (INVALID, "spec.first", "failed rule: oldSelf.hasValue()")),
    "moment": ("2031-01-01T00:00:00Z", (INVALID, "spec.moment", "failed rule: self < timestamp")),
    "while": ("2h", (INVALID, "spec.while", "failed rule: self < duration")),
    "either_number": (7, (INVALID, "spec.either", "Invalid value: 7: failed rule: type(self) == int")),
    "either_text": ("y", (INVALID, "spec.either", 'Invalid value: "y": failed rule: type(self) == int')),
    "amount": ("1024Mi", (INVALID, "spec.amount", "failed rule: isQuantity(self)")),
    "amount_none": ("1x", (INVALID, "spec.amount", "failed rule: isQuantity(self)")),
    "pattern": ("abcb", (INVALID, "spec.pattern", "failed rule: self.matches")),
    "set": (["a", "d"], (INVALID, "spec.set", "failed rule: self == ['a', 'b']")),
    "told": ("a", (INVALID, "spec.told", "told instead")),
}


@each_row("row", BROKEN)
def test_a_broken_rule_is_told(api: Rest, things: str, name: str, row: str) -> None:
    value, cause = BROKEN[row]
    api.post(things, an_object(PLURAL, name, spec={row.partition("_")[0]: value})).invalid(cause)


def test_a_rule_at_the_root_sees_the_name(api: Rest, things: str, name: str) -> None:
    api.post(things, an_object(PLURAL, f"evil-{name}")).invalid(
        (INVALID, "<nil>", "failed rule: !self.metadata.name.startsWith('evil')")
    )


def test_rules_that_hold_let_pass(api: Rest, things: str, name: str) -> None:
    good = {
        "fixed": "x",
        "number": 4,
        "parts": {"x": "1", "a-b": "q"},
        "list": [{"k": "a", "v": 4}],
        "map": {"q": 1},
        "deep": {"d": {"zz": 1}},
        "divisor": 5,
        "first": "first",
        "moment": "2024-01-01T00:00:00Z",
        "while": "59m",
        "either": "x",
        "amount": "1M",
        "pattern": "abc",
        "set": ["b", "a"],
        "told": "z",
    }
    api.post(things, an_object(PLURAL, name, spec=good)).ok(201)


def test_rules_over_a_change_know_what_was(api: Rest, things: str, name: str) -> None:
    path = f"{things}/{name}"
    start = {"fixed": "x", "parts": {"x": "1", "y": 2}, "list": [{"k": "a", "v": 2}, {"k": "b"}], "first": "first"}
    api.post(things, an_object(PLURAL, name, spec=start)).ok(201)
    api.patch(path, {"spec": {"fixed": "y"}}).invalid((INVALID, "spec.fixed", 'Invalid value: "y": fixed is immutable'))
    api.patch(path, {"spec": {"parts": {"x": None}}}).invalid((INVALID, "spec.parts", "x stays"))
    moved = [{"k": "b", "v": 1}, {"k": "a", "v": 1}]
    api.patch(path, {"spec": {"list": moved}}).invalid(
        (INVALID, "spec.list[1].v", "Invalid value: 1: failed rule: self >= oldSelf")
    )
    api.patch(path, {"spec": {"list": [{"k": "b", "v": 1}, {"k": "a", "v": 2}], "first": "other"}}).ok()
    api.patch(path, {"spec": {"fixed": None}}).ok()
    assert "z" == api.patch(path, {"spec": {"fixed": "z"}}).ok()["spec"]["fixed"], "what was not there may be anything"


def test_rules_wait_for_a_value_that_they_can_bear(api: Rest, things: str, name: str) -> None:
    answer = api.post(things, an_object(PLURAL, name, spec={"number": "x", "divisor": 0}))
    unchecked = "some validation rules were not checked because the object was invalid"
    answer.invalid((TYPE, "spec.number", "must be of type integer"), (INVALID, "<nil>", unchecked))


OBJECT: Json = {
    "type": "object",
    "properties": {
        "a": TEXT,
        "n": WHOLE,
        "f": {"type": "number"},
        "b": {"type": "boolean"},
        "l": {"type": "array", "maxItems": 5, "items": TEXT},
        "m": {"type": "object", "maxProperties": 5, "additionalProperties": WHOLE},
        "o": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "e": {"x-kubernetes-int-or-string": True},
        "namespace": TEXT,
    },
}
WRONG = {
    "self.zz == 1": "1:5: undefined field 'zz'",
    "self.o.y == 1": "1:7: undefined field 'y'",
    "self.a.b == 1": "type 'string' does not support field selection",
    "self.metadata.name == 'x'": "undefined field 'metadata'",
    "zork == 1": "1:1: undeclared reference to 'zork'",
    "foo(self.a)": "1:4: undeclared reference to 'foo'",
    "self.a.foo()": "1:11: undeclared reference to 'foo'",
    "self.a == 1": "1:8: found no matching overload for '_==_' applied to '(string, int)'",
    "self.a > 1": "found no matching overload for '_>_' applied to '(string, int)'",
    "self.n + 'a' == 'b'": "found no matching overload for '_+_' applied to '(int, string)'",
    "self.l.all(i, i == 1)": "1:17: found no matching overload for '_==_' applied to '(string, int)'",
    "self.l[0] == 1": "found no matching overload for '_==_' applied to '(string, int)'",
    "self.m['a'] == 'x'": "found no matching overload for '_==_' applied to '(int, string)'",
    "1 in self.l": "found no matching overload for '@in' applied to '(int, list(string))'",
    "self.b ? 1 : 'x'": "found no matching overload for '_?_:_' applied to '(bool, int, string)'",
    "!self.a": "found no matching overload for '!_' applied to '(string)'",
    "-self.a == 1": "found no matching overload for '-_' applied to '(string)'",
    "self.a && true": "expected type 'bool' but found 'string'",
    "self.a.startsWith(1)": "1:18: found no matching overload for 'startsWith' applied to 'string.(int)'",
    "size(self.n) > 1": "found no matching overload for 'size' applied to '(int)'",
    "self.a[0] == 'x'": "found no matching overload for '_[_]' applied to '(string, int)'",
    "self.all(x, true)": "cannot be range of a comprehension (must be list, map, or dynamic)",
    "self.l.map(x, x + 1) == []": "found no matching overload for '_+_' applied to '(string, int)'",
    "self.a.matches('(')": "invalid matches argument",
    "has(self)": "invalid argument to has() macro",
    "self.a ==": "1:10: Syntax error: mismatched input '<EOF>'",
    "self.a == 'x": "1:11: Syntax error: token recognition error at: ''x'",
    "self.n + 1": "cel expression must evaluate to a bool",
}


@each_row("text", WRONG)
def test_a_rule_that_does_not_fit_the_schema_is_refused(api: Rest, name: str, text: str) -> None:
    body = a_definition(
        f"k{name.replace('-', '')}s", a_version({"type": "object", "properties": {"spec": ruled(OBJECT, text)}})
    )
    field = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    status = api.post(DEFINITIONS, body, dryRun="All").refused(422, "Invalid", (INVALID, field))
    assert WRONG[text] in status["message"]


RIGHT = [
    *(
        "self.namespace == 'x'",
        "self.n < 1.5",
        "self.f < 1",
        "self.e == 1",
        "'' in self.m",
        "oldSelf.n == 1",
        "type(self.n) == int",
    ),
    *(
        "self.?a.orValue('x') == 'x'",
        "self.m.all(k, v, v > 0)",
        "dyn(self.a) == 1",
        "{'a': 1}[self.a] == 1",
        "b'abc' == bytes(self.a)",
    ),
    *(
        "[1, 2].exists_one(i, i == self.n)",
        "self.l.filter(x, x.startsWith('a')).size() > 0",
        "self == oldSelf",
        "self.l.isSorted()",
    ),
    *(
        "self.l.map(x, x.size()).sum() > 3",
        "self.a.lowerAscii().indexOf('b') >= 0",
        "sets.contains(self.l, ['a'])",
        "-self.n % 2 == 0",
    ),
    *("int(self.a) > 3 || double(self.a) < 0.5", "self.l[?0].hasValue()", "r'\\d' == '\\\\d'", "!(self.b == false)"),
]


@each_row("text", RIGHT)
def test_a_rule_that_fits_the_schema_is_taken(api: Rest, name: str, text: str) -> None:
    body = a_definition(
        f"k{name.replace('-', '')}s", a_version({"type": "object", "properties": {"spec": ruled(OBJECT, text)}})
    )
    api.post(DEFINITIONS, body, dryRun="All").ok(201)


ODD = {
    "empty": (rule(""), (REQUIRED, "rule"), "rule is not specified"),
    "blank_message": (rule("true", message=" "), (INVALID, "message"), "must be non-empty if specified"),
    "two_lines": (rule("true", message="a\nb"), (INVALID, "message"), "must not contain line breaks"),
    "reason": (
        rule("true", reason="Odd"),
        ("FieldValueNotSupported", "reason"),
        '"FieldValueDuplicate", "FieldValueForbidden"',
    ),
    "path": (rule("true", fieldPath=".zz"), (INVALID, "fieldPath"), "must be a valid path"),
    "path_into_a_list": (rule("true", fieldPath=".l[0]"), (INVALID, "fieldPath"), "must be a valid path"),
    "message_of_another_type": (
        rule("true", messageExpression="1"),
        (INVALID, "messageExpression"),
        "must evaluate to a string",
    ),
    "needless": (
        rule("true", optionalOldSelf=True),
        (INVALID, "optionalOldSelf"),
        "may not be set if oldSelf is not used in rule",
    ),
}


@each_row("row", ODD)
def test_what_stands_beside_a_rule_must_mean_something(api: Rest, name: str, row: str) -> None:
    spec, (reason, part), says = ODD[row]
    body = a_definition(
        f"k{name.replace('-', '')}s", a_version({"type": "object", "properties": {"spec": ruled(OBJECT, spec)}})
    )
    field = f"spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].{part}"
    api.post(DEFINITIONS, body, dryRun="All").refused(422, "Invalid", (reason, field), says=says)


def test_items_without_keys_have_no_past(api: Rest, name: str) -> None:
    items = {"type": "object", "properties": {"a": ruled(TEXT, "self == oldSelf")}}
    body = a_definition(
        f"k{name.replace('-', '')}s", a_version(spec_of(l={"type": "array", "maxItems": 3, "items": items}))
    )
    answer = api.post(DEFINITIONS, body, dryRun="All")
    assert (
        "oldSelf cannot be used on the uncorrelatable portion of the schema"
        in answer.refused(422, "Invalid")["message"]
    )
