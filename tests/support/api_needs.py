"""What Mooring's code needs of the API: kinds, since which release they are served, and the fields that it reads.

    python -m tests.support.api_needs      writes the table into docs/versions.md, and docs/api-fields.yaml

The page has the kinds, the file for machines beside it the fields of each.

Kinds and fields are those of `mooring.api`; the releases are Kubernetes' own words, in the Go module k8s.io/api that
the real parts are built from: kinds that are older than this record have none.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import subprocess
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

import mooring.api
from mooring.api.meta import Kind, ObjectMeta

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "versions.md"
FIELDS: Final = ROOT / "docs" / "api-fields.yaml"
INSTALLED: Final = {"gateway.networking.k8s.io", "groupsnapshot.storage.k8s.io", "snapshot.storage.k8s.io"}
"""Groups that Kubernetes itself does not have."""
BEGIN: Final = "<!-- what the code needs: python -m tests.support.api_needs -->\n"
END: Final = "<!-- the end of it -->\n"


def kinds() -> list[Kind[Any]]:
    found = {}
    for module in pkgutil.iter_modules(mooring.api.__path__):
        for value in vars(importlib.import_module(f"mooring.api.{module.name}")).values():
            if isinstance(value, Kind):
                found[value.group, value.version, value.name] = value
    return [found[key] for key in sorted(found)]


def fields_of(struct: Any, path: str = "") -> Iterator[str]:
    """Paths of the leaves, without the metadata, which is the same everywhere. None of what is read as it comes."""
    if not (isinstance(struct, type) and issubclass(struct, msgspec.Struct)):
        return
    for field in msgspec.structs.fields(struct):
        name = f"{path}{field.encode_name}"
        inner = next(
            (one for one in _parts(field.type) if isinstance(one, type) and issubclass(one, msgspec.Struct)), None
        )
        if (inner is not None and issubclass(inner, ObjectMeta)) or name == "metadata":
            continue
        if inner is None or name.count(".") > 3:
            yield name
        else:
            yield from fields_of(inner, f"{name}.")


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in typing.get_args(annotation):
        yield from _parts(part)


def served_since(kind: Kind[Any], sources: Path) -> str:
    """As in `1.34`; "" where the sources record none."""
    folder = sources / (kind.group.removesuffix(".k8s.io").split(".")[0] or "core") / kind.version
    for path in folder.glob("zz_generated.prerelease-lifecycle.go"):
        found = re.search(
            rf"\(in \*{kind.name}\) APILifecycleIntroduced\(\).*\n\treturn (\d+), (\d+)", path.read_text()
        )
        if found:
            return f"{found[1]}.{found[2]}"
    return ""


def sources() -> Path | None:
    """The folder of the Go module k8s.io/api, None where it isn't."""
    try:
        words = ["go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api"]
        environ = {**os.environ, "GOFLAGS": "-mod=mod", "GOPROXY": "off"}
        done = subprocess.run(
            words,
            cwd=ROOT / "hack" / "kube" / "cluster",
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return Path(done.stdout.strip()) if done.stdout.strip() else None


def table(folder: Path) -> str:
    lines = ["| kind | API | served since |", "|---|---|---|"]
    for kind in kinds():
        is_built_in = kind.group not in INSTALLED
        since = (served_since(kind, folder) or "its beginning") if is_built_in else "its definition is installed"
        lines.append(f"| {kind.name} | {_api_of(kind)} | {since} |")
    return "\n".join(lines) + "\n"


def fields_file() -> str:
    """The text of `FIELDS`: the fields of each kind, by its API and name."""
    found = {f"{_api_of(kind)} {kind.name}": list(fields_of(kind.struct)) for kind in kinds()}
    return f"# Made by `python -m tests.support.api_needs`.\n{yaml.safe_dump(found, sort_keys=False, width=120)}"


def _api_of(kind: Kind[Any]) -> str:
    return f"{kind.group}/{kind.version}".removeprefix("/")


def with_table(page: str, folder: Path) -> str:
    """The page with the table as the code has it now."""
    head, _, rest = page.partition(BEGIN)
    return f"{head}{BEGIN}{table(folder)}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    FIELDS.write_text(fields_file())
    found = sources()
    assert found is not None, "the Go module k8s.io/api is not here: hack/kube/build brings it"
    PAGE.write_text(with_table(PAGE.read_text(), found))
