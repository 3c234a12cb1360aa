"""The form of messages in the log, and what never gets there."""

import json

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.redact import STRIPPED, TOKENS_KEY, redacted, scrubbed
from tests.support.rows import each_row

Field = descriptor_pb2.FieldDescriptorProto


def probe_type():
    """A message with what CSI does not have: secrets of other types than map<string,string>, in lists, maps and below
    them.
    """
    name = "mooring/tests/csi/secrets.proto"
    pool = descriptor_pool.Default()
    try:
        file = pool.FindFileByName(name)
    except KeyError:
        proto = descriptor_pb2.FileDescriptorProto(
            name=name, package="mooring.tests", syntax="proto3", dependency=[csi.DESCRIPTOR.name]
        )
        entry = proto.message_type.add(name="Outer").nested_type.add(name="PartsEntry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=Field.TYPE_INT32, label=1)
        entry.field.add(name="value", number=2, type=Field.TYPE_MESSAGE, label=1, type_name=".mooring.tests.Outer")
        flags = proto.message_type[0].nested_type.add(name="FlagsEntry")
        flags.options.map_entry = True
        flags.field.add(name="key", number=1, type=Field.TYPE_BOOL, label=1)
        flags.field.add(name="value", number=2, type=Field.TYPE_SINT64, label=1)
        add = proto.message_type[0].field.add
        add(name="parts", number=1, type=Field.TYPE_MESSAGE, label=3, type_name=".mooring.tests.Outer.PartsEntry")
        add(name="flags", number=2, type=Field.TYPE_MESSAGE, label=3, type_name=".mooring.tests.Outer.FlagsEntry")
        add(name="list", number=3, type=Field.TYPE_MESSAGE, label=3, type_name=".mooring.tests.Outer")
        add(name="data", number=4, type=Field.TYPE_BYTES, label=1)
        add(name="big", number=5, type=Field.TYPE_UINT64, label=1)
        secrets = {
            "text": Field.TYPE_STRING,
            "number": Field.TYPE_INT64,
            "key": Field.TYPE_BYTES,
            "on": Field.TYPE_BOOL,
        }
        for number, (what, kind) in enumerate(secrets.items(), 10):
            add(name=f"secret_{what}", number=number, type=kind, label=1).options.Extensions[csi.csi_secret] = True
        whole = add(
            name="secret_message", number=20, type=Field.TYPE_MESSAGE, label=1, type_name=".mooring.tests.Outer"
        )
        whole.options.Extensions[csi.csi_secret] = True
        many = add(name="secret_texts", number=21, type=Field.TYPE_STRING, label=3)
        many.options.Extensions[csi.csi_secret] = True
        file = pool.AddSerializedFile(proto.SerializeToString()) or pool.FindFileByName(name)
    return message_factory.GetMessageClass(file.message_types_by_name["Outer"])


def test_LG01_the_example_of_the_specification():
    request = csi.CreateVolumeRequest(
        name="test-volume",
        capacity_range={"required_bytes": 1024, "limit_bytes": 1024},
        secrets={"secret1": "hunter2", "secret2": "hunter3"},
        volume_capabilities=[{"mount": {"fs_type": "ext4"}, "access_mode": {"mode": 5}}],
    )
    assert redacted(request) == (
        '{"capacity_range":{"limit_bytes":1024,"required_bytes":1024},"name":"test-volume","secrets":"***stripped***",'
        '"volume_capabilities":[{"access_mode":{"mode":"MULTI_NODE_MULTI_WRITER"},"mount":{"fs_type":"ext4"}}]}'
    )


@each_row(
    ("message", "text"),
    [
        (None, "null"),
        (csi.ProbeRequest(), "{}"),
        (csi.ProbeResponse(ready={"value": True}), '{"ready":{"value":true}}'),
        (csi.ProbeResponse(ready={"value": False}), '{"ready":{}}'),
        (csi.GetCapacityResponse(available_capacity=2**62, maximum_volume_size={"value": 5}),
         '{"available_capacity":4611686018427387904,"maximum_volume_size":{"value":5}}'),
        (csi.CreateSnapshotResponse(snapshot={"creation_time": {"seconds": 7, "nanos": 9}}),
         '{"snapshot":{"creation_time":{"nanos":9,"seconds":7}}}'),
        (csi.VolumeCapability(access_mode={"mode": 77}), '{"access_mode":{"mode":77}}'),
        (csi.VolumeCapability(access_mode={"mode": 0}, block={}), '{"access_mode":{},"block":{}}'),
        (csi.Volume(volume_context={"b": "2", "a": "1", "Z": ""}), '{"volume_context":{"Z":"","a":"1","b":"2"}}'),
        (csi.ListVolumesResponse(entries=[{}, {"status": {"published_node_ids": ["n2", "n1"]}}]),
         '{"entries":[{},{"status":{"published_node_ids":["n2","n1"]}}]}'),
        (csi.DeleteVolumeRequest(volume_id='<a> & "b"\n\u2028é\U0001f600'),
         '{"volume_id":"\\u003ca\\u003e \\u0026 \\"b\\"\\n\\u2028é\U0001f600"}'),
    ],
)  # fmt: skip
def test_messages_look_as_the_peer_prints_them(message, text):
    assert redacted(message) == text
    assert message is None or json.loads(text) is not None


def test_fields_that_the_proto_does_not_know_are_dropped():
    newer = csi.DeleteVolumeRequest.FromString(b"\x0a\x01v\xfa\x07\x06future")
    assert redacted(newer) == '{"volume_id":"v"}'


def test_secret_fields_are_stripped_whatever_their_type_and_depth():
    outer = probe_type()
    inner = outer(
        secret_text="hunter2",
        secret_number=4711,
        secret_key=b"hunter2",
        secret_on=True,
        secret_texts=["hunter2"],
        big=1,
    )
    inner.secret_message.big = 4711
    message = outer(list=[inner, outer()], parts={3: inner, -1: outer()})
    shown = json.loads(redacted(message))
    secrets = ("secret_key", "secret_message", "secret_number", "secret_on", "secret_text", "secret_texts")
    stripped = {"big": 1, **dict.fromkeys(secrets, STRIPPED)}
    assert shown == {"list": [stripped, {}], "parts": {"-1": {}, "3": stripped}}


def test_an_empty_secret_field_is_not_shown_and_a_set_one_is():
    """Its presence may be seen, its keys may not."""
    assert redacted(csi.DeleteVolumeRequest(secrets={})) == "{}"
    assert redacted(csi.DeleteVolumeRequest(secrets={"key": ""})) == '{"secrets":"***stripped***"}'


def test_bytes_are_base64_and_keys_of_any_type_are_text():
    message = probe_type()(data=b"\x00\xff~", big=2**64 - 1, flags={True: -5, False: 0})
    assert redacted(message) == '{"big":18446744073709551615,"data":"AP9+","flags":{"false":0,"true":-5}}'


def test_the_tokens_of_service_accounts_are_stripped_from_every_map():
    context = {TOKENS_KEY: '{"aud":{"token":"eyJhbGciOi"}}', "a": "b"}
    request = csi.NodePublishVolumeRequest(volume_context=context, publish_context=context)
    shown = '{"a":"b","csi.storage.k8s.io/serviceAccount.tokens":"***stripped***"}'
    assert redacted(request) == f'{{"publish_context":{shown},"volume_context":{shown}}}'


def test_the_message_itself_is_not_changed():
    request = csi.DeleteVolumeRequest(volume_id="v", secrets={"a": "hunter2"})
    before = request.SerializeToString(deterministic=True)
    redacted(request)
    scrubbed("hunter2", request)
    assert request.SerializeToString(deterministic=True) == before


# -- texts of others


def a_request(**secrets):
    return csi.ControllerPublishVolumeRequest(volume_id="v", secrets=secrets)


def test_a_text_without_secrets_comes_back_as_it_is():
    text = "mount failed"
    assert scrubbed(text, a_request(password="hunter2")) is text


@each_row(
    ("secret", "text", "left"),
    [
        ("hunter2", "login -p hunter2 failed: hunter2", "login -p ***stripped*** failed: ***stripped***"),
        ("hunter2\n", "no hunter2 here", "no ***stripped*** here"),
        ('pass"word', 'exec: "pass\\"word"', 'exec: "***stripped***"'),
        (
            "-----BEGIN KEY-----\nMIIEvQIBADAN\n-----END KEY-----\n",
            "bad PEM at MIIEvQIBADAN",
            "bad PEM at ***stripped***",
        ),
        ("abc", "abcdef", "abcdef"),
        ("", "no", "no"),
    ],
    ids=["as-it-is", "trimmed", "quoted", "one-line-of-many", "too-short-to-tell", "empty"],
)
def test_secret_values_are_taken_out_of_texts(secret, text, left):
    assert scrubbed(text, a_request(password=secret)) == left


def test_of_secrets_that_contain_each_other_the_longest_goes_first():
    assert scrubbed("hunter2hunter3", a_request(a="hunter2", b="hunter2hunter3")) == STRIPPED


def test_each_token_of_a_service_account_is_taken_out():
    request = csi.NodePublishVolumeRequest(volume_context={TOKENS_KEY: '{"aud":{"token":"eyJhbGciOi"},"odd":[1]}'})
    assert scrubbed("401 for eyJhbGciOi", request) == "401 for ***stripped***"


@each_row("odd", ["not json at all", "[1,2]", "{}", "[" * 100_000, '{"aud":7}'])
def test_tokens_in_an_odd_form_do_no_harm(odd):
    request = csi.NodePublishVolumeRequest(volume_context={TOKENS_KEY: odd})
    assert scrubbed("text", request) == "text"
    assert redacted(request) == f'{{"volume_context":{{"{TOKENS_KEY}":"{STRIPPED}"}}}}'


def test_keys_of_secrets_are_ordinary_words():
    """A driver that says which key is missing must stay understandable."""
    assert scrubbed("missing key password", a_request(password="hunter2")) == "missing key password"
