"""A driver from the words of a command line: `module:Class`, or a file and its class, and options for its
constructor.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.machinery
import importlib.util
import inspect
import os
import sys
import sysconfig
import traceback
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NoReturn

import mooring
from mooring.base.errors import ConfigError
from mooring.driver.sdk import Plugin

_INSTALLED: Final = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
_OURS: Final = Path(mooring.__file__).parent
_FALSE_TRUE: Final = {"false": False, "true": True}
_READERS: Final[Mapping[Any, Callable[[str], Any]]] = {
    str: str,
    int: int,
    float: float,
    Path: Path,
    bool: lambda text: _FALSE_TRUE[text.lower()],
}


NODE_ID: Final = "node_id"


def load(words: str, options: Mapping[str, str], node: str = "") -> Plugin:
    """The driver that these words name, made with these options.

    words: a class, or a function that gives a driver, after its module or file and a colon. options: arguments by name,
    as text; each becomes what the constructor's annotation says (str, int, float, bool, Path). node: the argument
    `node_id` where neither an option nor the constructor says one. Raises ConfigError; errors of the author's code
    pass.
    """
    factory = _found(words)
    wanted = _parameters(factory).get(NODE_ID)
    if node and wanted is not None and wanted.default in (wanted.empty, ""):
        options = {NODE_ID: node, **options}
    arguments = _arguments(words, factory, options)
    try:
        plugin = factory(**arguments)
    except TypeError as error:
        if (
            error.__traceback__ is not None
            and error.__traceback__.tb_next is not None
            and not _is_of_sdk(error.__traceback__.tb_next)
        ):
            raise  # of the author's own code: its traceback tells more
        raise ConfigError(f"{words}: {error}") from None
    if not isinstance(plugin, Plugin):
        raise ConfigError(
            f"{words} gives a {type(plugin).__name__}, which is no driver: derive it from mooring.driver.sdk.Plugin"
        )
    return plugin


def story_of(words: str, error: Exception) -> str:
    """An error of the author's code in lines: first the last line of that, then the way there, without Mooring's own
    frames.

    words: as for `load`.
    """
    place = words.rpartition(":")[0]
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not _is_machinery(one.filename)]
    own = [one for one in frames if not one.filename.startswith(_INSTALLED)] or frames
    where, line = (own[-1].filename, own[-1].lineno) if own else (place, None)
    if isinstance(error, SyntaxError):
        where, line = error.filename or where, error.lineno
    at = f"{_short(where)}, line {line}" if line else _short(where)
    story = [*traceback.StackSummary.from_list(frames).format(), *traceback.format_exception_only(error)]
    return (
        f"{at}: {type(error).__name__}: {error}\nTraceback of {words} (most recent call "
        f"last):\n{''.join(story).rstrip()}"
    )


def _is_machinery(file: str) -> bool:
    return file.startswith("<frozen ") or Path(file).is_relative_to(_OURS) or file == importlib.__file__


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _found(words: str) -> Callable[..., Any]:
    place, colon, name = words.rpartition(":")
    if not colon or not place or not name:
        program = (
            "a driver in another language is a program of its own: mooring dev --driver './my-driver --endpoint "
            "unix://{socket}'"
        )
        raise ConfigError(f"{words!r} names no driver: give module:Class or ./file.py:Class; {program}")
    module = _file_module(Path(place)) if place.endswith(".py") else _module(place)
    found = getattr(module, name, None)
    if not callable(found):
        near = difflib.get_close_matches(name, _drivers_in(module) or vars(module), n=1)
        raise ConfigError(
            f"{place} has no class {name!r}" + (f": did you mean {near[0]}?" if near else _those_there(module))
        )
    return typing.cast("Callable[..., Any]", found)


def _module(name: str) -> ModuleType:
    """Also from the working folder, as with `python -m`."""
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError(
                f"there is no module {error.name!r} here ({os.getcwd()}): go to its folder, or install it"
            ) from None
        raise


def _file_module(path: Path) -> ModuleType:
    """It imports the files beside it, after everything that is installed. A file with the name of a library is not that
    library.
    """
    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r}")
    path = path.resolve()
    if (folder := str(path.parent)) not in sys.path:
        sys.path.append(folder)
    loaded, found = sys.modules.get(path.stem), importlib.machinery.PathFinder.find_spec(path.stem)
    file = found.origin if loaded is None and found is not None else getattr(loaded, "__file__", None)
    name = path.stem if file == str(path) else f"driver_in_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _drivers_in(module: ModuleType) -> list[str]:
    """The classes of drivers that the module defines itself."""
    classes = (found for found in vars(module).values() if inspect.isclass(found) and issubclass(found, Plugin))
    return [one.__name__ for one in classes if one.__module__ == module.__name__]


def _those_there(module: ModuleType) -> str:
    there = _drivers_in(module)
    return f"; there is {', '.join(there)}" if there else ", and no other class of a driver"


def _arguments(words: str, factory: Callable[..., Any], options: Mapping[str, str]) -> dict[str, Any]:
    """Raises ConfigError for an option that there is not, one that can't be read, and one that is missing."""
    parameters = _parameters(factory)
    hints = _hints(factory)
    for name in options:
        if name not in parameters:
            _refuse_unknown(words, name, parameters)
    missing = [name for name, one in parameters.items() if one.default is one.empty and name not in options]
    if missing:
        raise ConfigError(f"{words} needs the option {missing[0]}: give --option {missing[0]}=...")
    return {name: _value(words, name, text, hints.get(name, str)) for name, text in options.items()}


def _parameters(factory: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Those that can be given by name."""
    given = inspect.signature(_constructor(factory)).parameters.values()
    named = [one for one in given if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    return {one.name: one for one in (named[1:] if inspect.isclass(factory) else named)}


def _constructor(factory: Callable[..., Any]) -> Callable[..., Any]:
    """`Plugin.__new__` takes anything, so the class's own `__init__` is asked."""
    return factory.__init__ if inspect.isclass(factory) else factory


def _hints(factory: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(_constructor(factory))
    except NameError:  # a name that is there for type checkers alone: all options are text then
        return {}


def _refuse_unknown(words: str, name: str, known: Iterable[str]) -> NoReturn:
    near = difflib.get_close_matches(name, known, n=1)
    there = f"did you mean {near[0]}?" if near else f"there is {', '.join(known) or 'none'}"
    raise ConfigError(f"{words} has no option {name!r}: {there}")


def _value(words: str, name: str, text: str, wanted: Any) -> Any:
    if isinstance(wanted, types.UnionType):  # `Path | None`
        wanted = next((one for one in typing.get_args(wanted) if one is not type(None)), str)
    reader = _READERS.get(wanted)
    if reader is None:
        raise ConfigError(
            f"{words}: option {name} is a {wanted}, which can't be given as text: give a function that makes the driver"
        )
    try:
        return reader(text)
    except (ValueError, KeyError):
        raise ConfigError(f"{words}: option {name} must be a {wanted.__name__}, got {text!r}") from None


def _is_of_sdk(traceback: types.TracebackType) -> bool:
    """True for an error that the SDK raised about a class: a typing error in a method's name, for example."""
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_globals.get("__name__") == Plugin.__module__
