"""What a bench says about the Python that runs it: figures without that mean little."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest

from bench.interpreter import interpreter, optimisations, spread_kib
from bench.tables import heading

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("configured", "flags", "spread", "profile", "linked"),
    [
        ("'--enable-shared'", "-O3", 8, "no", "no"),
        ("'--enable-optimizations' '--with-lto'", "-O3", 1500, "yes", "yes"),
        ("'--enable-optimizations'", "-O3", 700, "yes", "no"),
        ("'--prefix=/usr'", "-O2 -flto=auto", 8, "no", "yes"),
        ("'--prefix=/usr' '--with-computed-gotos'", "-O2", 1508, "yes, by the layout of its code", "not known"),  # Debian 12
    ],
)
def test_a_build_is_told_as_far_as_it_can_be_known(configured: str, flags: str, spread: int, profile: str, linked: str) -> None:
    told = optimisations(configured, flags, spread)
    assert f"profile-guided optimisation: {profile}; link-time optimisation: {linked}" == told


def test_the_layout_can_be_read_here() -> None:
    assert 1 <= spread_kib() < 100 * 1024


def test_every_heading_names_the_build() -> None:
    assert platform.python_version() in interpreter()
    assert platform.python_compiler().split()[0] in interpreter()
    assert interpreter() in heading("the Go one")
    assert "{heading(" in (ROOT / "bench" / "apiserver.py").read_text()


BENCHES = ("bench-attach", "bench-provision", "bench-apiserver")


def commands(target: str, **environment: str) -> str:
    """What make would run."""
    bare = {name: value for name, value in os.environ.items() if name not in ("PYTHON", "MAKEFLAGS", "MAKELEVEL")}
    command = ["make", "--dry-run", "--always-make", target]
    return subprocess.run(command, cwd=ROOT, env={**bare, **environment}, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("target", BENCHES)
def test_a_bench_on_another_python_leaves_the_developers_environment_alone(target: str) -> None:
    told = commands(target, PYTHON="/opt/other/python3")
    assert "hack/setup .venv-bench\n" in told
    assert ".venv-bench/bin/python -m bench." in told
    assert ".venv/" not in told


@pytest.mark.parametrize("target", BENCHES)
def test_a_bench_takes_the_developers_environment_otherwise(target: str) -> None:
    told = commands(target)
    assert ".venv-bench" not in told
    assert ".venv/bin/python -m bench." in told
