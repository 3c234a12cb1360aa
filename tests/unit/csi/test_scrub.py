"""Secrets in the forms that URLs, shells and encodings give them, in texts of any length, within a bound."""

from __future__ import annotations

import base64
import json
import shlex
import urllib.parse
from collections.abc import Callable

import pytest

from mooring.csi import scrub
from mooring.csi.scrub import CUT, SECRETS_MAX, STRIPPED, TEXT_LENGTH_MAX, WORK_MAX, without
from tests.support.rows import each_row

SECRET = "p@ss/w'ord&1 é\"%+"

FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "of a query": lambda one: urllib.parse.quote(one, safe=""),
    "of a path": urllib.parse.quote,
    "of a form": urllib.parse.quote_plus,
    "of Go's user and password": lambda one: urllib.parse.quote(one, safe="$&+,;="),
    "with small digits": lambda one: urllib.parse.quote(one, safe="").lower(),
    "with every letter escaped": lambda one: "".join(f"%{byte:02X}" for byte in one.encode()),
    "of JSON": json.dumps,
    "of JSON as UTF-8": lambda one: json.dumps(one, ensure_ascii=False),
    "of JSON in JSON": lambda one: json.dumps(json.dumps(one, ensure_ascii=False), ensure_ascii=False),
    "of Python": repr,
    "of a shell": shlex.quote,
    "of a shell's backslashes": lambda one: "".join(f"\\{char}" for char in one),
    "base64": lambda one: base64.b64encode(one.encode()).decode(),
    "base64 for URLs": lambda one: base64.urlsafe_b64encode(one.encode()).decode().rstrip("="),
    "base64 behind a user": lambda one: base64.b64encode(f"u:{one}".encode()).decode(),
    "base64 behind another": lambda one: base64.b64encode(f"ab:{one}@x".encode()).decode(),
    "base64 behind a third": lambda one: base64.b64encode(f"abc:{one}!".encode()).decode(),
    "hex": lambda one: one.encode().hex(),
    "HEX": lambda one: one.encode().hex().upper(),
}


@each_row("form", FORMS)
@each_row("secret", [SECRET, "hunter2", "correct horse", "ключ-от-всего", "a" * 5_000 + "&"])
def test_a_secret_is_taken_out_in_every_form(form: str, secret: str) -> None:
    encoded = FORMS[form](secret)
    shown = without(f"mount failed: //{encoded} on node", [secret])
    assert STRIPPED in shown
    assert secret[:6] not in shown
    assert encoded[1:-1] not in shown
    assert shown.startswith(("mount failed: ", STRIPPED))


def test_what_stands_beside_a_secret_in_a_url_is_left() -> None:
    assert f"no //u:{STRIPPED}@host here" == without("no //u:p%40ss%2fword@host here", ["p@ss/word"])


def test_a_mixture_of_escapes_costs_the_word() -> None:
    assert f"no {STRIPPED} here" == without("no //u:p%40ss%2Fw%6Frd@host here", ["p@ss/word"])


def test_a_text_of_quotes_that_holds_no_secret_is_the_same() -> None:
    text = "can't mount \"/a+b%20c\" on 'n1'\\n"
    assert text is without(text, ["hunter2", "pass'word"])


def test_a_long_text_is_cut() -> None:
    shown = without("x" * 16 * 2**20, ["hunter2"])
    assert "x" * TEXT_LENGTH_MAX + CUT == shown


@each_row("before", range(TEXT_LENGTH_MAX - 8, TEXT_LENGTH_MAX + 2))
def test_no_beginning_of_a_secret_is_left_where_a_text_is_cut(before: int) -> None:
    shown = without("x" * before + "hunter2" + "x" * TEXT_LENGTH_MAX, ["hunter2", "terxyz", "xxxhun!"])
    assert "h" not in shown
    assert len(shown) <= TEXT_LENGTH_MAX + len(STRIPPED) + len(CUT)


@each_row("secret_as", ["p%40ss%2Fw%6Frd-long-secret", "p\\@ss/'w'ord-long-secret"])
def test_no_beginning_of_a_mixture_of_escapes_is_left_where_a_text_is_cut(secret_as: str) -> None:
    for cut in range(4, len(secret_as)):
        shown = without("." * (TEXT_LENGTH_MAX - cut) + secret_as + "." * 100, ["p@ss/word-long-secret"])
        assert not set(shown.removesuffix(CUT)) - set("." + STRIPPED)


def test_secrets_that_overlap_where_a_text_is_cut_leave_nothing() -> None:
    """The first is cut off, and with that a second would be cut in two."""
    text = "." * (TEXT_LENGTH_MAX - 10) + "secondfirst" + "." * 100
    shown = without(text, ["secondfi", "dfirst"])
    assert "sec" not in shown


def test_with_more_secrets_less_is_shown() -> None:
    """So that the work has a bound: characters times forms."""
    key = "\n".join(f"{number:064x}" for number in range(10_000))
    shown = without("x" * 10**6, [key])
    assert WORK_MAX // 10_100 < len(shown) < WORK_MAX // 10_000 + len(CUT)


def test_among_too_many_secrets_nothing_is_shown() -> None:
    many = [f"secret{number}" for number in range(SECRETS_MAX + 1)]
    assert STRIPPED == without("harmless", many)
    assert "harmless" == without("harmless", many[1:])


def test_what_is_encoded_for_urls_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the bytes that were given to be encoded: each takes a while."""
    encoded = 0
    real = urllib.parse.quote

    def counted(text: str, safe: str = "/") -> str:
        nonlocal encoded
        encoded += len(text)
        return real(text, safe=safe)

    monkeypatch.setattr(scrub, "quote", counted)
    without("text", [f"{number:01000}" for number in range(SECRETS_MAX)])
    assert encoded <= 32 * 1024 * 4
