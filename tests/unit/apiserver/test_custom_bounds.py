"""Whatever a definition says, and whatever an object of it holds, judging it takes a few seconds of one processor at
most.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from mooring.apiserver.bodies.objects import VALUES_MAX
from mooring.apiserver.web.messages import HttpReply
from tests.support.rows import each_row
from tests.unit.apiserver.test_service import Client

Json = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/bounds.test/v1/things"
SECONDS_MAX = 20.0
"""Measured: 1.5 at most, 6 on a busy machine; without the bounds it would be minutes."""
OVER_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
TEXT: Json = {"type": "string"}
NUMBERS: Json = {"type": "array", "items": {"type": "integer"}}
MANY = list(range(40_000))


def define(client: Client, properties: Json, *rules: str, **version: Any) -> HttpReply:
    schema: Json = {"type": "object", "properties": properties}
    if rules:
        schema["x-kubernetes-validations"] = [{"rule": rule} for rule in rules]
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}]
    spec = {"group": "bounds.test", "scope": "Cluster", "names": names, "versions": versions}
    return client.ask("POST", DEFINITIONS, {"metadata": {"name": "things.bounds.test"}, "spec": spec})


def make(client: Client, **fields: Any) -> HttpReply:
    return client.ask(
        "POST", THINGS, {"apiVersion": "bounds.test/v1", "kind": "Thing", "metadata": {"name": "one"}, **fields}
    )


RULES: dict[str, tuple[str, Json]] = {
    "loops": ("self.l.all(a, self.l.all(b, self.l.all(c, true)))", {}),
    "members": ("self.l.all(x, x in self.l)", {}),
    "comparisons": ("self.l.all(x, self.l == self.l)", {}),
    "sums": ("self.l.all(x, self.l.sum() >= 0)", {}),
    "joined-lists": ("self.l.all(x, (self.l + self.l).size() > 0)", {}),
    "sets": ("sets.contains(self.l, self.l)", {}),
    "lists-of-lists": ("self.l.map(x, self.l.map(y, self.l)).size() > 0", {}),
    "long-steps": (f"self.l.all(x, [{','.join(['1'] * 8000)}].size() > 0)", {}),
    "texts": ("self.l.all(x, self.s.replace('a', 'b').size() > 0)", {"s": "a" * 1_000_000}),
    "letters": ("self.l.all(x, self.s.split('').size() > 0)", {"s": "a" * 1_000_000}),
    "small-letters": ("self.l.all(x, self.s.lowerAscii().size() > 0)", {"s": "A" * 1_000_000}),
}


@pytest.mark.slow
@each_row("row", RULES, parts=2)
def test_rules_have_a_budget(row: str) -> None:
    rule, fields = RULES[row]
    client = Client()
    assert 201 == define(client, {"l": NUMBERS, "s": TEXT}, rule).status
    begun = time.process_time()
    assert OVER_BUDGET in make(client, l=MANY, **fields).body.decode()
    assert time.process_time() - begun < SECONDS_MAX


@pytest.mark.long
def test_the_rules_of_all_items_share_a_budget() -> None:
    item = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "||".join(["self.a==-1"] * 90)}],
    }
    client = Client()
    assert 201 == define(client, {"l": {"type": "array", "items": item}}).status
    begun = time.process_time()
    assert OVER_BUDGET in make(client, l=[{"a": number} for number in range(20_000)]).body.decode()
    assert time.process_time() - begun < SECONDS_MAX


def test_rules_that_large_objects_need_are_within_the_budget() -> None:
    client = Client()
    rules = ("self.l.all(x, x >= 0)", "self.l.exists_one(x, x == 7)", "self.l.size() == self.l.map(x, x * 2).size()")
    assert 201 == define(client, {"l": NUMBERS}, *rules).status
    reply = make(client, l=MANY[:5000])
    assert 201 == reply.status, reply.body[:500]


def test_a_text_that_rules_put_together_has_a_largest_size() -> None:
    client = Client()
    assert 201 == define(client, {"l": NUMBERS, "s": TEXT}, "self.l.map(x, self.s).join().size() > 0").status
    assert "the text becomes too long" in make(client, l=MANY[:1000], s="a" * 1_000_000).body.decode()


@each_row("rule", ["self.a < " + "1" * 5000, r"self.s == '\U7fffffff'", "self.a < 1e999999999999999999999"])
def test_a_literal_that_is_none_is_refused(rule: str) -> None:
    reply = define(Client(), {"a": {"type": "number"}, "s": TEXT}, rule)
    assert reply.status in (201, 422), reply.body[:500]


def test_a_definition_has_so_many_rules_at_most() -> None:
    begun = time.process_time()
    for rules in (["||".join(f"self.a=={number}" for number in range(90))] * 1100, ["self.a>0"] * 15_000):
        reply = define(Client(), {"a": {"type": "integer"}}, *rules)
        assert (422, True) == (
            reply.status,
            "rules of more than 131072 letters take long to read" in reply.body.decode(),
        )
    assert time.process_time() - begun < SECONDS_MAX


def test_what_only_looks_like_rules_is_none() -> None:
    odd = {"x-kubernetes-validations": TEXT, "b": {"type": "object", "default": {"x-kubernetes-validations": ["x", 5]}}}
    odd["b"]["x-kubernetes-preserve-unknown-fields"] = True
    assert 201 == define(Client(), odd).status


SCHEMAS: dict[str, tuple[Json, Any]] = {
    "enum": (
        {"type": "array", "items": {"type": "string", "enum": [f"e{number}" for number in range(40_000)]}},
        ["x"] * 40_000,
    ),
    "one-of": (
        {"type": "array", "items": {"type": "string", "oneOf": [{"pattern": f"^{number}$"} for number in range(4000)]}},
        ["x"] * 40_000,
    ),
    "required": (
        {"type": "array", "items": {"type": "object", "required": [f"r{number}" for number in range(2000)]}},
        [{} for _ in range(40_000)],
    ),
}


@pytest.mark.slow
@each_row("row", SCHEMAS)
def test_schemas_have_a_budget(row: str) -> None:
    schema, value = SCHEMAS[row]
    client = Client()
    assert 201 == define(client, {"l": schema}).status
    begun = time.process_time()
    assert "too many values for such a schema" in make(client, l=value).body.decode()[-500:]
    assert time.process_time() - begun < SECONDS_MAX


def test_a_schema_that_asks_much_of_many_values_is_within_the_budget() -> None:
    item = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63, "minLength": 1}
    client = Client()
    assert 201 == define(client, {"l": {"type": "array", "items": item}}).status
    reply = make(client, l=[f"name-{number}" for number in range(30_000)])
    assert 201 == reply.status, reply.body[:500]


def test_defaults_make_no_object_that_a_body_could_not() -> None:
    defaults = {f"p{number}": {"type": "string", "default": "x" * 100} for number in range(1000)}
    client = Client()
    assert 201 == define(client, {"l": {"type": "array", "items": {"type": "object", "properties": defaults}}}).status
    begun = time.process_time()
    reply = make(client, l=[{} for _ in range(40_000)])
    text = f"Request entity too large: more than {VALUES_MAX} values with the defaults"
    assert (413, text) == (reply.status, json.loads(reply.body)["message"])
    assert time.process_time() - begun < SECONDS_MAX


def test_a_table_has_so_many_columns_at_most() -> None:
    columns = [{"name": "c", "type": "string", "jsonPath": ".a"} for _ in range(101)]
    assert 201 == define(Client(), {}, additionalPrinterColumns=columns[1:]).status
    assert (
        "Too many: 101: must have at most 100 items"
        in define(Client(), {}, additionalPrinterColumns=columns).body.decode()
    )


def test_a_definition_has_so_many_versions_at_most() -> None:
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [
        {"name": f"v{number}", "served": True, "storage": not number, "schema": schema} for number in range(101)
    ]
    spec = {
        "group": "bounds.test",
        "scope": "Cluster",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": versions,
    }
    reply = Client().ask("POST", DEFINITIONS, {"metadata": {"name": "things.bounds.test"}, "spec": spec})
    assert 422 == reply.status
    assert "spec.versions: Too many: 101: must have at most 100 items" in reply.body.decode()
