"""What somebody gets who installs Mooring as a package: a real wheel, installed into an environment without the
extras.
"""

from __future__ import annotations

import email
import email.message
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mooring.cli.mooring import COMMANDS
from tests.support.rows import each_row

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a release builds it; hatchling is in the lock, so that nothing is fetched."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def told(wheel: Path) -> email.message.Message:
    """The wheel's METADATA, which an index shows."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of a fresh environment: the wheel installed by pip, and what it needs without extras lent from
    ours.
    """
    venv = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    for top in {top for name in _needed("mooring", {"mooring"}) for top in _tops(name)}:
        (packages / top.name).symlink_to(top)
    pip = [sys.executable, "-m", "pip", f"--python={venv}", "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(pip, check=True, cwd=venv)
    return venv / "bin"


def _needed(name: str, seen: set[str]) -> set[str]:
    """What a package needs, and what that needs, without extras. seen: what was gone through, added to."""
    environment = {**default_environment(), "extra": ""}
    for wanted in map(Requirement, metadata.requires(name) or ()):
        known = canonicalize_name(wanted.name)
        if known not in seen and (wanted.marker is None or wanted.marker.evaluate(environment)):
            seen.add(known)
            _needed(known, seen)
    return seen - {"mooring"}


def _tops(name: str) -> set[Path]:
    """A package's files and folders directly in site-packages."""
    found = metadata.distribution(name)
    return {
        Path(str(found.locate_file(file.parts[0])))
        for file in found.files or ()
        if file.parts[0] not in ("..", "__pycache__")
    }


def run(scripts: Path, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [scripts / name, *words], cwd=scripts, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.long
def test_the_sidecars_start_without_extras(scripts: Path) -> None:
    for name in PROJECT["scripts"]:
        done = run(scripts, name, "--version")
        assert (0, "") == (done.returncode, done.stderr), name
        assert PROJECT["version"] in done.stdout


def test_help_is_there(scripts: Path) -> None:
    done = run(scripts, "mooring", "--help")
    assert (0, "") == (done.returncode, done.stderr)
    assert "\n  dev " in done.stdout


@each_row("words", [["dev"], ["demo"], ["apiserver", "--state=state"]], ids=" ".join)
def test_a_missing_extra_is_named_as_the_package_has_it(scripts: Path, words: list[str]) -> None:
    """There is no project's folder for somebody who has a wheel."""
    done = run(scripts, "mooring", *words)
    assert 1 == done.returncode
    assert done.stderr.endswith(": pip install 'mooring[server,ui]'\n")
    assert 1 == done.stderr.count("\n")


def test_the_page_shows_the_same_everywhere(told: email.message.Message) -> None:
    """An index shows it alone: what it points at must be an address, and diagrams stay text there."""
    assert "text/markdown" == told["Description-Content-Type"]
    page = str(told.get_payload())
    tokens = MarkdownIt().parse(page)
    spans = [span for token in tokens for span in token.children or ()]
    pointed = [
        str(span.attrs.get("href") or span.attrs.get("src")) for span in spans if span.type in ("link_open", "image")
    ]
    assert pointed
    assert [] == [address for address in pointed if not address.startswith("https://")]
    assert {"sh"} == {token.info for token in tokens if token.type == "fence"}
    assert "# Mooring\n" in page


def test_the_page_names_the_extras_and_commands_that_there_are(told: email.message.Message) -> None:
    page = str(told.get_payload())
    assert set(PROJECT["optional-dependencies"]) == set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert set(PROJECT["scripts"]) <= set(re.findall(r"[\w-]+", page))
    assert set(re.findall(r"`mooring ([a-z]+)", page)) <= set(COMMANDS)


def test_the_versions_of_python_are_those_that_the_page_names(told: email.message.Message) -> None:
    """Claimed is what was tested: each of them has passed the unit tests."""
    claimed = re.findall(
        r"Programming Language :: Python :: 3\.(\d+)$", "\n".join(told.get_all("Classifier") or ()), re.MULTILINE
    )
    assert f">=3.{claimed[0]}" == told["Requires-Python"]
    assert f"Python 3.{claimed[0]} to 3.{claimed[-1]} are tested" in str(told.get_payload())
    assert [str(minor) for minor in range(int(claimed[0]), int(claimed[-1]) + 1)] == claimed


def test_no_address_is_named_while_there_is_none(told: email.message.Message) -> None:
    """The source has no public home yet, and an address that leads nowhere, or to strangers, is worse than none.

    Once it has one, [project.urls] takes it, this test goes, and the page may point at documentation, manifests and
    issues.
    """
    assert (None, None) == (told["Project-URL"], told["Home-page"])
    assert "urls" not in PROJECT


def test_the_wheel_holds_what_is_needed_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {"mooring", f"mooring-{PROJECT['version']}.dist-info"} == {name.partition("/")[0] for name in names}
    assert "mooring/py.typed" in names
    assert [] == [name for name in names if name.endswith((".pyc", ".log", ".sqlite"))]
    assert all(f"mooring-{PROJECT['version']}.dist-info/licenses/{name}" in names for name in PROJECT["license-files"])
