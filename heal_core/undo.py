"""Undoing a heal: what it changed goes back, in index and working tree; what the user changed since stays.

Works before the commit, after it (the commit stays, the reversal is staged), and after a crash while placing.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from heal_core import recovery
from heal_core.errors import HealError, NotPlaced
from heal_core.patch import Rewrite
from heal_core.placing import Index, locked, merged, replace_file, state, store_blobs, temporary_name, undisturbed
from heal_core.repo import Snapshot
from heal_core.workspace import staging_lines


@dataclass(frozen=True, slots=True)
class Undone:
    """What came of an undo: the paths put back in the working tree and the index, a sentence on each left alone."""

    worktree: tuple[str, ...]
    index: tuple[str, ...]
    left: tuple[str, ...]


def undo(snapshot: Snapshot, heal: recovery.Heal) -> Undone:
    """Put back what `heal` changed, where it still stands or can be taken out of what the user made of it.

    Raises NotPlaced, with nothing changed, when the index is held by another git process or another selfheal is at
    work; HealError when a file cannot be written, after which the same undo can be asked for again.
    """
    again = f"selfheal undo {heal.id}"
    try:
        with recovery.only_one(snapshot.repo.records) as alone:
            if not alone:
                raise NotPlaced("another selfheal is at work in this repository.", f"{again}, when it has ended")
            return _undo(snapshot, heal, snapshot.repo.records / "heals" / heal.id)
    except OSError as error:
        raise HealError(f"{error.filename} could not be written: {error.strerror}.", f"{again}, when it can") from None


def _undo(snapshot: Snapshot, heal: recovery.Heal, folder: Path) -> Undone:
    recovery.remove_stale_locks(folder, snapshot.repo.git_dir)
    for content in heal.files:
        temporary_name(snapshot.repo.toplevel / content.path, heal.id).unlink(missing_ok=True)
    planned = [(content, _worktree(snapshot, content)) for content in heal.files]
    entries = [content for content in heal.files if _is_staged(snapshot, content)]
    moved_on = [
        f"{content.path} was staged anew; what is staged is left as it is."
        for content in heal.files
        if _staged_anew(snapshot, content)
    ]
    modes = {content.path: content.mode for content in entries}
    lines = staging_lines(snapshot, [_back(content) for content in entries], modes)
    index = Index(snapshot.repo.index, lines)
    with undisturbed():
        with locked([index] if entries else [], folder):
            for content, (data, _) in planned:
                if data is not None:
                    path = snapshot.repo.toplevel / content.path
                    replace_file(path, data, path.stat().st_mode & 0o7777, heal.id)
            if entries:
                _stage(snapshot, index, entries, folder)
        recovery.advance(folder, recovery.UNDONE)
    return Undone(
        worktree=tuple(content.path for content, (data, _) in planned if data is not None),
        index=tuple(content.path for content in entries),
        left=(*(why for _, (_, why) in planned if why), *moved_on),
    )


def _stage(snapshot: Snapshot, index: Index, entries: Sequence[recovery.Content], folder: Path) -> None:
    """Write the index with what was staged before, which may have been pruned from the user's object folder since."""
    store_blobs(snapshot.repo.git, [_back(content) for content in entries])
    copy = index.copied(snapshot.folder)
    copy.fill(snapshot.repo.git)
    paths = [content.path for content in entries if state(snapshot.repo.toplevel, content.path) is not None]
    copy.become(copy.ready(snapshot.repo.git, folder, paths))


def _worktree(snapshot: Snapshot, content: recovery.Content) -> tuple[bytes | None, str]:
    """What to write to the user's file (None: nothing), and why it is left alone ("" when it is as it was)."""
    before, after = content.worktree_before, content.worktree_after
    path = snapshot.repo.toplevel / content.path
    if before is None or after is None:
        return None, ""
    there = state(snapshot.repo.toplevel, content.path)
    if there is None or not stat.S_ISREG(there.st_mode):
        return None, f"{content.path} is not there any more."
    now = path.read_bytes()
    if now == before:
        return None, ""
    if now == after:
        return before, ""
    back = merged(snapshot, now, after, before)
    if back == now:  # the heal never came to write it, or it was taken out by hand
        return None, ""
    return back, "" if back is not None else f"{content.path} was edited over the fix; it is left as it is."


def _is_staged(snapshot: Snapshot, content: recovery.Content) -> bool:
    """Whether the index still holds what the heal staged."""
    return snapshot.read(content.path) == content.staged_after != content.staged_before


def _staged_anew(snapshot: Snapshot, content: recovery.Content) -> bool:
    """Whether the user staged something over the fix; an index that went with its commit holds what HEAD holds."""
    staged, head = snapshot.read(content.path), snapshot.change.head
    if staged in (None, content.staged_before, content.staged_after):
        return False
    return head is None or staged != snapshot.read(content.path, head)


def _back(content: recovery.Content) -> Rewrite:
    return Rewrite(content.path, content.staged_after, content.staged_before)
