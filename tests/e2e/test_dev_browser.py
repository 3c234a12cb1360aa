"""`mooring dev --browser` in a real browser: it shows nodes, volumes and calls, kills a node, and speeds up time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.test_dev_pods import CLAIM, Kubectl, pod
from tests.support.browser import page_of
from tests.support.mooring_dev import dev, needs_mounts
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.long]

NODE = "[...document.querySelectorAll('#nodes tr')].find(row => row.cells[0].textContent === '{name}')"
CALLS = "return [...document.querySelectorAll('.arrow span')].map(one => one.title.split(' ')[0])"
AT_S = "return parseFloat(document.getElementById('time').textContent)"


def test_the_page_shows_the_plane_kills_a_node_and_lets_a_minute_pass_in_a_second(tmp_path: Path) -> None:
    needs_mounts()
    with dev(tmp_path, "--browser", "--nodes=2") as (program, config):
        (url,) = re.findall(r"http://127\.0\.0\.1:\d+/\S+/", program.output())
        with page_of(url, tmp_path) as page:
            kubectl = Kubectl(config)
            kubectl.apply(CLAIM, pod(node="n1"))
            page.until(f"return {NODE.format(name='n1')}?.cells[1].textContent === 'Ready'", 20, "n1 is shown as ready")
            published = "return document.querySelector('#volumes tr[data-stage=Published]')?.cells[4].textContent"
            assert "pod pod" in page.until(published, 30, "the volume is published")
            assert {"CreateVolume", "NodeStageVolume", "NodePublishVolume"} <= set(page.run(CALLS))
            assert page.run("return document.getElementById('breaches').textContent") == "none so far"
            began = page.run(AT_S)
            page.press("kill", "#nodes tr:nth-child(2)")
            page.until("return document.getElementById('said').textContent.startsWith('n2 is off')", 20, "its power is cut")
            page.press("60", "#pace")
            page.until(
                f"const state = {NODE.format(name='n2')}?.cells[1].textContent; return state && state !== 'Ready'", 40, "n2 is missed"
            )
            page.press("1", "#pace")
            assert page.run(AT_S) - began > 40, "50 s have passed on the plane"
            page.press("revive", "#nodes tr:nth-child(2)")
            page.until(f"return {NODE.format(name='n2')}?.cells[1].textContent === 'Ready'", 40, "n2 is back")
        kubectl("delete", "pod", "pod", "--timeout=20s")
        kubectl("delete", "pvc", "claim", "--timeout=20s")
        eventually(lambda: not kubectl.left(), 20, "no pod, no attachment, no volume")
