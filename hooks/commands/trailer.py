"""The hook `selfheal-trailer` (prepare-commit-msg): says in the message of a healed commit that it was healed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from heal_core import recovery, repo
from hooks import settings


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Add the trailer to the message file that git names, where `heal.trailer` is on and the commit holds a heal."""
    if not arguments:
        return 0
    repository = repo.find(Path.cwd(), environ)
    if not settings.read(repository.toplevel, environ, ()).config.heal.trailer:
        return 0
    if (found := _heal_in(repository)) is not None:
        options = ("--in-place", "--if-exists", "doNothing", "--trailer", f"Healed-by: {words(found)}")
        repository.git.run("interpret-trailers", *options, "--", str(Path(arguments[0]).absolute()))
    return 0


def _heal_in(repository: repo.Repository) -> recovery.Heal | None:
    """The heal that the coming commit holds: placed on this very HEAD, and still staged as it was placed."""
    heals = [heal for heal in recovery.read_all(repository.records) if heal.phase == recovery.PLACED]
    if not heals or heals[-1].head != repository.head():
        return None
    with repo.snapshot(repository) as snapshot:
        same = all(snapshot.read(content.path) == content.staged_after for content in heals[-1].files)
    return heals[-1] if same else None


def words(heal: recovery.Heal) -> str:
    """`selfheal (engine, model, attempts)`, so that a reviewer can tell what proposed the change."""
    attempts = "1 attempt" if heal.attempts == 1 else f"{heal.attempts} attempts"
    return f"selfheal ({', '.join(filter(None, (heal.engine, heal.model, attempts)))})"
