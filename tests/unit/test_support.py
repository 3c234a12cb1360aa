"""docs/support.md and SECURITY.md say what the project itself says elsewhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def supported() -> dict[str, str]:
    """The second column of the table, by the first."""
    page = (ROOT / "docs" / "support.md").read_text()
    rows = [
        re.split(r" *\| *", line)[1:3]
        for line in page.partition("\n## What stays")[0].splitlines()
        if line.startswith("| ")
    ]
    return {name: text for name, text in rows if name}


def test_kubernetes_is_what_the_page_of_versions_has_tested_and_the_chart_takes() -> None:
    page = (ROOT / "docs" / "versions.md").read_text()
    tested = re.findall(r"^\| (1\.\d+) \| (?!nothing)", page, re.MULTILINE)
    assert len(tested) >= 4
    assert f"{tested[-1]} to {tested[0]}" == supported()["Kubernetes"]
    assert (
        f">={tested[-1]}.0-0" == yaml.safe_load((ROOT / "deploy/chart/mooring/Chart.yaml").read_text())["kubeVersion"]
    )


def test_python_is_what_the_package_claims_and_the_image_has() -> None:
    claimed = [
        found[1]
        for one in PROJECT["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one))
    ]
    (image,) = re.findall(r"^ARG BASE=python:(3\.\d+)-slim$", (ROOT / "Containerfile").read_text(), re.MULTILINE)
    *others, last = claimed
    assert f"{', '.join(others)} and {last}; the images have {image}" == supported()["Python"]
    assert f">={claimed[0]}" == PROJECT["requires-python"]
    assert image in claimed


def test_csi_is_what_the_declarations_are() -> None:
    (version,) = re.findall(r"`csi\.proto` \| ([\d.]+) \|", (ROOT / "src/mooring/csi/proto/README.md").read_text())
    assert supported()["CSI"].endswith(f"the declarations are those of {version}")


def test_the_policy_is_found_from_the_readme_and_from_each_other() -> None:
    readme = (ROOT / "README.md").read_text()
    for page in ("SECURITY.md", "docs/support.md"):
        assert f"({page})" in readme
    assert "(docs/support.md)" in (ROOT / "SECURITY.md").read_text()
