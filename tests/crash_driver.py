"""Runs selfheal and kills it with SIGKILL before a given step of placing, or of undoing.

    python crash_driver.py STEP JOURNAL [ARGUMENT...]

A step is what the process itself is about to do to the repository in the current folder: a file opened for writing, a
rename, a link, a removal, a mode; or the start of another process. They are counted from 1, from the moment when the
record of a heal is first touched. Each is written to JOURNAL, so that STEP 0, which kills nothing, tells how many there
are. What goes on in temporary folders outside is no step: a crash between two of those leaves what one before does.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

CHANGING = ("os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.chown", "os.truncate")


class Killer:
    """An audit hook (sys.addaudithook) that counts steps, and ends the process before one."""

    def __init__(self, step: int, journal: str, folder: str) -> None:
        self.step, self.folder = step, folder + os.sep
        self.journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.count = 0

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        """Called by Python before it does what `event` names."""
        words = self._words(event, args)
        if not words or not (self.count or "/.git/selfheal/heals/" in words):
            return
        self.count += 1
        os.write(self.journal, f"{words}\n".encode())
        if self.count == self.step:
            os.kill(os.getpid(), signal.SIGKILL)

    def _words(self, event: str, args: tuple[Any, ...]) -> str:
        """The step in words, "" for an event that is none."""
        if event == "subprocess.Popen":
            return " ".join([event, *(str(word) for word in args[1])])
        writes = event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if not writes and event not in CHANGING:
            return ""
        named = args[:2] if event in ("os.rename", "os.link") else args[:1]
        paths = [os.path.abspath(os.fsdecode(name)) for name in named if not isinstance(name, int)]
        relative_to_a_descriptor = not writes and args[-1] != -1 and event in ("os.remove", "os.rmdir")
        inside = not relative_to_a_descriptor and any(path.startswith(self.folder) for path in paths)
        return " ".join([event, *paths]) if inside else ""


def main() -> int:
    """Run selfheal with the arguments after the first two."""
    step, journal, *arguments = sys.argv[1:]
    sys.addaudithook(Killer(int(step), journal, os.getcwd()))
    from hooks.pre_commit import main as selfheal

    return selfheal(arguments)


if __name__ == "__main__":
    sys.exit(main())
