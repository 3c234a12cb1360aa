"""Whether each sidecar's service account may do what the sidecar does. Pure.

The check judges RBAC as it is written. It does not ask the API server about rights, since asking is a write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from mooring.api.matching import selects
from mooring.inspect.doctor.finding import Change, Finding, Severity
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.needs import NEEDS, Need
from mooring.inspect.doctor.objects import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    WITH_RIGHTS,
    Binding,
    Item,
    Role,
    Rule,
    Subject,
)
from mooring.inspect.doctor.sidecars import Pods, Sidecar, sidecars_in

ALL_RIGHTS: Final = "cluster-admin"
SOME_NAMES: Final = ("get", "update", "patch", "delete")
"""Verbs that a rule for named objects may allow for the object that counts; the others are about no name."""


class Grant(msgspec.Struct, frozen=True):
    """A role that an account has. namespace: "" for everywhere. role: None for one that is not among what was read."""

    role: Item[Role] | None
    role_name: str
    namespace: str
    rules: tuple[Rule, ...]


def missing_rights(inventory: Inventory) -> Iterator[Finding]:
    for sidecar in sidecars_in(inventory):
        if sidecar.program in NEEDS:
            yield from missing_to(inventory, sidecar)


def missing_to(inventory: Inventory, sidecar: Sidecar) -> Iterator[Finding]:
    """The rights that one sidecar lacks. Nothing where its roles could not be seen."""
    if not inventory.sees(*WITH_RIGHTS):
        return
    grants = tuple(_grants(inventory, sidecar.pods))
    unknown = next((one.role_name for one in grants if one.role is None and one.role_name != ALL_RIGHTS), "")
    if any(one.role_name == ALL_RIGHTS and not one.namespace for one in grants):
        return
    account = f"{sidecar.item.namespace}/{sidecar.pods.account}"
    if inventory.of_files and (not grants or unknown):
        why = f'the role "{unknown}" is not among the files' if unknown else "the files bind no role to it"
        yield Finding(
            "rights",
            Severity.NOTE,
            sidecar.about,
            f"the rights of its service account {account} are not known: {why}",
            "nobody can say whether it has all its rights",
            Change(f"kubectl auth can-i --list --as=system:serviceaccount:{account.replace('/', ':')}"),
        )
        return
    home = home_of(sidecar)
    for need in NEEDS[sidecar.program]:
        lacking = _lacking(need, grants, home) if need.is_needed_by(sidecar) else ()
        if lacking:
            yield _finding(sidecar, need, lacking, grants, home)


def home_of(sidecar: Sidecar) -> str:
    """The namespace of its Lease."""
    flag = sidecar.flag("leader-election-namespace")
    return flag.value if flag is not None and flag.value and "$" not in flag.value else sidecar.item.namespace


def _lacking(need: Need, grants: tuple[Grant, ...], home: str) -> tuple[str, ...]:
    """The verbs that no role gives."""
    reaching = [one for one in grants if not one.namespace or (need.at_home and one.namespace == home)]
    rules = [rule for grant in reaching for rule in grant.rules]
    return tuple(verb for verb in need.verbs.split() if not any(_allows(rule, need, verb) for rule in rules))


def _allows(rule: Rule, need: Need, verb: str) -> bool:
    if rule.resource_names and verb not in SOME_NAMES:
        return False
    subresource = need.resource.partition("/")[2]
    resources = {need.resource, "*", f"*/{subresource}" if subresource else "*"}
    return bool(
        {need.group, "*"} & set(rule.api_groups) and resources & set(rule.resources) and {verb, "*"} & set(rule.verbs)
    )


def _grants(inventory: Inventory, pods: Pods) -> Iterator[Grant]:
    for binding in inventory.all(CLUSTER_ROLE_BINDINGS):
        if any(_is_subject(one, pods, "") for one in binding.obj.subjects):
            yield _grant(inventory, binding, "")
    for local in inventory.all(ROLE_BINDINGS):
        if any(_is_subject(one, pods, local.namespace) for one in local.obj.subjects):
            yield _grant(inventory, local, local.namespace)


def _is_subject(subject: Subject, pods: Pods, home: str) -> bool:
    """home: of the binding. An account without a namespace is in the binding's own."""
    namespace = pods.item.namespace
    match subject.kind:
        case "ServiceAccount":
            return (subject.namespace or home, subject.name) == (namespace, pods.account)
        case "User":
            return subject.name == f"system:serviceaccount:{namespace}:{pods.account}"
        case "Group":
            return subject.name in (
                "system:serviceaccounts",
                f"system:serviceaccounts:{namespace}",
                "system:authenticated",
            )
    return False


def _grant(inventory: Inventory, binding: Item[Binding], namespace: str) -> Grant:
    ref = binding.obj.role_ref
    role = inventory.get(ROLES, ref.name, namespace) if ref.kind == "Role" else inventory.get(CLUSTER_ROLES, ref.name)
    return Grant(role, ref.name, namespace, _rules(inventory, role) if role is not None else ())


def _rules(inventory: Inventory, role: Item[Role]) -> tuple[Rule, ...]:
    """The role's rules, with those of the roles that it aggregates: a cluster has filled them in, files have not."""
    if role.obj.aggregation_rule is None:
        return role.obj.rules
    selectors = role.obj.aggregation_rule.cluster_role_selectors
    chosen = [
        one
        for one in inventory.all(CLUSTER_ROLES)
        if any(selects(selector, one.obj.metadata.labels) for selector in selectors)
    ]
    return (*role.obj.rules, *(rule for one in chosen for rule in one.obj.rules))


def _finding(sidecar: Sidecar, need: Need, lacking: tuple[str, ...], grants: tuple[Grant, ...], home: str) -> Finding:
    account = f"{sidecar.item.namespace}/{sidecar.pods.account}"
    resource = f"{need.resource}.{need.group}" if need.group else need.resource
    where = f" in the namespace {home}" if need.at_home else ""
    return Finding(
        "rights",
        need.severity,
        sidecar.about,
        f"the service account {account} has no right to {' and '.join(lacking)} {resource}{where}",
        need.follows,
        _change(sidecar, need, lacking, grants, home),
    )


def _change(sidecar: Sidecar, need: Need, lacking: tuple[str, ...], grants: tuple[Grant, ...], home: str) -> Change:
    """A rule for the role that most of the program's other rights come from; without one that reaches far enough,
    commands that make it.
    """
    namespace = home if need.at_home else ""
    own = [one for one in grants if one.role is not None and one.namespace == namespace]
    if own:
        needs = [one for one in NEEDS[sidecar.program] if one.is_needed_by(sidecar)]
        best = max(own, key=lambda one: -sum(len(_lacking(other, (one,), home)) for other in needs))
        assert best.role is not None
        group = need.group or '""'
        return Change(
            f"- {{apiGroups: [{group}], resources: [{need.resource}], verbs: [{', '.join(lacking)}]}}",
            best.role.where("rules"),
        )
    name = re.sub(r"[^a-z0-9]+", "-", f"{sidecar.program}-{need.resource}")
    role, scope = ("role", f" -n {namespace}") if namespace else ("clusterrole", "")
    what = f"{need.resource.partition('/')[0]}{f'.{need.group}' if need.group else ''}"
    what += need.resource[len(need.resource.partition("/")[0]) :]
    account = f"--serviceaccount={sidecar.item.namespace}:{sidecar.pods.account}"
    return Change(
        f"kubectl{scope} create {role} {name} --verb={','.join(lacking)} --resource={what} && "
        f"kubectl{scope} create {role}binding {name} --{role}={name} {account}"
    )
