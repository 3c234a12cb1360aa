"""Whatever is sent as a custom object, it is stored in its one form or refused."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mooring.api.meta import Key
from mooring.apiserver.bodies.objects import FieldValidation, decode_object
from mooring.apiserver.custom.definition_kind import CUSTOM_RESOURCE_DEFINITIONS
from mooring.kube.errors import AlreadyExists, BadRequest, Invalid
from tests.conformance import test_custom_kinds, test_kind_rules
from tests.support.customkinds import GROUP, a_definition, a_version, an_object, spec_of
from tests.unit.apiserver.objects import NOW, a_store, create

PLACES = {**test_custom_kinds.PLACES, **test_kind_rules.PLACES}
STORE = a_store()
create(STORE, CUSTOM_RESOURCE_DEFINITIONS, a_definition("things", a_version(spec_of(**PLACES))))
THINGS = STORE.resource(GROUP, "v1", "things")
WORDS = st.sampled_from(
    [
        "a",
        "b",
        "x",
        "k",
        "p",
        "v",
        "d",
        "y",
        "q",
        "zz",
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "labels",
        "",
        "1h",
        "2024-01-01",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 12)
    | st.sampled_from([2.0, 1.5, 2**63, 10**30, 1e300])
    | WORDS
    | st.text(max_size=5)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4), max_leaves=10
)


@given(spec=st.dictionaries(st.sampled_from(sorted(PLACES)) | WORDS, VALUES, max_size=4), more=VALUES)
def test_a_custom_object_is_stored_in_its_one_form_or_refused(spec: dict[str, Any], more: Any) -> None:
    assert THINGS is not None
    body = an_object("things", "x", spec=spec, status=more)
    try:
        first, _ = decode_object(THINGS, copy.deepcopy(body), FieldValidation.IGNORE, [])
        again, unknown = decode_object(THINGS, copy.deepcopy(first), FieldValidation.STRICT, [])
        assert (first, ()) == (again, unknown), "decoding twice is decoding once"
        made = STORE.create(THINGS, first, "", NOW).stored
    except (Invalid, BadRequest, AlreadyExists):
        return
    assert made.body == STORE.get(THINGS, Key("", "x")).body
    STORE.delete(THINGS, Key("", "x"), NOW)
