"""The lab: runs the selected tests, each time on a fresh checkout of what is staged, with or without a patch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heal_core import suite
from heal_core.patch import Rewrite
from heal_core.repo import Snapshot
from heal_core.sandbox import Sandbox
from heal_core.workspace import Workspace, checked_out


@dataclass(frozen=True, slots=True)
class Lab:
    """What every run of one commit shares: the staged state, the sandbox, and the runs that make up the selection."""

    snapshot: Snapshot
    sandbox: Sandbox
    runs: tuple[suite.Run, ...]

    def run(self, rewrites: Sequence[Rewrite] = (), only: Sequence[str] | None = None) -> suite.Result:
        """The selection (or the node ids in `only`) on a fresh checkout with `rewrites` laid over it."""
        with checked_out(self.snapshot, rewrites) as workspace:
            return self.run_in(workspace, only)

    def run_in(self, workspace: Workspace, only: Sequence[str] | None = None) -> suite.Result:
        """The same in a workspace that is there already and that nothing has run in."""
        results = [
            suite.run(run, self.sandbox, workspace, only)
            for run in self.runs
            if only is None or any(suite.holds(run, nodeid) for nodeid in only)
        ]
        return suite.combine(results)
