"""A patch: what an engine proposes to change, as whole files before and after."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from heal_core.source import opcodes, split_lines


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One file of a patch: its path relative to the repository, the staged bytes, and the bytes to stage instead."""

    path: str
    before: bytes
    after: bytes

    def diff(self) -> str:
        """A unified diff with `a/` and `b/` prefixes, as `git apply` reads it."""
        old, new = (split_lines(data.decode("utf-8", "replace")) for data in (self.before, self.after))
        rows = difflib.unified_diff(old, new, f"a/{self.path}", f"b/{self.path}")
        return "".join(row if row.endswith("\n") else row + "\n\\ No newline at end of file\n" for row in rows)

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

    def diff(self) -> str:
        """All files as one unified diff."""
        return "".join(rewrite.diff() for rewrite in self.files)

    def changed_lines(self) -> int:
        """How many lines the patch changes, over all its files."""
        return sum(rewrite.changed_lines() for rewrite in self.files)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a proposal cannot even be tried, in words that the engine can act on; `reply` is what the model wrote."""

    engine: str
    reason: str
    reply: str = ""
