"""The site of docs: Sphinx reads the pages where they are. `make docs` builds it, and nothing on it comes from
elsewhere.

Links to sources and manifests lead to no page: the site shows their texts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

import mooring

ROOT = Path(__file__).resolve().parents[2]

project = "Mooring"
author = "the authors of Mooring"
release = mooring.__version__
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "bench/*.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "tests/coverage/README.md",
    "tests/sim/README.md",
    "tests/sim/points/README.md",
]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
html_theme = "furo"
html_title = "Mooring"
html_copy_source = False
html_extra_path = ["root"]
html_show_sphinx = False
nitpicky = True


class SourcesAsText(SphinxPostTransform):
    """A link to a file that is no page becomes its text; Sphinx would offer the file as a download."""

    default_priority = 5

    def run(self, **_: Any) -> None:
        for kind in (addnodes.download_reference, addnodes.pending_xref):
            for node in list(self.document.findall(kind)):
                path = (Path(self.document["source"]).parent / str(node["reftarget"]).partition("#")[0]).resolve()
                if kind is addnodes.download_reference or (path.exists() and path.suffix != ".md"):
                    node.replace_self(nodes.inline("", node.astext()))


def setup(app: Sphinx) -> None:
    app.add_post_transform(SourcesAsText)
