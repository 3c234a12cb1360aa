"""The mount table as kernels write it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.mounts import targets
from mooring.mounts.mountinfo import Mount, MountTable, is_within, parse
from tests.support.rows import each_row

ROOT = "25 1 253:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,discard"
PROC = "26 25 0:22 / /proc rw,nosuid,nodev,noexec,relatime shared:13 - proc proc rw"
BIND = "300 25 253:0 /srv/a /mnt/b rw,relatime master:1 propagate_from:2 - ext4 /dev/vda1 rw,discard"


def one(line: str) -> Mount:
    (mount,) = parse(line + "\n")
    return mount


def test_a_line_is_read_whole() -> None:
    expected = Mount(
        300,
        25,
        "253:0",
        "/srv/a",
        "/mnt/b",
        "rw,relatime",
        ("master:1", "propagate_from:2"),
        "ext4",
        "/dev/vda1",
        "rw,discard",
    )
    assert expected == one(BIND)


@each_row(
    ("line", "point"),
    [
        (r"1 2 0:1 / /a\040b rw - tmpfs tmpfs rw", "/a b"),
        (r"1 2 0:1 / /a\011b\012c\134d rw - tmpfs tmpfs rw", "/a\tb\nc\\d"),
        (r"1 2 0:1 / /a\134040b rw - tmpfs tmpfs rw", r"/a\040b"),
        ("1 2 0:1 / /a/b//deleted rw - tmpfs tmpfs rw", "/a/b"),
        ("1 2 0:1 / /a/deleted rw - tmpfs tmpfs rw", "/a/deleted"),
        ("1 2 0:1 / /ä/☃ rw - tmpfs tmpfs rw", "/ä/☃"),
        ("1 2 0:1 / /a\rb\x0b\x0c\x85\u2028c rw - tmpfs tmpfs rw", "/a\rb\x0b\x0c\x85\u2028c"),
    ],
)
def test_a_point_is_read_as_its_path(line: str, point: str) -> None:
    assert point == one(line).point


@each_row(
    ("line", "shared", "fields"),
    [
        (ROOT, True, ("shared:1",)),
        (BIND, False, ("master:1", "propagate_from:2")),
        ("1 2 0:1 / /x rw - tmpfs tmpfs rw", False, ()),
        ("1 2 0:1 / /x rw unbindable - tmpfs tmpfs rw", False, ("unbindable",)),
        ("1 2 0:1 / /x rw shared:7 master:2 - tmpfs tmpfs rw", True, ("shared:7", "master:2")),
    ],
)
def test_optional_fields_are_however_many_there_are(line: str, shared: bool, fields: tuple[str, ...]) -> None:
    assert (shared, fields) == (one(line).is_shared, one(line).propagation)


def test_an_empty_source_and_blanks_in_the_options_do_no_harm() -> None:
    assert ("", "rw") == (one("1 2 0:1 / /x rw - tmpfs  rw").source, one("1 2 0:1 / /x rw - tmpfs  rw").super_options)
    assert "rw,name=a" == one("1 2 0:1 / /x rw - 9p none rw,name=a b").super_options


@each_row("line", ["", "x", "1 2 0:1 / /x rw", "1 2 0:1 / /x rw shared:1 -", "a b 0:1 / /x rw - t s rw"])
def test_a_line_that_can_not_be_read_hides_no_other(line: str) -> None:
    assert ["/", "/proc"] == [mount.point for mount in parse(f"{ROOT}\n{line}\n{PROC}\n")]


def escaped(path: str) -> str:
    """As the kernel's mangle does it."""
    return "".join(f"\\{ord(character):03o}" if character in " \t\n\\" else character for character in path)


NAMES = st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1, max_size=12)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))


@given(st.lists(st.tuples(PATHS, PATHS), min_size=1, max_size=5))
def test_whatever_the_kernel_escapes_is_read_back(paths: list[tuple[str, str]]) -> None:
    text = "".join(
        f"{number} 1 0:1 {escaped(root)} {escaped(point)} rw shared:1 - tmpfs {escaped(root)} rw\n"
        for number, (root, point) in enumerate(paths)
    )
    assert [(root, point, root) for root, point in paths] == [
        (mount.root, mount.point, mount.source) for mount in parse(text)
    ]


def table(*lines: str) -> MountTable:
    return MountTable(parse("\n".join((ROOT, *lines))))


def test_of_stacked_mounts_the_last_is_on_top() -> None:
    mounts = table("2 25 0:1 / /x rw - tmpfs lower rw", "3 2 0:2 / /x rw - tmpfs upper rw")
    assert (top := mounts.at("/x")) is not None
    assert "upper" == top.source
    assert ["lower", "upper"] == [mount.source for mount in mounts.below("/x")]
    assert (holding := mounts.holding("/x/y")) is not None
    assert "upper" == holding.source


def test_a_path_that_only_begins_alike_is_no_mount() -> None:
    mounts = table("2 25 0:1 / /x rw - tmpfs t rw")
    assert (None, ()) == (mounts.at("/xy"), mounts.below("/xy"))
    assert (is_within("/x", "/x"), is_within("/x/y", "/x"), is_within("/xy", "/x"), is_within("/x", "/")) == (
        True,
        True,
        False,
        True,
    )


def test_bind_mounts_of_a_folder_are_found_by_device_and_root() -> None:
    """`/stage` is a mount of its own in one row, and a plain folder of the root file system in the other."""
    of_a_mount = table(
        "2 25 0:9 / /stage rw - ext4 /dev/x rw",
        "3 25 0:9 / /pod rw - ext4 /dev/x rw",
        "4 25 0:8 / /no rw - ext4 /dev/y rw",
    )
    assert ("/pod",) == of_a_mount.references("/stage")
    of_a_folder = table(
        "2 25 253:0 /stage /pod rw - ext4 /dev/vda1 rw", "3 25 253:0 /stage/sub /no rw - ext4 /dev/vda1 rw"
    )
    assert ("/pod",) == of_a_folder.references("/stage")


def test_below_is_ordered_so_that_unmounting_backwards_works() -> None:
    mounts = table(
        "2 25 0:1 / /x/a/b rw - tmpfs t rw", "3 25 0:1 / /x rw - tmpfs t rw", "4 25 0:1 / /x/a rw - tmpfs t rw"
    )
    assert ["/x", "/x/a", "/x/a/b"] == [mount.point for mount in mounts.below("/x")]


class Changing:
    """A table that says these texts, the last one for ever."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)

    def read_text(self, **_: str) -> str:
        return self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]


@each_row("kernel, points", [((5, 8), []), ((6, 1), []), ((5, 7), ["/", "/a"]), ((4, 18), ["/", "/a"])])
def test_before_linux_5_8_the_table_is_read_until_it_says_the_same_twice(
    kernel: tuple[int, int], points: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:9 / /a rw - tmpfs none rw\n"
    monkeypatch.setattr(targets, "_KERNEL", kernel)
    monkeypatch.setattr(targets, "MOUNTINFO", Changing("", whole[:5], whole))
    assert points == [mount.point for mount in targets.mount_table()]


def test_a_table_that_never_says_the_same_twice_is_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "_KERNEL", (4, 18))
    monkeypatch.setattr(targets, "MOUNTINFO", Changing(*(f"{number}" for number in range(100))))
    with pytest.raises(OSError, match="changes at each look"):
        targets.mount_table()
