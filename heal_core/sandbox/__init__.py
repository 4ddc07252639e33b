"""Sandboxes: where tests run, and what of the machine they can reach. One file a backend, one Protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use: wall-clock seconds, megabytes of address space a process, processes."""

    seconds: float
    memory_mb: int
    processes: int


@dataclass(frozen=True, slots=True)
class Job:
    """One program to run in a workspace.

    `workspace` is a folder of ours that the program may change; a sandbox with mounts shows it at `seen_at`, and
    `subfolder` of it is the working directory. `readable` are the folders outside the system's own that the program
    needs (read only), `stdin` what it reads. `environ` is its whole environment, but for HOME, TMPDIR and PATH, which
    the sandbox sets, and REPORT_FD, which names the pipe that the program may report on.
    """

    argv: tuple[str, ...]
    workspace: Path
    seen_at: Path
    subfolder: str
    readable: tuple[Path, ...]
    environ: Mapping[str, str]
    stdin: bytes
    limits: Limits


REPORT_FD = "SELFHEAL_REPORT_FD"


@dataclass(frozen=True, slots=True)
class Finished:
    """How a job ended.

    `exit_status` is 128 + n after signal n, as a shell tells it; `timed_out` when the time limit ended it. `output` is
    what it printed, head and tail; `report` what it wrote on the report pipe, `overflowed` if that was too much.
    `seconds` is wall-clock time, `root` the folder under which it saw the workspace.
    """

    exit_status: int
    timed_out: bool
    output: bytes
    report: bytes
    overflowed: bool
    seconds: float
    root: Path


@dataclass(frozen=True, slots=True)
class Choice:
    """The sandbox to use, and whether patched code may run in it; `reason` says why not, "" when it may."""

    sandbox: Sandbox
    heals: bool
    reason: str = ""


class Sandbox(Protocol):
    """Runs jobs, one at a time, and leaves nothing of them behind."""

    name: str
    isolates: bool

    def run(self, job: Job) -> Finished:
        """Run `job` to its end or to its time limit; every process that it started is gone afterwards.

        Raises SandboxError when the sandbox itself could not start.
        """
        ...
