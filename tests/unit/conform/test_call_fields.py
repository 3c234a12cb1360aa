"""Item 30.4: the request of `mooring call`, from words, from a document, and its secrets from a file."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.message import Message

from mooring.base.errors import ConfigError
from mooring.cli.conform import read_secrets
from mooring.conform.call.codes import meaning
from mooring.conform.call.fields import document_in, fill, fill_from_words, fill_secrets, secrets_in
from mooring.conform.call.names import BY_NAME, paths_in, rpc_named
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.redact import TOKENS_KEY, is_secret, shown
from mooring.inspect.printing import as_yaml
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row

Mode = csi.VolumeCapability.AccessMode


def of_words(request: Message, *words: str) -> Any:
    fill_from_words(request, words)
    return request


def refusal(request: Message, *words: str) -> str:
    with pytest.raises(ConfigError) as told:
        fill_from_words(request, words)
    assert 2 == told.value.exit_code
    return str(told.value)


def test_fields_by_their_paths() -> None:
    made = of_words(
        csi.CreateVolumeRequest(),
        "name=data",
        "capacity_range.required_bytes=1Gi",
        "capacityRange.limitBytes=2147483648",
        "parameters.type=fast",
        "parameters.csi.storage.k8s.io/fstype=a=b",
        "volume_content_source.snapshot.snapshot_id=s1",
    )
    assert made == csi.CreateVolumeRequest(
        name="data",
        capacity_range=csi.CapacityRange(required_bytes=2**30, limit_bytes=2**31),
        parameters={"type": "fast", "csi.storage.k8s.io/fstype": "a=b"},
        volume_content_source=csi.VolumeContentSource(
            snapshot=csi.VolumeContentSource.SnapshotSource(snapshot_id="s1")
        ),
    )


def test_a_field_that_an_element_has_begins_the_next_element() -> None:
    made = of_words(
        csi.CreateVolumeRequest(),
        "volume_capabilities.mount.fs_type=ext4",
        "volume_capabilities.mount.mount_flags=noatime",
        "volume_capabilities.mount.mount_flags=ro",
        "volume_capabilities.access_mode.mode=SINGLE_NODE_WRITER",
        "volume_capabilities.block={}",
        "volume_capabilities.access_mode.mode=5",
        "accessibility_requirements.requisite.segments.zone=a",
        "accessibility_requirements.requisite.segments.zone=b",
        "accessibility_requirements.requisite.segments.rack=r",
    )
    mount, block = made.volume_capabilities
    assert (["noatime", "ro"], Mode.SINGLE_NODE_WRITER) == (list(mount.mount.mount_flags), mount.access_mode.mode)
    assert ("block", Mode.MULTI_NODE_MULTI_WRITER) == (block.WhichOneof("access_type"), block.access_mode.mode)
    assert [{"zone": "a"}, {"zone": "b", "rack": "r"}] == [
        dict(one.segments) for one in made.accessibility_requirements.requisite
    ]


def test_a_message_as_one_word() -> None:
    made = of_words(
        csi.NodePublishVolumeRequest(),
        "volume_capability={mount: {fs_type: xfs}, access_mode: {mode: SINGLE_NODE_WRITER}}",
    )
    assert ("xfs", 1) == (made.volume_capability.mount.fs_type, made.volume_capability.access_mode.mode)


@each_row(
    ("word", "said"),
    [
        ("nam=x", "did you mean name?"),
        ("size=1Gi", "did you mean capacity_range.required_bytes?"),
        ("fs_type=ext4", "did you mean volume_capabilities.mount.fs_type?"),
        (
            "volume_capabilities.mount.fstype=x",
            "volume_capabilities.mount: MountVolume has no field 'fstype' (did you mean fs_type?)",
        ),
        ("zzz=1", "there are name, capacity_range"),
        ("volume_capabilities.block.x=1", "BlockVolume has no fields"),
        ("name.x=1", "name: it has no fields, and none 'x'"),
        ("name", "give path=value"),
        ("parameters=x", "give parameters.KEY=value"),
        ("capacity_range.required_bytes=1.5", "a whole number or a quantity"),
        ("capacity_range.required_bytes=9223372036854775808", "must be between"),
        ("capacity_range=5", "must be a map of the fields of CapacityRange"),
        ("name=\udcff", "is no UTF-8"),
        ("na\udcffme=x", "is no UTF-8"),
        ("parameters.\udcff=x", "is no UTF-8"),
        ("volume_capabilities.access_mode.mode=99999999999", "must be between"),
        ("volume_capabilities.access_mode.mode=SINGLE_NODE_WRITTER", "did you mean SINGLE_NODE_WRITER?"),
    ],
)
def test_a_wrong_word_is_told_with_the_right_one(word: str, said: str) -> None:
    assert said in refusal(csi.CreateVolumeRequest(), word)


def test_what_excludes_each_other_is_refused() -> None:
    said = refusal(csi.NodePublishVolumeRequest(), "volume_capability.mount.fs_type=ext4", "volume_capability.block={}")
    assert "block and mount exclude each other" in said


@each_row("word", ["secrets.password=hunter2", "secrets={a: hunter2}", f"volume_context.{TOKENS_KEY}=hunter2"])
def test_no_secret_is_taken_from_a_command_line(word: str) -> None:
    said = refusal(csi.NodePublishVolumeRequest(), word)
    assert "--secrets-file" in said
    assert "hunter2" not in said


def test_no_secret_is_taken_from_a_request() -> None:
    with pytest.raises(ConfigError, match="--secrets-file"):
        fill(csi.DeleteVolumeRequest(), {"volume_id": "a", "secrets": {"password": "hunter2"}})


def test_secrets_that_are_no_yaml_are_told_by_their_line_alone(tmp_path: Path) -> None:
    text = "key: a\npassword: 'hunter2\n"
    (tmp_path / "secrets").write_text(text)
    for read in (lambda: secrets_in(text, "f"), lambda: read_secrets(str(tmp_path / "secrets"))):
        with pytest.raises(ConfigError, match="is no YAML at line 3") as refused:
            read()
        assert "hunter2" not in str(refused.value)


def test_a_request_that_was_printed_is_taken_with_its_secrets_left_out() -> None:
    """--secrets-file brings them, as it did when the request was printed."""
    printed = csi.NodePublishVolumeRequest(
        volume_id="a", secrets={"password": "hunter2"}, volume_context={TOKENS_KEY: "t", "shelf": "b"}
    )
    read = csi.NodePublishVolumeRequest()
    fill(read, yaml.safe_load(as_yaml(shown(printed))))
    assert read == csi.NodePublishVolumeRequest(volume_id="a", volume_context={"shelf": "b"})
    with pytest.raises(ConfigError, match="--secrets-file"):
        fill(
            csi.DeleteVolumeRequest(), {"volume_id": "a", "secrets": {"user": "***stripped***", "password": "hunter2"}}
        )


def test_an_answer_that_was_printed_is_a_document() -> None:
    request = csi.CreateVolumeRequest(
        name="a",
        capacity_range=csi.CapacityRange(required_bytes=5),
        volume_capabilities=[
            csi.VolumeCapability(
                block=csi.VolumeCapability.BlockVolume(), access_mode=Mode(mode=Mode.SINGLE_NODE_WRITER)
            )
        ],
        parameters={"type": "fast"},
    )
    snapshot = csi.Snapshot(snapshot_id="s", ready_to_use=True)
    snapshot.creation_time.FromSeconds(1_700_000_000)
    capacity = csi.GetCapacityResponse(available_capacity=1)
    capacity.maximum_volume_size.value = 7
    for message in (request, snapshot, capacity):
        again = type(message)()
        fill(again, document_in(yaml.safe_dump(shown(message)), "file"))
        assert message == again
    short = csi.GetCapacityResponse()
    fill(short, {"availableCapacity": "1", "maximum_volume_size": "7"})
    assert capacity == short
    timed = csi.Snapshot()
    fill(timed, {"creation_time": "2023-11-14T22:13:20Z"})
    assert snapshot.creation_time == timed.creation_time


@each_row(
    ("document", "said"),
    [
        ([], "must be a map"),
        ({"name": 5}, "name: must be a text, got 5: put it in quotes"),
        ({"parameters": {"fast": True}}, "parameters.fast: must be a text"),
        ({"parameters": ["a"]}, "parameters: must be a map"),
        ({"volume_capabilities": "x"}, "volume_capabilities: must be a list"),
        (
            {"volume_capabilities": [{"mont": {}}]},
            "volume_capabilities[0]: VolumeCapability has no field 'mont' (did you mean mount?)",
        ),
        ({"capacity_range": {"required_bytes": True}}, "capacity_range.required_bytes: must be a whole number"),
    ],
)
def test_a_wrong_document_is_told_with_its_place(document: Any, said: str) -> None:
    with pytest.raises(ConfigError) as told:
        fill(csi.CreateVolumeRequest(), document)
    assert said in str(told.value)


def test_half_a_pair_in_json_is_no_text() -> None:
    for document in ({"name": "\ud800"}, {"parameters": {"\ud800": "a"}}, {"na\ud800me": "a"}):
        with pytest.raises(ConfigError):
            fill(csi.CreateVolumeRequest(), document)


def test_the_file_of_secrets() -> None:
    assert {"user": "me", "pass": "x"} == secrets_in("user: me\npass: x\n", "file")
    secret = yaml.safe_dump(
        {"kind": "Secret", "data": {"pass": base64.b64encode(b"x").decode()}, "stringData": {"user": "me"}}
    )
    assert {"user": "me", "pass": "x"} == secrets_in(secret, "file")
    request = csi.DeleteVolumeRequest()
    fill_secrets(request, {"pass": "x"})
    assert {"pass": "x"} == dict(request.secrets)
    with pytest.raises(ConfigError, match=r"^a secret: is no UTF-8$"):
        fill_secrets(request, {"pass": "hunter2\ud800"})
    with pytest.raises(ConfigError, match="takes no secrets"):
        fill_secrets(csi.GetPluginInfoRequest(), {"pass": "x"})


@each_row("text", ["hunter2", "a: [hunter2", "a: {hunter2: hunter2}", "kind: Secret\ndata: {a: hunter2}"])
def test_a_wrong_file_of_secrets_is_told_without_them(text: str) -> None:
    with pytest.raises(ConfigError) as told:
        secrets_in(text, "the file")
    assert str(told.value).startswith("the file: ")
    assert "hunter2" not in str(told.value)


def test_the_names_of_calls() -> None:
    assert rpc_named("CreateVolume").attribute == "create_volume"
    with pytest.raises(ConfigError, match=r"did you mean CreateVolume\?"):
        rpc_named("createvolum")
    with pytest.raises(ConfigError, match=r"there are GetPluginInfo, .*NodeGetInfo"):
        rpc_named("Xyz")


def test_every_path_that_is_offered_can_be_typed() -> None:
    count = 0
    for rpc in BY_NAME.values():
        for path in paths_in(rpc.request_type.DESCRIPTOR):
            value = "key=v" if path.endswith(".") else "{}" if path.endswith("block=") else "1"
            fill_from_words(rpc.request_type(), [f"{path}{value}".replace("readonly=1", "readonly=true")])
            count += 1
    assert count > 80
    assert not [
        field
        for rpc in BY_NAME.values()
        for field in rpc.request_type.DESCRIPTOR.fields
        if is_secret(field) and f"{field.name}." in paths_in(rpc.request_type.DESCRIPTOR)
    ]


def test_each_code_has_a_meaning_and_says_whether_it_is_final() -> None:
    for code in set(Code) - {Code.OK}:
        said = meaning(DriverError(code, "x"))
        assert ("Final" in said) != ("Not final" in said)
        assert "gRPC does not know" not in said
    assert "gRPC does not know" in meaning(DriverError(77, "x"))
    assert "Begin the list anew" in meaning(DriverError(Code.ABORTED, "x"), "ListVolumes")
    assert "Nothing was sent" in meaning(DriverError(Code.UNAVAILABLE, "x", unsent=True))
    assert "may have done it" in meaning(DriverError(Code.INTERNAL, "x", answered=True))
