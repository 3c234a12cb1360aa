"""`mooring apiserver` as a command: where its kubeconfig goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.base.flags import parse
from mooring.cli.apiserver import ApiServerFlags, kubeconfig_file


@pytest.mark.parametrize(
    ("argv", "place"),
    [([], "/here/state/kubeconfig"), (["--kubeconfig=file"], "/here/file"), (["--kubeconfig=/there/file"], "/there/file")],
)
def test_the_kubeconfig_is_named_by_its_whole_path(argv: list[str], place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is pasted into another terminal, which is in another folder."""
    monkeypatch.setattr("os.getcwd", lambda: "/here")
    assert Path(place) == kubeconfig_file(parse(ApiServerFlags, argv, {}).flags, Path("state"))
