"""What `make release` promises of its files: the same twice, and nothing in them that tells when or by whom."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from hack import release


def test_what_differs_from_its_second_build_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "DIST", tmp_path)
    builds = iter(("one", "one", "one", "other"))
    release._twice("it", lambda folder: (folder / "file").write_text(next(builds)))
    assert "one" == (tmp_path / "file").read_text()
    with pytest.raises(release.Failed, match="two builds of it differ"):
        release._twice("it", lambda folder: (folder / "file").write_text(next(builds)))


def test_an_archive_depends_on_names_and_contents_alone(tmp_path: Path) -> None:
    made = []
    for name, when in (("a", 1), ("b", 2_000_000_000)):
        folder = tmp_path / name
        (folder / "lib").mkdir(parents=True)
        for file in ("start", "lib/part.py") if when == 1 else ("lib/part.py", "start"):
            (folder / file).write_text(file)
            os.utime(folder / file, (when, when))
        (folder / "start").chmod(0o755)
        made.append(release._archived(folder))
    assert made[0] == made[1]
    with tarfile.open(fileobj=io.BytesIO(made[0])) as archive:
        assert ["lib", "lib/part.py", "start"] == archive.getnames()
        assert 0o755 == archive.getmember("start").mode


def test_the_plug_in_has_no_part_that_kubectl_needs_not() -> None:
    assert set(release.NOT_FOR_KUBECTL) < set(release.locked("hack/image.lock"))
