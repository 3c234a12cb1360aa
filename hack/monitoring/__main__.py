"""Writes the files of deploy/monitoring; `--check` says which of them are out of date instead."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from hack.monitoring.alerts import ALERTS
from hack.monitoring.dashboards import DASHBOARDS

FOLDER: Final = Path(__file__).parents[2] / "deploy" / "monitoring"
_HEAD: Final = "# Written by `make monitoring` from hack/monitoring. Change that.\n"


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def files() -> Mapping[str, str]:
    """Path below deploy/monitoring to content."""
    groups = {"groups": [{"name": "mooring", "rules": [alert.rule() for alert in ALERTS]}]}
    metadata = {"name": "mooring", "labels": {"app.kubernetes.io/name": "mooring"}}
    rule = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": metadata, "spec": groups}
    boards = {f"dashboards/{board.name}.json": json.dumps(board.model(), indent=1) + "\n" for board in DASHBOARDS}
    return {"rules.yaml": _yaml(rule), "prometheus-rules.yaml": _yaml(groups), **boards}


def _yaml(content: Mapping[str, Any]) -> str:
    return _HEAD + yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=140)


def main() -> int:
    wanted = files()
    there = {str(path.relative_to(FOLDER)) for path in (*FOLDER.glob("*rules.yaml"), *FOLDER.glob("dashboards/*.json"))}
    stale = [name for name, text in wanted.items() if name not in there or (FOLDER / name).read_text() != text]
    stale += sorted(there - wanted.keys())
    if "--check" in sys.argv:
        if stale:
            print(f"deploy/monitoring is out of date, run `make monitoring`: {', '.join(stale)}", file=sys.stderr)
        return 1 if stale else 0
    for name in sorted(there - wanted.keys()):
        (FOLDER / name).unlink()
    for name, text in wanted.items():
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
