"""Helm with the chart of deploy/chart, for tests that render it or install it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from hack.chart.parts import PARTS, key
from tests.support.builders import Json
from tests.support.tools import tool

DRIVER = "DRIVER:latest"
CHART = Path(__file__).resolve().parents[2] / "deploy" / "chart" / "mooring"


def run_helm(
    home: Path, *args: str | Path, values: Mapping[str, Any] | None = None
) -> subprocess.CompletedProcess[str]:
    """Exit code and both outputs. home: where it keeps what it keeps. values: become the file that `-f -` would be."""
    surroundings = {
        **os.environ,
        **{f"HELM_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")},
    }
    command = [tool("helm"), *args]
    if values is not None:
        file = home / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        command.append(f"--values={file}")
    return subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=120, check=False)


def rendered(home: Path, values: Mapping[str, Any] | None = None, namespace: str = "storage") -> list[Json]:
    """The objects of a release with these values; the driver's image is that of the kustomizations if none is given."""
    named = {**(values or {}), "driver": {"image": DRIVER, **(values or {}).get("driver", {})}}
    done = run_helm(home, "template", "release", CHART, f"--namespace={namespace}", values=named)
    assert 0 == done.returncode, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def only(*parts: str) -> dict[str, Any]:
    """Values with these parts, and no others."""
    return {key(part): {"enabled": part in parts} for part in PARTS}


def by_name(objects: list[Json]) -> dict[tuple[str, str], Json]:
    """Each once, but for the namespace, which helm makes or finds."""
    found = {(one["kind"], one["metadata"]["name"]): one for one in objects if one["kind"] != "Namespace"}
    assert len(found) == len([one for one in objects if one["kind"] != "Namespace"])
    return found
