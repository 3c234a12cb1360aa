"""What a message shows of a program that has failed."""

from __future__ import annotations

from mooring.base.last_words import LastWords

NODE = """node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module '/driver.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)
    at Module._load (node:internal/modules/cjs/loader:1051:27)
    at node:internal/main/run_main_module:28:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v20.19.2""".splitlines()


def test_the_first_line_with_an_error_is_shown_besides_the_last_ones() -> None:
    assert ["Error: Cannot find module '/driver.js'", "…", *NODE[-5:]] == LastWords(NODE).lines


def test_an_error_among_the_last_lines_is_shown_once() -> None:
    assert ["a", "b: no such file"] == LastWords(["a", "b: no such file"]).lines
    assert ["panic: x", "1", "2"] == LastWords(["0", "panic: x", "1", "2"], 2).lines


def test_a_program_without_errors_has_its_last_lines_alone() -> None:
    assert ["3", "4", "5", "6", "7"] == LastWords(map(str, range(8))).lines
