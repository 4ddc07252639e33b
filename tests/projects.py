"""Real little repositories for tests, and running real commands in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SELFHEAL = (sys.executable, "-I", "-m", "hooks.pre_commit")

# A bug that only a model heals: no name is off, and no single operator is. With it comes a change that stays, so that
# the healed commit is not an empty one.
AREA = "def area(width, height):\n    return {}\n"
AREA_FILES = {
    "shapes.py": AREA.format("width * height"),
    "tests/test_shapes.py": "from shapes import area\n\n\ndef test_area():\n    assert area(3, 4) == 12\n",
}
AREA_FIXED = "# Areas of shapes.\n" + AREA.format("width * height")
AREA_BUG = {"shapes.py": "# Areas of shapes.\n" + AREA.format("abs(width) and 7")}
AREA_REPLY = """The product was lost.

shapes.py
<<<<<<< SEARCH
    return abs(width) and 7
=======
    return width * height
>>>>>>> REPLACE
"""

# A bug that the offline engine heals: a name one letter off.
TOTAL_FILES = {
    "prices.py": "def total(prices):\n    return sum(prices)\n",
    "tests/test_prices.py": "from prices import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n",
}
TOTAL_FIXED = "# Prices in cents.\n" + TOTAL_FILES["prices.py"]
TOTAL_BUG = {"prices.py": "# Prices in cents.\ndef total(prices):\n    return sum(price)\n"}


def run(
    argv: Sequence[str | Path], cwd: Path, env: Mapping[str, str] | None = None, timeout_seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; its output as text, bytes that are no UTF-8 kept as surrogates."""
    return subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=timeout_seconds,
        check=False,
    )


@dataclass(frozen=True)
class Project:
    """A repository at `path` whose tests run with `python`."""

    path: Path
    python: Path

    @classmethod
    def create(cls, path: Path, python: Path) -> Project:
        """An empty repository."""
        path.mkdir(parents=True)
        run(["git", "init", "-q", "."], path)
        return cls(path, python)

    def git(self, *args: str, env: Mapping[str, str] | None = None) -> str:
        """What a git command that must succeed prints."""
        done = run(["git", *args], self.path, env)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Write files into the working tree, byte for byte."""
        for name, content in files.items():
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)

    def stage(self, files: Mapping[str, str | bytes]) -> None:
        """Write files and stage them."""
        self.write(files)
        self.git("add", "--", *files)

    def commit(self, files: Mapping[str, str | bytes], message: str = "Earlier state") -> None:
        """Write, stage and commit files, without any hook."""
        self.stage(files)
        self.git("commit", "-q", "--no-verify", "-m", message)

    @property
    def environ(self) -> dict[str, str]:
        """The variables of a shell in which the project's environment is active."""
        environment = self.python.parent.parent
        return {"VIRTUAL_ENV": str(environment), "PATH": f"{environment}/bin:{os.environ['PATH']}"}

    def run(
        self, *argv: str | Path, env: Mapping[str, str] | None = None, timeout_seconds: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the repository, the project's environment being active."""
        return run(argv, self.path, {**self.environ, **(env or {})}, timeout_seconds)

    def selfheal(self, *args: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run `selfheal ARGS` in the repository."""
        return self.run(*SELFHEAL, *args, env=env)

    def judged(self, *args: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The JSON object of `selfheal run ARGS`."""
        done = self.selfheal("run", "--format", "json", *args, env=env)
        return json.loads(done.stdout)  # type: ignore[no-any-return]

    def install_hook(self) -> None:
        """selfheal as git's own pre-commit hook."""
        hook = self.path / self.git("rev-parse", "--git-path", "hooks").strip() / "pre-commit"
        hook.parent.mkdir(parents=True, exist_ok=True)
        hook.write_text(f'#!/bin/sh\nexec {" ".join(SELFHEAL)} "$@"\n')
        hook.chmod(0o755)

    def index(self) -> dict[str, str]:
        """Every staged path with its mode and blob."""
        rows = (row.partition("\t") for row in self.git("ls-files", "-s", "-z").split("\0") if row)
        return {path: entry for entry, _, path in rows}

    def worktree(self) -> dict[str, bytes]:
        """Every file of the working tree, its content."""
        found = (path for path in self.path.rglob("*") if ".git" not in path.relative_to(self.path).parts)
        return {path.relative_to(self.path).as_posix(): path.read_bytes() for path in found if path.is_file()}

    def staged(self, path: str) -> str:
        """The staged content of a file."""
        return self.git("show", f":{path}")

    def committed(self, path: str) -> str:
        """The content of a file in HEAD."""
        return self.git("show", f"HEAD:{path}")
