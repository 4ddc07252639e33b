"""A plain process: bounded, killed as a group, in a scrubbed environment, but with the user's own rights.

It isolates nothing. The user's own tests may run so, as they would anyway; code that an engine wrote only by the user's
explicit choice.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from heal_core.sandbox import Finished, Job
from heal_core.sandbox._supervise import kill_group, supervise


class ProcessSandbox:
    """The backend "process"."""

    name = "process"
    isolates = False

    def run(self, job: Job) -> Finished:
        """Run the job in its own session, with an empty home folder that is gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="selfheal-home-") as home:
            environ = {**job.environ, "HOME": home, "TMPDIR": home, "PATH": _search_path(job)}
            cwd = job.workspace / job.subfolder
            return supervise(job, job.argv, environ, cwd, root=job.workspace, kill=kill_group)


def _search_path(job: Job) -> str:
    return f"{Path(job.argv[0]).parent}:/usr/local/bin:/usr/bin:/bin"
