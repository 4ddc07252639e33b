"""`selfheal run`: the main job on what is staged, as the hook runs it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from heal_core import repo
from heal_core.heal import heal
from heal_core.healing import Bench, Healing, Outcome
from hooks import settings, wiring

if TYPE_CHECKING:
    from heal_core.report import Report


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Judge and heal what is staged in the repository around the current directory; returns the exit status."""
    began = time.monotonic()
    options = _options(arguments)
    repository = repo.find(Path.cwd(), environ)
    configured = settings.read(repository.toplevel, environ, options.set)
    config = configured.config
    engines = wiring.Engines(config, environ)
    with ExitStack() as until_placed:
        snapshot = until_placed.enter_context(repo.snapshot(repository))
        place = wiring.Placing(snapshot, environ, until_placed)
        healing = heal(
            Bench(
                snapshot=snapshot,
                config=config,
                environ=environ,
                interpreter=lambda: wiring.find_interpreter(config, environ, snapshot),
                sandbox=lambda: wiring.choose_sandbox(config.sandbox),
                engines=engines.make,
                not_placeable=place.forbidden,
            )
        )
        healing = replace(healing, seconds=time.monotonic() - began)
        report = _placed(healing, place, engines, "--dry-run" if options.dry_run else config.heal.on_heal)
    return _print(_complete(report, engines, configured, repository), engines, options)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = settings.Parser(prog="selfheal run", description="Judge and heal what is staged.")
    settings.add_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="heal and show, stage nothing")
    return parser.parse_args(list(arguments))


def _placed(healing: Healing, place: wiring.Placing, engines: wiring.Engines, on_heal: str) -> Report:
    """The patch of a healed commit put in its place; where it is not, it is saved, and the commit stops."""
    from heal_core.errors import NotPlaced
    from heal_core.report import Report

    repository = place.snapshot.repo
    report = Report(healing, healing.outcome.exit_status, in_commit=repository.in_commit)
    if healing.outcome is not Outcome.HEALED or healing.patch is None:
        return report
    # A stopped commit takes these indexes with it: what is to be looked at first is saved instead.
    if on_heal in ("--dry-run", "propose") or (on_heal == "review" and repository.style is not repo.IndexStyle.PLAIN):
        asked = "--dry-run was given." if on_heal == "--dry-run" else f"heal.on_heal is {on_heal}."
        return _saved(report, place, Outcome.PROPOSED, asked)
    try:
        identity = place(healing.patch, engines.story(healing))
    except NotPlaced as error:
        return _saved(report, place, Outcome.NOT_PLACED, error.problem)
    outcome = Outcome.REVIEW if on_heal == "review" else Outcome.HEALED
    return replace(
        report,
        healing=replace(healing, outcome=outcome),
        exit_status=outcome.exit_status,
        staged=True,
        record=identity,
    )


def _saved(report: Report, place: wiring.Placing, outcome: Outcome, why_not: str) -> Report:
    """The patch kept for `selfheal apply`."""
    from heal_core import record

    healing = replace(report.healing, outcome=outcome)
    assert healing.patch is not None
    saved = record.save(place.snapshot.repo.records, healing.patch, why_not)
    return replace(report, healing=healing, exit_status=outcome.exit_status, why_not=why_not, saved=saved)


def _complete(
    report: Report, engines: wiring.Engines, configured: settings.Settings, repository: repo.Repository
) -> Report:
    """The report with what asking a model cost, and with the exit status that the configuration asks for."""
    healing, config = report.healing, configured.config
    notes = (*configured.notes, *wiring.interrupted_heals(repository))
    if engines.no_model and healing.outcome is Outcome.UNHEALED and not healing.advice:
        report = replace(report, healing=replace(healing, advice=wiring.ASK_A_MODEL))
    if engines.llm is not None:
        usage = engines.llm.usage
        ended = (f"no further attempt: {engines.llm.ended}.",) if engines.llm.ended and healing.patch is None else ()
        report = replace(report, requests=usage.requests, tokens=usage.total_tokens)
        notes += ended
    blocked = config.tests.on_none == "block" and (healing.outcome is Outcome.NO_TESTS or healing.selection.untested)
    if blocked and report.exit_status == 0:
        report = replace(report, exit_status=1)
        notes += ("tests.on_none is block: staged sources without a test stop the commit.",)
    return replace(report, notes=notes)


def _print(report: Report, engines: wiring.Engines, options: argparse.Namespace) -> int:
    """Print the report, secrets masked, and return the exit status."""
    from heal_core.report import as_json, as_text

    quiet = options.quiet and report.exit_status == 0 and report.healing.patch is None
    if not quiet:
        text = as_json(report) if options.format == "json" else as_text(report)
        print(engines.redactor.mask(text) if report.healing.failures else text)
    return report.exit_status
