"""Running git: explicit environment, bytes in and out, a time limit, nothing of a repository's settings executed."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from heal_core.errors import GitError

TIME_LIMIT_SECONDS = 120

# Settings of a repository that would make git run something, or change what the plumbing does, each switched off.
SAFE_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "submodule.recurse=false",
    "safe.bareRepository=explicit",
    "core.quotePath=false",
    "core.fsync=none",  # all but placing writes into folders that are thrown away
)

# What git needs of the user's environment: where it finds itself, the user's configuration, and its helpers' paths.
KEPT = ("PATH", "HOME", "XDG_CONFIG_HOME", "USER", "LOGNAME", "TMPDIR", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM",
        "GIT_CONFIG_NOSYSTEM")  # fmt: skip


def base_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of every git call: of `environ` only what git needs, and no `GIT_*` that names a repository."""
    kept = {name: environ[name] for name in KEPT if name in environ}
    return kept | {
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LITERAL_PATHSPECS": "1",
    }


@dataclass(frozen=True, slots=True)
class Git:
    """git for one repository: `cwd` is where it runs, `environ` all that it is told."""

    cwd: Path
    environ: Mapping[str, str] = field(repr=False)

    def having(self, **extra: str | Path) -> Git:
        """The same git with more in its environment, for a private index or object folder."""
        return replace(self, environ={**self.environ, **{name: str(value) for name, value in extra.items()}})

    def run(self, *args: str, data: bytes | None = None, ok: tuple[int, ...] = (0,)) -> bytes:
        """What `git ARGS` prints, with `data` on its standard input.

        Raises GitError when the exit status is not in `ok`, or when it takes longer than TIME_LIMIT_SECONDS.
        """
        settings = [word for setting in SAFE_SETTINGS for word in ("-c", setting)]
        try:
            done = subprocess.run(
                ["git", *settings, *args],
                cwd=self.cwd,
                env=dict(self.environ),
                input=b"" if data is None else data,
                capture_output=True,
                timeout=TIME_LIMIT_SECONDS,
                check=False,
            )
        except FileNotFoundError:
            raise GitError("git is not on PATH.", "install git, or add its folder to PATH") from None
        except subprocess.TimeoutExpired:
            raise GitError(f"`git {args[0]}` did not end within {TIME_LIMIT_SECONDS} s.") from None
        if done.returncode not in ok:
            words = done.stderr.decode("utf-8", "replace").strip()
            raise GitError(f"`git {args[0]}` failed (exit {done.returncode}): {words}")
        return done.stdout

    def line(self, *args: str, data: bytes | None = None, ok: tuple[int, ...] = (0,)) -> str:
        """What `git ARGS` prints without the line end, as text; for ids and single paths."""
        return as_path(self.run(*args, data=data, ok=ok)).rstrip("\n")


def as_path(data: bytes) -> str:
    """A path of git's as Python's file functions take it, whatever its bytes are."""
    return data.decode("utf-8", "surrogateescape")


def as_bytes(path: str) -> bytes:
    """The bytes of a path from `as_path`."""
    return path.encode("utf-8", "surrogateescape")
