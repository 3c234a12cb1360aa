"""Kubeconfig files for tests: a right one, to be changed in one place."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from tests.unit.kube.certificates import authority_pem

SECRET = "hunter2-c4n4ry"
"""Stands in every place where a secret may; no message may show it."""


def base64_of(content: bytes) -> str:
    return base64.b64encode(content).decode()


def a_config(
    *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **top: Any
) -> dict[str, Any]:
    """cluster: changes to the cluster's entry, None removes a field. user: the whole of the user's."""
    changed = {
        "server": "https://127.0.0.1:6443",
        "certificate-authority-data": base64_of(authority_pem()),
        **(cluster or {}),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "storage"}}],
        "clusters": [{"name": "c", "cluster": {name: value for name, value in changed.items() if value is not None}}],
        "users": [{"name": "u", "user": {"token": SECRET} if user is None else user}],
        **top,
    }
    return {name: value for name, value in config.items() if value is not None}


def written(folder: Path, config: dict[str, Any] | str, name: str = "config") -> str:
    """The path of a file with this in it."""
    path = folder / name
    path.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
    return str(path)


def a_program(folder: Path, script: str, name: str = "plugin") -> str:
    """The path of a shell script."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)
