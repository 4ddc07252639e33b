"""Reading failures from the text of runs that died; the dumps are faulthandler's own, made by real processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from heal_core import traceback
from heal_core.failure import Frame, plain

# A thread of its own that waits or crashes, while the main thread does the other.
THREADS = """
import ctypes, faulthandler, sys, threading, time

def in_thread():
    deed()

def in_main():
    {main}

def deed():
    {thread}

{enable}
threading.Thread(target=in_thread, daemon=True).start()
in_main()
"""
CRASH, WAIT = "ctypes.string_at(8)", "time.sleep(20)"


def died(tmp_path: Path, code: str) -> tuple[str, int]:
    """What a process running `code` printed, and how it ended as a shell tells it."""
    (tmp_path / "app.py").write_text(code)
    done = subprocess.run([sys.executable, "app.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    return done.stderr, done.returncode if done.returncode >= 0 else 128 - done.returncode


def names(text: str) -> list[str]:
    """The functions of the frames that are read from a dump, the outermost first, but for the standard library's."""
    found = traceback.faulthandler_frames(text, lambda path: Path(path).name)
    return [frame.name for frame in found if frame.path == "app.py"]


@pytest.mark.parametrize(
    ("main", "thread", "expected"),
    [(CRASH, WAIT, ["<module>", "in_main"]), ("time.sleep(0.3); " + WAIT, CRASH, ["in_thread", "deed"])],
    ids=["the main thread crashes", "another thread crashes"],
)
def test_of_a_crash_the_frames_are_those_of_the_thread_that_crashed(
    tmp_path: Path, main: str, thread: str, expected: list[str]
) -> None:
    text, status = died(tmp_path, THREADS.format(main=main, thread=thread, enable="faulthandler.enable()"))

    assert status == 139
    assert names(text) == expected
    assert traceback.fatal(text, "crash", status, 30, ()).message == "Segmentation fault"


def test_of_a_time_limit_the_frames_are_those_of_the_main_thread(tmp_path: Path) -> None:
    enable = "faulthandler.dump_traceback_later(0.3, exit=True)"
    text, _ = died(tmp_path, THREADS.format(main=WAIT, thread=WAIT, enable=enable))

    assert names(text) == ["<module>", "in_main"]


def test_the_last_dump_counts_and_each_frame_has_its_line(tmp_path: Path) -> None:
    code = """
import faulthandler

def first():
    faulthandler.dump_traceback()

def second():
    faulthandler.dump_traceback()

first()
second()
"""
    text, _ = died(tmp_path, code)

    assert traceback.faulthandler_frames(text, lambda path: Path(path).name) == (
        Frame("app.py", 11, "<module>", ""),
        Frame("app.py", 8, "second", ""),
    )


def test_the_runners_own_frames_are_left_out() -> None:
    dump = """Current thread 0x1 (most recent call first):
  File "/repo/a b.py", line 3 in f
  File "/env/site-packages/_pytest/python.py", line 100 in pytest_pyfunc_call
  File "/env/site-packages/pluggy/_callers.py", line 100 in _multicall
  File "/repo/run.py", line 1 in <module>
"""
    found = traceback.faulthandler_frames(dump, str)

    assert [(frame.path, frame.lineno) for frame in found] == [("/repo/run.py", 1), ("/repo/a b.py", 3)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no dump",
        'File "x.py", line 1 in f',
        "Current thread 0x1:\n  <no Python frame>\n",
        "Thread",
        'Traceback:\n  File "x.py", line 1, in f\n',
    ],
)
def test_of_text_without_a_dump_there_are_no_frames(text: str) -> None:
    assert traceback.faulthandler_frames(text, str) == ()


@pytest.mark.parametrize(
    ("text", "when", "status", "words"),
    [
        ("", "timeout", 137, "Timeout: timed out: still running after 2.5 s"),
        ("Fatal Python error: Aborted", "timeout", 134, "Timeout: timed out: still running after 2.5 s"),
        ("test_a.py Fatal Python error: Aborted\n\nmore", "crash", 134, "Crash: Aborted"),
        ("", "crash", 139, "Crash: the test process ended before pytest did (killed by SIGSEGV)"),
        ("", "crash", 137, "Crash: the test process ended before pytest did (killed by SIGKILL)"),
        ("", "crash", 128 + 64, "Crash: the test process ended before pytest did (exit 192)"),
        ("", "crash", 0, "Crash: the test process ended before pytest did (exit 0)"),
    ],
)
def test_a_run_that_died_is_told_as_if_it_had_raised(text: str, when: str, status: int, words: str) -> None:
    raised = traceback.fatal(text, when, status, 2.5, (Frame("a.py", 1, "f", ""),))

    assert f"{raised.type}: {raised.message}" == words
    assert raised.frames == (Frame("a.py", 1, "f", ""),)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext\n", "plain\n\ttext\n"),
        ("a\r\nb\rc", "a\nbc"),
        ("\x1b[1;31mred\x1b[0m \x1b[38;5;196mtoo\x1b[K", "red too"),
        ("\x1b]0;title\x07\x1b]52;c;c2VjcmV0\x1b\\kept", "kept"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bcreset\x1bMup", "resetup"),
        ("a\0b\x08c\x7f\x1b", "abc"),
        ("\udce9 größe 日本", "\\udce9 größe 日本"),
        ("\x1b[31", "[31"),
        ("\x9b31mred", "31mred"),
    ],
)
def test_a_terminal_has_nothing_to_obey_in_plain_text(text: str, shown: str) -> None:
    assert plain(text) == shown
    plain(text).encode("utf-8")
