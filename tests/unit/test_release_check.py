"""`make release-check`: on a copy of the project that is ready, each check passes; and each is seen to fail."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hack.release_check import CHECKS
from tests.support.rows import each_row
from tests.unit.test_images import VERSION

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
BASE = f"python@sha256:{'0' * 64}"


def git(project: Path, *words: str) -> None:
    person = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.com"]
    subprocess.run(["git", *person, *words], cwd=project, check=True, capture_output=True, timeout=60)


def released(text: str) -> str:
    """The changelog with the section of this version, if it has none yet."""
    section = f"## [{VERSION}] - "
    if section in text:
        return re.sub(rf"(?m)^{re.escape(section)}.*$", f"{section}2026-01-02", text)
    head, _, rest = text.partition("## [Unreleased]\n")
    assert rest
    return f"{head}## [Unreleased]\n\n{section}2026-01-02\n{rest}"


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What would be released: this project with its section in the changelog, committed and tagged."""
    project = tmp_path_factory.mktemp("ready") / "project"
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).exists() and (not name.startswith("tests/") or name.startswith("tests/support/")):
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, project / name)
    (project / ".venv").symlink_to(ROOT / ".venv")
    log = project / "CHANGELOG.md"
    log.write_text(released(log.read_text()))
    git(project, "init", "--quiet")
    (project / ".git" / "info" / "exclude").write_text(".venv\n")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message=ready")
    git(project, "tag", f"v{VERSION}")
    return project


@pytest.fixture
def project(ready: Path, tmp_path: Path) -> Path:
    """One to spoil."""
    shutil.copytree(ready, tmp_path / "project", symlinks=True)
    return tmp_path / "project"


def check(project: Path, *words: str) -> tuple[int, list[str]]:
    """The exit code, and the lines."""
    command = [sys.executable, "-m", "hack.release_check", *words]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120, check=False)
    assert "" == done.stderr
    return done.returncode, done.stdout.splitlines()


def test_what_is_ready_passes_all(ready: Path) -> None:
    code, lines = check(ready, f"--base={BASE}")
    assert [("ok", name) for name in CHECKS] == [tuple(line.split()[:2]) for line in lines[:-1]], lines
    assert (0, "ready to be released") == (code, lines[-1])


SPOILT = [
    (
        "versions",
        "src/mooring/__init__.py",
        r"__version__ = .*",
        '__version__ = "9.9.9"',
        "src/mooring/__init__.py has 9.9.9",
    ),
    ("versions", "docs/images.md", r"mooring-csi-attacher:\S+", "mooring-csi-attacher:9.9.9", "docs/images.md has"),
    (
        "versions",
        "deploy/binder/kustomization.yaml",
        r"newTag: .*",
        "newTag: 9.9.9",
        "deploy/binder/kustomization.yaml has",
    ),
    (
        "chart",
        "deploy/chart/mooring/Chart.yaml",
        r"appVersion: .*",
        "appVersion: 9.9.9",
        "9.9.9 in deploy/chart/mooring",
    ),
    ("changelog", "CHANGELOG.md", r"## \[\d.* - .*", "## [9.9.9] - 2026-01-02", "no section"),
    ("changelog", "CHANGELOG.md", r" - 2026-01-02\n", " - 2026-01-02\n\n## [0.0.1] - 2025-01-02\n", "is empty"),
    (
        "changelog",
        "CHANGELOG.md",
        r"(## \[\d)",
        r"## [Unreleased]\n\n- A thing.\n\n\1",
        "[Unreleased] is not empty",
    ),
    ("lock", "pyproject.toml", r'"hpack>=3.0"', '"hpack>=99"', "hpack>=99"),
    ("lock", "pyproject.toml", r'  "hpack>=3.0".*\n', "", "(hpack)"),
    ("lock", "hack/image.lock", r"hpack==\S+", "hpack==3.9", "hpack 3.9"),
    ("lock", "hack/build.lock", r"(editables==\S+) \\\n(?:    --hash.*\n)+", r"\1\n", "without a hash: editables"),
    ("sbom", "hack/sbom", r"list mooring hack/image.lock", "list mooring hack/build.lock", "it has other packages"),
    ("lock", "hack/image.lock", r"hpack==", "hpack>=", "no version of its own: hpack>="),
    ("generated", "deploy/attacher/deployment.yaml", r"replicas: 2", "replicas: 3", "run `make chart`"),
    ("generated", "deploy/monitoring/rules.yaml", r"for: 2m", "for: 3m", "monitoring: "),
    (
        "kinds",
        "docs/versions.md",
        r"snapshot.storage.k8s.io/v1 ",
        "snapshot.storage.k8s.io/v1alpha1 ",
        "VolumeSnapshot ",
    ),
    (
        "wheel",
        "pyproject.toml",
        r'packages = \["src/mooring"\]',
        'packages = ["src/mooring", "tests"]',
        "it also holds",
    ),
]


@each_row(("name", "file", "old", "new", "said"), SPOILT, parts=4, fresh=[project])
def test_each_check_is_seen_to_fail(project: Path, name: str, file: str, old: str, new: str, said: str) -> None:
    text = (project / file).read_text()
    spoilt = re.sub(old, new, text)
    assert text != spoilt
    (project / file).write_text(spoilt)
    code, (line, end) = check(project, name)
    assert (1, "1 of 1 failed") == (code, end), line
    assert re.match(rf"FAILED  {name} +\S", line), line
    assert said in line


def test_the_base_is_named_by_its_digest(ready: Path) -> None:
    assert 1 == check(ready, "base")[0]
    assert 1 == check(ready, "base", "--base=python:3.12-slim")[0]
    assert (0, [f"ok      base       {BASE}", "ready to be released"]) == check(ready, "base", f"--base={BASE}")


def test_the_tag_is_that_of_the_commit(project: Path) -> None:
    git(project, "commit", "--quiet", "--allow-empty", "--message=later")
    assert f"FAILED  tag        the commit has no tag v{VERSION}" == check(project, "tag")[1][0]
    git(project, "tag", "--force", f"v{VERSION}")
    assert 0 == check(project, "tag")[0]
    (project / "README.md").write_text("changed")
    assert "FAILED  tag        not committed: README.md" == check(project, "tag")[1][0]


def test_a_changelog_that_has_the_section_keeps_it() -> None:
    once = released("# Changelog\n\n## [Unreleased]\n\n- A thing.\n")
    assert once == released(once) == released(once.replace("2026-01-02", "2026-05-06"))


def test_every_check_is_seen_to_fail_somewhere_here() -> None:
    assert CHECKS.keys() == {name for name, *_ in SPOILT} | {"base", "tag"}


def test_a_check_that_is_not_there_is_refused(ready: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hack.release_check", "nobody"],
        cwd=ready,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert 2 == done.returncode
    assert "no such check: nobody" in done.stderr
