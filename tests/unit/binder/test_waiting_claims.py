"""A free volume finds the claim that has waited longest among those that it could serve, however many wait."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Key, key_of
from mooring.cluster.binder.match import could_take
from mooring.cluster.binder.volumes.event_handlers import Offers
from mooring.cluster.binder.volumes.waiting_claims import WaitingClaims
from tests.support.builders import a_claim, a_volume, typed
from tests.support.rows import each_row

MANY = 20_000


def waiting(*claims: PersistentVolumeClaim) -> WaitingClaims:
    found = WaitingClaims()
    for claim in claims:
        found.move(key_of(claim), claim)
    return found


def claims_of(sizes: list[str]) -> list[PersistentVolumeClaim]:
    return [typed(a_claim(f"c{number}", size=size, uid=f"u{number}")) for number, size in enumerate(sizes)]


def a_random_claim(random: random.Random, name: str) -> PersistentVolumeClaim:
    body = a_claim(name, uid=f"uid-{name}", size=random.choice(["1Gi", "2Gi", "3Gi"]), sc=random.choice(["a", "b"]))
    body["spec"]["accessModes"] = random.choice(
        [["ReadWriteOnce"], ["ReadWriteMany", "ReadWriteOnce"], ["ReadOnlyMany"]]
    )
    if random.random() < 0.3:
        body["spec"]["selector"] = {"matchLabels": {"tier": random.choice("xy")}}
    if random.random() < 0.2:
        body["spec"]["volumeName"] = "chosen"
    return typed(body)


@each_row("seed", range(20))
def test_the_first_is_the_one_that_a_walk_over_all_finds(seed: int) -> None:
    dice = random.Random(seed)
    index, there, away = WaitingClaims(), dict[Key, PersistentVolumeClaim](), set[Key]()
    arrived: list[Key] = []  # those that look for a volume, in order
    for _ in range(300):
        key = Key("default", f"c{dice.randrange(12)}")
        match dice.randrange(5):
            case 0:
                there.pop(key, None)
                index.move(key, None)
            case 1:
                index.send_away(key)
                away.add(key)
            case 2:
                index.back(key)
                away.discard(key)
            case _:
                there[key] = a_random_claim(dice, key.name)
                index.move(key, there[key])
        looks = key in there and not there[key].spec.volume_name
        if not looks and key in arrived:
            arrived.remove(key)
        elif looks and key not in arrived:
            arrived.append(key)
        body = a_volume(
            "pv",
            size=dice.choice(["1Gi", "2Gi", "3Gi"]),
            sc=dice.choice(["a", "b"]),
            labels={"tier": dice.choice("xy")},
        )
        body["spec"]["accessModes"] = dice.choice(
            [["ReadWriteOnce"], ["ReadWriteOnce", "ReadWriteMany"], ["ReadOnlyMany"]]
        )
        pv = typed(body)
        expected = next((one for one in arrived if one not in away and could_take(there[one], pv)), None)
        assert expected == index.first(pv, lambda one, pv=pv: could_take(there[one], pv))  # type: ignore[misc]


@each_row(
    ("sizes", "looks_max"),
    [(["100Gi"] * MANY, 0), (["1Gi"] * MANY, 1), ([f"{100 + number}Mi" for number in range(MANY)], 1)],
    ids=["too large", "all alike", "all of another size"],
)
@pytest.mark.slow
def test_a_free_volume_looks_at_few_of_many_claims(sizes: list[str], looks_max: int) -> None:
    looked: list[Key] = []
    index = waiting(*claims_of(sizes))
    pv = typed(a_volume("pv", size="50Gi"))
    index.first(pv, lambda key: not looked.append(key))  # type: ignore[func-returns-value]
    assert len(looked) == looks_max


class Offering:
    """Offers to these claims. woken: whom a volume was offered to, in order. looks: at claims in the cache."""

    def __init__(self, claims: list[PersistentVolumeClaim]) -> None:
        self.claims = {key_of(claim): claim for claim in claims}
        self.woken: list[Key] = []
        self.looks = 0
        self.volumes: dict[str, Any] = {}
        view: Any = SimpleNamespace(storage_class=lambda name: None, volumes=self.volumes)
        self.offers = Offers(view, SimpleNamespace(get=self._get), SimpleNamespace(add=self.woken.append))  # type: ignore[arg-type]
        for key, claim in self.claims.items():
            self.offers.claim_changed(key, claim)

    def _get(self, key: Key) -> PersistentVolumeClaim | None:
        self.looks += 1
        return self.claims.get(key)

    def offer(self, name: str) -> None:
        self.volumes[name] = typed(a_volume(name, size="1Gi"))
        self.offers.offer(self.volumes[name])


@pytest.mark.slow
def test_many_volumes_that_become_free_at_once_find_as_many_claims() -> None:
    """Claims that were offered one are not walked over again for the next."""
    offering = Offering(claims_of(["1Gi"] * 2000))
    for number in range(2000):
        offering.offer(f"pv{number}")
    assert list(offering.claims) == offering.woken
    assert offering.looks == 2000


def test_a_claim_whose_last_turn_failed_is_offered_nothing_until_one_goes_well() -> None:
    offering = Offering(claims_of(["1Gi"] * 2))
    first, second = offering.claims
    with offering.offers.reconciling(first):
        pass  # nobody said that it went well
    offering.offer("pv1")
    assert [second] == offering.woken
    with offering.offers.reconciling(first) as turn:
        turn.is_over()
    offering.offer("pv2")
    assert [second, first] == offering.woken


def test_a_claim_of_the_same_name_has_not_failed() -> None:
    offering = Offering(claims_of(["1Gi"]))
    (key,) = offering.claims
    with offering.offers.reconciling(key):
        pass
    offering.offers.claim_changed(key, None)
    offering.offers.claim_changed(key, offering.claims[key])
    offering.offer("pv1")
    assert [key] == offering.woken
