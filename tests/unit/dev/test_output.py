"""The stream behind the screen of `mooring dev`: no reader holds its writer up."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from typing import TextIO

import pytest

from mooring.dev.output import Output, passed_on

PIPE_BYTES = 1 << 16


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    """The reading end, and a stream to the other."""
    reader, writer = os.pipe()
    with open(writer, "w", encoding="utf-8") as stream:
        yield reader, stream
    os.close(reader)


def take(reader: int, count: int) -> bytes:
    found = b""
    while len(found) < count:
        found += os.read(reader, count - len(found))
    return found


def test_what_is_written_comes_in_its_order(pipe: tuple[int, TextIO]) -> None:
    reader, stream = pipe
    lines = "".join(f"Zeile {number} → ö\n" for number in range(500))
    with passed_on(stream) as output:
        for line in lines.splitlines(keepends=True):
            assert len(line) == output.write(line)
        assert lines.encode() == take(reader, len(lines.encode()))


def test_nobody_waits_for_a_reader_that_takes_nothing_and_it_gets_all_once_it_reads_on(
    pipe: tuple[int, TextIO],
) -> None:
    reader, stream = pipe
    output, line = Output(stream), "x" * 999 + "\n"
    for _ in range(500):
        output.write(line)
    assert not output.settle(0.05)
    assert (line * 500).encode() == take(reader, 500_000)
    assert output.settle(10)
    output.close()


def test_what_is_too_much_is_left_out_and_a_line_says_how_many(pipe: tuple[int, TextIO]) -> None:
    reader, stream = pipe
    output = Output(stream, waiting_max=4 * PIPE_BYTES)
    output.write("-" * 4 * PIPE_BYTES)  # the pipe takes a part of it
    for text in ("a\n", "b\n", "c\n"):
        output.write(text)
    take(reader, 4 * PIPE_BYTES)
    assert output.settle(10)
    output.write("d\n")
    told = b"... 3 lines are left out here: nobody read them\nd\n"
    assert told == take(reader, len(told))
    output.close()


def test_a_reader_that_has_gone_is_the_writers_error(pipe: tuple[int, TextIO]) -> None:
    reader, stream = pipe
    other = os.dup(reader)
    os.close(reader)
    os.close(other)
    output = Output(stream)
    output.write("x\n")
    assert output.settle(10)
    with pytest.raises(BrokenPipeError):
        output.write("y\n")
    output.close()
    os.dup2(os.open(os.devnull, os.O_RDONLY), reader)  # for the fixture to close


def test_a_terminal_that_was_stopped_gets_the_rest_once_it_goes_on() -> None:
    """Ctrl-S and Ctrl-Q."""
    master, slave = pty.openpty()
    mode = termios.tcgetattr(slave)
    mode[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, mode)
    try:
        with open(slave, "w", encoding="utf-8") as stream:
            termios.tcflow(slave, termios.TCOOFF)
            output = Output(stream)
            assert output.isatty()
            output.write("held\n")
            assert not output.settle(0.1)
            assert [] == select.select([master], [], [], 0)[0]
            termios.tcflow(slave, termios.TCOON)
            assert output.settle(10)
            assert b"held\n" == os.read(master, 100)
            output.close()
    finally:
        os.close(master)


def test_at_the_end_a_slow_reader_gets_all(pipe: tuple[int, TextIO]) -> None:
    reader, stream = pipe
    found: list[bytes] = []

    def read_slowly() -> None:
        while sum(map(len, found)) < 4 * PIPE_BYTES:
            time.sleep(0.02)
            found.append(os.read(reader, 4096))

    reading = threading.Thread(target=read_slowly)
    with passed_on(stream) as output:
        for _ in range(256):
            output.write("y" * 1023 + "\n")
        reading.start()
    reading.join()
    assert 4 * PIPE_BYTES == sum(map(len, found))


def test_a_program_ends_though_nobody_reads_its_last_lines() -> None:
    program = (
        "import sys\n"
        "from mooring.dev.output import passed_on\n"
        "with passed_on(sys.stdout) as output:\n"
        "    for _ in range(1000): output.write('x' * 999 + '\\n')\n"
        "print('over', file=sys.stderr)\n"
    )
    reader, writer = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False
        )
    finally:
        os.close(writer)
        os.close(reader)
    assert (0, b"over\n") == (done.returncode, done.stderr)


def test_a_stream_in_memory_stays_as_it_is() -> None:
    stream = io.StringIO()
    with passed_on(stream) as found:
        assert stream is found
