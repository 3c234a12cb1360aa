"""Boards as lines, for terminals of all sizes."""

from __future__ import annotations

import textwrap

from rich.cells import cell_len

from mooring.dev.live.board import Board, NodeRow, VolumeRow
from mooring.dev.live.render import render
from tests.support.rows import each_row

NODES = (
    NodeRow("node-1", "Ready", "a", 1, 5, 2),
    NodeRow("node-2", "Unknown", "b", 1, 5, 1, ("unreachable:NoExecute",), 42.0),
)
PV = "pvc-0a1b2c3d-0000-4000-8000-000000000000"
HELD = (
    'can not be attached to node "node-1": pod web-0 is on node node-2, which is not ready; this ends only when '
    "that pod goes"
)
VOLUMES = (
    VolumeRow("data-web-0", PV, "node-2", "Published", "pod web-0"),
    VolumeRow("data-web-1", PV, "node-1", "Attaching", HELD, True, 130.0),
    VolumeRow("logs", "", "", "Pending", "waiting for first consumer to be created before binding", True, 3.0),
)


def shown(board: Board, width: int, height: int, *, ascii_only: bool = False) -> str:
    lines = ["".join(text for text, _ in line) for line in render(board, width, height, ascii_only=ascii_only)]
    assert height // 2 >= len(lines) or len(lines) == 1
    assert [] == [line for line in lines if cell_len(line) >= width]
    return "\n".join(line.rstrip() for line in lines)


def picture(text: str) -> str:
    return textwrap.dedent(text).strip()


def test_a_usual_terminal() -> None:
    expected = """
    ── 2 nodes, 1 not well · 3 volumes, 2 waiting ─────────────────────────────────
    NODE    STATE    FOR  ZONE  VOLUMES  PODS  TAINTS
    node-1  Ready         a         1/5     2
    node-2  Unknown  42s  b         1/5     1  unreachable:NoExecute
    CLAIM       NODE    STAGE        FOR  WAITS FOR, OR USED BY
    data-web-0  node-2  Published         pod web-0
    data-web-1  node-1  Attaching  2m10s
        can not be attached to node "node-1": pod web-0 is on node node-2, which is
        not ready; this ends only when that pod goes
    logs                Pending       3s
        waiting for first consumer to be created before binding
    """
    assert picture(expected) == shown(Board(NODES, VOLUMES), 80, 40)


def test_a_wide_terminal_has_it_all_in_a_line() -> None:
    lines = shown(Board(NODES, VOLUMES), 240, 40).splitlines()
    assert 8 == len(lines)
    assert f"data-web-1  {PV}  node-1  Attaching  2m10s  {HELD}" == lines[6]


def test_a_narrow_one_leaves_out_what_can_be_spared() -> None:
    expected = """
    ── 2 nodes, 1 not well · 1 volume ─────
    NODE    STATE    FOR  TAINTS
    node-1  Ready
    node-2  Unknown  42s  unreachable:NoEx…
    CLAIM       STAGE      WAITS FOR, OR U…
    data-web-0  Published  pod web-0
    """
    assert picture(expected) == shown(Board(NODES, VOLUMES[:1]), 40, 40)


@each_row(("width", "height"), [(39, 50), (200, 15), (10, 3)])
def test_a_tiny_one_gets_one_line(width: int, height: int) -> None:
    summary = "2 nodes, 1 not well · 3 volumes, 2 waiting"
    assert summary[: width - 1].rstrip() == shown(Board(NODES, VOLUMES), width, height)


def test_an_empty_plane() -> None:
    assert (
        "── 1 node · 0 volumes ─\nNODE    STATE  ZONE  VOLUMES  PODS  TAINTS\nnode-1  Ready  a         1/5     2"
        == shown(Board(NODES[:1]), 60, 24).replace("─" * 36, "")
    )


# -- more than there is room for

MANY = tuple(VolumeRow(f"c-{number:02}", "pv", "n", "Published", "pod p") for number in range(40))
STUCK = VolumeRow("z-stuck", "pv", "n", "Attaching", "the driver does not answer", True, 60.0)
NEW = VolumeRow("z-new", "pv", "n", "Attaching", "waits for the driver", True, 1.0)


def claims(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if line[:2] in ("c-", "z-")]


def test_those_that_wait_are_shown_first_and_the_rest_is_counted() -> None:
    text = shown(Board(NODES, (*MANY, STUCK, NEW)), 100, 24)
    assert ["c-00", "c-01", "c-02", "c-03", "z-stuck", "z-new"] == claims(text)
    assert "+ 36 more" == text.splitlines()[-1]
    assert 12 == len(text.splitlines()), "half of the terminal"


def test_the_longest_wait_is_shown_before_all_others() -> None:
    waiting = tuple(
        VolumeRow(f"c-{number:02}", "pv", "n", "Attaching", "waits", True, float(number)) for number in range(40)
    )
    text = shown(Board(NODES, waiting), 100, 24)
    assert ["c-34", "c-35", "c-36", "c-37", "c-38", "c-39"] == claims(text)
    assert "+ 34 more, 34 waiting" == text.splitlines()[-1]


def test_texts_are_shortened_before_a_row_is_left_out() -> None:
    waiting = tuple(VolumeRow(f"c-{number}", "pv", "n", "Attaching", HELD, True, 9.0) for number in range(6))
    assert 6 == len(claims(shown(Board(NODES, waiting), 80, 24)))
    assert "…" in shown(Board(NODES, waiting), 80, 24)
    assert HELD[-20:] in " ".join(shown(Board(NODES, waiting[:1]), 80, 24).split())


def test_a_long_error_keeps_its_end_which_has_the_cause() -> None:
    folder = (
        "/tmp/mooring-x7f3k2/nodes/n1/plugins/kubernetes.io/csi/folder.example.com/0b5c7f3a9d1e4f2a8c6b/globalmount"
    )
    text = (
        f"MountVolume.MountDevice failed: Internal: mount --bind /data/volumes/pvc-0a1b {folder}: mount point does "
        "not exist"
    )
    seen = shown(Board(NODES, (VolumeRow("data", "pv", "n1", "Attached", text, True, 9.0),)), 80, 24)
    assert "MountVolume.MountDevice failed" in seen
    assert "mount point does not exist" in " ".join(seen.split())


def test_many_nodes_leave_half_of_the_room_to_volumes() -> None:
    nodes = (*(NodeRow(f"n{number:03}", "Ready", "", 0, None, 0) for number in range(99)), NODES[1])
    lines = shown(Board(nodes, MANY), 80, 40).splitlines()
    assert 20 == len(lines)
    assert "node-2" == lines[lines.index("+ 93 more") - 1].split()[0], "the one in trouble"
    assert "+ 32 more" == lines[-1]


# -- what terminals can't show


def test_without_unicode() -> None:
    text = shown(
        Board(NODES, (VolumeRow("c", "pv", "n", "Failed", "error → “no” …", True, 1.0),)), 80, 24, ascii_only=True
    )
    assert text.isascii()
    assert 'error -> "no" ...' in text


def test_a_drivers_control_characters_move_no_cursor() -> None:
    evil = VolumeRow("c", "pv", "n", "Failed", "a\x1b[2Jb\nc\rd\x9be\u2028f", True, 1.0)
    text = shown(Board(NODES, (evil,)), 120, 24)
    assert "a\\x1b[2Jb\\nc\\rd\\x9be\\u2028f" in text


def test_wide_characters_count_twice() -> None:
    wide = VolumeRow("c", "pv", "n", "Failed", "驱动程序没有回答" * 20, True, 1.0)
    assert "驱" in shown(Board(NODES, (wide,)), 80, 24)
