"""The house is in order: the rules of CONTRIBUTING.md that no linter knows."""

from __future__ import annotations

import ast
import dataclasses
import functools
import gc
import importlib
import keyword
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.locks import LOCKS, direct_requirements, locked
from mooring.base.flags import flags_of, gates_of
from mooring.cli.completion import TABLES
from tests.support.layers import CHECKOUT, not_tested
from tests.support.rows import each_row
from tests.support.tidy import findings, imported_modules, nodes_of

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src" / "mooring"
SOURCES = sorted(path for path in SRC.rglob("*.py") if "_pb2" not in path.name)
ROOMS = sorted(path.parent for path in SRC.glob("*/__init__.py"))

# Who may import what others must not, as paths below src/mooring. A folder stands for all in it.
DOORS = {
    "aiohttp": [],  # of tests alone
    "yarl": [],
    "grpc": [],
    "sqlite3": ["apiserver/disk/file.py"],
    "cryptography": ["apiserver/identity/certificates.py", "apiserver/identity/tokens.py"],
    "rich": ["dev/", "cli/"],
    "uvloop": ["base/loops.py"],
    "opentelemetry": ["control/tracing/spans.py"],
    "requests": [],
    "mooring.wire.http1": ["wire/http1/", "kube/client/transport.py", "apiserver/web/"],
    "mooring.kube.client.http": ["control/runner.py", "dev/", "cli/"],
    "hpack": ["wire/grpc/"],
    "inotify_simple": ["node/plugins/watcher.py"],
    "mooring.csi.wire_driver": ["dev/", "testing/", "cli/", "node/", "conform/"],
    "mooring.apiserver.web.server": ["apiserver/", "dev/", "testing/", "cli/"],
}

# What a sidecar must not carry: memory and start time are budgets.
SERVERS = ["mooring.apiserver", "mooring.dev", "mooring.driver"]
HEAVY = ["grpc", "yaml", "rich", "pygments", "cryptography", "sqlite3", "aiohttp", "opentelemetry", "requests"]
HEAVY += SERVERS
LAZY = [*DOORS["opentelemetry"], "base/yaml_text.py", "kube/client/kubeyaml.py"]
"""Files that are imported where they are needed."""
SIDECAR_ROOMS = [
    "base",
    "api",
    "kube",
    "csi",
    "control",
    "sidecars/attacher",
    "sidecars/provisioner",
    "sidecars/resizer",
]
SIDECAR_ROOMS += ["cluster/snapshots", "sidecars/snapshotter"]
SIDECAR_ROOMS += ["node", "sidecars/registrar", "sidecars/cluster_registrar", "sidecars/livenessprobe"]


@functools.cache
def parsed(path: Path) -> ast.Module:
    return _all_parsed()[path]


@functools.cache
def _all_parsed() -> dict[Path, ast.Module]:
    """Millions of nodes that stay: the collector is not to go through them again and again."""
    gc.disable()
    trees = {path: ast.parse(path.read_text()) for path in SOURCES}
    for tree in trees.values():
        nodes_of(tree)
    gc.freeze()
    gc.enable()
    return trees


def below_src(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


def tracked_texts() -> list[tuple[str, str]]:
    """Every text file that git knows or would take in, by its path from the root."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
    except (OSError, subprocess.CalledProcessError):
        not_tested(CHECKOUT, "the files that belong to the project")
    names = [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    texts = ((name, (ROOT / name).read_bytes()) for name in sorted(names))
    return [(name, data.decode()) for name, data in texts if b"\0" not in data]


# -- time, randomness, tasks


# Where a task stands outside of any group, and why.
LONE_TASKS = {
    "control/lease/elector.py": "a group would wait for work that refuses to end when the Lease is lost",
    "cli/cluster_registrar.py": "the signal, not the work, decides how it ends; both tasks are waited for",
    "node/volumes/steps/announcements.py": "a group would wrap the step's own error; the task ends with the step",
    "kube/client/credentials.py": "a run serves all who need it, and may outlive the request that began it",
    "wire/http1/pool.py": "a new connection serves the first in line, and may outlive the request that began it",
    "wire/grpc/server.py": "a group would wrap the error of the block; at its end every call is waited for",
    "testing/time.py": "a plane lasts over several waits of a test, which no block spans",
    "node/drivers.py": "a connection is followed from `put` to `remove`, which no block spans",
}


def test_time_randomness_and_tasks_come_through_their_doors() -> None:
    outside_base = [path for path in SOURCES if not below_src(path).startswith("base/")]
    found = [(below_src(path), one) for path in outside_base for one in findings(parsed(path), below_src(path))]
    assert [] == [one for file, one in found if not (file in LONE_TASKS and "use a task group" in one)]
    assert set(LONE_TASKS) == {file for file, one in found if "use a task group" in one}, (
        "an exception that is none any more"
    )


def test_the_tidy_rules_find_what_they_are_for() -> None:
    untidy = [
        "import time\nx = time.time()",
        "from time import monotonic as m\nx = m()",
        "import random\nx = random.random()",
        "from random import choice",
        "import datetime as dt\nx = dt.datetime.now(dt.UTC)",
        "from datetime import datetime\nx = datetime.utcnow()",
        "import asyncio\nasync def f(): await asyncio.sleep(1)",
        "from asyncio import sleep\nlater = sleep",
        "import asyncio\nx = asyncio.create_task(f(), name='n')",
        "import asyncio\nx = asyncio.get_running_loop().create_task(f(), name='n')",
        "async def f(group): group.create_task(g())",
        "import uuid\nx = uuid.uuid4()",
    ]
    assert [] == [code for code in untidy if not findings(ast.parse(code))]


def test_the_tidy_rules_leave_good_code_alone() -> None:
    code = """
import asyncio, datetime, time
async def f(clock, group, randomness):
    group.create_task(g(), name="n")
    await clock.sleep(randomness.uniform(0, 1))
    async with asyncio.timeout(1): time.strftime("%Y", time.gmtime(clock.wall_s()))
    return datetime.datetime.fromisoformat("2024-01-01")
"""
    assert [] == findings(ast.parse(code))


# -- rooms and their doors


def test_each_third_party_and_each_port_has_its_door() -> None:
    strangers = [
        f"{module}, by {below_src(path)}:{line}"
        for path in SOURCES
        for name, line in imported_modules(parsed(path)).items()
        for module, doors in DOORS.items()
        if name == module or name.startswith(f"{module}.")
        if not below_src(path).startswith(tuple(doors))
    ]
    assert [] == sorted(set(strangers)), "imported outside of the doors"


PARSERS = {
    "base/json_text.py": "the door of JSON",
    "base/yaml_text.py": "the door of YAML",
    "conform/proxy/script.py": "composes nodes with the door's own Loader",
    "apiserver/bodies/yamlbody.py": "bodies come by libyaml, whose events are counted first",
    "apiserver/codecs/jsonbody.py": "looks for fields that are there twice in a body that the door has read",
    "apiserver/controllers/owners.py": "stored objects, which came through a door",
    "apiserver/custom/definitions.py": "stored objects",
    "apiserver/printers/column.py": "our own tables",
    "apiserver/shallow.py": "stored objects",
    "apiserver/table.py": "stored objects",
    "apiserver/web/negotiation.py": "our own answers",
    "apiserver/web/rendering.py": "stored objects",
    "apiserver/local.py": "copies a body by its JSON",
    "control/object_writer.py": "an object that the client has read",
    "sidecars/provisioner/model/volumes.py": "the journal's texts, whose door has looked at their depth",
}
"""Where JSON or YAML is parsed by other means than the doors, and why: everything else goes through these, which know
how deep a text may be.
"""


_WAYS = re.compile(
    r"\bjson\.(loads?|JSONDecoder|decode|Decoder)\b|\bjson_format\.Parse\b|\byaml\.(safe_)?(load|compose|parse)"
)


def test_json_and_yaml_have_their_doors() -> None:
    assert set(PARSERS) == {below_src(path) for path in SOURCES if _WAYS.search(path.read_text())} | {
        "base/yaml_text.py"
    }


@each_row(
    ("room", "door", "forgotten"),
    [
        ("node/volumes/state/folders.py", "from_json(text)", "json.loads(text)"),
        ("sidecars/provisioner/model/orders.py", "json_format.ParseDict(from_json(text), ", "json_format.Parse(text, "),
        ("driver/hostpath/statefile.py", "_document.decode(text)", "msgspec.json.decode(text, type=_Document)"),
        ("kube/client/exec_plugin.py", "_answer.decode(output)", "msgspec.json.decode(output, type=dict)"),
        ("kube/client/kubeyaml.py", "from_yaml(content)", "yaml.safe_load(content)"),
    ],
)
def test_a_room_that_goes_round_a_door_is_seen(room: str, door: str, forgotten: str) -> None:
    text = (SRC / room).read_text()
    assert door in text
    assert not _WAYS.search(text)
    assert _WAYS.search(text.replace(door, forgotten))


CHECKED = {"base/json_text.py", "sidecars/provisioner/intents/lease_codec.py"}
"""Where a text's depth is looked at apart from its decoding: at the doors, and in the journal, which keeps JSON as
text.
"""


def test_a_decoder_looks_at_the_depth_by_itself() -> None:
    assert CHECKED == {below_src(path) for path in SOURCES if "check_depth" in path.read_text()}


@pytest.mark.slow
def test_a_sidecar_carries_no_server_no_driver_and_no_terminal() -> None:
    """Idle memory and start time are budgets, and one import can spend them."""
    files = [path for room in SIDECAR_ROOMS for path in (SRC / room).rglob("*.py") if below_src(path) not in LAZY]
    programs = [
        "sidecar.py",
        "csi_attacher.py",
        "csi_provisioner.py",
        "csi_resizer.py",
        "csi_snapshotter.py",
        "snapshot_controller.py",
    ]
    programs += ["node_agent.py", "registrar_program.py", "cluster_registrar.py", "livenessprobe_program.py"]
    files += [path for name in programs if (path := SRC / "cli" / name).exists()]
    modules = sorted(
        f"mooring.{'.'.join(path.relative_to(SRC).with_suffix('').parts)}".removesuffix(".__init__") for path in files
    )
    code = f"import importlib, sys\nfor name in {modules}: importlib.import_module(name)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    assert "mooring.kube.cluster" in loaded
    assert [] == [name for name in loaded if any(name == heavy or name.startswith(f"{heavy}.") for heavy in HEAVY)]


def test_every_module_says_what_it_is() -> None:
    assert [] == [below_src(path) for path in SOURCES if not ast.get_docstring(parsed(path))]


def test_no_reason_steers() -> None:
    """`because` is for people: what happens next stands in the decision's other fields."""
    asks = re.compile(r"isinstance\([^()]*because\b|case\s+\w*because|because\s*(==|is)\s")
    assert asks.search("if isinstance(decision.because, why.Full):")
    assert [] == [
        below_src(path)
        for path in SOURCES
        if asks.search(path.read_text().replace("because is not None", "").replace("because is None", ""))
    ]


def test_no_class_of_a_reason_steers() -> None:
    """No isinstance(), match or type() of a class that `@reason` makes, or that is from a file `reasons.py`, apart from
    those files.
    """
    assert _steering_reasons(ast.parse("@reason('x')\nclass Full: pass\nif isinstance(x, Full): pass"))
    assert _steering_reasons(
        ast.parse("from mooring.cluster.nodehealth.podgc.decide import Kept\nmatch x:\n  case Kept(): pass")
    )
    assert _steering_reasons(ast.parse("from a import reasons as why\nif isinstance(x, A | why.Full): pass"))
    assert _steering_reasons(ast.parse("from a.reasons import Full\nmatch x:\n  case Full(): pass"))
    assert _steering_reasons(ast.parse("last = type(decision.problem)"))
    assert [] == [
        f"{below_src(path)}:{line}"
        for path in SOURCES
        if path.name != "reasons.py"
        for line in _steering_reasons(parsed(path))
    ]


def _steering_reasons(tree: ast.AST) -> list[int]:
    reasons = _made_reasons(tree)
    for node in nodes_of(tree):
        if isinstance(node, ast.ImportFrom):
            path = SRC.parent / f"{(node.module or '').replace('.', '/')}.py"
            made = {"reasons"} | (_made_reasons(parsed(path)) if path in SOURCES else set())
            is_reasons = path.stem.endswith("reasons")
            reasons |= {one.asname or one.name for one in node.names if is_reasons or one.name in made}
    found = []
    for node in nodes_of(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]) if (
                _names_used(classes) & reasons
            ):
                found.append(node.lineno)
            case ast.MatchClass(cls=matched) if _names_used(matched) & reasons:
                found.append(matched.lineno)
            case ast.Call(func=ast.Name(id="type"), args=[value]) if _names_used(value) & {
                "because",
                "problem",
                "reason",
                "refusal",
            }:
                found.append(node.lineno)
    return found


def _made_reasons(tree: ast.AST) -> set[str]:
    classes = (node for node in nodes_of(tree) if isinstance(node, ast.ClassDef))
    return {one.name for one in classes if any("reason" in _names_used(made) for made in one.decorator_list)}


def _names_used(node: ast.AST) -> set[str]:
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return names | {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


@functools.cache
def _documented(tree: ast.AST) -> list[tuple[ast.AST, str]]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [(node, ast.get_docstring(node) or "") for node in nodes_of(tree) if isinstance(node, documented)]


def _names_in(node: ast.AST) -> set[str]:
    """Parameters, fields, attributes and methods: whatever a docstring may explain."""
    names: set[str] = set()
    for found in ast.walk(node):
        match found:
            case ast.arg(arg=name) | ast.Attribute(attr=name) | ast.Name(id=name) | ast.FunctionDef(name=name):
                names.add(name)
    return names


def test_files_that_docstrings_name_are_there() -> None:
    """`http.py`, or `web/http1.py`: the end of the path of a source file."""
    paths = tuple(f"/{below_src(path)}" for path in SOURCES)
    told = [
        (path, name)
        for path in SOURCES
        for _, text in _documented(parsed(path))
        for name in re.findall(r"[\w/]+\.py\b", text)
    ]
    assert len(told) > 50
    assert [] == [
        f"{below_src(path)}: {name}" for path, name in told if not any(one.endswith(f"/{name}") for one in paths)
    ]


def test_names_that_docstrings_explain_are_there() -> None:
    """`name: what it is`, at the beginning of a sentence."""
    explained = r"(?:^|(?<=\. )|(?<=\n))\s*((?:[a-z_][a-z_0-9]*, )*[a-z_][a-z_0-9]*): [^\n]"
    strangers = []
    for path in SOURCES:
        for node, text in _documented(parsed(path)):
            names = {name for told in re.findall(explained, text, re.MULTILINE) for name in told.split(", ") if name}
            if names and not isinstance(node, ast.Module) and (unknown := names - _names_in(node)):
                strangers.append(f"{below_src(path)}:{node.lineno}: {', '.join(sorted(unknown))}")  # type: ignore[attr-defined]
    assert [] == strangers


def test_keyword_arguments_in_docstrings_are_there() -> None:
    """`Name(keyword=…)` in an example: a class or function of that name has that parameter, or takes any."""
    parameters = _parameters()
    strangers = []
    for path in SOURCES:
        for _, text in _documented(parsed(path)):
            for name, arguments in re.findall(r"\b([A-Za-z_]\w*)\(((?:[^()]|\([^()]*\))*)\)", text):
                keywords = set(re.findall(r"(?:^|,\s*)([a-z_]\w*)=(?!=)", arguments))
                if name in parameters and not any(keywords <= one or "**" in one for one in parameters[name]):
                    strangers.append(f"{below_src(path)}: {name}({', '.join(sorted(keywords))})")
    assert [] == strangers


def _parameters() -> dict[str, list[set[str]]]:
    """By the name of a function or class, for each one of that name; a class has its `__init__`'s, else its fields."""
    found: dict[str, list[set[str]]] = {}
    for path in SOURCES:
        for node in nodes_of(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.setdefault(node.name, []).append(_accepted(node.args))
            elif isinstance(node, ast.ClassDef):
                made = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
                fields = {
                    one.target.id
                    for one in node.body
                    if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
                }
                accepted = (
                    _accepted(made[0].args) if made else fields | ({"**"} if node.bases or node.keywords else set())
                )
                found.setdefault(node.name, []).append(accepted)
    return found


def _accepted(arguments: ast.arguments) -> set[str]:
    named = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return named | ({"**"} if arguments.kwarg else set())


# Programs, names of examples, and what is built at run time.
NOT_OURS = {"cp", "__namespace__", "a__dash__b", "openapi", "v2", "Document", "listVolumes"}


def test_names_in_backticks_are_there() -> None:
    """`Class.method`, `name`: each word is a name of the source, or stands in one of its texts, as API fields do."""
    trees = {path: parsed(path) for path in SOURCES}
    known = {word for tree in trees.values() for word in _words_of(tree)} | set(keyword.kwlist) | NOT_OURS
    known |= {part for path in SOURCES for part in path.relative_to(SRC).with_suffix("").parts} | {"mooring", "py"}
    strangers = [
        f"{below_src(path)}: {quoted}"
        for path, tree in trees.items()
        for _, text in _documented(tree)
        for quoted in re.findall(r"(?<!`)`([A-Za-z_][\w.]*)`(?!`)", text)
        if not known.issuperset(quoted.split("."))
    ]
    assert [] == strangers


def _words_of(tree: ast.AST) -> Iterator[str]:
    """Names, and the words of texts other than docstrings."""
    docstrings = {id(node.body[0].value) for node, text in _documented(tree) if text}  # type: ignore[attr-defined]
    for node in nodes_of(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=name, asname=other):
                yield from (*name.split("."), other or name)
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield from re.findall(r"\w+", text)


def test_the_architecture_page_knows_every_room() -> None:
    page = " ".join((ROOT / "docs" / "architecture.md").read_text().split())
    unknown = [room.name for room in ROOMS if _first_sentence(room / "__init__.py") not in page]
    assert [] == unknown, "the first sentence of each room's __init__ opens its paragraph in docs/architecture.md"


# -- one grammar: what the kit has, no room has of its own

# Each of these lists is to become shorter: who is on the kit's verbs leaves it, and one who left must not come back.
OWN_DECISIONS = []
OWN_FAILED = []
OWN_CONFLICTS = [
    "cluster/binder/scheduling/reconcile.py",
    "node/volumes/steps/growth.py",
    # These stay: the page of each says why.
    "sidecars/cluster_registrar/registration.py",
    "sidecars/provisioner/capacity/reconcile.py",
    "sidecars/provisioner/intents/lease_store.py",
    "sidecars/provisioner/local_node/reconcile.py",
    "sidecars/provisioner/source_protection/reconcile.py",
]
OWN_REPEATS = [
    "cluster/attachdetach/multi_attach.py",
    "node/volumes/steps/announcements.py",
]


def classes_named(name: str) -> set[str]:
    return {
        below_src(path)
        for path in SOURCES
        for node in nodes_of(parsed(path))
        if isinstance(node, ast.ClassDef) and node.name == name
    }


def in_rooms(path: Path) -> bool:
    """True for whoever writes to the API server as a controller does."""
    return below_src(path).startswith(("sidecars/", "cluster/", "node/"))


def judges_a_conflict(node: ast.AST) -> bool:
    """True for an `except` that names Conflict: it answers in its own way where the object has moved."""
    return (
        isinstance(node, ast.ExceptHandler)
        and node.type is not None
        and "Conflict" in {one.id for one in ast.walk(node.type) if isinstance(one, ast.Name)}
    )


def test_there_is_one_decision_and_one_failure() -> None:
    assert {"control/decision.py", *OWN_DECISIONS} == classes_named("Decision")
    assert {"control/decision.py", *OWN_FAILED} == classes_named("Failed")


def test_the_kit_answers_where_an_object_has_moved() -> None:
    """`ObjectWriter` does: Stale, Vanished, or Failed."""
    own = {
        below_src(path) for path in SOURCES if in_rooms(path) and any(map(judges_a_conflict, nodes_of(parsed(path))))
    }
    assert set(OWN_CONFLICTS) == own


def test_the_kit_tells_once() -> None:
    """`EventOnce` does: nobody else counts the time until an event is repeated."""
    name = "mooring.control.events.REPEAT_S"
    readers = {below_src(path) for path in SOURCES if in_rooms(path) and name in imported_modules(parsed(path))}
    assert set(OWN_REPEATS) == readers


# -- records

OWN_DATACLASSES = {
    **dict.fromkeys(
        ("Candidate", "LeaseRecord", "LeaseTimes", "Sighting"), "control/lease/record.py"
    ),  # --help loads it
    "WritePlan": "cluster/binder/scheduling/decide.py",  # of an abstract class
    "DevOptions": "dev/options.py",  # of a record with flags
    "Tls": "kube/client/config.py",  # a default of a record with a hidden field
    **dict.fromkeys(("Passed", "_Asked"), "conform/proxy/proxy.py"),  # with an Rpc, which is a descriptor too
    "Exchange": "conform/book/exchange.py",  # the same
    "Under": "conform/book/watcher.py",  # the same
    "Recorded": "conform/record/lines.py",
}
"""Records above `csi` that are dataclasses for a reason that their fields do not show."""


def in_rooms_of_structs(path: Path) -> bool:
    """Rooms that no program loads which runs without msgspec: `--help`, the registrar and the probe do."""
    return not below_src(path).startswith(
        ("base/", "wire/", "csi/", "cli/", "sidecars/registrar/", "sidecars/livenessprobe/")
    )


def is_dataclass(record: ast.ClassDef) -> bool:
    return any("dataclass(" in ast.unparse(way) for way in record.decorator_list)


def _fields_made(record: ast.ClassDef) -> list[ast.Call]:
    """The calls of `dataclasses.field` in it."""
    values = [row.value for row in record.body if isinstance(row, ast.AnnAssign)]
    return [one for one in values if isinstance(one, ast.Call) and ast.unparse(one.func) == "dataclasses.field"]


def needs_a_dataclass(record: ast.ClassDef) -> bool:
    """It has flags, a field that is hidden, or of its own in another way; or it remembers what it has computed."""
    functions = [row for row in record.body if isinstance(row, ast.FunctionDef)]
    return (
        any(map(_is_said, record.body))
        or any({one.arg for one in made.keywords} - {"default_factory"} for made in _fields_made(record))
        or any(ast.unparse(way).endswith("cached_property") for one in functions for way in one.decorator_list)
    )


def test_a_record_is_a_struct() -> None:
    """Decision 0022. A dataclass takes seventy times as long to define, six times as long to make."""
    found = {
        (one.name, below_src(path))
        for path in SOURCES
        if in_rooms_of_structs(path)
        for one in nodes_of(parsed(path))
        if isinstance(one, ast.ClassDef) and is_dataclass(one) and not needs_a_dataclass(one)
    }
    assert set(OWN_DATACLASSES.items()) == found


def test_the_fields_of_a_struct_are_its_own() -> None:
    """To a struct what `dataclasses.field` makes is a default like any other, and no type checker sees it."""
    classes = [
        (below_src(path), one) for path in SOURCES for one in nodes_of(parsed(path)) if isinstance(one, ast.ClassDef)
    ]
    assert [] == [(path, one.name) for path, one in classes if not is_dataclass(one) and _fields_made(one)]


# -- options


def records_with_flags() -> set[str]:
    """The classes outside of `cli` whose fields are made by `flag` or `gate`, and those called options."""
    found = set()
    for path in SOURCES:
        if not below_src(path).startswith(("cli/", "apiserver/")):
            for made in nodes_of(parsed(path)):
                if isinstance(made, ast.ClassDef) and (made.name.endswith("Options") or any(map(_is_said, made.body))):
                    found.add(made.name)
    return found


def _is_said(row: ast.stmt) -> bool:
    value = row.value if isinstance(row, ast.AnnAssign) else None
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("flag", "gate")


def made_by_hand(tree: ast.Module, records: set[str]) -> list[str]:
    """Where a program makes the options of a room itself, in place of `Setup.options`, or in a function that says each
    once more.
    """
    calls = [
        one
        for one in nodes_of(tree)
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in records
    ]
    names = [one for one in nodes_of(tree) if isinstance(one, ast.FunctionDef) and one.name == "options_of"]
    return [f"line {one.lineno}" for one in (*calls, *names)]


def test_every_option_has_one_place() -> None:
    """Flag, help, default and field: on the record of the room that uses it."""
    records = records_with_flags()
    assert {"AttacherOptions", "AgentOptions", "Rules", "Patience"} <= records
    assert [] == [
        (below_src(path), one)
        for path in SOURCES
        for one in made_by_hand(parsed(path), records)
        if path.is_relative_to(SRC / "cli")
    ]
    code = "def options_of(flags):\n    return AttacherOptions(timeout_s=flags.timeout_s)"
    assert ["line 2", "line 1"] == made_by_hand(ast.parse(code), records)


def test_no_program_says_a_rooms_option_in_another_way() -> None:
    """A table that had a flag of a room's options once more would hide the one that stands there."""
    for place in sorted({place for place in TABLES.values() if place}):
        module, _, name = place.partition(":")
        table = getattr(importlib.import_module(f"mooring.cli.{module}"), name)
        own = flags_of(table)
        bases = [
            base
            for base in table.__mro__
            if dataclasses.is_dataclass(base) and not base.__module__.startswith("mooring.cli")
        ]
        differ = [f"--{flag}" for base in bases for flag, row in flags_of(base).items() if own.get(flag) != row]
        differ += [gate for base in bases for gate, one in gates_of(base).items() if gates_of(table)[gate] != one]
        assert [] == differ, place


# Where a cache is followed past `Controller.watch`, and why.
NO_CONTROLLERS = {
    "control/controller.py": "Controller.watch itself",
    "cluster/binder/caches.py": "an index, up to date before any controller hears of the change",
    "dev/live/watching.py": "the view, which reads all and decides nothing",
    "dev/unused.py": "lines for people, which decide nothing",
    "node/volumes/controller.py": "the registered drivers, which are no cache",
    "node/csinode/allocatable.py": "the registered drivers, which are no cache",
    "node/csinode/entries.py": "the registered drivers, which are no cache",
}


def test_changes_reach_controllers_in_one_way() -> None:
    called = {
        below_src(path)
        for path in SOURCES
        if not below_src(path).startswith(("kube/", "apiserver/"))
        for node in nodes_of(parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "on_change"
    }
    assert set(NO_CONTROLLERS) == called


def _first_sentence(path: Path) -> str:
    text = " ".join((ast.get_docstring(parsed(path)) or "no docstring").split())
    return text.partition(". ")[0].rstrip(".")


# -- what must not be in the repository


def test_no_file_names_a_package_registry_or_a_place_on_somebodys_machine() -> None:
    # Written in parts, so that this file may pass, too.
    hosts = [
        "pypi" + ".org",
        "python" + "hosted",
        "proxy.go" + "lang",
        "sum.go" + "lang",
        "npm" + "js",
        "crates" + ".io",
        "maven" + ".org",
    ]
    places = ["/ro" + "ot/", "/ho" + "me/[a-z]", "/Use" + "rs/", "/wo" + "rk/"]
    words = [*hosts, *(place.partition("[")[0] for place in places)]  # found in a tenth of the pattern's time
    pattern = re.compile("|".join([*map(re.escape, hosts), *(rf"(?<![\w.*]){place}" for place in places)]))
    found = [
        f"{name}:{number}: {match[0]}"
        for name, text in tracked_texts()
        if any(word in text for word in words)
        for number, line in enumerate(text.splitlines(), 1)
        if (match := pattern.search(line))
    ]
    assert [] == found


# -- the lock


def test_the_lock_holds_what_pyproject_asks_for() -> None:
    """Run `make lock` when this fails."""
    packages = locked("requirements.lock")
    wrong = [
        str(wanted)
        for name, wanted in direct_requirements().items()
        if name not in packages or packages[name][0] not in wanted.specifier
    ]
    assert [] == wrong, "missing in requirements.lock, or locked at a version that doesn't fit: make lock"
    asked = {name for name, (_, text) in packages.items() if "pyproject.toml" in text}
    assert set(direct_requirements()) == asked, "requirements.lock was made from another pyproject.toml: make lock"


def test_every_locked_file_has_its_hash() -> None:
    for file in LOCKS:
        packages = locked(file)
        assert packages
        assert [] == [name for name, (_, text) in packages.items() if "--hash=sha256:" not in text]


def test_uv_is_pinned_where_pyproject_says() -> None:
    bootstrap = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["bootstrap"]
    assert bootstrap == [f"{name}=={version}" for name, (version, _) in locked("hack/uv.txt").items()]
