"""B1: Ctrl-C while a program begins ends it at once, and without a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys

from mooring.base.interrupts import interrupted_at_once

LOST = """
import os, signal, sys
from mooring.base.interrupts import interrupted_at_once

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it

class Careless:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

with interrupted_at_once():
    Careless()
print("it goes on")
"""


def test_it_is_not_lost_where_exceptions_are_ignored() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=60, check=False)
    assert (-signal.SIGINT, "", "") == (done.returncode, done.stdout, done.stderr)


def test_afterwards_it_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupted_at_once():
        assert (signal.getsignal(signal.SIGINT) is signal.SIG_DFL) is (before is signal.default_int_handler)
    assert before is signal.getsignal(signal.SIGINT)
