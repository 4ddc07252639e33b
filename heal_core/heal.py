"""The order of events from a staged change to an outcome; what follows a failure is in `repair`."""

from __future__ import annotations

from dataclasses import replace

from heal_core.healing import Bench, Healing, Outcome
from heal_core.lab import Lab, plan
from heal_core.pytest_settings import read_settings
from heal_core.selection import select
from heal_core.suite import Status
from heal_core.workspace import checked_out


def heal(bench: Bench) -> Healing:
    """Judge what is staged, and look for a patch that heals it.

    Raises HealError for what keeps it from being judged at all.
    """
    change = bench.snapshot.change
    if not change.files:
        return Healing(Outcome.NOTHING_STAGED)
    with checked_out(bench.snapshot) as workspace:
        files = workspace.files()
        settings = read_settings(files)
        # A link that is staged, or leads to a staged file, is another name by which tests import it.
        staged = {file.path for file in change.files}
        linked = [link for link, target in workspace.links().items() if staged.intersection((link, target))]
        selection = select((*change.changed, *linked), change.removed, files, settings)
        if not selection.tests:
            return Healing(Outcome.NO_TESTS, selection)
        choice, interpreter = bench.sandbox(), bench.interpreter()
        config = bench.config
        runs = plan(selection, interpreter, workspace, config.tests, config.sandbox, bench.environ)
        lab = Lab(bench.snapshot, choice.sandbox, runs)
        baseline = lab.run_in(workspace)
        so_far = Healing(
            Outcome.PASSED, selection, baseline, sandbox=choice.sandbox.name, interpreter=str(interpreter.program)
        )
        if baseline.status is Status.PASSED:
            return so_far
        if baseline.status is Status.NO_TESTS:
            return replace(so_far, outcome=Outcome.NO_TESTS)
        if baseline.status in (Status.BROKEN, Status.TAMPERED):
            return replace(so_far, outcome=Outcome.BROKEN, problem=baseline.problem)
        from heal_core.repair import repair  # a green commit does not pay for what only a failure needs

        return repair(bench, lab, choice, settings, files, so_far)
