"""From failures and the staged change to the places that a fix is most likely to touch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from heal_core.failure import Failure
from heal_core.source import Source

MAX_SUSPECTS = 40
HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class Suspect:
    """A place that may hold the fault: `path` and `lineno` (from 1), and why it is suspected, in a few words."""

    path: str
    lineno: int
    reason: str


@dataclass(frozen=True, slots=True)
class Case:
    """All that an engine is told.

    `suspects` are in order, the most suspicious first; `editable` are the staged, non-test Python files that a patch
    may change; `tests` the sources of the failing tests; `diff` the staged change of the editable files against HEAD;
    `modules` the dotted names that the repository's own sources import.
    """

    failures: tuple[Failure, ...]
    suspects: tuple[Suspect, ...]
    editable: tuple[Source, ...]
    tests: tuple[Source, ...]
    diff: str
    modules: frozenset[str]


def localize(failures: Sequence[Failure], editable: Sequence[Source], diff: str) -> tuple[Suspect, ...]:
    """The suspects for `failures` among the `editable` files, the most suspicious first.

    A frame of the root cause comes before those of the exceptions that it led to, an inner call before an outer one,
    and a line that only stands in the staged diff after any frame.
    """
    paths = {source.path for source in editable}
    found: dict[tuple[str, int], str] = {}
    for failure in failures:
        for frame in failure.frames():
            if frame.path in paths:
                found.setdefault((frame.path, frame.lineno), f"{failure.headline()[:80]} passed through {frame.name}")
    for path, lineno in staged_lines(diff):
        if path in paths:
            found.setdefault((path, lineno), "staged in this commit")
    return tuple(Suspect(path, lineno, why) for (path, lineno), why in list(found.items())[:MAX_SUSPECTS])


def staged_lines(diff: str) -> dict[tuple[str, int], None]:
    """Path and number of each line that a unified diff adds, in their order; the path is that behind `+++ b/`."""
    lines: dict[tuple[str, int], None] = {}
    path, row, old, new = "", 0, 0, 0  # `old` and `new` are the lines of the hunk that are still to come on either side
    for line in diff.split("\n"):
        sign = line[:1]
        if old > 0 or new > 0:
            if sign == "+":
                lines[path, row] = None
            row += sign in ("+", " ")
            old, new = old - (sign in ("-", " ")), new - (sign in ("+", " "))
        elif hunk := HUNK.match(line):
            row, old, new = int(hunk[2]), int(hunk[1] or 1), int(hunk[3] or 1)
        elif line.startswith("+++ "):
            path = line[4:].rstrip("\t\r").removeprefix("b/")
    return lines
