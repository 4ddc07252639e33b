"""Starting one process and keeping it within its bounds: the pipes are read, the time limit strikes, all of it dies."""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from heal_core.errors import SandboxError
from heal_core.sandbox import REPORT_FD, Finished, Job

OUTPUT_HEAD_BYTES = 200_000
OUTPUT_TAIL_BYTES = 800_000
REPORT_BYTES = 64_000_000
CHUNK_BYTES = 65_536
POLL_SECONDS = 0.02
LAST_WORDS_SECONDS = 1.0


@dataclass
class Bounded:
    """The head and the tail of a stream; what lies between is counted, not kept."""

    head_bytes: int
    tail_bytes: int
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    left_out: int = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        room = self.head_bytes - len(self.head)
        self.head += data[:room]
        self.tail += data[room:] if room > 0 else data
        surplus = len(self.tail) - self.tail_bytes
        if surplus > 0:
            del self.tail[:surplus]
            self.left_out += surplus

    def whole(self) -> bytes:
        """The stream, with a line in the place of what was left out."""
        gap = b"\n[... %d bytes left out ...]\n" % self.left_out if self.left_out else b""
        return bytes(self.head) + gap + bytes(self.tail)


def limit_here(job: Job) -> Callable[[], None]:
    """What the child does before it becomes the program: no core files, a bounded address space."""
    address_space = at_most(resource.RLIMIT_AS, job.limits.memory_mb * 1024 * 1024)

    def apply() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))

    return apply


def at_most(kind: int, wanted: int) -> int:
    """`wanted` as the limit of a `resource.RLIMIT_*`, or the lower one that the user is under: none can be raised."""
    hard = resource.getrlimit(kind)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def supervise(
    job: Job,
    argv: Sequence[str],
    environ: Mapping[str, str],
    cwd: Path,
    *,
    root: Path,
    pass_fds: Sequence[int] = (),
    kill: Callable[[subprocess.Popen[bytes]], None],
) -> Finished:
    """Run `argv` for `job` and say how it ended; `kill` ends all of it, and is called in the end in any case."""
    began = time.monotonic()
    output, report = Bounded(OUTPUT_HEAD_BYTES, OUTPUT_TAIL_BYTES), Bounded(REPORT_BYTES, 0)
    report_read, report_write = os.pipe()
    with open(report_read, "rb", buffering=0), tempfile.TemporaryFile() as stdin:
        stdin.write(job.stdin)
        stdin.seek(0)
        try:
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env={**environ, REPORT_FD: str(report_write)},
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(report_write, *pass_fds),
                start_new_session=True,
                preexec_fn=limit_here(job),  # noqa: PLW1509 - selfheal has one thread
            )
        except OSError as error:
            raise SandboxError(f"{argv[0]} could not be started: {error.filename}: {error.strerror}.") from None
        finally:
            os.close(report_write)
        with process.stdout or contextlib.nullcontext() as stdout:
            assert stdout is not None
            try:
                timed_out = _pump(process, {stdout.fileno(): output, report_read: report}, began + job.limits.seconds)
            finally:
                kill(process)
                status = process.wait()
    return Finished(
        exit_status=status if status >= 0 else 128 - status,
        timed_out=timed_out,
        output=output.whole(),
        report=bytes(report.head),
        overflowed=report.left_out > 0,
        seconds=time.monotonic() - began,
        root=root,
    )


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End every process of the session that `process` leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _pump(process: subprocess.Popen[bytes], sinks: Mapping[int, Bounded], deadline: float) -> bool:
    """Read the pipes until the process has ended and they hold no more; True when the deadline came first.

    A grandchild may keep a pipe open for ever, or fill it for ever: after the end only what is there already is read,
    and not for long.
    """
    until = float("inf")
    with selectors.DefaultSelector() as selector:
        for fd, sink in sinks.items():
            os.set_blocking(fd, False)
            selector.register(fd, selectors.EVENT_READ, sink)
        while True:
            ended = _ended(process)
            read = _drain(selector, 0.0 if ended else POLL_SECONDS)
            now = time.monotonic()
            if ended:
                until = min(until, now + LAST_WORDS_SECONDS)
                if not read or now >= until:
                    return False
            elif now >= deadline:
                return True


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has ended, without reaping it: its number must stay its own until its group is killed."""
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _drain(selector: selectors.BaseSelector, wait_seconds: float) -> bool:
    """Read what is ready, once a pipe; False when nothing was."""
    if not selector.get_map():
        time.sleep(wait_seconds / 10)
        return False
    ready = selector.select(wait_seconds)
    for key, _ in ready:
        data = os.read(key.fd, CHUNK_BYTES)
        if data:
            key.data.add(data)
        else:
            selector.unregister(key.fd)
    return bool(ready)
