"""What a pod keeps although its claims name other volumes: rows of what it wants, wanted, and may have in its
folder.
"""

from __future__ import annotations

from mooring.node.volumes.pods.wishes import beside_what_is_kept
from mooring.node.volumes.state.actual import Publication, Stand, VolumeState
from mooring.node.volumes.state.desired import PodUse, Volume
from tests.support.rows import each_row

Wish = tuple[Volume, PodUse]


def a_wish(handle: str, pv: str, name: str = "data", *, is_inline: bool = False) -> Wish:
    use = PodUse("uid", "default", "pod", name, spec_name=pv, claim="" if is_inline else f"claim-{name}")
    return Volume(handle, "d1", handle, pv, is_inline=is_inline), use


def a_state(wish: Wish, stand: Stand = Stand.DONE) -> VolumeState:
    state = VolumeState(wish[0])
    state.publications["uid"] = Publication(wish[0].spec_name, stand)
    return state


OLD, NEW, BESIDE = a_wish("h1", "pv1"), a_wish("h2", "pv2"), a_wish("h3", "pv3", "other")
SAME_FOLDER = a_wish("h2", "pv1")
INLINE = a_wish("csi-1", "scratch", "scratch", is_inline=True)
MADE_ANEW, UNNAMED = "it was made anew", "none of its claims names"


@each_row(
    ("wanted", "before", "here", "more", "kept", "told"),
    [
        ([OLD], [], [], {}, [OLD], []),
        ([OLD], [OLD], [a_state(OLD)], {}, [OLD], []),
        ([NEW], [OLD], [a_state(OLD)], {}, [], [MADE_ANEW]),
        ([NEW, BESIDE, INLINE], [OLD], [a_state(OLD)], {}, [BESIDE, INLINE], [MADE_ANEW]),
        ([NEW], [OLD], [a_state(OLD, Stand.UNCERTAIN)], {"has_started": True}, [], [MADE_ANEW]),
        ([NEW], [OLD], [a_state(OLD, Stand.UNCERTAIN)], {}, [NEW], []),
        ([SAME_FOLDER], [OLD], [a_state(OLD, Stand.UNCERTAIN)], {}, [], [MADE_ANEW]),
        ([NEW], [OLD], [a_state(OLD, Stand.FOUND)], {}, [], [MADE_ANEW]),
        ([BESIDE], [OLD], [a_state(OLD)], {"is_whole": False}, [BESIDE], []),
        # of these a record tells, and not which claim they were given for
        ([NEW], [], [a_state(OLD, Stand.FOUND)], {}, [], [MADE_ANEW]),
        ([NEW, INLINE], [], [a_state(OLD, Stand.FOUND)], {}, [INLINE], [MADE_ANEW]),
        ([NEW, BESIDE], [], [a_state(OLD, Stand.FOUND), a_state(BESIDE)], {}, [BESIDE], [MADE_ANEW]),
        ([NEW], [], [a_state(OLD, Stand.FOUND)], {"is_whole": False}, [NEW], []),
        ([NEW], [], [a_state(OLD, Stand.FOUND)], {"is_whole": False, "has_started": True}, [], [MADE_ANEW]),
        ([SAME_FOLDER], [], [a_state(OLD, Stand.FOUND)], {"is_whole": False}, [], [MADE_ANEW]),
        ([NEW], [], [a_state(OLD, Stand.FOUND), a_state(NEW, Stand.FOUND)], {}, [NEW], [UNNAMED]),
        # given up for the new one, and not taken back yet
        ([NEW], [NEW], [a_state(OLD, Stand.UNCERTAIN), a_state(NEW)], {"has_started": True}, [NEW], []),
        ([NEW], [], [a_state(OLD, Stand.UNCERTAIN)], {"has_started": True}, [NEW], []),
        ([SAME_FOLDER], [], [a_state(OLD, Stand.UNCERTAIN)], {}, [], [MADE_ANEW]),
        ([OLD], [], [a_state(INLINE, Stand.FOUND)], {}, [OLD], []),
    ],
)
def test_what_a_pod_gets(
    wanted: list[Wish],
    before: list[Wish],
    here: list[VolumeState],
    more: dict[str, bool],
    kept: list[Wish],
    told: list[str],
) -> None:
    by_name = [{wish[0].unique: wish for wish in wishes} for wishes in (wanted, before)]
    got, problems = beside_what_is_kept("uid", *by_name, here, **{"has_started": False, "is_whole": True, **more})
    assert {wish[0].unique: wish for wish in kept} == got
    assert len(told) == len(problems)
    assert all(text in problem for text, problem in zip(told, problems, strict=True))


def test_a_volume_that_is_being_published_has_its_folder() -> None:
    """The driver was not called yet, and no publication is noted."""
    state = VolumeState(OLD[0])
    for wish, count in ((NEW, 0), (SAME_FOLDER, 1)):
        _, problems = beside_what_is_kept("uid", {"h2": wish}, {"h1": OLD}, [state], has_started=False, is_whole=True)
        assert count == len(problems)


@each_row(("stand", "name"), [(Stand.DONE, "pv1"), (Stand.UNCERTAIN, "pv1"), (Stand.ABSENT, "pv9")])
def test_the_same_volume_by_another_name_stays_in_its_folder(stand: Stand, name: str) -> None:
    renamed = a_wish("h1", "pv9")
    got, problems = beside_what_is_kept(
        "uid", {"h1": renamed}, {}, [a_state(OLD, stand)], has_started=True, is_whole=True
    )
    assert ([], [(name, name)]) == (problems, [(volume.spec_name, use.spec_name) for volume, use in got.values()])
