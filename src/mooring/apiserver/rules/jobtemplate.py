"""The template of a Job that changes: of one that waits and has no pods, where they may run and what they ask for."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks, podtemplate

_WHERE: Final = ("nodeSelector", "tolerations", "schedulingGates")


def validate_update(new: Json, old: Json) -> list[Cause]:
    """new, old: whole Jobs."""
    if not _waits(old):
        return checks.unchanged(new["spec"], old["spec"], "template", podtemplate.FIELD)
    after, before = new["spec"]["template"]["spec"], copy.deepcopy(old["spec"]["template"]["spec"])
    for part in _WHERE:
        _take(part, after, before)
    _take_node_affinity(after.get("affinity"), before)
    for part in ("initContainers", "containers"):
        _take_resources(after.get(part) or [], before.get(part) or [])
    return [] if after == before else [field_errors.immutable(f"{podtemplate.FIELD}.spec", after)]


def _waits(job: Json) -> bool:
    """It is suspended, and nothing of it runs or has been started since."""
    status = job["status"]
    is_told = any((one["type"], one["status"]) == ("Suspended", "True") for one in status.get("conditions") or ())
    return job["spec"]["suspend"] and ("startTime" not in status or is_told) and not status.get("active")


def _take(part: str, given: Mapping[str, Any], to: Json) -> None:
    to.pop(part, None)
    if part in given:
        to[part] = given[part]


def _take_node_affinity(after: Json | None, spec: Json) -> None:
    """An affinity that has nothing else may come and go with it."""
    before = spec.get("affinity", {} if after is not None else None)
    if before is None:
        return
    _take("nodeAffinity", after or {}, before)
    spec["affinity"] = before
    if after is None and not before:
        del spec["affinity"]


def _take_resources(given: list[Json], containers: list[Json]) -> None:
    if len(given) == len(containers):
        for one, container in zip(given, containers, strict=True):
            if one["name"] == container["name"]:
                _take("resources", one, container)
