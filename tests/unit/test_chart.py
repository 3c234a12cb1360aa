"""`make check` sees a chart that is not what the kustomizations make it, without kubectl. tests/e2e/test_chart.py
compares it whole.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.rows import each_row

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what the check reads."""
    for name in ("deploy", "hack/chart"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def check(project: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hack.chart", "--check"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=30, check=False)


def test_it_is_fresh(project: Path) -> None:
    done = check(project)
    assert (0, "") == (done.returncode, done.stderr)


@each_row(
    ("file", "old", "new"),
    [
        ("deploy/attacher/deployment.yaml", "replicas: 2", "replicas: 3"),
        ("deploy/statefulset/kustomization.yaml", "value: 1", "value: 2"),
        ("deploy/chart/mooring/templates/attacher.yaml", "kind: Deployment", "kind: DaemonSet"),
        ("deploy/chart/mooring/values.yaml", "csi.example.com", "mine.example.com"),
        ("hack/chart/parts.py", '"binder",', ""),
        ("pyproject.toml", 'version = "0.', 'version = "9.'),
    ],
    fresh=[project],
)
def test_a_change_on_either_side_is_seen(project: Path, file: str, old: str, new: str) -> None:
    text = (project / file).read_text()
    assert old in text
    (project / file).write_text(text.replace(old, new))
    done = check(project)
    assert (1, "deploy/chart is not what deploy/ makes it: run `make chart`\n") == (done.returncode, done.stderr)


def test_a_file_too_many_is_seen(project: Path) -> None:
    (project / "deploy" / "chart" / "mooring" / "templates" / "more.yaml").write_text("a: b\n")
    assert 1 == check(project).returncode


def test_what_people_write_there_is_left_to_them(project: Path) -> None:
    (project / "deploy" / "chart" / "mooring" / "templates" / "NOTES.txt").write_text("Another word.\n")
    assert 0 == check(project).returncode
