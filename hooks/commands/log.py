"""`selfheal log`: the heals that were placed in this repository."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from heal_core import recovery, repo
from heal_core.patch import Patch, Rewrite


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Print the heals, the newest last, or all of one."""
    parser = argparse.ArgumentParser(prog="selfheal log", description="The heals so far (the last 20 are kept).")
    parser.add_argument("--show", metavar="ID", help="one heal, with its diff")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(list(arguments))
    repository = repo.find(Path.cwd(), environ)
    heals = (
        (recovery.read(repository.records, options.show),) if options.show else recovery.read_all(repository.records)
    )
    if options.format == "json":
        print(json.dumps([_row(heal) for heal in heals]))
    elif not heals:
        print("selfheal: nothing was healed in this repository yet.")
    else:
        for heal in heals:
            print(_line(heal))
        if options.show:
            print(heals[0].diagnosis, _patch(heals[0]).diff(), sep="\n")
    return 0


def _line(heal: recovery.Heal) -> str:
    state = "interrupted" if heal.interrupted else heal.phase
    engine = f"{heal.engine} ({heal.model})" if heal.model else heal.engine
    return f"{heal.id}  {state:<11}  {engine:<8}  {', '.join(content.path for content in heal.files)}"


def _row(heal: recovery.Heal) -> dict[str, object]:
    return {
        "id": heal.id,
        "state": "interrupted" if heal.interrupted else heal.phase,
        "engine": heal.engine,
        "model": heal.model,
        "diagnosis": heal.diagnosis,
        "files": [content.path for content in heal.files],
        "diff": _patch(heal).diff(),
        "attempts": heal.attempts,
        "tokens": heal.tokens,
        "seconds": heal.seconds,
        "head": heal.head,
    }


def _patch(heal: recovery.Heal) -> Patch:
    files = (Rewrite(content.path, content.staged_before, content.staged_after) for content in heal.files)
    return Patch(heal.engine, heal.diagnosis, tuple(files))
