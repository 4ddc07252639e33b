"""selfheal as a hook repository for pre-commit and prek, its environment made once a session for all workers."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from projects import run

CHECKOUT = Path(__file__).parent.parent
FRAMEWORKS = ("pre-commit", "prek")
REV = "v1.0.0"
PREPARE = {"pre-commit": "install-hooks", "prek": "prepare-hooks"}


@dataclass(frozen=True)
class Frameworks:
    """What `repo:` names in a configuration, and where the frameworks keep what they make of it."""

    hook: Path
    home: Path

    @property
    def env(self) -> dict[str, str]:
        """The variables that name the frameworks' folders."""
        return {"PRE_COMMIT_HOME": str(self.home / "pre-commit"), "PREK_HOME": str(self.home / "prek")}

    def config(self, before: str = "", after: str = "") -> dict[str, str]:
        """The configuration file that runs selfheal, between hooks that the test writes as further YAML rows."""
        ours = f"  - repo: {self.hook}\n    rev: {REV}\n    hooks:\n      - id: selfheal\n"
        return {".pre-commit-config.yaml": f"repos:\n{before}{ours}{after}"}


def program(framework: str) -> str:
    """The framework's program, of this environment or from PATH."""
    found = shutil.which(framework, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert found, f"{framework} is not installed"
    return found


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """The folder that `make` fills, once a session: the workers of pytest-xdist wait for the first of them."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with open(folder.with_suffix(".lock"), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.with_suffix(".made").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            folder.with_suffix(".made").touch()
    return folder


def make(folder: Path) -> None:
    """The checkout as it stands now as a repository of its own, and the environments of both frameworks for it."""
    made = Frameworks(folder / "pre-commit-selfheal", folder)
    names = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], CHECKOUT).stdout
    for name in filter(None, names.split("\0")):
        if (CHECKOUT / name).is_file():
            (made.hook / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(CHECKOUT / name, made.hook / name)
    commit(made.hook)
    run(["git", "tag", REV], made.hook)
    user = folder / "user"
    user.mkdir()
    (user / ".pre-commit-config.yaml").write_text(made.config()[".pre-commit-config.yaml"])
    commit(user)
    for framework in FRAMEWORKS:
        done = run([program(framework), PREPARE[framework]], user, made.env, timeout_seconds=600)
        assert done.returncode == 0, done.stdout


def commit(folder: Path) -> None:
    """A repository of all that lies in the folder."""
    identity = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "Release"]):
        assert run(["git", *command], folder, identity).returncode == 0
