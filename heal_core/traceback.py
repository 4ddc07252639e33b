"""Reading failures from text, where no exception object was at hand: a crash, the time limit."""

from __future__ import annotations

import re
from collections.abc import Callable

from heal_core.failure import Frame, Raised

# One row of faulthandler's dump, the innermost call first.
FAULT_FRAME = re.compile(r'^\s+File "(?P<path>.+)", line (?P<lineno>\d+) in (?P<name>.+)$', re.MULTILINE)
FAULT_THREAD = re.compile(r"^(?:Current thread|Thread|Timeout) .*$", re.MULTILINE)
# Not at the start of a line: pytest has printed the name of the file, and no line end.
FATAL = re.compile(r"Fatal Python error: (?P<what>.+)")

SIGNAL_NAMES = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}


def faulthandler_frames(text: str, to_path: Callable[[str], str]) -> tuple[Frame, ...]:
    """The frames of the thread that was running in the last dump of faulthandler in `text`, the outermost first."""
    dumps = FAULT_THREAD.split(text)
    for dump in reversed(dumps[1:]):
        rows = [
            Frame(to_path(row["path"]), int(row["lineno"]), row["name"], "")
            for row in FAULT_FRAME.finditer(dump)
            if "/_pytest/" not in row["path"] and "/pluggy/" not in row["path"]
        ]
        if rows:
            return tuple(reversed(rows))
    return ()


def fatal(text: str, when: str, exit_status: int, limit_seconds: float, frames: tuple[Frame, ...]) -> Raised:
    """A run that died, as if it had raised: the type is "Timeout" or "Crash", the message says how."""
    if when == "timeout":
        return Raised("Timeout", f"timed out: still running after {limit_seconds:g} s", frames)
    if found := FATAL.search(text):
        return Raised("Crash", found["what"], frames)
    name = SIGNAL_NAMES.get(exit_status - 128, "")
    how = f"killed by {name}" if name else f"exit {exit_status}"
    return Raised("Crash", f"the test process ended before pytest did ({how})", frames)
