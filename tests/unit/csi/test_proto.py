"""The .proto files declare what the originals do, and the checked-in modules are what they give."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from mooring.csi.proto import csi_pb2, pluginregistration_pb2
from tests.support.layers import SPECIFICATION, not_tested
from tests.support.rows import each_row

ROOT = Path(__file__).parents[3]
REFERENCE = Path(__file__).parent / "data" / "csi-1.12.0.descriptors"
ORIGINALS = ROOT.parent / "shared" / "proto"


def bare(file: descriptor_pb2.FileDescriptorProto) -> descriptor_pb2.FileDescriptorProto:
    """Without what says where it was compiled: name, comments, and the JSON names that only descriptor sets carry."""
    copy = descriptor_pb2.FileDescriptorProto()
    copy.CopyFrom(file)
    copy.ClearField("name")
    copy.ClearField("source_code_info")
    messages = list(copy.message_type)
    fields = [*copy.extension]
    while messages:
        message = messages.pop()
        messages.extend(message.nested_type)
        fields.extend((*message.field, *message.extension))
    for field in fields:
        field.ClearField("json_name")
    return copy


def files_of(path: Path) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    """The files of a descriptor set by package."""
    return {file.package: bare(file) for file in descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()).file}


def generate(*arguments: str, script: Path = ROOT / "hack" / "generate-stubs") -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=60, check=False)


@each_row("module", [csi_pb2, pluginregistration_pb2], ids=["csi", "pluginregistration"])
def test_our_declarations_are_those_of_the_reference(module):
    ours = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    assert files_of(REFERENCE)[ours.package] == bare(ours)


def test_the_reference_is_what_the_originals_give(tmp_path):
    if not ORIGINALS.is_dir():
        not_tested(
            SPECIFICATION,
            f"no {ORIGINALS.relative_to(ROOT.parent)}: the descriptor set was not compared with the originals",
        )
    made = tmp_path / "made"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ORIGINALS}", f"--descriptor_set_out={made}"]
    subprocess.run([*command, "csi.proto", "pluginregistration/v1/api.proto"], check=True, timeout=60)
    assert files_of(made) == files_of(REFERENCE)
    assert set(files_of(REFERENCE)) == {"csi.v1", "pluginregistration"}


def test_the_reference_carries_no_comments():
    """They are the specification's text; the file is about its facts."""
    assert not [
        file.name
        for file in descriptor_pb2.FileDescriptorSet.FromString(REFERENCE.read_bytes()).file
        if file.HasField("source_code_info")
    ]


def test_the_checked_in_modules_are_as_generated():
    done = generate("--check")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.slow
def test_the_check_tells_a_changed_declaration(tmp_path):
    """In a copy of the tree: a number that differs is named, and the way to set it right."""
    proto = "src/mooring/csi/proto"
    shutil.copytree(ROOT / proto, tmp_path / proto)
    (tmp_path / "hack").mkdir()
    script = Path(shutil.copy(ROOT / "hack" / "generate-stubs", tmp_path / "hack"))
    changed = tmp_path / proto / "csi.proto"
    changed.write_text(changed.read_text().replace("bool readonly = 4;", "bool read_only = 4;"))
    done = generate("--check", script=script)
    assert done.returncode == 1
    assert "csi_pb2.pyi" in done.stdout
    assert "run hack/generate-stubs" in done.stdout
    assert generate(script=script).returncode == 0
    assert generate("--check", script=script).returncode == 0
