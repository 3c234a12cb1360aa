"""Reads the files of a release. No network, no write.

A folder with a kustomization is what its `resources` name, in its `namespace`; its patches, components and generators
are not applied (`kubectl kustomize DIR | mooring doctor -f -` judges these, too). A chart of Helm is not rendered. Any
other folder is all YAML and JSON below it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from mooring.base.border import refused_as
from mooring.base.errors import ConfigError
from mooring.base.yaml_text import Loader, from_yaml
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.objects import READ, VALUES_MAX, Item, without_nulls

KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
ENDINGS: Final = (".yaml", ".yml", ".json")
BYTES_MAX: Final = 16 * 2**20
DEPTH_MAX: Final = 20
NOT_APPLIED: Final = (
    "patches",
    "patchesStrategicMerge",
    "patchesJson6902",
    "components",
    "helmCharts",
    "namePrefix",
    "nameSuffix",
)
HELM: Final = "; if it is a template of Helm: helm template CHART | mooring doctor -f -"

Json = dict[str, Any]
_KINDS: Final = {(kind.group, kind.name): kind for kind in READ}


class YamlMarks:
    """Where an object stands. file: as it is shown."""

    def __init__(self, file: str, node: yaml.Node) -> None:
        self._file, self._node = file, node

    def at(self, *path: str | int) -> str:
        node = self._node
        line = node.start_mark.line
        for step in path:
            found = _step(node, step)
            if found is None:
                break
            line, node = found
        return f"{self._file}:{line + 1}"


def _step(node: yaml.Node, step: str | int) -> tuple[int, yaml.Node] | None:
    """The line and the node to which a key or a number leads."""
    if isinstance(node, yaml.MappingNode):
        return next(((key.start_mark.line, value) for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark.line, node.value[step]
    return None


class Files:
    """Fills an inventory. stdin: what `-` stands for."""

    def __init__(self, inventory: Inventory, stdin: str = "") -> None:
        self._inventory, self._stdin = inventory, stdin
        self._seen: set[Path] = set()

    def read(self, path: str) -> None:
        """What can't be read is noted, and the rest is read. Raises ConfigError for a path that is not there."""
        if path != "-" and not Path(path).exists():
            raise ConfigError(f"{path}: there is no such file or folder")
        before = self._inventory.count(), len(self._inventory.unread)
        self._any(Path(path), "", 0)
        if (self._inventory.count(), len(self._inventory.unread)) == before:
            self._inventory.note(path, "it has no object that the doctor looks at")

    def _any(self, path: Path, namespace: str, depth: int) -> None:
        try:
            self._file_or_folder(path, namespace, depth)
        except ConfigError as error:
            self._inventory.unread.append(error)

    def _file_or_folder(self, path: Path, namespace: str, depth: int) -> None:
        if str(path) == "-":
            self._text("<stdin>", self._stdin, "")
            return
        if depth > DEPTH_MAX:
            raise ConfigError(f"{path}: its kustomizations lead more than {DEPTH_MAX} folders deep")
        if path.resolve() in self._seen:
            return
        self._seen.add(path.resolve())
        if not path.is_dir():
            self._text(str(path), _text_of(path), namespace)
            return
        if (path / "Chart.yaml").is_file():
            self._inventory.note(
                f"the chart {path}", f"helm template {path} | mooring doctor -f - judges what it renders"
            )
            return
        named = next((path / name for name in KUSTOMIZATIONS if (path / name).is_file()), None)
        if named is not None:
            self._kustomization(named, namespace, depth)
            return
        for one in sorted(path.iterdir()):
            if not one.name.startswith(".") and (one.is_dir() or one.suffix in ENDINGS):
                self._any(one, namespace, depth + 1)

    def _kustomization(self, file: Path, namespace: str, depth: int) -> None:
        values = _safe(str(file), lambda: from_yaml(_text_of(file)))
        if not isinstance(values, dict):
            raise ConfigError(f"{file}: it is no kustomization")
        namespace = namespace or str(values.get("namespace") or "")
        for key in NOT_APPLIED:
            if values.get(key):
                why = f"kubectl kustomize {file.parent} | mooring doctor -f - judges them, too"
                self._inventory.note(f"the {key} of {file}", why)
        for one in values.get("resources") or ():
            path = file.parent / str(one)
            if path.exists():
                self._any(path, namespace, depth + 1)
            else:
                self._inventory.note(f"the resource {one} of {file}", "it is no file here")

    def _text(self, name: str, text: str, namespace: str) -> None:
        for number, (node, body) in enumerate(_documents(name, text)):
            if isinstance(body, dict):
                self._object(name, node, body, namespace)
            elif body is not None:
                self._inventory.note(f"document {number + 1} of {name}", "it is no object")

    def _object(self, name: str, node: yaml.Node, body: Json, namespace: str) -> None:
        if str(body.get("kind")).endswith("List") and isinstance(body.get("items"), list):
            found = _step(node, "items")
            assert found is not None
            for at, one in enumerate(body["items"]):
                inner = _step(found[1], at)
                if isinstance(one, dict) and inner is not None:
                    self._object(name, inner[1], one, namespace)
            return
        kind = _KINDS.get((str(body.get("apiVersion")).rpartition("/")[0], str(body.get("kind"))))
        if kind is None:
            return
        if namespace:
            _set_namespace(body, namespace, is_namespaced=kind.namespaced)
        try:
            obj = msgspec.convert(body, kind.struct)
        except msgspec.ValidationError as error:
            self._inventory.unread.append(ConfigError(f"{YamlMarks(name, node).at()}: {kind.name}: {error}"))
            return
        if obj.metadata.name:
            self._inventory.put(Item(kind, obj, YamlMarks(name, node)))


def _documents(name: str, text: str) -> list[tuple[yaml.Node, Any]]:
    def read() -> list[tuple[yaml.Node, Any]]:
        loader = Loader(text)
        found, budget = [], [VALUES_MAX]
        try:
            while loader.check_node():
                node = loader.get_node()
                assert node is not None
                found.append((node, without_nulls(loader.construct_document(node), budget)))
        finally:
            loader.dispose()
        return found

    found: list[tuple[yaml.Node, Any]] = _safe(name, read, hint=HELM if "{{" in text else "")
    return found


def _safe(name: str, read: Any, hint: str = "") -> Any:
    """What `read` gives. hint: the likely cause of what is no YAML. Raises ConfigError for that."""
    try:
        return read()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark is not None else name
        raise ConfigError(f"{where}: {getattr(error, 'problem', None) or error}{hint}") from None
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None


def _text_of(path: Path) -> str:
    with refused_as(str(path)):
        if path.stat().st_size > BYTES_MAX:
            raise ConfigError(f"{path}: it has more than {BYTES_MAX} bytes")
        return path.read_text(encoding="utf-8")


def _set_namespace(body: Json, namespace: str, *, is_namespaced: bool) -> None:
    """Set it as kustomize does: on the object, and on the service accounts that a binding names."""
    metadata = body.get("metadata")
    if is_namespaced and isinstance(metadata, dict):
        metadata["namespace"] = namespace
    subjects = body.get("subjects")
    for one in subjects if isinstance(subjects, list) else ():
        if isinstance(one, dict) and one.get("kind") == "ServiceAccount":
            one["namespace"] = namespace
