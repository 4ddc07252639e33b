"""`selfheal undo [ID]`: put back what a heal changed, in index and working tree."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from heal_core import recovery, repo
from heal_core.undo import Undone, undo


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Undo the heal of that id, by default the newest; 0 when all is as before, 1 when something is left alone."""
    parser = argparse.ArgumentParser(prog="selfheal undo", description="Put back what a heal changed.")
    parser.add_argument("id", nargs="?", default="", help="the heal, as `selfheal log` lists it (default: the newest)")
    options = parser.parse_args(list(arguments))
    repository = repo.find(Path.cwd(), environ)
    heal = recovery.read(repository.records, options.id)
    with repo.snapshot(repository) as snapshot:
        done = undo(snapshot, heal)
    print(_words(heal, done))
    return 1 if done.left else 0


def _words(heal: recovery.Heal, done: Undone) -> str:
    lines = [f"selfheal: undone {heal.id}."]
    for paths, where in ((done.worktree, "working tree"), (done.index, "index")):
        if paths:
            lines.append(f"put back in the {where}: {', '.join(paths)}")
    if not done.worktree and not done.index:
        lines.append("nothing of it was left to put back.")
    lines += [f"left alone: {why}" for why in done.left]
    if heal.stash:
        lines.append(f"Unstaged changes of that moment are also in {heal.stash}.")
    if done.left:
        lines.append(f"next: selfheal log --show {heal.id}  (the fix, to take it out by hand)")
    return "\n".join(lines)
