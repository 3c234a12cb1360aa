"""Commands in the process of the tests: for what they say and end with, where the process is not the subject."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Mapping, Sequence
from subprocess import CompletedProcess
from unittest import mock

from mooring.base import log


def in_process(
    run: Callable[[Sequence[str]], int], *words: str, environ: Mapping[str, str] | None = None
) -> CompletedProcess[str]:
    """What subprocess.run would give. environ: instead of that of the tests."""
    out, err = io.StringIO(), io.StringIO()
    variables = mock.patch.dict(os.environ, environ or {}, clear=environ is not None)
    with variables, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = run(list(words))
        finally:
            log.configure()
    return CompletedProcess(list(words), code, out.getvalue(), err.getvalue())
