"""A headless Chromium, driven over WebDriver by its own chromedriver: pages that run, buttons that are pressed."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.support.layers import BROWSER, not_tested
from tests.support.programs import free_ports
from tests.support.waiting import eventually

FLAGS: Final = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
    ),
    *("--disable-component-update", "--disable-sync"),
)
HEIGHT: Final = 1000


class Page:
    """One page. session: the address of its session at the driver."""

    def __init__(self, session: str) -> None:
        self._session = session

    def run(self, script: str) -> Any:
        """What the script returns in the page, as in `return document.title`."""
        return _asked(f"{self._session}/execute/sync", {"script": script, "args": []})

    def until(self, script: str, timeout_s: float, what: str) -> Any:
        """The script's first answer that is something."""
        found: list[Any] = [None]

        def look() -> bool:
            found[0] = self.run(script)
            return bool(found[0])

        eventually(look, timeout_s, what)
        return found[0]

    def picture(self) -> bytes:
        """A PNG of what the window shows."""
        return base64.b64decode(_asked(f"{self._session}/screenshot"))

    def press(self, text: str, within: str = "body") -> None:
        """Presses the button with this text. within: a selector of what it stands in."""
        button = (
            f"[...document.querySelectorAll({json.dumps(within + ' button')})].find(one => one.textContent === "
            f"{json.dumps(text)})"
        )
        assert self.run(f"const one = {button}; one?.click(); return one !== undefined"), (
            f"there is no button {text!r} in {within}"
        )


@contextlib.contextmanager
def page_of(url: str, folder: Path, height: int = HEIGHT) -> Iterator[Page]:
    """folder: for the browser's own files. height: of the window. Not tested where there is no Chromium."""
    driver = shutil.which("chromedriver") or not_tested(BROWSER, "no chromedriver on PATH")
    browser = shutil.which("chromium") or not_tested(BROWSER, "no chromium on PATH")
    (port,) = free_ports(1)
    at = f"http://127.0.0.1:{port}"
    with (folder / "chromedriver.log").open("w") as log:
        process = subprocess.Popen([driver, f"--port={port}"], stdout=log, stderr=subprocess.STDOUT)
    try:
        eventually(lambda: _is_up(at), 20, "chromedriver answers")
        options = {
            "binary": browser,
            "args": [*FLAGS, f"--window-size=1200,{height}", f"--user-data-dir={folder / 'profile'}"],
        }
        session = _asked(f"{at}/session", {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}})[
            "sessionId"
        ]
        try:
            _asked(f"{at}/session/{session}/url", {"url": url})
            yield Page(f"{at}/session/{session}")
        finally:
            _asked(f"{at}/session/{session}", method="DELETE")
    finally:
        process.kill()
        process.wait(10)


def _is_up(at: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(_asked(f"{at}/status")["ready"])
    return False


def _asked(url: str, body: Any = None, method: str = "") -> Any:
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), method=method or None)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["value"]
