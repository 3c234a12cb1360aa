"""Messages that are read and written without protobuf, beside protobuf itself."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import DecodeError, Message

from mooring.csi.identity import is_ready_in, name_in
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.proto import pluginregistration_pb2 as pb
from mooring.csi.registration import PluginInfo, RegistrationStatus
from mooring.wire.grpc.fields import Malformed, fields_of
from tests.support.rows import each_row

Read = Callable[[bytes], Any]

MESSAGES: list[tuple[str, type[Message], Read, Read]] = [
    ("GetPluginInfoResponse", csi.GetPluginInfoResponse, name_in, lambda one: one.name),
    ("ProbeResponse", csi.ProbeResponse, is_ready_in, lambda one: not one.HasField("ready") or one.ready.value),
    (
        "PluginInfo",
        pb.PluginInfo,
        PluginInfo.of,
        lambda one: PluginInfo(one.type, one.name, one.endpoint, tuple(one.supported_versions)),
    ),
    (
        "RegistrationStatus",
        pb.RegistrationStatus,
        RegistrationStatus.of,
        lambda one: RegistrationStatus(one.plugin_registered, one.error),
    ),
]
INFOS = [
    PluginInfo(),
    PluginInfo("CSIPlugin", "d", "/csi.sock", ("1.0.0",)),
    PluginInfo("t", "ä" * 200, "", ("", "1.0.0", "")),
]
STATUSES = [
    RegistrationStatus(),
    RegistrationStatus(True),
    RegistrationStatus(False, "why " * 5000),
    RegistrationStatus(True, "ß"),
]


@each_row("info", INFOS)
def test_a_plugins_answer_is_protobufs_and_comes_back(info: PluginInfo):
    real = pb.PluginInfo(
        type=info.type, name=info.name, endpoint=info.endpoint, supported_versions=info.supported_versions
    )
    assert info.message() == real.SerializeToString()
    assert PluginInfo.of(info.message()) == info


@each_row("status", STATUSES)
def test_the_kubelets_word_is_protobufs_and_comes_back(status: RegistrationStatus):
    real = pb.RegistrationStatus(plugin_registered=status.plugin_registered, error=status.error)
    assert status.message() == real.SerializeToString()
    assert RegistrationStatus.of(status.message()) == status


@each_row(("said", "is_ready"), [({}, True), ({"ready": {}}, False), ({"ready": {"value": True}}, True)])
def test_a_probe_that_does_not_say_is_ready(said: dict[str, Any], is_ready: bool):
    assert is_ready_in(csi.ProbeResponse(**said).SerializeToString()) is is_ready


@each_row(("kind", "read", "value_of"), [one[1:] for one in MESSAGES], ids=[one[0] for one in MESSAGES])
def test_bytes_of_every_sort_are_read_as_protobuf_reads_them(kind: type[Message], read: Read, value_of: Read):
    """Whatever protobuf takes is read as it reads it; and nothing is refused that protobuf takes. It also checks fields
    that nobody asks for here, so it refuses more.
    """
    randomness = random.Random(kind.DESCRIPTOR.full_name)
    taken = 0
    for _ in range(20_000):
        message = _some_bytes(randomness)
        try:
            real = kind.FromString(message)
        except DecodeError:
            continue
        taken += 1
        assert read(message) == value_of(real), message
    assert taken > 2000, "hardly any of these bytes was a message"


def _some_bytes(randomness: random.Random) -> bytes:
    """Fields of small numbers, whole or spoilt."""
    found = bytearray()
    for _ in range(randomness.randrange(5)):
        number, kind = randomness.choice((1, 1, 2, 3, 4, 15, 300)), randomness.choice((0, 2, 2, 2, 1, 5, 3))
        found += _varint(number << 3 | kind)
        if kind == 0:
            found += _varint(randomness.choice((0, 1, 127, 128, 2**32, 2**64 - 1)))
        elif kind == 2:
            body = randomness.choice(
                (b"", b"\x08\x01", b"\x08\x00", b"name", "ß".encode(), b"\xff", randomness.randbytes(3))
            )
            found += _varint(len(body)) + body
        elif kind == 3:
            found += randomness.choice((b"", b"\x08\x01")) + _varint(number << 3 | 4)
        else:
            found += randomness.randbytes(8 if kind == 1 else 4)
    if found and randomness.random() < 0.2:
        del found[randomness.randrange(len(found)) :]
    if found and randomness.random() < 0.1:
        found[randomness.randrange(len(found))] = randomness.randrange(256)
    return bytes(found)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


@each_row(
    "message",
    [b"\x0a", b"\x0a\x05ab", b"\x00", b"\x0f", b"\x0c", b"\x0b\x14", b"\x0b", b"\x08" + b"\x80" * 10, b"\x80"],
)
def test_what_is_no_message_is_refused(message: bytes):
    with pytest.raises(Malformed):
        list(fields_of(message))
    with pytest.raises(DecodeError):
        csi.ProbeResponse.FromString(message)


def test_groups_within_groups_end_somewhere():
    with pytest.raises(Malformed, match="too deep"):
        list(fields_of(b"\x7b" * 5000))
