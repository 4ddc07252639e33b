"""Hook frameworks that take unstaged changes off the working tree while hooks run: where they keep them.

pre-commit writes `patch<epoch>-<pid>` below PRE_COMMIT_HOME, prek `<milliseconds>-<pid>.patch` below PREK_HOME/patches;
neither deletes its file afterwards, so the process that wrote it must be one of ours above.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path


def stashed_patch(environ: Mapping[str, str]) -> Path | None:
    """The file that holds the user's unstaged changes right now, None when no framework has taken any."""
    if "PRE_COMMIT" not in environ:
        return None
    ancestors = dict(_ancestors())
    found = [path for path in _patches(environ) if _written_by(path, ancestors)]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def _patches(environ: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environ.get("HOME", "/"))
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    yield from Path(environ.get("PRE_COMMIT_HOME") or cache / "pre-commit").glob("patch*-*")
    yield from Path(environ.get("PREK_HOME") or cache / "prek", "patches").glob("*-*.patch")


def _written_by(path: Path, ancestors: Mapping[int, float]) -> bool:
    """Whether a process above us wrote it: by its number in the name, and not before that process began."""
    number = path.name.removesuffix(".patch").rpartition("-")[2]
    began = ancestors.get(int(number)) if number.isdigit() else None
    return began is not None and path.stat().st_mtime >= began - 1


def _ancestors() -> Iterator[tuple[int, float]]:
    """The processes above this one with the time each began, in seconds since the epoch (proc(5), fields 4 and 22)."""
    pid = os.getppid()
    while pid > 1:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            yield pid, _boot_time() + int(stat[19]) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            return
        pid = int(stat[1])


def _boot_time() -> float:
    lines = Path("/proc/stat").read_text("utf-8").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("btime "))
