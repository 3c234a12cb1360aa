"""Reads the lock files, and what pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements.lock", "hack/image.lock", "hack/build.lock", "hack/uv.txt")


def direct_requirements(root: Path = ROOT) -> dict[str, Requirement]:
    """What pyproject.toml asks for itself, by normalised name: run time, extras and the group dev with what it
    includes.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text())
    texts = [
        *project["project"]["dependencies"],
        *(one for extra in project["project"]["optional-dependencies"].values() for one in extra),
    ]
    groups = ["dev"]
    while groups:
        for one in project["dependency-groups"][groups.pop()]:
            if isinstance(one, str):
                texts.append(one)
            else:
                groups.append(one["include-group"])
    return {canonicalize_name(requirement.name): requirement for requirement in map(Requirement, texts)}


def locked(file: str, root: Path = ROOT) -> dict[str, tuple[str, str]]:
    """Version and everything said about each package in a lock file. Raises ValueError for a line that pins nothing."""
    parts = re.split(r"^(?=[A-Za-z0-9])", (root / file).read_text(), flags=re.MULTILINE)[1:]
    found = {}
    for part in parts:
        head = re.match(r"(\S+)==(\S+)", part)
        if head is None:
            raise ValueError(f"{file}: no version of its own: {part.splitlines()[0]}")
        found[head[1]] = (head[2], part)
    return found
