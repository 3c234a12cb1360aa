"""One kubeconfig file, read and checked: its clusters, users and contexts as entries that know where they stand.

Every complaint names the file and the field. Values are not shown: any of them may be a secret in the wrong place.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from mooring.base.errors import ConfigError
from mooring.base.json_text import from_json
from mooring.kube.client.config import Pem, read_file


@dataclasses.dataclass(frozen=True, slots=True)
class KubeconfigEntry:
    """A mapping of a kubeconfig. where: its place, for messages. folder: what relative paths in it start from."""

    values: Mapping[str, Any] = dataclasses.field(repr=False)
    where: str
    folder: Path

    def text(self, field: str) -> str:
        """A text field, "" when it is absent."""
        value = self._typed(field, str, "text; put it in quotes")
        return "" if value is None else value

    def flag(self, field: str) -> bool:
        return bool(self._typed(field, bool, "true or false"))

    def texts(self, field: str) -> tuple[str, ...]:
        """A list of texts, () when it is absent."""
        values = self._typed(field, list, "a list of texts") or ()
        if not all(isinstance(value, str) for value in values):
            raise ConfigError(f"{self.where}: {field} must be a list of texts; put each in quotes")
        return tuple(values)

    def child(self, field: str) -> KubeconfigEntry | None:
        """A mapping inside, None when it is absent."""
        values = self._typed(field, dict, "a mapping")
        return None if values is None else KubeconfigEntry(values, f"{self.where}: {field}", self.folder)

    def children(self, field: str) -> Iterator[KubeconfigEntry]:
        for index, values in enumerate(self._typed(field, list, "a list") or ()):
            place = f"{self.where}: {field}[{index}]"
            if not isinstance(values, dict):
                raise ConfigError(f"{place} is {_described(values)}, must be a mapping")
            yield KubeconfigEntry(values, place, self.folder)

    def path(self, field: str) -> str:
        """A file's absolute path, "" when the field is absent; relative ones start where the kubeconfig lies."""
        text = self.text(field)
        return str(self.folder / text) if text else ""

    def pem(self, field: str) -> Pem | None:
        """PEM text given as `<field>-data` or `<field>`; the data wins, as in Go's client."""
        encoded = self.text(f"{field}-data")
        if encoded:
            return Pem(f"{self.where}: {field}-data", data=self._decoded(f"{field}-data", encoded))
        path = self.path(field)
        return Pem(f"{self.where}: {field}", path=path) if path else None

    def _decoded(self, field: str, encoded: str) -> bytes:
        try:
            return base64.b64decode("".join(encoded.split()), validate=True)
        except (binascii.Error, ValueError):
            raise ConfigError(
                f"{self.where}: {field} is not base64; encode the PEM file with `base64 -w0`, or name it by "
                f"{field[:-5]}"
            ) from None

    def _typed(self, field: str, kind: type, allowed: str) -> Any:
        value = self.values.get(field)
        if value is not None and not isinstance(value, kind):
            raise ConfigError(f"{self.where}: {field} is {_described(value)}, must be {allowed}")
        return value


class KubeFile(msgspec.Struct, frozen=True):
    """The parts of one file, or of several merged. Each mapping goes from an entry's name to the entry."""

    where: str
    current_context: str
    contexts: Mapping[str, KubeconfigEntry]
    clusters: Mapping[str, KubeconfigEntry]
    users: Mapping[str, KubeconfigEntry]


def read_kube_file(path: str, *, alone: bool = True) -> KubeFile:
    """Raises ConfigError when the file can't be read, is not valid YAML, or is no kubeconfig. alone: then an empty one
    is none, too.
    """
    where = f'kubeconfig "{path}"'
    top = KubeconfigEntry(_parsed(read_file(path, "kubeconfig"), where), where, Path(path).absolute().parent)
    if top.text("kind") not in ("", "Config"):
        raise ConfigError(f'{where}: its kind is "{top.text("kind")}", must be "Config"; is it the right file?')
    if alone and not top.values:
        raise ConfigError(f"{where}: is empty")
    if alone and not any(field in top.values for field in ("clusters", "contexts", "users", "current-context")):
        raise ConfigError(f"{where}: has neither clusters nor contexts nor users; is it the right file?")
    return KubeFile(
        where,
        top.text("current-context"),
        _named(top, "contexts", "context"),
        _named(top, "clusters", "cluster"),
        _named(top, "users", "user"),
    )


def merged(files: list[KubeFile]) -> KubeFile:
    """Several files as one: an entry is the first file's that has it, whole; so is the current context."""
    assert files
    contexts: dict[str, KubeconfigEntry] = {}
    clusters: dict[str, KubeconfigEntry] = {}
    users: dict[str, KubeconfigEntry] = {}
    for file in reversed(files):
        contexts.update(file.contexts)
        clusters.update(file.clusters)
        users.update(file.users)
    current = next((file.current_context for file in files if file.current_context), "")
    return KubeFile(" + ".join(file.where for file in files), current, contexts, clusters, users)


def _named(top: KubeconfigEntry, field: str, inner: str) -> dict[str, KubeconfigEntry]:
    """`[{name: a, user: {...}}]` as a mapping by name. If two have one name the first counts, as between files."""
    found: dict[str, KubeconfigEntry] = {}
    for item in top.children(field):
        name = item.text("name")
        if not name:
            raise ConfigError(f"{item.where} has no name")
        values = item.child(inner)
        found.setdefault(
            name, KubeconfigEntry(values.values if values else {}, f'{top.where}: {inner} "{name}"', top.folder)
        )
    return found


def _parsed(content: bytes, where: str) -> dict[str, Any]:
    try:
        values = from_json(content)
    except ValueError:  # most files are YAML, whose parser takes a megabyte of memory: a pod has no use for it
        from mooring.kube.client.kubeyaml import parsed_yaml

        values = parsed_yaml(content, where)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{where}: is {_described(values)}, must be a mapping with clusters, contexts and users")
    return values


def _described(value: object) -> str:
    names = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "something else")
