"""What comes from outside may nest as deep as it likes: each door refuses it in its own words, or takes it for
malformed. Nothing behind a door meets it.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import pkgutil
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import mooring
from mooring.api.core import Node
from mooring.api.driver_versions import DRIVER_VERSIONS, versions_on
from mooring.api.meta import ApiStruct, Kind
from mooring.api.pods import PODS
from mooring.api.storage import CSINode
from mooring.api.workloads import DEPLOYMENTS
from mooring.apiserver.bootstrap import bare_store
from mooring.apiserver.codecs.jsonbody import DEPTH_MAX as BODY_DEPTH_MAX
from mooring.apiserver.codecs.protowire import BYTES, SCALARS
from mooring.apiserver.custom.jsonpath import parse_path
from mooring.apiserver.disk.rows import DiskRow, Saved, Totals
from mooring.apiserver.disk.state import load
from mooring.apiserver.server_side_apply.managed import read_entries
from mooring.base.json_text import DEPTH_MAX, TooDeep, check_depth, from_json
from mooring.base.randomness import Random
from mooring.base.yaml_text import from_yaml
from mooring.cli.conform import read_secrets
from mooring.conform.call.fields import document_in, fill_from_words, secrets_in
from mooring.conform.proxy.script import script_of
from mooring.conform.record.lines import read as read_calls
from mooring.csi.driver import Driver
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.redact import TOKENS_KEY, secret_values
from mooring.csi.wire_driver import read_answer
from mooring.driver.hostpath.faults import Faults
from mooring.driver.hostpath.statefile import decoded as decoded_state
from mooring.driver.records import Records
from mooring.inspect.doctor.files import Files
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.objects import READ
from mooring.inspect.fencing.judge import RECORD as FENCED
from mooring.inspect.fencing.judge import record_of
from mooring.inspect.timeline.moments import fields_of
from mooring.inspect.timeline.traces import ManagedFields
from mooring.inspect.unstick.look import authors_of
from mooring.kube.client.codec import codec_of, status_of
from mooring.kube.client.config import ExecPlugin
from mooring.kube.client.exec_plugin import run_plugin
from mooring.kube.client.kubeconfig import load as load_kubeconfig
from mooring.node.csinode.decide import NODE_IDS, decide_node
from mooring.node.drivers import DriverOnNode
from mooring.node.volumes.state.folders import RECORD, read_record
from mooring.sidecars.provisioner.intents import lease_codec
from mooring.sidecars.provisioner.model.intent import Intent
from mooring.sidecars.provisioner.model.orders import stored_request
from tests.support.builders import a_va
from tests.support.intents import an_entry
from tests.support.paths import VAS
from tests.support.rows import each_row
from tests.unit.apiserver.test_service import Client

SHAPES = {"maps": ('{"a":', "}"), "lists": ("[", "]"), "mixed": ('{"a":[', "]}")}
LEVELS = (DEPTH_MAX + 2, 10_000)
"""The decoders themselves take the first, and what walks over the value later would fail."""
REFUSED = f"deeper than {DEPTH_MAX} levels"
A_VOLUME = {"driverName": "d", "volumeHandle": "v"}
INTENT = Intent("u", "default", "c", "pvc-u", "{}", "{}")

Door = Callable[[str, Path], object]


def deep(shape: str, levels: int) -> str:
    opened, closed = SHAPES[shape]
    return opened * (levels // len(closed)) + "0" + closed * (levels // len(closed))


def varint(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80, *varint(number >> 7)]) if number > 0x7F else bytes([number])


def file_of(folder: Path, text: str, name: str = "file") -> Path:
    (folder / name).write_text(text)
    return folder / name


def node_with(key: str, text: str) -> Node:
    return msgspec.convert({"metadata": {"name": "n", "annotations": {key: text}}}, Node)


def of_server(method: str, path: str, media_type: str, body: str) -> str:
    client = Client()
    client.ask("POST", VAS, a_va("va"))
    reply = client.ask(method, path, body.encode(), media_type)
    assert (400, "BadRequest") == (reply.status, json.loads(reply.body)["reason"])
    return json.loads(reply.body)["message"]


def of_disk(text: str, _: Path) -> object:
    body = f'{{"metadata":{{"name":"a","namespace":"b","uid":"c","resourceVersion":"2"}},"data":{text}}}'
    row = DiskRow("/secrets", "b", "a", 2, 0.0, body.encode())
    store, definitions = bare_store(Random(0))
    load(store, Saved(Totals(2, 1, 0), (row,), ()), definitions.load)
    return store


def of_journal(text: str) -> dict[str, Any]:
    packed = base64.b64encode(zlib.compress(text.encode())).decode()
    return {"metadata": {"annotations": {lease_codec.INTENTS: f"1:{packed}"}}}


def of_plugin(text: str, folder: Path) -> object:
    program = file_of(folder, f"#!/bin/sh\ncat {file_of(folder, text, 'answer')}", "plugin")
    program.chmod(stat.S_IRWXU)
    plugin = ExecPlugin('user "u": exec', str(program), environment={"PATH": "/bin:/usr/bin"})
    return asyncio.run(run_plugin(plugin, 60.0))


def of_doctor(text: str, folder: Path, name: str = "a.yaml") -> object:
    file_of(folder, text, name)
    inventory = Inventory(0.0, of_files=True)
    Files(inventory).read(str(folder))
    for error in inventory.unread:
        raise error
    return [one.obj for kind in READ for one in inventory.all(kind)]


def body_of(text: str) -> str:
    return f'{{"metadata":{{"name":"va"}},"spec":{text}}}'


REFUSING: dict[str, tuple[Door, str]] = {
    "JSON": (lambda text, _: from_json(text), ""),
    "YAML": (lambda text, _: from_yaml(text), ""),
    "a kubeconfig": (lambda text, folder: load_kubeconfig(str(file_of(folder, text)), {}), "/file"),
    "an exec plugin": (of_plugin, 'user "u": exec: the plugin'),
    "an object whole": (lambda text, _: codec_of(dict).object(text.encode()), ""),
    "a template": (
        lambda text, _: codec_of(DEPLOYMENTS.struct).object(f'{{"spec":{{"template":{{"a":{text}}}}}}}'.encode()),
        "",
    ),
    "objects on disk": (of_disk, "the objects of secrets"),
    "a page of the journal": (lambda text, _: lease_codec.texts_of(of_journal(f"[{text}]")), ""),
    "an intent's request": (
        lambda text, _: lease_codec.decoded(
            lease_codec.encoded(an_entry(msgspec.structs.replace(INTENT, request=text)))
        ),
        "",
    ),
    "an intent's volume": (
        lambda text, _: lease_codec.decoded(
            lease_codec.encoded(an_entry(msgspec.structs.replace(INTENT, volume=text)))
        ),
        "",
    ),
    "a request that an earlier provisioner wrote down": (
        lambda text, _: stored_request(msgspec.structs.replace(INTENT, request=text)),
        "an earlier provisioner wrote down",
    ),
    "a record of the node": (
        lambda text, folder: read_record(
            file_of(folder, json.dumps({**A_VOLUME, "a": 0}).replace("0", text), RECORD).parent
        ),
        RECORD,
    ),
    "a driver's record": (lambda text, folder: Records(file_of(folder, text, "a.json").parent).get("a"), "a.json"),
    "the state of hostpath": (lambda text, _: decoded_state(f'{{"format":3,"state":{text}}}'.encode()), ""),
    "faults of hostpath": (lambda text, folder: Faults(file_of(folder, text), None), "/file"),
    "a record of calls": (lambda text, _: read_calls([text], "calls"), "calls:1"),
    "a request": (lambda text, _: document_in(text, "request.yaml"), "request.yaml"),
    "secrets": (lambda text, _: secrets_in(text, "secrets.yaml"), "secrets.yaml"),
    "secrets of conform": (lambda text, folder: read_secrets(str(file_of(folder, text))), "/file"),
    "a word": (
        lambda text, _: fill_from_words(csi.CreateVolumeRequest(), [f"capacity_range={text}"]),
        "capacity_range: ",
    ),
    "a manifest": (lambda text, folder: of_doctor(text, folder), "a.yaml"),
    "a kustomization": (lambda text, folder: of_doctor(text, folder, "kustomization.yaml"), "kustomization.yaml"),
    "a script of faults": (lambda text, _: script_of(text, "script.yaml"), "script.yaml"),
}
"""By what is read: its door, and the place that the error names. Where that is empty, whoever calls knows the place."""


@each_row("door, place", REFUSING.values(), ids=REFUSING)
@each_row("shape", SHAPES)
@each_row("levels", LEVELS)
def test_a_door_refuses_what_is_nested_too_deep_and_names_the_place(
    door: Door, place: str, shape: str, levels: int, tmp_path: Path
) -> None:
    with pytest.raises(Exception) as told:
        door(deep(shape, levels), tmp_path)
    assert not isinstance(told.value, RecursionError)
    assert place in str(told.value)
    assert REFUSED in str(told.value)


SERVED: dict[str, tuple[str, str, str, Callable[[str], str]]] = {
    "a body": ("POST", VAS, "application/json", body_of),
    "YAML": ("POST", VAS, "application/yaml", body_of),
    "options": ("DELETE", f"{VAS}/va", "application/json", body_of),
    "a merge": ("PATCH", f"{VAS}/va", "application/merge-patch+json", body_of),
    "a strategic merge": ("PATCH", f"{VAS}/va", "application/strategic-merge-patch+json", body_of),
    "steps": (
        "PATCH",
        f"{VAS}/va",
        "application/json-patch+json",
        lambda text: f'[{{"op":"add","path":"/metadata/labels","value":{text}}}]',
    ),
}


@each_row("method, path, media_type, body", SERVED.values(), ids=SERVED)
@each_row("shape", SHAPES)
@each_row("levels", [BODY_DEPTH_MAX + 2, *LEVELS])
def test_the_server_answers_a_deep_body_as_a_bad_request(
    method: str, path: str, media_type: str, body: Callable[[str], str], shape: str, levels: int
) -> None:
    message = of_server(method, path, media_type, body(deep(shape, levels)))
    assert f"deeper than {BODY_DEPTH_MAX} levels" in message


@each_row("shape", SHAPES)
@each_row("levels", [BODY_DEPTH_MAX + 2, *LEVELS])
def test_an_apply_that_is_too_deep_is_a_bad_request(shape: str, levels: int) -> None:
    client = Client()
    reply = client.ask(
        "PATCH",
        f"{VAS}/va",
        body_of(deep(shape, levels)).encode(),
        "application/apply-patch+yaml",
        query={"fieldManager": "m"},
    )
    assert 400 == reply.status
    assert f"deeper than {BODY_DEPTH_MAX} levels" in json.loads(reply.body)["message"]


MALFORMED: dict[str, tuple[Callable[[str], object], object]] = {
    "fenced": (lambda text: record_of(node_with(FENCED, text)), {}),
    "versions": (
        lambda text: versions_on(
            msgspec.convert({"metadata": {"name": "n", "annotations": {DRIVER_VERSIONS: text}}}, CSINode)
        ),
        {},
    ),
    "a node's ids": (
        lambda text: (
            REFUSED in str(decide_node(node_with(NODE_IDS, text), DriverOnNode("d", "n", topology={}, limit=0)).problem)
        ),
        True,
    ),
    "tokens": (
        lambda text: list(secret_values(csi.NodePublishVolumeRequest(volume_context={TOKENS_KEY: text}))) == [text],
        True,
    ),
    "finalizers": (
        lambda text: authors_of(
            {"metadata": {"managedFields": [{"fieldsV1": {"f:metadata": {"f:finalizers": {f"v:{text}": {}}}}}]}}
        ),
        {},
    ),
    "conditions": (
        lambda text: fields_of(ManagedFields(fields_v1={"f:status": {"f:conditions": {f"k:{text}": {}}}})),
        ["status.conditions"],
    ),
    "managers": (
        lambda text: read_entries([{"manager": "m", "operation": "Update", "fieldsV1": {"f:spec": {f"v:{text}": {}}}}]),
        {},
    ),
    "a Status": (lambda text: status_of(f'{{"kind":"Status","details":{text}}}'.encode()), None),
}


@each_row("door, malformed", MALFORMED.values(), ids=MALFORMED)
@each_row("shape", SHAPES)
@each_row("levels", LEVELS)
def test_a_deep_annotation_is_as_any_malformed_one(
    door: Callable[[str], object], malformed: object, shape: str, levels: int
) -> None:
    assert malformed == door(deep(shape, levels))


def test_the_server_takes_deep_json_within_an_object_for_malformed() -> None:
    client, text = Client(), deep("maps", 10_000)
    note = {"kubectl.kubernetes.io/last-applied-configuration": text}
    client.ask("POST", VAS, a_va("va", annotations=note))
    config = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"labels": {"a": "b"}}}
    query = {"fieldManager": "kubectl"}
    applied = client.ask("PATCH", f"{VAS}/va", config, "application/apply-patch+yaml", query=query)
    assert (200, {"a": "b"}) == (applied.status, json.loads(applied.body)["metadata"]["labels"])
    data = {".dockerconfigjson": base64.b64encode(text.encode()).decode()}
    secret = {"metadata": {"name": "s"}, "type": "kubernetes.io/dockerconfigjson", "data": data}
    refused = client.ask("POST", "/api/v1/namespaces/default/secrets", secret)
    assert (422, True) == (refused.status, "not JSON" in json.loads(refused.body)["message"])
    token = base64.urlsafe_b64encode(text.encode()).decode()
    listed = client.ask("GET", VAS, query={"continue": token})
    assert (400, True) == (listed.status, "continue key is not valid" in json.loads(listed.body)["message"])
    with pytest.raises(ValueError, match="unrecognized value"):
        parse_path(f".a[?(@.b=={deep('lists', 400)})]")
    raw = b"\x0a" + varint(len(text)) + text.encode()
    with pytest.raises(ValueError, match=f"deeper than {BODY_DEPTH_MAX} levels"):
        SCALARS["any"](raw, BYTES, 0, len(raw))


@each_row("levels", LEVELS)
def test_one_deep_object_does_not_hide_the_others_of_a_page(levels: int, capsys: pytest.CaptureFixture[str]) -> None:
    kind = PODS.whole()
    text = deep("maps", levels)
    odd = f'{{"metadata":{{"name":"odd","uid":"u"}},"spec":{text}}}'
    body = f'{{"metadata":{{"resourceVersion":"1"}},"items":[{{"metadata":{{"name":"a"}}}},{odd}]}}'.encode()
    line = f'{{"type":"MODIFIED","object":{odd}}}'.encode()
    if levels > LEVELS[0]:  # where an item ends is not known then
        for read in (lambda: codec_of(dict).page(kind, body), lambda: codec_of(dict).event(kind, line)):
            with pytest.raises(TooDeep):
                read()
        return
    page = codec_of(dict).page(kind, body)
    assert ([{"metadata": {"name": "a"}}], ["odd"]) == (list(page.items), [one.name for one in page.unread])
    assert codec_of(dict).event(kind, line) is None
    assert 2 == capsys.readouterr().err.count(REFUSED)
    assert "a" == codec_of(PODS.struct).object(f'{{"metadata":{{"name":"a"}},"more":{text}}}'.encode()).metadata.name


def test_a_type_that_keeps_json_says_so() -> None:
    """`has_json`: what stays JSON is bounded before it is decoded."""
    modules = [one.name for one in pkgutil.walk_packages(mooring.__path__, "mooring.") if "_pb2" not in one.name]
    found = [vars(importlib.import_module(one)).values() for one in modules if not one.endswith("__main__")]
    structs = {one.struct for values in found for one in values if isinstance(one, Kind)}
    types = {one for one in structs if isinstance(one, type) and issubclass(one, ApiStruct)}
    assert types
    assert {one for one in types if "AnyType" in repr(msgspec.inspect.type_info(one))} == {
        one for one in types if one.has_json
    }


def test_an_answer_of_a_driver_with_groups_in_groups_is_none() -> None:
    with pytest.raises(DriverError, match="the driver's answer is no"):
        read_answer(Driver.create_volume, b"\xa3\x06" * 10_000 + b"\xa4\x06" * 10_000)


# -- the decoders


@each_row("shape", SHAPES)
def test_the_limit_is_exact(shape: str) -> None:
    for text in (deep(shape, DEPTH_MAX), f"[{'[],' * 1000}{deep(shape, DEPTH_MAX - 2)}]"):
        assert json.loads(text) == from_json(text) == from_json(text.encode())
    assert json.loads(deep(shape, DEPTH_MAX)) == from_yaml(deep(shape, DEPTH_MAX))
    for text in (deep(shape, DEPTH_MAX + 2), f"[{'[],' * 1000}{deep(shape, DEPTH_MAX)}]", deep(shape, 100_000)):
        with pytest.raises(TooDeep):
            check_depth(text)


@each_row("text", ["[" * 1000, "\\" + '"' + "{" * 1000, "\ud800" + "[{" * 1000, "]}" * 1000])
def test_brackets_within_texts_open_nothing(text: str) -> None:
    for value in (text, [text] * 3, {text: text}):
        assert value == from_json(json.dumps(value))
        check_depth(json.dumps(value, ensure_ascii=False))


@each_row(
    "text",
    [
        "- " * 10_000 + "0",
        "? " * 10_000 + "0",
        "&a [*a]",
        "a: &a {b: [c, *a]}",
        "a0: &a0 [0]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 300)),
        '{"a":\t' * 10_000 + "0" + "}" * 10_000,
    ],
)
def test_yaml_has_other_ways_to_be_deep(text: str) -> None:
    with pytest.raises(TooDeep):
        from_yaml(text)


def test_aliases_are_values_like_others() -> None:
    text = "".join(f"a{n}: &a{n} [{f'*a{n - 1}' if n else 0}]\n" for n in range(200))
    assert [[[0]]] == from_yaml(text)["a2"]
    assert {"a": [1], "b": {"c": [1], "d": [1]}} == from_yaml("a: &a [1]\nb: {c: *a, d: *a}")
    with pytest.raises(yaml.YAMLError, match="undefined alias"):
        from_yaml("a: *b")


@each_row("text", ["!!bool x", "!!timestamp x", "a: !!int ''"])
def test_what_is_not_as_its_tag_says_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="not what its tag says"):
        from_yaml(text)


TABBED: dict[str, Callable[[str, Path], object]] = {
    "a kubeconfig": lambda text, folder: load_kubeconfig(str(file_of(folder, text)), {}),
    "a manifest": lambda text, folder: of_doctor(text, folder, "a.json"),
    "a request": lambda text, _: document_in(text, "f"),
    "secrets": lambda text, _: secrets_in(text, "f"),
    "secrets of conform": lambda text, folder: read_secrets(str(file_of(folder, text))),
    "a script": lambda text, _: script_of(text, "f"),
}
CLUSTER = {"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}
CONTEXT = {"name": "a", "context": {"cluster": "a"}}
CONTENTS: dict[str, object] = {
    "a kubeconfig": {
        "current-context": "a",
        "clusters": [CLUSTER],
        "contexts": [{"name": "a", "context": {"cluster": "a"}}],
    },
    "secrets": {"key": "\ttab"},
    "secrets of conform": {"CreateVolumeSecret": {"key": "value"}},
    "a script": {"faults": [{"do": "drop", "rpc": "CreateVolume"}]},
}


@each_row("name", TABBED)
def test_json_may_be_indented_by_tabs(name: str, tmp_path: Path) -> None:
    content = CONTENTS.get(name, {"kind": "None", "list": ["a\tb"]})
    door = TABBED[name]
    assert repr(door(json.dumps(content, indent=1), tmp_path)) == repr(door(json.dumps(content, indent="\t"), tmp_path))
