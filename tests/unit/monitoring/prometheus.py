"""What the real Prometheus makes of series: by promtool, on a test file of its own form."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.support.tools import tool
from tests.unit.monitoring.world import SCRAPE_S, Series

RULES: Final = Path(__file__).resolve().parents[3] / "deploy" / "monitoring" / "prometheus-rules.yaml"
FIRED: Final = 'group by (alertname) (count_over_time(ALERTS{alertstate="firing"}[%dm]))'
"""The alerts that have fired in so many minutes."""

Expected = Mapping[str, Sequence[str]]
"""By expression, the samples that it gives at the end: labels and a number, as PromQL writes them."""


def judged(folder: Path, series: Mapping[Series, Sequence[float | None]], minutes: int, expected: Expected) -> str:
    """Evaluates the rules over the series, and compares; "" where all is as expected, else promtool's words."""
    tests = [
        {"expr": expr, "eval_time": f"{minutes}m", "exp_samples": [_sample(text) for text in samples]}
        for expr, samples in expected.items()
    ]
    given = [{"series": name_of(key), "values": " ".join(map(value_text, values))} for key, values in series.items()]
    interval = f"{SCRAPE_S:g}s"
    content = {
        "rule_files": [str(RULES)],
        "evaluation_interval": interval,
        "tests": [{"interval": interval, "input_series": given, "promql_expr_test": tests}],
    }
    file = folder / "test.yaml"
    file.write_text(json.dumps(content))
    return promtool("test", "rules", file)


def promtool(*words: str | Path) -> str:
    """ "" where it is content, else its words."""
    done = subprocess.run([tool("promtool"), *words], capture_output=True, text=True, timeout=300, check=False)
    return "" if done.returncode == 0 else f"{done.stdout}{done.stderr}"


def name_of(key: Series) -> str:
    name, labels = key
    return f"{name}{{{', '.join(f'{label}={json.dumps(value)}' for label, value in labels)}}}"


def value_text(value: float | None) -> str:
    return "_" if value is None else f"{value!r}".replace("inf", "Inf").replace("nan", "NaN")


def _sample(text: str) -> Mapping[str, Any]:
    labels, _, value = text.rpartition(" ")
    return {"labels": labels, "value": float(value)}
