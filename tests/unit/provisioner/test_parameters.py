"""A class's parameters: rows P13 to P32 as far as they are about parameters alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.core import SecretReference
from mooring.api.templates import InvalidTokens, expanded
from mooring.sidecars.provisioner.model.volumes import (
    ParameterError,
    SecretKind,
    TemplateValues,
    for_driver,
    fs_type,
    secret_of,
)
from tests.support.rows import each_row

PLACES = TemplateValues("pvc-u", "ns", "c", {"team": "a"})
REFS = [kind for kind in SecretKind if kind is not SecretKind.DEFAULT]


def secret(
    kind: SecretKind = SecretKind.PROVISIONER, places: TemplateValues = PLACES, **parameters: str
) -> SecretReference | None:
    """Parameters with `_` for what a word can't hold: `provisioner_secret_name`."""
    return secret_of(
        kind, {f"csi.storage.k8s.io/{key.replace('_', '-')}": value for key, value in parameters.items()}, places
    )


# -- the file system


def test_P13_the_old_key_is_honoured_and_passed_on():
    assert "xfs" == fs_type({"fstype": "xfs"}, "ext4")
    assert {"fstype": "xfs"} == for_driver({"fstype": "xfs"})


def test_P14_our_key_is_honoured_and_kept_back():
    assert "xfs" == fs_type({"csi.storage.k8s.io/fstype": "xfs"}, "ext4")
    assert {} == for_driver({"csi.storage.k8s.io/fstype": "xfs"})


@each_row("other", ["fstype", "FSType"])
def test_P15_both_keys_are_refused(other):
    with pytest.raises(ParameterError) as caught:
        fs_type({"csi.storage.k8s.io/fstype": "xfs", other: "xfs"}, "")
    assert 'fstype specified in parameters with both "fstype" and "csi.storage.k8s.io/fstype" keys' == str(caught.value)


@each_row("parameters", [{}, {"fstype": ""}])
def test_P16_without_one_the_default_counts(parameters):
    assert ("ext4", "") == (fs_type(parameters, "ext4"), fs_type(parameters, ""))


def test_P17_an_unknown_key_under_the_prefix_is_refused():
    with pytest.raises(
        ParameterError,
        match=r'found unknown parameter key "csi\.storage\.k8s\.io/foo" with reserved namespace csi.storage.k8s.io/',
    ):
        for_driver({"csi.storage.k8s.io/foo": "1"})


# -- secrets


def test_without_keys_there_is_no_secret():
    assert [None] * len(SecretKind) == [secret(kind) for kind in SecretKind]


def test_P26_a_name_without_a_namespace_is_refused():
    with pytest.raises(ParameterError) as caught:
        secret(provisioner_secret_name="s")
    text = "either name and namespace for Provisioner secrets specified, Both must be specified"
    assert f"failed to get name and namespace template from params: {text}" == str(caught.value)


def test_P27_an_old_name_goes_with_a_new_namespace():
    parameters = {"csiProvisionerSecretName": "s", "csi.storage.k8s.io/provisioner-secret-namespace": "n"}
    assert SecretReference("s", "n") == secret_of(SecretKind.PROVISIONER, parameters, PLACES)
    assert {"csiProvisionerSecretName": "s"} == for_driver(parameters)


def test_P28_old_and_new_name_together_are_refused():
    parameters = {"csiNodeStageSecretName": "s", "csi.storage.k8s.io/node-stage-secret-name": "s"}
    with pytest.raises(
        ParameterError,
        match=r'NodeStage secrets specified in parameters with both "csi" and "csi.storage.k8s.io/" keys',
    ):
        secret_of(SecretKind.NODE_STAGE, parameters, PLACES)


def test_P29_the_default_serves_every_kind_without_keys_of_its_own():
    assert [SecretReference("s", "n")] * len(REFS) == [
        secret(kind, secret_name="s", secret_namespace="n") for kind in REFS
    ]
    own = secret(
        SecretKind.NODE_EXPAND,
        secret_name="s",
        secret_namespace="n",
        node_expand_secret_name="x",
        node_expand_secret_namespace="y",
    )
    assert SecretReference("x", "y") == own


def test_an_empty_value_is_refused():
    with pytest.raises(
        ParameterError, match="Default secrets specified in parameters but value of either namespace or name is empty"
    ):
        secret(secret_name="", secret_namespace="n")


def test_P30_the_name_may_speak_of_the_claim():
    template = "${pvc.name}-${pvc.annotations['team']}"
    assert SecretReference("c-a", "ns") == secret(secret_name=template, secret_namespace="${pvc.namespace}")


def test_P31_the_namespace_may_not():
    with pytest.raises(ParameterError) as caught:
        secret(secret_name="s", secret_namespace="${pvc.name}-${b}")
    assert 'error resolving value "${pvc.name}-${b}": invalid tokens: ["b" "pvc.name"]' == str(caught.value)


def test_an_annotation_that_the_claim_lacks_is_an_unknown_token():
    with pytest.raises(ParameterError, match=r"invalid tokens: \[\"pvc.annotations\['nobody'\]\"\]"):
        secret(secret_name="${pvc.annotations['nobody']}", secret_namespace="n")


def test_P32_what_comes_out_must_be_a_name():
    with pytest.raises(ParameterError) as caught:
        secret(secret_name="Bad_${pvc.name}", secret_namespace="n")
    assert '"Bad_${pvc.name}" resolved to "Bad_c" which is not a valid secret name' == str(caught.value)
    with pytest.raises(ParameterError, match=r'"a.b" is not a valid namespace name'):
        secret(secret_name="s", secret_namespace="a.b")


def test_at_deletion_the_claim_is_not_known():
    places = TemplateValues("pvc-u", "ns")
    assert SecretReference("pvc-u", "ns") == secret(
        places=places, secret_name="${pv.name}", secret_namespace="${pvc.namespace}"
    )
    with pytest.raises(ParameterError, match="invalid tokens"):
        secret(places=places, secret_name="${pvc.annotations['team']}", secret_namespace="n")


# -- templates


@each_row(
    ("template", "result"),
    [
        ("plain", "plain"),
        ("${name}", "X"),
        ("$name", "X"),
        ("$name.y", "X.y"),
        ("a${}b", "ab"),
        ("a${name", "aname"),
        ("a$", "a$"),
        ("a$ b", "a$ b"),
        ("a$-", "aD"),
        ("$$", "P"),
        ("${name}${name}", "XX"),
    ],
)
def test_templates_expand_as_in_go(template, result):
    assert result == expanded(template, {"name": "X", "$": "P", "-": "D"})


@each_row(("template", "tokens"), [("$$", '"$"'), ("$b$a$b", '"a" "b"'), ('${a"b}', '"a\\"b"'), ("$12", '"1"')])
def test_unknown_tokens_are_all_named(template, tokens):
    with pytest.raises(InvalidTokens) as caught:
        expanded(template, {})
    assert f"invalid tokens: [{tokens}]" == str(caught.value)


@given(st.text(alphabet="$ab{}_.'[]"))
def test_what_comes_out_of_a_template_is_never_expanded_again(text):
    try:
        once = expanded(text, {"a": "${b}", "b": "$a"})
    except InvalidTokens:
        return
    assert len(once) <= 4 * len(text)
