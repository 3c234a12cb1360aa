"""A driver is found by the words of a command line; a slip is told in a line, an error of the author's own as it is."""

from __future__ import annotations

import importlib
import itertools
import sys
from pathlib import Path
from typing import Any

import pytest

import mooring
from mooring.base.errors import ConfigError
from mooring.driver.loading import load, story_of
from tests.support.rows import each_row

MODULE = """
from pathlib import Path
from mooring.driver.sdk import Plugin


class Shelf(Plugin):
    name = "shelf.example.com"

    def __init__(self, folder: Path, size: int = 5, *, fast: bool = False, place: Path | None = None, label="") -> None:
        self.given = (folder, size, fast, place, label)


class Plain(Plugin):
    name = "plain.example.com"


class Half(Plugin):
    async def list_volume(self, request): ...


class Broken(Plugin):
    def __init__(self) -> None:
        len(5)


class Strange(Plugin):
    def __init__(self, pair: tuple[int, int]) -> None: ...


class OnNode(Plain):
    def __init__(self, folder: Path, node_id: str) -> None:
        self.node_id = node_id


class OnNoNode(OnNode):
    def __init__(self, folder: Path, node_id: str = "") -> None:
        super().__init__(folder, node_id)


class OnItsNode(OnNode):
    def __init__(self, folder: Path, node_id: str = "its-own") -> None:
        super().__init__(folder, node_id)


def made(label: str) -> Plain:
    plain = Plain()
    plain.name = label
    return plain


def nothing():
    return 5


constant = 5
"""

numbers = itertools.count()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of its own name in the working folder."""
    name = f"author_{next(numbers)}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_options_become_what_the_constructor_says(module: str) -> None:
    options = {"folder": "/data", "size": "7", "fast": "true", "place": "/there", "label": "x"}
    driver: Any = load(f"{module}:Shelf", options)
    assert (Path("/data"), 7, True, Path("/there"), "x") == driver.given
    driver = load(f"{module}:Shelf", {"folder": "/data"})
    assert (Path("/data"), 5, False, None, "") == driver.given


def test_a_file_is_as_good_as_a_module(module: str) -> None:
    assert "plain.example.com" == load(f"./{module}.py:Plain", {}).name
    assert "plain.example.com" == load(f"{Path.cwd()}/{module}.py:Plain", {}).name


def test_a_function_may_make_the_driver(module: str) -> None:
    assert "mine.example.com" == load(f"{module}:made", {"label": "mine.example.com"}).name


@each_row(
    ("words", "options", "text"),
    [
        ("Plain", {}, "'Plain' names no driver: give module:Class or ./file.py:Class"),
        ("./my-driver", {}, "a driver in another language is a program of its own: mooring dev --driver './my-driver "),
        (":Plain", {}, "names no driver"),
        ("MODULE:", {}, "names no driver"),
        ("no_such_module:Plain", {}, "there is no module 'no_such_module' here"),
        ("no.such.module:Plain", {}, "there is no module 'no' here"),
        ("./no_file.py:Plain", {}, "there is no file 'no_file.py'"),
        ("MODULE:Shelve", {}, "MODULE has no class 'Shelve': did you mean Shelf?"),
        ("MODULE:Zzz", {}, "MODULE has no class 'Zzz'; there is Shelf, Plain, Half, Broken, Strange"),
        ("MODULE:constant", {}, "has no class 'constant'"),
        ("MODULE:nothing", {}, "gives a int, which is no driver: derive it from mooring.driver.sdk.Plugin"),
        ("MODULE:Half", {}, "Half.list_volume is no call of CSI: did you mean list_volumes?"),
        ("MODULE:Shelf", {}, "MODULE:Shelf needs the option folder: give --option folder=..."),
        ("MODULE:Shelf", {"folder": "/d", "sise": "5"}, "has no option 'sise': did you mean size?"),
        ("MODULE:Plain", {"x": "5"}, "has no option 'x': there is none"),
        ("MODULE:Shelf", {"folder": "/d", "size": "big"}, "option size must be a int, got 'big'"),
        ("MODULE:Shelf", {"folder": "/d", "fast": "yes"}, "option fast must be a bool, got 'yes'"),
        ("MODULE:Strange", {"pair": "5"}, "option pair is a tuple[int, int], which can't be given as text"),
    ],
    fresh=[module],
)
def test_a_slip_is_told_in_a_line(module: str, words: str, options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(words.replace("MODULE", module), options)
    assert text.replace("MODULE", module) in str(caught.value)


def test_an_error_of_the_authors_passes(module: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"has no len\(\)"):
        load(f"{module}:Broken", {})
    (tmp_path / f"{module}_importing.py").write_text("import no_such_thing")
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        load(f"{module}_importing:Plain", {})


@each_row(
    ("name", "options", "node_id"),
    [
        ("OnNode", {}, "n1"),
        ("OnNode", {"node_id": "other"}, "other"),
        ("OnNoNode", {}, "n1"),
        ("OnItsNode", {}, "its-own"),
    ],
    fresh=[module],
)
def test_a_folder_is_enough_where_the_node_is_known(
    module: str, name: str, options: dict[str, str], node_id: str
) -> None:
    """B3 of what hurt drivers' authors."""
    assert node_id == load(f"{module}:{name}", {"folder": "/data", **options}, "n1").node_id


def test_without_a_node_its_argument_is_asked_for(module: str) -> None:
    with pytest.raises(ConfigError, match="needs the option node_id"):
        load(f"{module}:OnNode", {"folder": "/data"})


STORIES = {
    "import no_such_thing": (1, "ModuleNotFoundError: No module named 'no_such_thing'"),
    "from mooring.driver.sdk import Plugin\nclass A(Plugin:": (2, "SyntaxError: invalid syntax"),
    "import json\n\njson.loads('{')": (3, "JSONDecodeError: Expecting property name"),
}


@each_row("code", STORIES, fresh=[module])
def test_27b6_an_error_of_the_authors_is_told_with_their_line_first_and_without_ours(
    code: str, module: str, tmp_path: Path
) -> None:
    name = f"{module}_broken"
    (tmp_path / f"{name}.py").write_text(code)
    line, what = STORIES[code]
    with pytest.raises(Exception) as caught:
        load(f"./{name}.py:A", {})
    first, head, *story = story_of(f"./{name}.py:A", caught.value).splitlines()
    assert first.startswith(f"{name}.py, line {line}: {what}")
    assert head == f"Traceback of ./{name}.py:A (most recent call last):"
    assert what.partition(":")[0] in story[-1]
    ours = f"{Path(mooring.__file__).parent}/"
    assert not any(ours in one or "importlib" in one for one in story)


@each_row("name", ["shelf", "json", "grpc", "graphlib", "with-a-dash", "two.dots"])
def test_a_file_imports_its_neighbours_and_stands_for_no_library(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = dict(sys.modules)
    neighbour = f"neighbour_of_{name.replace('-', '_').replace('.', '_')}"
    (tmp_path / f"{neighbour}.py").write_text("label = 'beside'\n")
    (tmp_path / "colorsys.py").write_text("raise AssertionError('a library of Python goes before it')\n")
    file = tmp_path / f"{name}.py"
    file.write_text(f"import colorsys, dataclasses, {neighbour}\n{MODULE}\nPlain.beside = {neighbour}.label\n")
    try:
        plugin: Any = load(f"{file}:Plain", {})
        assert "beside" == plugin.beside
        assert sys.modules.get("json") is before.get("json")
        assert "TopologicalSorter" in vars(importlib.import_module("graphlib"))
    finally:
        for added in sys.modules.keys() - before.keys():
            del sys.modules[added]


def test_a_file_that_fails_leaves_no_half_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "halfway.py").write_text("begun = True\nraise RuntimeError('the end')\n")
    before = set(sys.modules)
    with pytest.raises(RuntimeError, match="the end"):
        load(f"{tmp_path}/halfway.py:Plain", {})
    assert before == set(sys.modules)
