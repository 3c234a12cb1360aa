"""`mooring driver new`: the files of a new driver, under its own names."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from mooring.base.flags import parse
from mooring.cli import conform
from mooring.cli.driver import class_name, requirement, run
from mooring.cli.driver_run import RunFlags
from mooring.driver.loading import load
from mooring.driver.testing import sanity_obstacle
from tests.support.rows import each_row


def begin(*argv: str) -> int:
    return run(["new", *argv], "mooring driver")


def test_a_new_driver_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert 0 == begin("shelf-driver")
    assert (
        'cd shelf-driver\n  pytest\n  mooring dev --driver driver:ShelfDriver --option "folder=$PWD/volumes"\n'
        in capsys.readouterr().out
    )
    folder = tmp_path / "shelf-driver"
    texts = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert [
        ".github/workflows/driver.yaml",
        ".gitignore",
        "Containerfile",
        "Makefile",
        "README.md",
        "driver.py",
        "pyproject.toml",
        "test_driver.py",
        "values.yaml",
    ] == sorted(texts)
    assert "skeleton" not in "".join(texts.values()).lower()
    assert 'name = "shelf-driver.example.com"' in texts["driver.py"]
    for name in ("driver.py", "test_driver.py"):
        ast.parse(texts[name])


def test_in_a_cluster_it_starts_with_what_image_and_values_give_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words that the container runs are a driver that serves."""
    assert 0 == begin("shelf", f"--folder={tmp_path / 'shelf'}")
    monkeypatch.chdir(tmp_path / "shelf")
    image = Path("Containerfile").read_text().splitlines()
    instructions = [line.split(" ", 1) for line in image if not line.startswith("#")]
    assert ["ARG", "FROM", "USER", "WORKDIR", "COPY", "ENTRYPOINT"] == [name for name, _ in instructions]
    *command, words = json.loads(instructions[-1][1])
    values = yaml.safe_load(Path("values.yaml").read_text())
    pod = values["allInOne"]
    flags = parse(RunFlags, pod["driver"]["args"]).flags
    assert (["mooring", "driver", "run"], "unix:///csi/csi.sock") == (command, flags.endpoint)
    (mount,), (volume,) = pod["driver"]["extraVolumeMounts"], pod["extraVolumes"]
    assert (mount["name"], mount["mountPath"]) == (volume["name"], flags.options["folder"])
    driver = load(words, {**flags.options, "folder": str(tmp_path / "volumes")}, "")
    assert (values["driver"]["name"], "$(NODE_NAME)") == (driver.name, driver.node_id)


def test_a_project_in_go_gets_what_ci_and_the_chart_need(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "main.go").write_text("package main\n")
    assert 0 == begin("shelf", "--language=go", f"--folder={tmp_path}")
    assert "mooring conform './shelf --endpoint=unix://{socket} --node-id={node}'\n" in capsys.readouterr().out
    texts = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert [".github/workflows/conform.yaml", "main.go", "values.yaml"] == sorted(texts)
    assert "skeleton" not in "".join(texts.values()).lower()
    assert requirement() in texts[".github/workflows/conform.yaml"]
    assert "shelf.example.com" == yaml.safe_load(texts["values.yaml"])["driver"]["name"]
    (tmp_path / "values.yaml").write_text("precious")
    assert 1 == begin("shelf", "--language=go", f"--folder={tmp_path}")
    assert "values.yaml' is there already: move it away" in capsys.readouterr().err
    assert "precious" == (tmp_path / "values.yaml").read_text()


@each_row(("language", "file", "shell"), [("python", "driver.yaml", "make"), ("go", "conform.yaml", "mooring")])
def test_ci_asks_conform_with_words_that_there_are(
    language: str, file: str, shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A step for CI that nobody has run: it is YAML of a workflow, and each command of ours knows its flags."""
    assert 0 == begin("shelf", f"--language={language}", f"--folder={tmp_path / language}")
    workflow = yaml.load((tmp_path / language / ".github" / "workflows" / file).read_text(), yaml.BaseLoader)
    assert {"name", "on", "jobs"} == workflow.keys()
    (job,) = workflow["jobs"].values()
    assert all(len(step.keys() & {"uses", "run"}) == 1 for step in job["steps"])
    (command,) = (step["run"] for step in job["steps"] if "conform.xml" in step.get("run", ""))
    if shell == "make":
        (flags,) = re.findall('^sudo make conform ARGS="(.*)" > conform.xml$', command)
        assert "\nconform: " in (tmp_path / language / "Makefile").read_text()
    else:
        (flags,) = re.findall("^sudo .mooring/bin/mooring conform '[^']*' (.*) > conform.xml\n$", command)
    capsys.readouterr()
    assert 2 == conform.run(["no_module_here:Driver", *flags.split(), "--only=no-check"], "mooring conform")
    assert "there is no check 'no-check'" in capsys.readouterr().err


def test_what_to_type_next_is_found_where_it_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """B3: begun with .venv/bin/mooring, whose folder is not in the PATH."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "my env" / "bin"
    place.mkdir(parents=True)
    (place / "mooring").touch(mode=0o755)
    monkeypatch.setattr("sys.argv", ["my env/bin/mooring"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert 0 == begin("one")
    assert f"\n  '{place}'/pytest\n  '{place}'/mooring dev --driver" in capsys.readouterr().out
    monkeypatch.setenv("PATH", str(place))
    assert 0 == begin("two")
    assert "\n  pytest\n  mooring dev --driver" in capsys.readouterr().out


def test_names_of_ones_own(tmp_path: Path) -> None:
    assert 0 == begin("My_Shelf", f"--folder={tmp_path / 'a' / 'b'}", "--driver-name=csi.shelf.example.org")
    text = (tmp_path / "a" / "b" / "driver.py").read_text()
    assert "class MyShelf(Plugin):" in text
    assert 'name = "csi.shelf.example.org"' in text


@each_row(("name", "expected"), [("shelf", "Shelf"), ("nfs4_x-y", "Nfs4XY"), ("SHELF", "SHELF")])
def test_the_class_has_the_drivers_name(name: str, expected: str) -> None:
    assert expected == class_name(name)


@each_row(
    ("argv", "code", "text"),
    [
        (["--help"], 0, "mooring driver new shelf --driver-name shelf.example.com"),
        ([], 2, "the name is missing: mooring driver new NAME"),
        (["../x"], 2, "'../x' is no name for a driver"),
        (["a-"], 2, "a letter first, - and _ not last, 41 at the most"),
        (["a" * 42], 2, "41 at the most"),
        (["none"], 2, "its code means something else by None"),
        (["Mooring"], 2, "'Mooring' is no name for a driver: its project needs the package of that name; give another"),
        (["5x"], 2, "a letter first"),
        (["code"], 2, "'code' is no name for a driver: its code means something else by Code, as its class would be"),
        (["GIB"], 2, "its code means something else by GIB, as its class would be called; give another"),
        (["true"], 2, "its code means something else by True"),
        (["HERE"], 2, "its code means something else by HERE"),
        (["x", "--driver-name=x1"], 2, "driver-name: 'x1' is not of the form a domain has"),
        (["x", "--driver-name=CSI.example.com"], 2, "as in csi.example.com: lower-case, with letters at both ends"),
        (["x", "--driver-name=a..b"], 2, "is not of the form a domain has"),
        (["x", f"--driver-name={'a' * 64}"], 2, "63 characters at the most"),
        (["x", "y"], 2, "'y' is no flag"),
        (["x", "--language=rust"], 2, "language: must be python or go, got 'rust'"),
        (["x", "--folder=FOLDER"], 1, "is there, and not empty"),
        (["x", "--folder=FOLDER/file/x"], 1, "can't be used: Not a directory"),
        (["x", "--folder=FOLDER/file/x", "--language=go"], 1, "can't be used: Not a directory"),
    ],
)
def test_words_that_do_not_work(
    argv: list[str], code: int, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("precious")
    assert code == begin(*(word.replace("FOLDER", str(tmp_path)) for word in argv))
    out, err = capsys.readouterr()
    assert text in out + err
    assert ["file"] == [path.name for path in tmp_path.iterdir()]


def test_without_csi_sanity_it_is_told_where_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CSI_SANITY", raising=False)
    assert "go install github.com/kubernetes-csi/csi-test" in sanity_obstacle()
    monkeypatch.setenv("CSI_SANITY", "/somewhere/csi-sanity")
    assert "no mount namespaces here" in sanity_obstacle()


def test_what_comes_next_is_written_there(tmp_path: Path) -> None:
    """B3 of what hurt drivers' authors."""
    assert 0 == begin("shelf", f"--folder={tmp_path / 'a'}")
    text = (tmp_path / "a" / "README.md").read_text()
    for words in (
        "mooring dev --driver driver:Shelf",
        '"folder=$PWD/volumes/{node}"',
        "mooring orphans",
        "csi-sanity",
        "--examples",
    ):
        assert words in text


@each_row(
    ("origin", "expected"),
    [
        (None, "mooring[server]"),
        ('{"url": "file:///here/mooring", "dir_info": {"editable": true}}', "mooring[server] @ file:///here/mooring"),
        ('{"url": "https://x/m-1.whl", "archive_info": {}}', "mooring[server] @ https://x/m-1.whl"),
        (
            '{"url": "https://x/m.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}',
            "mooring[server] @ git+https://x/m.git@abc",
        ),
        ("no JSON", "mooring[server]"),
    ],
)
def test_its_requirement_can_be_had_where_no_index_has_the_package(
    monkeypatch: pytest.MonkeyPatch, origin: str | None, expected: str
) -> None:
    """B3 of what hurt drivers' authors."""

    class Installed:
        def read_text(self, _name: str) -> str | None:
            return origin

    monkeypatch.setattr(metadata, "distribution", lambda _name: Installed())
    assert expected == requirement("[server]")
    assert expected == str(Requirement(expected))


def test_its_project_names_this_mooring(tmp_path: Path) -> None:
    """B3 of what hurt drivers' authors."""
    assert 0 == begin("shelf", f"--folder={tmp_path / 'a'}")
    project = tomllib.loads((tmp_path / "a" / "pyproject.toml").read_text())
    assert [requirement()] == project["project"]["dependencies"]
    assert ["pytest", requirement("[server,ui]")] == project["project"]["optional-dependencies"]["dev"]
