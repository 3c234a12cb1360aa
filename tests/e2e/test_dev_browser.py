"""`mooring dev --browser` in a real browser: it shows nodes, volumes and calls; its buttons kill nodes, make faults,
speed up time.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from mooring.conform.book.watcher import BOOK
from tests.e2e.test_dev_drivers import OWN_CLAIM
from tests.e2e.test_dev_pods import CLAIM, Kubectl, pod
from tests.support import mount_driver
from tests.support.broken_drivers import NotIdempotent
from tests.support.browser import Page, page_of
from tests.support.mooring_dev import dev, needs_mounts, page_address
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.long]

NODE = "[...document.querySelectorAll('#nodes tr')].find(row => row.cells[0].textContent === '{name}')"
CALLS = "return [...document.querySelectorAll('.arrow button')].map(one => one.title.split(' ')[0])"
AT_S = "return parseFloat(document.getElementById('time').textContent)"


def test_the_page_shows_the_plane_kills_a_node_and_lets_a_minute_pass_in_a_second(tmp_path: Path) -> None:
    needs_mounts()
    with dev(tmp_path, "--browser", "--nodes=2") as (program, config):
        with page_of(page_address(program), tmp_path) as page:
            kubectl = Kubectl(config)
            kubectl.apply(CLAIM, pod(node="n1"))
            page.until(f"return {NODE.format(name='n1')}?.cells[1].textContent === 'Ready'", 20, "n1 is shown as ready")
            published = "return document.querySelector('#volumes tr[data-stage=Published]')?.cells[4].textContent"
            assert "pod pod" in page.until(published, 30, "the volume is published")
            assert {"CreateVolume", "NodeStageVolume", "NodePublishVolume"} <= set(page.run(CALLS))
            assert page.run("return document.getElementById('breaches').textContent") == "none so far"
            began = page.run(AT_S)
            page.press("kill", "#nodes tr:nth-child(2)")
            page.until(
                "return document.getElementById('said').textContent.startsWith('n2 is off')", 20, "its power is cut"
            )
            page.press("60", "#pace")
            page.until(
                f"const state = {NODE.format(name='n2')}?.cells[1].textContent; return state && state !== 'Ready'",
                40,
                "n2 is missed",
            )
            assert page.run(AT_S) - began > 40, "50 s have passed on the plane"
            six_minutes_pass_in_seconds(page)
            page.press("10", "#pace")
            page.until(
                "return document.querySelector('#pace button[disabled]').textContent === '10'", 20, "time runs slower"
            )
            page.press("1", "#pace")
            page.press("revive", "#nodes tr:nth-child(2)")
            page.until(f"return {NODE.format(name='n2')}?.cells[1].textContent === 'Ready'", 40, "n2 is back")
        kubectl("delete", "pod", "pod", "--timeout=20s")
        kubectl("delete", "pvc", "claim", "--timeout=20s")
        eventually(lambda: not kubectl.left(), 20, "no pod, no attachment, no volume")


def test_a_call_opens_to_its_full_text_and_a_broken_rule_leads_to_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(mount_driver.FOLDER, str(tmp_path / "volumes"))
    driver = f"--driver=tests.support.broken_drivers:{NotIdempotent.__name__}"
    with dev(tmp_path, "--browser", driver) as (program, config), page_of(page_address(program), tmp_path) as page:
        Kubectl(config).apply(OWN_CLAIM)
        broken = NotIdempotent.breaks
        page.until(f"return document.querySelector('#breaches a')?.textContent === '{broken}'", 30, "it is shown")
        page.run("document.querySelector('#breaches a').click()")
        rule = page.run("return document.querySelector('dt:target').nextSibling.textContent")
        assert BOOK[broken].asks in rule
        assert BOOK[broken].mend in rule
        assert BOOK[broken].source == page.run("return document.querySelector('#rules dd a').href")
        call = "[...document.querySelectorAll('.arrow button')].find(one => one.title.startsWith('CreateVolume'))"
        page.run(f"{call}.click()")
        full = page.run("return document.querySelector('.full').textContent")
        assert '"required_bytes": 16777216' in full
        assert '\n→ {\n  "volume"' in full
        page.run(f"{call}.click()")
        assert page.run("return document.querySelector('.full')") is None


def six_minutes_pass_in_seconds(page: Page) -> None:
    began, began_s = page.run(AT_S), time.monotonic()
    page.until(f"{AT_S} > {began + 360}", 60, "six minutes have passed")
    assert time.monotonic() - began_s < 20


SAID = "return document.getElementById('said').textContent"
STRUCK = "return [...document.querySelectorAll('.fault')].map(one => one.textContent).join('\\n')"
ASKED = "return [...document.querySelectorAll('#asked li')].map(one => one.firstChild.textContent.trim()).join('\\n')"
CONTROLLER = "#controllers li[data-name={name}]"


def choose(page: Page, **values: str) -> None:
    for name, value in values.items():
        page.run(f"document.getElementById('{name}').value = {json.dumps(value)}")


def test_each_button_for_faults_does_what_it_says(tmp_path: Path) -> None:
    needs_mounts()
    with dev(tmp_path, "--browser", "--nodes=2") as (program, config):
        with page_of(page_address(program), tmp_path) as page:
            kubectl = Kubectl(config)
            page.until("return document.querySelectorAll('#rpc option').length > 20", 20, "the calls can be chosen")
            lost_answer_is_asked_for_again(page, kubectl)
            delayed_and_failed(page, kubectl)
            paused(page, kubectl)
            killed_and_started(page)
            twice_cut_and_hanging(page, kubectl)
            in_the_words_of_a_script(page)
        kubectl("delete", "pod", "pod", "--timeout=20s")
        kubectl("delete", "pvc", "claim", "--timeout=20s")
        eventually(lambda: not kubectl.left(), 20, "no pod, no attachment, no volume")
    assert "rules of CSI:" not in program.output(), "a fault of the page is none of the driver's"


def lost_answer_is_asked_for_again(page: Page, kubectl: Kubectl) -> None:
    choose(page, times="1", rpc="CreateVolume")
    page.press("drop its answer", "#faults")
    page.until(
        f"{SAID} === 'CreateVolume: the answer is dropped, after the effect, once'", 20, "the page says what it does"
    )
    page.press("60", "#pace")  # the caller waits until its deadline
    kubectl.apply(CLAIM)
    page.until(
        f"{STRUCK}.includes('CreateVolume: the answer is dropped, after the effect (the page)')",
        20,
        "the answer was dropped",
    )
    kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/claim", "--timeout=30s")
    assert page.run(CALLS).count("CreateVolume") >= 2
    page.until(f"{ASKED} === ''", 20, "it is over")
    page.press("1", "#pace")


def delayed_and_failed(page: Page, kubectl: Kubectl) -> None:
    choose(page, times="0", rpc="*", **{"for": "300ms"})
    page.press("delay it", "#faults")
    page.until(f"{ASKED} === 'any call: a delay of 300ms before the effect'", 20, "the delay stands in the list")
    choose(page, times="1", rpc="NodeStageVolume", code="Internal", when="after")
    page.press("fail it", "#faults")
    page.until(
        f"{ASKED}.startsWith('NodeStageVolume: it fails with Internal after the effect')", 20, "the latest stands first"
    )
    kubectl.apply(pod(node="n1"))
    kubectl.ready("pod")
    for told in (
        "NodeStageVolume: it fails with Internal",
        "NodeStageVolume: a delay of 300ms",
        "NodePublishVolume: a delay of 300ms",
    ):
        page.until(f"{STRUCK}.includes('{told}')", 20, told)
    page.press("lift", "#asked")
    page.until(f"{ASKED} === ''", 20, "it is lifted")
    assert page.run(SAID) == "no more of this: any call: a delay of 300ms before the effect"


def paused(page: Page, kubectl: Kubectl) -> None:
    row = CONTROLLER.format(name="provisioner")
    page.press("pause", row)
    page.until(
        f"return document.querySelector('{row}').textContent.startsWith('provisioner is paused')",
        20,
        "it is shown as paused",
    )
    kubectl.apply({**CLAIM, "metadata": {"name": "late"}})
    made = page.run(CALLS).count("CreateVolume")
    time.sleep(2)
    assert page.run(CALLS).count("CreateVolume") == made, "nobody makes a volume"
    page.press("go on", row)
    kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/late", "--timeout=20s")
    kubectl("delete", "pvc", "late", "--timeout=20s")


def killed_and_started(page: Page) -> None:
    page.press("restart", CONTROLLER.format(name="binder"))
    page.until(f"{SAID}.endsWith('was killed in the middle of its work, and has started anew')", 20, "it runs again")


def twice_cut_and_hanging(page: Page, kubectl: Kubectl) -> None:
    """Each happens once to a call of another kind, in the life of one more claim."""
    choose(page, times="1", rpc="CreateVolume")
    page.press("send it twice", "#faults")
    page.until(f"{ASKED} .startsWith('CreateVolume: it is sent twice, one after the other')", 20, "it is asked for")
    choose(page, rpc="DeleteVolume", when="before")
    page.press("cut the connection", "#faults")
    page.until(f"{ASKED}.startsWith('DeleteVolume: the connection is cut')", 20, "the latest stands first")
    made = page.run(CALLS).count("CreateVolume")
    kubectl.apply({**CLAIM, "metadata": {"name": "twice"}})
    kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/twice", "--timeout=20s")
    page.until(f"{STRUCK}.includes('CreateVolume: it is sent twice')", 20, "it was sent twice")
    assert made + 2 == page.run(CALLS).count("CreateVolume"), "the driver got both"
    kubectl("delete", "pvc", "twice", "--timeout=20s")
    page.until(f"{STRUCK}.includes('DeleteVolume: the connection is cut')", 20, "it was cut")
    page.until(f"{ASKED} === ''", 20, "both are over")
    choose(page, rpc="Probe")
    page.press("let it hang", "#faults")
    page.until(f"{ASKED} .startsWith('Probe: it hangs, and does not reach the driver')", 20, "it is asked for")
    page.press("lift", "#asked")
    page.until(f"{ASKED} === ''", 20, "it is lifted")


def in_the_words_of_a_script(page: Page) -> None:
    """A mistake is told; what was asked for ends with the page's plane."""
    choose(page, words="{do: dropp}")
    page.press("as a script says it", "#script")
    page.until(f"{SAID} === \"do has no 'dropp' (did you mean drop?)\"", 20, "the mistake is told")
    choose(page, words="{do: hang, rpc: Node*}")
    page.press("as a script says it", "#script")
    page.until(f"{ASKED} === 'Node*: it hangs, and does not reach the driver'", 20, "it is asked for")
    page.press("lift", "#asked")
    page.until(f"{ASKED} === ''", 20, "it is lifted")
