"""A dashboard as Grafana reads it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final


@dataclasses.dataclass(frozen=True, slots=True)
class Panel:
    """expr: what it shows. legend: of each line, with Grafana's templates. unit: Grafana's name of it. kind: its kind
    of panel.
    """

    title: str
    expr: str
    legend: str = "__auto"
    unit: str = "short"
    kind: str = "timeseries"
    description: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Dashboard:
    """name: of its file. panels: two beside each other, single values four. of: a series that this role alone has."""

    name: str
    title: str
    of: str
    panels: tuple[Panel, ...]

    def _variables(self) -> Iterator[Mapping[str, Any]]:
        """Each lists what there is of this role under the choices before it."""
        name, _, matchers = self.of.rstrip("}").partition("{")
        chosen = [matchers] if matchers else []
        for label in LABELS:
            yield _variable(label, f"{name}{{{', '.join(chosen)}}}")
            chosen.append(f'{label}=~"${label}"')

    def model(self) -> Mapping[str, Any]:
        """Grafana's JSON."""
        panels, x, y = [], 0, 0
        for number, panel in enumerate(self.panels, start=1):
            width, height = (6, 4) if panel.kind == "stat" else (12, 8)
            panels.append(_panel(panel, number, {"x": x, "y": y, "w": width, "h": height}))
            x += width
            if x >= _WIDTH or (number < len(self.panels) and self.panels[number].kind != panel.kind):
                x, y = 0, y + height
        return {
            "uid": f"mooring-{self.name}",
            "title": self.title,
            "tags": ["mooring", "csi"],
            "schemaVersion": 39,
            "editable": True,
            "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"},
            "timezone": "",
            "templating": {"list": [_SOURCE, *self._variables()]},
            "panels": panels,
        }


LABELS: Final = ("namespace", "job", "container")
"""A dashboard's variables."""

_WIDTH: Final = 24
_DATA: Final = {"type": "prometheus", "uid": "${datasource}"}
_SOURCE: Final = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}


def _variable(label: str, series: str) -> Mapping[str, Any]:
    query = f"label_values({series}, {label})"
    return {
        "name": label,
        "type": "query",
        "datasource": _DATA,
        "definition": query,
        "query": {"query": query, "refId": label},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _panel(panel: Panel, number: int, place: Mapping[str, int]) -> Mapping[str, Any]:
    target = {
        "refId": "A",
        "datasource": _DATA,
        "expr": panel.expr,
        "legendFormat": panel.legend,
        "range": panel.kind != "stat",
    }
    if panel.kind == "stat":
        target["instant"] = True
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATA,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}} if panel.kind == "timeseries" else {},
        "targets": [target],
    }
