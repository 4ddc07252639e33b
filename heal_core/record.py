"""What selfheal saves in the git directory: patches that were proved but not placed, for `selfheal apply`."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from heal_core.errors import HealError
from heal_core.patch import Patch, Rewrite
from heal_core.recovery import new_id

KEPT = 20


@dataclass(frozen=True, slots=True)
class Saved:
    """One saved patch: its id, the patch, why it was not placed, and the unified diff as a file for `git apply`."""

    id: str
    patch: Patch
    reason: str
    diff_file: Path


def save(folder: Path, patch: Patch, reason: str) -> Saved | None:
    """Save `patch` below `folder` (the repository's records), keeping the last KEPT; only the user may read it.

    None where it cannot be written, which must not hide the patch itself.
    """
    identity = new_id()
    place = folder / "patches" / identity
    saved = Saved(identity, patch, reason, place / "patch.diff")
    try:
        place.mkdir(parents=True, mode=0o700)
        _write(saved.diff_file, patch.diff("surrogateescape").encode("utf-8", "surrogateescape"))
        _write(place / "patch.json", _packed_patch(patch, reason))
        _keep_last(folder / "patches")
    except OSError:
        shutil.rmtree(place, ignore_errors=True)
        return None
    return saved


def _packed_patch(patch: Patch, reason: str) -> bytes:
    row = {
        "engine": patch.engine,
        "diagnosis": patch.diagnosis,
        "reason": reason,
        "files": [
            {"path": rewrite.path, "before": _packed(rewrite.before), "after": _packed(rewrite.after)}
            for rewrite in patch.files
        ],
    }
    return json.dumps(row).encode("utf-8", "surrogatepass")


def load(folder: Path, identity: str = "") -> Saved:
    """The saved patch of that id, the newest without one. Raises HealError when there is none, or it cannot be read."""
    known = _ids(folder / "patches")
    if not known or (identity and identity not in known):
        what = f"There is no saved patch {identity!r}" if identity else "There is no saved patch"
        raise HealError(f"{what} in this repository.", f"one of: {', '.join(known)}" if known else "")
    place = folder / "patches" / (identity or known[-1])
    try:
        row = json.loads((place / "patch.json").read_bytes().decode("utf-8", "surrogatepass"))
        files = tuple(
            Rewrite(file["path"], base64.b64decode(file["before"]), base64.b64decode(file["after"]))
            for file in row["files"]
        )
        patch = Patch(row["engine"], row["diagnosis"], files)
        return Saved(place.name, patch, row["reason"], place / "patch.diff")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HealError(f"The saved patch {place} cannot be read ({error}).") from None


def _ids(folder: Path) -> Sequence[str]:
    """The ids of the saved patches, the oldest first."""
    if not folder.is_dir():
        return []
    return sorted(entry.name for entry in folder.iterdir() if re.fullmatch(r"\d{8}-\d{6}-\d+", entry.name))


def _keep_last(folder: Path) -> None:
    for name in _ids(folder)[:-KEPT]:
        for file in (folder / name).iterdir():
            file.unlink()
        (folder / name).rmdir()


def _packed(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _write(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
