"""`make sbom`: the parts list of a release has each line of the lock that it is made of, in that version."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from hack.locks import ROOT, locked
from tests.support.builders import Json
from tests.support.rows import each_row

pytestmark = [pytest.mark.slow, pytest.mark.long]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lists")
    done = subprocess.run([ROOT / "hack" / "sbom", folder], check=True, capture_output=True, text=True, timeout=120)
    assert [str(path) for path in sorted(folder.iterdir(), reverse=True)] == sorted(
        done.stdout.splitlines(), reverse=True
    )
    return folder


def read(folder: Path, name: str) -> Json:
    found: Json = json.loads((folder / f"{name}-{PROJECT['version']}.cdx.json").read_text())
    return found


@each_row(("name", "lock"), [("mooring", "hack/image.lock"), ("mooring-development", "requirements.lock")])
def test_each_line_of_the_lock_is_a_component_of_that_version(lists: Path, name: str, lock: str) -> None:
    listed = read(lists, name)
    assert "CycloneDX" == listed["bomFormat"]
    own = listed["metadata"]["component"]
    assert ("mooring", PROJECT["version"]) == (own["name"], own["version"])
    packages = locked(lock)
    assert {name: version for name, (version, _) in packages.items()} == {
        one["name"]: one["version"] for one in listed["components"]
    }
    for one in listed["components"]:
        assert f"pkg:pypi/{one['name']}@{one['version']}" == one["purl"]
        hashes = {each["content"] for reference in one["externalReferences"] for each in reference["hashes"]}
        assert hashes
        assert {f"--hash=sha256:{each}" for each in hashes} == {
            word for word in packages[one["name"]][1].split() if word.startswith("--hash=")
        }


def test_the_same_lock_gives_the_same_list(lists: Path, tmp_path: Path) -> None:
    subprocess.run([ROOT / "hack" / "sbom", tmp_path], check=True, capture_output=True, timeout=120)
    for path in lists.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()
