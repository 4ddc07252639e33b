"""A patch: what an engine proposes to change, as whole files before and after."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from heal_core.alignment import opcodes
from heal_core.source import split_lines

CONTEXT_LINES = 3
LINE = re.compile(r"[^\n]*\n|[^\n]+")

_Row = tuple[str, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One file of a patch: its path relative to the repository, the staged bytes, and the bytes to stage instead."""

    path: str
    before: bytes
    after: bytes

    def diff(self, errors: str = "replace") -> str:
        """A unified diff with `a/` and `b/` prefixes, as `git apply` reads it.

        `errors` is the handler for bytes that are not UTF-8; with "surrogateescape" they can be written as they were.
        """
        # Only a line feed ends a line of a diff, a lone carriage return does not.
        old, new = (LINE.findall(data.decode("utf-8", errors)) for data in (self.before, self.after))
        lines = [line for changes in _hunks(old, new) for line in _hunk_lines(changes, old, new)]
        return "".join([f"--- a/{self.path}\n", f"+++ b/{self.path}\n", *lines] if lines else [])

    def changed_lines(self) -> int:
        """How many lines the patch takes away or adds, whichever is more."""
        old, new = (split_lines(data.decode("utf-8", "replace")) for data in (self.before, self.after))
        return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in opcodes(old, new) if tag != "equal")


@dataclass(frozen=True, slots=True)
class Patch:
    """A proposal of one engine: its name, its diagnosis in a sentence or two, and the files that it rewrites."""

    engine: str
    diagnosis: str
    files: tuple[Rewrite, ...]

    def diff(self, errors: str = "replace") -> str:
        """All files as one unified diff; `errors` as for one of them."""
        return "".join(rewrite.diff(errors) for rewrite in self.files)

    def changed_lines(self) -> int:
        """How many lines the patch changes, over all its files."""
        return sum(rewrite.changed_lines() for rewrite in self.files)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a proposal cannot even be tried, in words that the engine can act on; `reply` is what the model wrote."""

    engine: str
    reason: str
    reply: str = ""


def _hunks(old: Sequence[str], new: Sequence[str]) -> list[list[_Row]]:
    """The rows that change something; those with so little between them that their contexts touch are one hunk."""
    hunks: list[list[_Row]] = []
    for row in opcodes(old, new):
        if row[0] == "equal":
            continue
        if hunks and row[1] - hunks[-1][-1][2] <= 2 * CONTEXT_LINES:
            hunks[-1].append(row)
        else:
            hunks.append([row])
    return hunks


def _hunk_lines(changes: Sequence[_Row], old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """The lines of one hunk, its head first."""
    (_, i1, _, j1, _), (_, _, i2, _, j2) = changes[0], changes[-1]
    before, after = min(i1, CONTEXT_LINES), min(len(old) - i2, CONTEXT_LINES)
    yield f"@@ -{_span(i1 - before, i2 + after)} +{_span(j1 - before, j2 + after)} @@\n"
    at = i1 - before
    for _, i1, i2, j1, j2 in changes:
        yield from (_line(" ", line) for line in old[at:i1])
        yield from (_line("-", line) for line in old[i1:i2])
        yield from (_line("+", line) for line in new[j1:j2])
        at = i2
    yield from (_line(" ", line) for line in old[at : at + after])


def _span(start: int, end: int) -> str:
    """The lines from `start`, counted from 0, to before `end`, as a hunk's head says it: the first and how many."""
    count = end - start
    return f"{start + 1}" if count == 1 else f"{start + 1 if count else start},{count}"


def _line(sign: str, line: str) -> str:
    return sign + line + ("" if line.endswith("\n") else "\n\\ No newline at end of file\n")
