"""Versions and races: nothing is lost between writers, on both servers."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.support.builders import a_lease, a_pv, a_va
from tests.support.paths import LEASES, PVS, VAS
from tests.support.rest import Rest


def together(*works: Callable[[], None]) -> None:
    """Runs all at once; the first failure is raised."""
    failures: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_AO10_put_with_a_stale_version_is_a_conflict(api: Rest, name: str) -> None:
    old = api.post(PVS, a_pv(name)).ok(201)
    api.patch(f"{PVS}/{name}", {"metadata": {"labels": {"a": "b"}}}).ok()
    status = api.put(f"{PVS}/{name}", old).refused(409, "Conflict")
    why = "the object has been modified; please apply your changes to the latest version and try again"
    assert f'Operation cannot be fulfilled on persistentvolumes "{name}": {why}' == status["message"]
    assert {"name": name, "kind": "persistentvolumes"} == status["details"]


def test_AO11_put_without_a_version_overwrites_a_volume(api: Rest, name: str) -> None:
    made = api.post(PVS, a_pv(name)).ok(201)
    del made["metadata"]["resourceVersion"]
    made["metadata"]["labels"] = {"a": "b"}
    assert {"a": "b"} == api.put(f"{PVS}/{name}", made).ok()["metadata"]["labels"]


def test_AO12_put_without_a_version_is_refused_for_an_attachment(api: Rest, name: str) -> None:
    api.post(VAS, a_va(name)).ok(201)
    wrong = api.put(f"{VAS}/{name}", a_va(name, labels={"a": "b"}))
    wrong.refused(
        422, "Invalid", ("FieldValueInvalid", "metadata.resourceVersion"), says="must be specified for an update"
    )
    assert "labels" not in api.get(f"{VAS}/{name}").ok()["metadata"]


def test_AO24_of_two_puts_with_one_version_the_second_conflicts(api: Rest, name: str) -> None:
    lease = api.post(LEASES, a_lease(name)).ok(201)
    lease["spec"]["holderIdentity"] = "a"
    api.put(f"{LEASES}/{name}", lease).ok()
    lease["spec"]["holderIdentity"] = "b"
    api.put(f"{LEASES}/{name}", lease).refused(409, "Conflict")
    assert "a" == api.get(f"{LEASES}/{name}").ok()["spec"]["holderIdentity"]


def test_AO25_put_of_a_missing_lease_creates_it(api: Rest, name: str) -> None:
    assert api.put(f"{LEASES}/{name}", a_lease(name)).ok(201)["metadata"]["uid"]


def test_AO44_patches_of_different_fields_all_succeed(api: Rest, name: str) -> None:
    path = f"{PVS}/{name}"
    api.post(PVS, a_pv(name)).ok(201)

    def label(key: str) -> Callable[[], None]:
        def work() -> None:
            for turn in range(5):
                api.patch(path, {"metadata": {"labels": {key: str(turn)}}}).ok()
            api.close()

        return work

    together(*(label(f"k{number}") for number in range(4)))
    assert {f"k{number}": "4" for number in range(4)} == api.get(path).ok()["metadata"]["labels"]


def test_of_many_candidates_one_gets_the_lease(api: Rest, name: str) -> None:
    lease = api.post(LEASES, a_lease(name)).ok(201)
    codes: list[int] = []

    def stand(number: int) -> Callable[[], None]:
        def work() -> None:
            candidate = {**lease, "spec": {**lease["spec"], "holderIdentity": f"me-{number}"}}
            codes.append(api.put(f"{LEASES}/{name}", candidate).status)
            api.close()

        return work

    together(*(stand(number) for number in range(6)))
    assert [200] + [409] * 5 == sorted(codes)


def test_a_new_object_of_an_old_name_is_another(api: Rest, name: str) -> None:
    first = api.post(VAS, a_va(name)).ok(201)
    api.delete(f"{VAS}/{name}").ok()
    second = api.post(VAS, a_va(name)).ok(201)
    assert int(first["metadata"]["resourceVersion"]) < int(second["metadata"]["resourceVersion"])
    second["metadata"]["uid"] = first["metadata"]["uid"]
    says = f"Precondition failed: UID in precondition: {first['metadata']['uid']}"
    api.put(f"{VAS}/{name}", second).refused(409, "Conflict", says=says)
