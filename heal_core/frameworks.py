"""Hook frameworks that take unstaged changes off the working tree while hooks run: where they keep them.

pre-commit writes `patch<epoch>-<pid>` below PRE_COMMIT_HOME, prek `<milliseconds>-<pid>.patch` below PREK_HOME/patches;
neither deletes its file afterwards, so the process that wrote it must be one of ours above.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from heal_core.ancestry import Process, ancestors


def stashed_patch(environ: Mapping[str, str]) -> Path | None:
    """The file that holds the user's unstaged changes right now, None when no framework has taken any."""
    if "PRE_COMMIT" not in environ:
        return None
    above = {process.pid: process for process in ancestors()}
    found = [path for path in _patches(environ) if _written_by(path, above)]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def needed_lines(patch: str) -> Mapping[str, frozenset[int]]:
    """The lines that must stand as they are for `patch` to apply, by path: those of its hunks, with the context."""
    found: dict[str, set[int]] = {}
    for part in re.split(r"^diff --git ", patch, flags=re.MULTILINE)[1:]:
        named = re.search(r"^--- a/(?P<path>.*?)\t?$", part, re.MULTILINE)
        hunks = re.finditer(r"^@@ -(?P<start>\d+)(?:,(?P<count>\d+))? ", part, re.MULTILINE)
        for hunk in hunks if named else ():
            first, count = int(hunk["start"]), int(hunk["count"] or 1)
            found.setdefault(named["path"] if named else "", set()).update(range(first, first + count))
    return {path: frozenset(lines) for path, lines in found.items()}


def _patches(environ: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environ.get("HOME", "/"))
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    yield from Path(environ.get("PRE_COMMIT_HOME") or cache / "pre-commit").glob("patch*-*")
    yield from Path(environ.get("PREK_HOME") or cache / "prek", "patches").glob("*-*.patch")


def _written_by(path: Path, above: Mapping[int, Process]) -> bool:
    """Whether a process above us wrote it: by its number in the name, and not before that process began."""
    number = path.name.removesuffix(".patch").rpartition("-")[2]
    process = above.get(int(number)) if number.isdigit() else None
    return process is not None and path.stat().st_mtime >= process.began_seconds() - 1
