"""The processes above this one: which git commit it serves, and whether that is still alive (proc(5))."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """One process: its number, when it began in clock ticks since the machine started, and its name.

    The number alone is given to another process after its end; together with the time it is this one's for ever.
    """

    pid: int
    began_ticks: int
    name: str

    def alive(self) -> bool:
        """Whether it still runs; one that has ended and not been waited for does not."""
        now = _read(self.pid)
        return now is not None and now[0].began_ticks == self.began_ticks

    def began_seconds(self) -> float:
        """When it began, in seconds since the epoch."""
        return _boot_seconds() + self.began_ticks / os.sysconf("SC_CLK_TCK")


def ancestors() -> Iterator[Process]:
    """The processes above this one, the nearest first; none where /proc does not tell."""
    pid = os.getppid()
    while pid > 1 and (found := _read(pid)):
        yield found[0]
        pid = found[1]


def commit_above() -> Process | None:
    """The git process whose hook this one runs in, None where there is none above."""
    return next((process for process in ancestors() if process.name == "git"), None)


def this_process() -> Process | None:
    """This very process, None where /proc does not tell."""
    found = _read(os.getpid())
    return found[0] if found else None


def _read(pid: int) -> tuple[Process, int] | None:
    """The process of that number and its parent's, None where it has ended."""
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").partition("(")[2].rpartition(")")
        fields = rest.split()
        state, parent, began = fields[0], int(fields[1]), int(fields[19])
    except (OSError, ValueError, IndexError):
        return None
    return None if state in ("Z", "X") else (Process(pid, began, name), parent)


def _boot_seconds() -> float:
    lines = Path("/proc/stat").read_text("utf-8").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("btime "))
