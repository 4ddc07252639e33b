"""`selfheal apply [ID]`: place a patch that was proved but not placed, with the same checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from heal_core import placing, record, recovery, repo
from heal_core.errors import NotPlaced
from hooks import settings


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Place the saved patch; returns 0, or raises NotPlaced with nothing changed."""
    parser = settings.Parser(prog="selfheal apply", description="Place a saved patch.")
    parser.add_argument("id", nargs="?", default="", help="the saved patch (default: the newest)")
    options = parser.parse_args(list(arguments))
    repository = repo.find(Path.cwd(), environ)
    saved = record.load(repository.records, options.id)
    with repo.snapshot(repository) as snapshot, recovery.only_one(repository.records) as alone:
        if not alone:
            raise NotPlaced("another selfheal is at work in this repository.", f"selfheal apply {saved.id}, later")
        _check_staged(snapshot, saved)
        placing.place(snapshot, saved.patch, environ, placing.Story())
    print(f"selfheal: staged the fix in {', '.join(rewrite.path for rewrite in saved.patch.files)}.")
    print("next: git commit")
    return 0


def _check_staged(snapshot: repo.Snapshot, saved: record.Saved) -> None:
    """Raise NotPlaced unless every file is staged with the very content that the patch was proved on."""
    if all(snapshot.read(rewrite.path) == rewrite.after for rewrite in saved.patch.files):
        raise NotPlaced("the fix is staged already.", "git commit")
    for rewrite in saved.patch.files:
        if rewrite.path not in snapshot.change.changed or snapshot.read(rewrite.path) != rewrite.before:
            raise NotPlaced(
                f"{rewrite.path} is not staged as it was when the patch was proved.",
                f"git add {rewrite.path} && selfheal apply {saved.id} (or by hand: git apply --3way {saved.diff_file})",
            )
