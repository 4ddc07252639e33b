"""Reading failures from text, where no exception object was at hand: a crash, the time limit."""

from __future__ import annotations

import re
from collections.abc import Callable

from heal_core.failure import Frame, Raised

# One row of faulthandler's dump, the innermost call first.
FAULT_FRAME = re.compile(r'^\s+File "(?P<path>.+)", line (?P<lineno>\d+) in (?P<name>.+)$', re.MULTILINE)
FAULT_THREAD = re.compile(r"^(?P<which>Current thread|Thread) .*$", re.MULTILINE)
# Not at the start of a line: pytest has printed the name of the file, and no line end.
FATAL = re.compile(r"Fatal Python error: (?P<what>.+)")

SIGNAL_NAMES = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}


def faulthandler_frames(text: str, to_path: Callable[[str], str]) -> tuple[Frame, ...]:
    """The frames of the thread that was running in the last dump of faulthandler in `text`, the outermost first.

    A crash names that thread; of a time limit's dump it is the main thread, which comes last.
    """
    _, *parts = FAULT_THREAD.split(text)
    threads = [(which, _frames(dump, to_path)) for which, dump in zip(parts[::2], parts[1::2], strict=True)]
    known = [(which, frames) for which, frames in threads if frames]
    crashed = [frames for which, frames in known if which == "Current thread"]
    return crashed[-1] if crashed else known[-1][1] if known else ()


def _frames(dump: str, to_path: Callable[[str], str]) -> tuple[Frame, ...]:
    rows = [row for row in FAULT_FRAME.finditer(dump) if "/_pytest/" not in row["path"]]
    return tuple(
        Frame(to_path(row["path"]), int(row["lineno"]), row["name"], "")
        for row in reversed(rows)
        if "/pluggy/" not in row["path"]
    )


def fatal(text: str, when: str, exit_status: int, limit_seconds: float, frames: tuple[Frame, ...]) -> Raised:
    """A run that died, as if it had raised: the type is "Timeout" or "Crash", the message says how."""
    if when == "timeout":
        return Raised("Timeout", f"timed out: still running after {limit_seconds:g} s", frames)
    if found := FATAL.search(text):
        return Raised("Crash", found["what"], frames)
    name = SIGNAL_NAMES.get(exit_status - 128, "")
    how = f"killed by {name}" if name else f"exit {exit_status}"
    return Raised("Crash", f"the test process ended before pytest did ({how})", frames)
