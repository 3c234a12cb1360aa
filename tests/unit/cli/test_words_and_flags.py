"""The words of a command for people, apart from its flags."""

import pytest

from mooring.base.flags import UsageError
from mooring.cli.dev_power import PowerFlags
from mooring.cli.objects import object_named
from mooring.cli.people import words_and_flags
from mooring.cli.why import WhyFlags
from tests.support.rows import each_row


@each_row(
    ("argv", "words", "flags"),
    [
        (["pod", "web-0", "-n", "shop"], ["pod", "web-0"], ["-n", "shop"]),
        (["-n", "shop", "pod/web-0"], ["pod/web-0"], ["-n", "shop"]),
        (["-n", "shop", "--watch"], [], ["-n", "shop", "--watch"]),
        (["-n", "shop", "pod/web-0", "-o", "json"], ["pod/web-0"], ["-n", "shop", "-o", "json"]),
        (["-n", "shop", "--", "pod", "-x"], ["pod", "-x"], ["-n", "shop", "--"]),
        (["-n"], [], ["-n"]),
        (["--unknown", "pod/web-0"], [], ["--unknown", "pod/web-0"]),
        ([], [], []),
    ],
)
def test_words_come_before_the_flags_after_them_or_between_them(argv, words, flags):
    assert (words, flags) == words_and_flags(WhyFlags, argv)


def test_a_word_too_many_before_the_flags_is_left_to_whoever_reads_them():
    assert (["n1"], ["n2", "--state=d"]) == words_and_flags(PowerFlags, ["n1", "n2", "--state=d"], leading_max=1)
    assert (["n1", "n2"], ["--state=d"]) == words_and_flags(PowerFlags, ["--state=d", "n1", "n2"], leading_max=1)


@each_row("words", [["pod/a", "pod/b"], ["pod", "shop/a"], ["pod/"], ["pod", "shop", "a", "b"]])
def test_words_that_are_not_one_object_are_told_its_form(words):
    with pytest.raises(UsageError, match=f"name one object as KIND/NAME, as in pod/web-0; got '{' '.join(words)}'"):
        object_named(words, "default", "mooring why")
