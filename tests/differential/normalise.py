"""Answers brought into a form in which the same is equal: ids, versions and times become what they are to each
other.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from tests.differential.servers import Answer
from tests.differential.steps import Step
from tests.differential.subjects import DEFINITIONS, SPACES

_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NOW: Final = re.compile(r"20(?:2[5-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
"""Times of this run; those that stand in requests are older."""
_SHOWN: Final = re.compile(r"((?:Invalid|Duplicate|Unsupported) value|Not found): .*", re.DOTALL)
_LONG_VALUE: Final = re.compile(r'"[^"]{118,}"')
"""Ours cuts it."""
_PARSERS_WORDS: Final = re.compile(
    r"unmarshal|strict decoding error|cannot be handled as|quantities must match|parsing time|illegal "
    r"base64|unrecognized|continue key is"
    r"|does not match the expected API version|no kind \".*registered|resourceVersion: Invalid value|error "
    r"decoding|can't be read"
    r"|not JSON|cannot restore|invalid character|cannot convert|Invalid JSON Patch|unexpected end of|the "
    r"request has no body"
)
"""What servers written in two languages say of what they can't read."""


_AGE: Final = re.compile(r"^\d+[smhd](\d+[smhd])?$")
_TWINS: Final = re.compile(r"(ownerReferences contains duplicate entries).*")
_LASTING: Final = (
    "default",
    "kube-system",
    "kube-public",
    "kube-node-lease",
    *SPACES,
    *(made["metadata"]["name"] for made in DEFINITIONS),
)


class Alike:
    """One server's answers of one sequence."""

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}
        self.versions: set[int] = set()
        self._made_up: re.Pattern[str] | None = None

    def of(self, step: Step, answer: Answer) -> Any:
        """status, value, warnings, events; versions are `Version`s still."""
        self._made_up = _made_up(step)
        return {
            "status": answer.status,
            "value": self._value(_plain_yaml(step, answer.value)),
            "events": [self._value(event) for event in answer.events if event.get("type") != "BOOKMARK"],
            "warnings": sorted({_TWINS.sub(r"\1", self._text(warning)) for warning in answer.warnings}),
        }

    def _value(self, value: Any) -> Any:
        if isinstance(value, dict):
            if value.get("kind") == "Status" and value.get("status") == "Failure":
                return self._refusal(value)
            found = {
                name: self._value(_ours_alone(value[name]) if name == "items" else value[name])
                for name in sorted(value)
            }
            metadata = found.get("metadata")
            if isinstance(metadata, dict):
                self._metadata(found, metadata)
            if found.get("kind") == "CustomResourceDefinition" or "storedVersions" in str(found.get("status")):
                found.pop("status", None)  # (written by controllers, when they come to it)
                found["metadata"].pop("resourceVersion", None)
            for row in (found.get("rows") or ()) if found.get("kind") == "Table" else ():
                row["cells"] = [_AGE.sub("<age>", cell) if isinstance(cell, str) else cell for cell in row["cells"]]
            for column in (found.get("columnDefinitions") or ()) if found.get("kind") == "Table" else ():
                column.pop("description", None)
            return found
        if isinstance(value, list):
            return [self._value(item) for item in value]
        return self._text(value) if isinstance(value, str) else value

    def _metadata(self, obj: dict[str, Any], metadata: dict[str, Any]) -> None:
        version = metadata.get("resourceVersion")
        if isinstance(version, str) and version.isdigit():
            is_list = str(obj.get("kind", "")).endswith(("List", "Table")) or "items" in obj or "rows" in obj
            metadata["resourceVersion"] = Version(int(version), of_list=is_list)
            if not is_list and int(version) > 0:
                self.versions.add(int(version))
        if metadata.get("continue"):
            metadata["continue"] = "<more>"
        metadata.pop("managedFields", None)
        if metadata.get("name") in _LASTING and "namespace" not in metadata:
            metadata.pop("resourceVersion", None)  # (those that were there before are of another age on each server)

    def _refusal(self, status: dict[str, Any]) -> dict[str, Any]:
        """Causes in any order, each once; messages without the values that they show."""
        found = {name: status.get(name) for name in ("code", "reason")}
        details = dict(status.get("details") or {})
        causes = details.pop("causes", [])
        found["details"] = self._plain(details)
        found["causes"] = sorted(
            {
                (str(each.get("reason")), str(each.get("field")), self._message(each.get("message", "")))
                for each in causes
            }
        )
        message = status.get("message", "")
        found["message"] = "" if causes or _PARSERS_WORDS.search(message) else self._message(message)
        return found

    def _plain(self, value: Any) -> Any:
        return {name: self._text(str(part)) for name, part in value.items()}

    def _message(self, text: str) -> str:
        """Values are shown in words of their own; what is said of them comes last."""
        text = self._text(text)
        if _PARSERS_WORDS.search(text):
            return "<what the parser says>"
        text = text.partition("\n@@")[0].partition("\n  ")[0]  # (what follows is a dump of both objects)
        match = _SHOWN.search(text)
        if match is not None:
            said = text[match.start() :].rpartition(": ")[2]
            said = (
                "" if said.endswith(("}", "…")) or _LONG_VALUE.fullmatch(said) else said
            )  # (a value, and nothing said of it)
            text = f"{text[: match.start()]}{match.group(1)} ... {said}"
        text = (
            re.sub(r"StorageError: .*AdditionalErrorMsg: ", "", text)
            .replace("numeric (int or float)", "numeric")
            .replace("any scalar", "scalar")
        )
        if text.startswith(("406: Not Acceptable", "only the following media types")):
            return "<nothing that can be read>"
        text = re.sub(
            r"(failed to create typed patch object \([^)]*\)): .*", r"\1", text, flags=re.DOTALL
        )  # (which comes first is chance)
        text = re.sub(r"(requested object is a list|requested object is not a list) \(.*\)", r"\1", text)
        text = re.sub(r"\[name=.*?\](?=[:.])", "[name]", re.sub(r"[^\s\"]+ in body", "in body", text))
        text = re.sub(r'"(integer|number)"', "number", text).partition("compilation failed")[0]
        text = re.sub(r"conflict with \"[^\"]*\"", "conflict", text)
        text = re.sub(r"(accepted media types include|types are accepted|representations): .*", r"\1", text)
        return re.sub(
            r"(resource version:?|current:?) \d+|(in record|in object meta|in the precondition \()[^\d]*\d+", "N", text
        )

    def _text(self, text: str) -> str:
        text = _UID.sub(lambda found: self._uids.setdefault(found.group(), f"<uid {len(self._uids)}>"), text)
        if self._made_up is not None:
            text = self._made_up.sub("<made up>", text)
        return _NOW.sub("<time>", text)


def _ours_alone(items: Any) -> Any:
    """Without what a server keeps about itself."""
    return (
        [item for item in items if not _metadata_of(item).get("namespace", "").startswith("kube-")]
        if isinstance(items, list)
        else items
    )


def _metadata_of(item: Any) -> dict[str, Any]:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _plain_yaml(step: Step, value: Any) -> Any:
    """A YAML answer as the values it stands for; versions in it are left alone."""
    if not isinstance(value, str) or ("Accept", "application/yaml") not in step.headers:
        return value
    return yaml.load(re.sub(r"resourceVersion: .*", "resourceVersion: x", value), yaml.BaseLoader)


def _made_up(step: Step) -> re.Pattern[str] | None:
    """Names that the server makes up for this step."""
    metadata = step.body.get("metadata") if isinstance(step.body, dict) else None
    prefix = metadata.get("generateName") if isinstance(metadata, dict) else None
    return (
        re.compile(re.escape(prefix[:58]) + "[a-z0-9]{5}(?![a-z0-9])") if isinstance(prefix, str) and prefix else None
    )


class Version:
    """A resource version; equal ones are written alike by `settled`."""

    def __init__(self, number: int, *, of_list: bool) -> None:
        self.number, self.of_list = number, of_list


def settled(value: Any, ranks: dict[int, int]) -> Any:
    """Versions of objects become their rank among all that were seen, versions of lists how many objects' they
    cover.
    """
    if isinstance(value, Version):
        if value.number == 0:
            return "<version 0>"
        if value.of_list:
            return f"<after {sum(1 for version in ranks if version <= value.number)}>"
        return f"<version {ranks[value.number]}>"
    if isinstance(value, dict):
        return {name: settled(part, ranks) for name, part in value.items()}
    if isinstance(value, list):
        return [settled(part, ranks) for part in value]
    return value


def ranks_of(versions: set[int]) -> dict[int, int]:
    return {version: rank for rank, version in enumerate(sorted(versions), 1)}


def differences(one: Any, two: Any, place: str = "") -> list[str]:
    """Where two values differ, as text."""
    if isinstance(one, dict) and isinstance(two, dict):
        found = []
        for name in sorted({*one, *two}):
            inner = f"{place}.{name}" if place else str(name)
            if name not in one:
                found.append(f"{inner}: absent / {two[name]!r}")
            elif name not in two:
                found.append(f"{inner}: {one[name]!r} / absent")
            else:
                found += differences(one[name], two[name], inner)
        return found
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        return [
            text
            for number, pair in enumerate(zip(one, two, strict=True))
            for text in differences(*pair, f"{place}[{number}]")
        ]
    return [] if one == two and type(one) is type(two) else [f"{place}: {one!r} / {two!r}"]
