"""A machine that lacks something is told what to install, before anything is made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what the set-up reads, without .venv."""
    (tmp_path / "hack").mkdir()
    for name in ("hack/setup", "hack/uv.txt", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def set_up(project: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [project / "hack" / "setup"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_python_without_its_venv_module_is_told_by_the_package_to_install(project: Path) -> None:
    """Debian ships Python without ensurepip; `python -m venv` then fails after making half of a .venv."""
    (project / "broken").mkdir()
    (project / "broken" / "ensurepip.py").write_text("raise ModuleNotFoundError('ensurepip')")
    done = set_up(project, PYTHON=sys.executable, PYTHONPATH=str(project / "broken"))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert done.returncode == 1
    assert f"({version}) has no working venv module" in done.stderr
    assert f"apt install python{version}-venv" in done.stderr
    assert not (project / ".venv").exists()


def test_a_python_that_is_too_old_is_told_by_the_version_to_install(project: Path) -> None:
    old = project / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = set_up(project, PYTHON=str(old))
    assert done.returncode == 1
    assert "no Python 3.11 or newer found" in done.stderr
    assert "apt install python3 python3-venv" in done.stderr
    assert not (project / ".venv").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("given", "wanted"), [({}, "1"), ({"UV_SYSTEM_CERTS": "0"}, "0")])
def test_uv_trusts_the_system_and_a_failed_download_says_what_helps(
    project: Path, given: dict[str, str], wanted: str
) -> None:
    """Behind a private CA pip works and uv, left alone, fails. uv here is a stand-in that cannot reach any index."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", project / ".venv"], check=True)
    pinned = (project / "hack" / "uv.txt").read_text().partition("uv==")[2].split()[0]
    pip, uv = project / "pip", project / ".venv" / "bin" / "uv"
    pip.mkdir()
    (pip / "__main__.py").write_text("print('pip')")
    uv.write_text(
        f'#!/bin/sh\n[ "$1" != --version ] || {{ echo "uv {pinned}"; exit; }}\necho "certs $UV_SYSTEM_CERTS" '
        ">&2; exit 2\n"
    )
    uv.chmod(0o755)
    bare = {name: value for name, value in os.environ.items() if name not in ("UV_SYSTEM_CERTS", "PYTHON")}
    done = subprocess.run(
        [project / "hack" / "setup"],
        env={**bare, "PYTHONPATH": str(project), **given},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert 1 == done.returncode
    assert f"certs {wanted}\n" in done.stderr
    assert "UV_DEFAULT_INDEX" in done.stderr
    assert "SSL_CERT_FILE" in done.stderr


def test_the_recipe_of_the_real_parts_knows_what_it_can_build(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "hack/kube/build", "kubelett"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "unknown program 'kubelett'" in done.stderr
    assert "kubectl" in done.stderr


def test_the_recipe_of_the_real_parts_says_that_go_is_missing(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "dirname", "cat", "sha256sum", "cut", "mkdir", "flock", "grep", "awk", "env"):
        found = shutil.which(name)
        assert found, name
        (tools / name).symlink_to(found)
    environment = {"PATH": str(tools), "HOME": str(tmp_path)}
    done = subprocess.run(
        [ROOT / "hack/kube/build", "kubectl"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "Go is not installed" in done.stderr
    assert "KUBE_TEST_BIN" in done.stderr
