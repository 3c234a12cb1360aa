"""Texts without the secrets of a request, in whatever form a driver, a shell, a URL or a library has put them there.

The work is bounded: the number of characters times the number of forms. Of a text that would take more, only a part is
shown, without any secret; if there are too many forms to search for, nothing of the text is shown.
"""

from __future__ import annotations

import base64
import itertools
import json
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus, unquote_plus

STRIPPED: Final = "***stripped***"

TEXT_LENGTH_MAX: Final = 64 * 1024
WORK_MAX: Final = 2**24
"""Characters of the text times forms: some 15 ms."""
SECRETS_MAX: Final = 500
CUT: Final = " … (cut)"

_SECRET_LENGTH_MIN: Final = 4  # a shorter value is part of too many words to be told from them
_LINE_LENGTH_MIN: Final = 8  # of one line of a longer secret, such as a key
_URLS_MAX: Final = 32  # secrets that are looked for as URLs have them; the others, and longer ones, cost whole words
_URL_LENGTH_MAX: Final = 1024
_CUTS_MAX: Final = 10
_GO_KEEPS: Final = ("", "/", "$&+,/:;=@", "$&+,;=")
"""Beside letters and digits, what Go's and Python's escaping leaves as it is: of queries, of paths, of user and
password.
"""
_MARKS: Final = "%+\\'\""
_ESCAPE_LENGTH: Final = 3  # of a letter in a URL
_QUOTES: Final = str.maketrans("", "", "\\'\"")


def without(text: str, secrets: Iterable[str]) -> str:
    """The text with STRIPPED for each secret in it; the text itself, the same object, if there is none."""
    given = list(itertools.islice((secret for secret in secrets if secret), SECRETS_MAX + 1))
    if len(given) > SECRETS_MAX:
        return STRIPPED
    forms = {form for secret in given for form in _forms(secret)}
    forms.update(form for secret in given[:_URLS_MAX] for form in _in_urls(secret.strip()))
    if not forms:
        return text
    shown = _shortened(text, forms)
    for form in sorted(forms, key=len, reverse=True):
        shown = shown.replace(form, STRIPPED)
    shown = _without_decoded(shown, [one for secret in given if len(one := secret.strip()) >= _SECRET_LENGTH_MIN])
    return text if shown == text else shown


def _shortened(text: str, forms: Collection[str]) -> str:
    """The beginning of the text that may be looked at, without the beginning of a secret at its end."""
    end = min(TEXT_LENGTH_MAX, WORK_MAX // len(forms))
    if len(text) <= end:
        return text
    for _ in range(_CUTS_MAX):
        begins = [text.find(form, max(0, end - len(form) + 1), end + len(form) - 1) for form in forms]
        before = min([begin for begin in begins if 0 <= begin < end], default=end)
        if before == end:
            end_sure = max(0, end - _ESCAPE_LENGTH * max(map(len, forms)))
            may_be_one = any(
                mark in text[end_sure:end] for mark in _MARKS
            )  # in yet another mixture, which can't be decoded in part
            return text[: end_sure if may_be_one else end] + CUT
        end = before
    return STRIPPED


def _without_decoded(text: str, secrets: list[str]) -> str:
    """Takes out the words, or all, where a secret stands in yet another mixture of percent signs, or of quotes and
    backslashes.
    """
    if "%" in text or "+" in text:
        text = _without_words(text, secrets, unquote_plus)
    if any(mark in text for mark in "\\'\""):
        bare = [one for secret in secrets if len(one := _bare(secret)) >= _SECRET_LENGTH_MIN]
        text = _without_words(text, bare, _bare)
    return text


def _without_words(text: str, secrets: list[str], decode: Callable[[str], str]) -> str:
    found = _among(secrets, decode(text))
    if not found:
        return text
    text = " ".join(STRIPPED if _among(found, decode(word)) else word for word in text.split(" "))
    return STRIPPED if _among(found, decode(text)) else text


def _among(secrets: list[str], plain: str) -> list[str]:
    return [secret for secret in secrets if secret in plain]


def _bare(text: str) -> str:
    return text.translate(_QUOTES)


def _forms(secret: str) -> Iterator[str]:
    """The secret as it is, trimmed, line by line, and encoded."""
    trimmed = secret.strip()
    if len(secret) >= _SECRET_LENGTH_MIN:
        yield secret
    if len(trimmed) >= _SECRET_LENGTH_MIN:
        yield trimmed
        yield from _quoted(trimmed)
        for one in {secret, trimmed}:
            yield from _in_bytes(one.encode(errors="surrogatepass"))
    yield from (line for one in trimmed.splitlines() if len(line := one.strip()) >= _LINE_LENGTH_MIN)


def _quoted(secret: str) -> Iterator[str]:
    """The secret as JSON, Go and Python write it between quotes, and as a shell takes it."""
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield json.dumps(secret)[1:-1]
    yield repr(secret)[1:-1]
    yield shlex.quote(secret).removeprefix("'").removesuffix("'")


def _in_urls(secret: str) -> Iterator[str]:
    if not _SECRET_LENGTH_MIN <= len(secret) <= _URL_LENGTH_MAX:
        return
    for encoded in (*(quote(secret, safe=keep) for keep in _GO_KEEPS), quote_plus(secret)):
        yield encoded
        yield _lower_escapes(encoded)


def _lower_escapes(encoded: str) -> str:
    first, *rest = encoded.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])


def _in_bytes(secret: bytes) -> Iterator[str]:
    """The secret in hex, and in base64, wherever it stands in what was encoded."""
    yield secret.hex()
    yield secret.hex().upper()
    yield base64.b64encode(secret).decode()
    yield base64.urlsafe_b64encode(secret).decode()
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + secret).decode().rstrip("=")
        is_even = (before + len(secret)) % 3 == 0
        core = encoded[
            (0, 2, 3)[before] : None if is_even else -1
        ]  # the letters that nothing beside the secret has a part in
        if len(core) >= _SECRET_LENGTH_MIN:
            yield core
            yield core.replace("+", "-").replace("/", "_")
