"""Jobs for the sandboxes, with this interpreter as their program, and what is left of them on the machine."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from heal_core.interpreter import Interpreter, find
from heal_core.sandbox import Finished, Job, Limits, Sandbox


def interpreter(program: str | Path = sys.executable) -> Interpreter:
    """`program` as selfheal finds it when `tests.python` names it."""
    return find(str(program), {}, Path("/nowhere"), Path(sys.prefix), lambda path: False)


HERE = interpreter()

# A process that starts another one, which has the marker sys.argv[1] among its arguments and sleeps.
SLEEPER = "import subprocess, sys; sleeper = [sys.executable, '-I', '-c', 'import time; time.sleep(60)', sys.argv[1]]; "


@dataclass
class Desk:
    """A sandbox, and a workspace for its jobs; `repository` is the path at which one with mounts shows it."""

    sandbox: Sandbox
    workspace: Path
    repository: Path
    limits: Limits = field(default_factory=lambda: Limits(20, 4096, 256))

    def job(
        self,
        *argv: str | Path,
        environ: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        subfolder: str = "",
        seconds: float | None = None,
        readable: tuple[Path, ...] = HERE.readable,
    ) -> Job:
        """A job that runs `argv`."""
        limits = self.limits if seconds is None else Limits(seconds, self.limits.memory_mb, self.limits.processes)
        words = tuple(str(word) for word in argv)
        return Job(words, self.workspace, self.repository, subfolder, readable, environ or {}, stdin, limits)

    def run(self, *argv: str | Path, **options: object) -> Finished:
        """Run `argv`; the options are those of `job`."""
        return self.sandbox.run(self.job(*argv, **options))  # type: ignore[arg-type]

    def python(self, code: str, *arguments: str | Path, **options: object) -> Finished:
        """Run `code` with this interpreter, which sees `arguments` in sys.argv."""
        return self.run(sys.executable, "-I", "-c", code, *arguments, **options)


def marker(desk: Desk) -> str:
    """A word that no other process of the machine has among its arguments."""
    return f"marker-{desk.workspace.parent.name}-{os.getpid()}-{time.monotonic_ns()}"


def running(marker: str) -> list[int]:
    """The numbers of the machine's processes that have `marker` among their arguments."""
    return [int(entry.parent.name) for entry in Path("/proc").glob("[0-9]*/cmdline") if _has(entry, marker)]


def _has(cmdline: Path, marker: str) -> bool:
    try:
        return marker.encode() in cmdline.read_bytes().split(b"\0")
    except OSError:
        return False
