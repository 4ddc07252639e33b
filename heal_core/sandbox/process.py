"""A plain process: bounded, ended with all that it started, in a scrubbed environment, but with the user's own rights.

It isolates nothing. The user's own tests may run so, as they would anyway; code that an engine wrote only by the user's
explicit choice.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from heal_core.sandbox import Finished, Job
from heal_core.sandbox._supervise import kill_group, supervise

# prctl(2): orphans of what we start become our children, so that a daemon cannot get away.
PR_SET_CHILD_SUBREAPER = 36
END_SECONDS = 5.0
PAUSE_SECONDS = 0.001


class ProcessSandbox:
    """The backend "process"."""

    name = "process"
    isolates = False

    def run(self, job: Job) -> Finished:
        """Run the job in its own session, with an empty home folder that is gone afterwards."""
        # Real paths, as the job's own processes see them: the temporary folder may be named by a symbolic link.
        root = job.workspace.resolve()
        with tempfile.TemporaryDirectory(prefix="selfheal-home-") as home, _adopting():
            environ = {**job.environ, "HOME": home, "TMPDIR": home, "PATH": _search_path(job)}
            earlier = _children()
            return supervise(
                job,
                job.argv,
                environ,
                root / job.subfolder,
                root=root,
                kill=lambda process: _end(process, earlier),
            )


def _search_path(job: Job) -> str:
    return f"{Path(job.argv[0]).parent}:/usr/local/bin:/usr/bin:/bin"


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Makes this process the parent of every orphan below it; only Linux can."""
    if sys.platform != "linux":
        yield
        return
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _end(process: subprocess.Popen[bytes], earlier: set[int]) -> None:
    """End the process, its session, and then what comes to us as an orphan, until nothing more comes."""
    kill_group(process)
    process.wait()
    deadline = time.monotonic() + END_SECONDS
    while (orphans := _children() - earlier) and time.monotonic() < deadline:
        for pid in orphans:
            with contextlib.suppress(PermissionError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, os.WNOHANG)
        time.sleep(PAUSE_SECONDS)


def _children() -> set[int]:
    """The numbers of this process's children (proc(5), none where the kernel does not list them)."""
    found: set[int] = set()
    for listing in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found.update(map(int, listing.read_text("ascii").split()))
    return found
