"""Writes deploy/chart/mooring from what kustomize builds of the other folders of deploy/: python -m hack.chart
[--check]

--check writes nothing: it compares digests, so it needs no kubectl. tests/e2e/test_chart.py makes the chart anew and
compares it whole.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

from hack.chart import monitoring
from hack.chart.parts import PARTS, SECRETS, Json, secrets_template, template
from hack.chart.values import as_yaml, schema_text, values

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "chart" / "mooring"
DIGESTS = DEPLOY / "chart" / "digests.txt"
_HEAD = "# Made by `make chart` from deploy/{}. Edit that.\n"
_BY_HAND = ("templates/NOTES.txt", "templates/_helpers.tpl", "templates/choice.yaml")
OLDEST_KUBERNETES = "1.33"


def version() -> str:
    found: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return found


def built(kubectl: Path, part: str) -> list[Json]:
    """What `kubectl apply -k` would send."""
    command: list[str | Path] = [kubectl, "kustomize", "--load-restrictor=LoadRestrictionsNone", DEPLOY / part]
    return list(
        yaml.safe_load_all(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)
    )


def chart(kubectl: Path) -> dict[str, str]:
    """The text of each file that is made, by its path in the chart."""
    parts = {part: built(kubectl, part) for part in PARTS}
    watched = built(kubectl, monitoring.FOLDER)
    granted = built(kubectl, SECRETS)
    whole = values(parts, watched, granted, version())
    about = {
        "apiVersion": "v2",
        "name": "mooring",
        "description": "The CSI control plane of Kubernetes: the sidecars of a driver and the controllers of a cluster",
        "type": "application",
        "version": version(),
        "appVersion": version(),
        "kubeVersion": f">={OLDEST_KUBERNETES}.0-0",
        "keywords": ["csi", "storage"],
    }
    head = "# Made by `make chart`: the defaults are those of the kustomizations. Set yours in a file of your own.\n"
    return {
        "Chart.yaml": _HEAD.format("../pyproject.toml") + yaml.safe_dump(about, sort_keys=False, width=1000),
        "values.yaml": head + "\n".join(as_yaml(whole)) + "\n",
        "values.schema.json": schema_text(whole),
        **monitoring.files(watched),
        "templates/secrets.yaml": _HEAD.format(SECRETS) + secrets_template(granted),
        "templates/monitoring.yaml": _HEAD.format(monitoring.FOLDER) + monitoring.template(watched),
        **{f"templates/{part}.yaml": _HEAD.format(part) + template(part, objects) for part, objects in parts.items()},
    }


def _files(folder: Path, pattern: str) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob(pattern)) if path.is_file())


def digests() -> str:
    """Of what the chart is made from, and of what was made."""
    sources = [path for part in (*PARTS, monitoring.FOLDER, SECRETS) for path in _files(DEPLOY / part, "*")]
    sources += [*_files(ROOT / "hack" / "chart", "*.py"), ROOT / "pyproject.toml"]
    made = [path for path in _files(CHART, "*") if str(path.relative_to(CHART)) not in _BY_HAND]
    return f"{_digest(sources)}  sources\n{_digest(made)}  chart\n"


def _digest(paths: list[Path]) -> str:
    whole = hashlib.sha256()
    for path in paths:
        content = version().encode() if path.name == "pyproject.toml" else path.read_bytes()
        whole.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    return whole.hexdigest()


def write() -> None:
    done = subprocess.run([ROOT / "hack" / "kube" / "build", "kubectl"], check=True, stdout=subprocess.PIPE, text=True)
    made = chart(Path(done.stdout.strip()) / "kubectl")
    for path in list(_files(CHART, "*")):
        if str(path.relative_to(CHART)) not in {*made, *_BY_HAND}:
            path.unlink()
    for name, text in made.items():
        (CHART / name).parent.mkdir(parents=True, exist_ok=True)
        (CHART / name).write_text(text)
    DIGESTS.write_text(digests())


def main(words: list[str]) -> int:
    if words not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    if not words:
        write()
    elif not DIGESTS.exists() or DIGESTS.read_text() != digests():
        print("deploy/chart is not what deploy/ makes it: run `make chart`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
