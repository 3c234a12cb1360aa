"""What others say never moves a terminal's cursor, nor looks like another line."""

from __future__ import annotations

import sys

from mooring.base.text import visible, visible_lines
from tests.support.rows import each_row


@each_row(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x9b2J", "\\x9b2J"),
        ("abc\u202exyz", "abc\\u202exyz"),
        ("one\u2028two", "one\\u2028two"),
        ("\udcff", "\\udcff"),
        ("\U000e0041", "\\U000e0041"),
        ("Größe \u00a0→ 文字 \u200d", "Größe \u00a0→ 文字 \u200d"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(text: str, shown: str) -> None:
    assert shown == visible(text)


def test_a_text_of_lines_keeps_their_ends() -> None:
    assert "a\\x1b\nb" == visible_lines("a\x1b\nb")


def test_nothing_that_is_left_is_a_control_character() -> None:
    left = visible("".join(map(chr, range(sys.maxunicode + 1))))
    assert not {char for char in left if ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 or 0x202A <= ord(char) <= 0x202E}
