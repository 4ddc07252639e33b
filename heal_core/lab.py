"""The lab: runs the selected tests, each time on a fresh checkout of what is staged, with or without a patch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heal_core import suite
from heal_core.config import SandboxConfig, TestsConfig
from heal_core.interpreter import Interpreter
from heal_core.patch import Rewrite
from heal_core.repo import Snapshot
from heal_core.sandbox import Limits, Sandbox
from heal_core.selection import Selection
from heal_core.workspace import Workspace, checked_out


@dataclass(frozen=True, slots=True)
class Lab:
    """What every run of one commit shares: the staged state, the sandbox, and the runs that make up the selection."""

    snapshot: Snapshot
    sandbox: Sandbox
    runs: tuple[suite.Run, ...]

    def run(self, rewrites: Sequence[Rewrite] = (), only: Sequence[str] | None = None, tree: str = "") -> suite.Result:
        """The selection (or the node ids in `only`) on a fresh checkout of what is staged, or of another `tree`.

        `rewrites` are laid over it.
        """
        with checked_out(self.snapshot, rewrites, tree) as workspace:
            return self.run_in(workspace, only)

    def run_in(self, workspace: Workspace, only: Sequence[str] | None = None) -> suite.Result:
        """The same in a workspace that is there already and that nothing has run in."""
        results = [
            suite.run(run, self.sandbox, workspace, only)
            for run in self.runs
            if only is None or any(suite.holds(run, nodeid) for nodeid in only)
        ]
        return suite.combine(results)


def plan(
    selection: Selection,
    interpreter: Interpreter,
    workspace: Workspace,
    tests: TestsConfig,
    sandbox: SandboxConfig,
    environ: Mapping[str, str],
) -> tuple[suite.Run, ...]:
    """One run for each folder of the selection with pytest settings of its own.

    Of `environ` only what `tests.env` names is handed in.
    """
    handed_in = tuple((name, environ[name]) for name in tests.env if name in environ)
    rootdirs = dict.fromkeys(chosen.rootdir for chosen in selection.tests)
    return tuple(
        suite.Run(
            interpreter=interpreter,
            rootdir=rootdir,
            files=tuple(chosen.path for chosen in selection.tests if chosen.rootdir == rootdir),
            args=tests.args,
            environ=handed_in,
            roots=_roots(rootdir, workspace),
            limits=Limits(tests.timeout_seconds, sandbox.memory_mb, sandbox.processes),
        )
        for rootdir in rootdirs
    )


def _roots(rootdir: str, workspace: Workspace) -> tuple[str, ...]:
    """The folders that a project's own modules are imported from when it is not installed: its root and its `src`."""
    base = f"{rootdir}/" if rootdir else ""
    return tuple(root for root in (rootdir, f"{base}src") if (workspace.folder / root).is_dir())
