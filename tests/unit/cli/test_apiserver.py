"""`mooring apiserver` as a command: where its kubeconfig goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.base.flags import parse
from mooring.cli import mooring
from mooring.cli.apiserver import ApiServerFlags, kubeconfig_file


@pytest.mark.parametrize(
    ("argv", "place"),
    [([], "/here/state/kubeconfig"), (["--kubeconfig=file"], "/here/file"), (["--kubeconfig=/there/file"], "/there/file")],
)
def test_the_kubeconfig_is_named_by_its_whole_path(argv: list[str], place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is pasted into another terminal, which is in another folder."""
    monkeypatch.setattr("os.getcwd", lambda: "/here")
    assert Path(place) == kubeconfig_file(parse(ApiServerFlags, argv, {}).flags, Path("state"))


@pytest.mark.parametrize("words", [["apiserver", "--port=0"], ["apiserver", "restore", "backup.db"], ["dev", "--nodes=1"]])
def test_a_state_folder_of_others_is_refused(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever prepares it could put a token and a CA there, and the objects."""
    tmp_path.chmod(0o777)
    assert 1 == mooring.run([*words[:-1], "--state", str(tmp_path), words[-1]])
    assert f"others may write to '{tmp_path}' (mode 0777)" in capsys.readouterr().err
