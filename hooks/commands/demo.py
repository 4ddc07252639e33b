"""`selfheal demo`: a throw-away repository with a bug, and a real `git commit` that heals it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from heal_core.errors import EnvironmentFault, HealError
from hooks import settings

HOOK_ENTRY = (sys.executable, "-I", "-m", "hooks.pre_commit")

SHOP = '''\
"""Prices of a shop, in cents."""


def total(prices):
    """The sum of the prices."""
    return sum(prices)
'''
MEAN = '''

def mean(prices):
    """The mean price; 0 when there are none."""
    return total(price) // len(prices)
'''
TESTS = """\
from shop import mean, total


def test_total():
    assert total([200, 300]) == 500


def test_mean():
    assert mean([200, 300]) == 250
"""
FIRST_TESTS = TESTS.replace("mean, ", "").partition("\n\ndef test_mean")[0] + "\n"

PRE_COMMIT_CONFIG = """\
repos:
  - repo: local
    hooks:
      - id: selfheal
        name: selfheal
        entry: {entry}
        language: system
        pass_filenames: false
        always_run: true
        verbose: true
"""


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Make the repository, commit the bug through the hook, show what came of it; 0 when the fix is in the commit."""
    parser = settings.Parser(prog="selfheal demo", description="See a heal in a throw-away repository.")
    parser.add_argument("--keep", action="store_true", help="keep the repository, and print where it is")
    options = parser.parse_args(list(arguments))
    if find_spec("pytest") is None:
        raise EnvironmentFault(
            "The demo runs its tests with pytest, which is not installed here.", "pip install pytest"
        )
    folder = Path(tempfile.mkdtemp(prefix="selfheal-demo-"))
    try:
        return _show(folder, environ)
    finally:
        if options.keep:
            print(f"The repository is kept: {folder / 'shop'}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _show(folder: Path, environ: Mapping[str, str]) -> int:
    """The story, told by the commands as they run."""
    shop = folder / "shop"
    shop.mkdir()
    env = _surroundings(environ, folder)
    for command in (
        ["git", "init", "-q"],
        ["git", "config", "user.name", "Demo"],
        ["git", "config", "user.email", "@"],
    ):
        _run(command, shop, env)
    installed = _install(shop, env)
    _write(shop, {"shop.py": SHOP, "tests/test_shop.py": FIRST_TESTS})
    _run(["git", "add", "-A"], shop, env)
    _run(["git", "commit", "-q", "-n", "-m", "Add total"], shop, env)
    _write(shop, {"shop.py": SHOP + MEAN, "tests/test_shop.py": TESTS})
    print(f"A new repository, with selfheal as its hook ({installed}). Its next commit has a bug:\n")
    print(_run(["git", "diff", "-U0", "--", "shop.py"], shop, env))
    print('$ git add -A && git commit -m "Add mean"', flush=True)
    _run(["git", "add", "-A"], shop, env)
    done = subprocess.run(["git", "commit", "-m", "Add mean"], cwd=shop, env=env, stdin=subprocess.DEVNULL, check=False)
    print("\n$ git show HEAD:shop.py")
    committed = _run(["git", "show", "HEAD:shop.py"], shop, env)
    print(committed)
    healed = done.returncode == 0 and "total(prices) //" in committed
    print("The commit holds the fix." if healed else "The commit was not healed; see above.")
    return 0 if healed else 1


def _surroundings(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The environment of the demo: nothing of the user's git configuration, nor of a commit that this may run in."""
    kept = {name: value for name, value in environ.items() if not name.startswith(("GIT_", "PRE_COMMIT"))}
    return kept | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "PRE_COMMIT_HOME": str(folder / "pre-commit"),
    }


def _install(shop: Path, env: Mapping[str, str]) -> str:
    """Install the hook, through pre-commit where that is installed beside selfheal; returns the words for how."""
    entry = shlex.join(HOOK_ENTRY)
    if find_spec("pre_commit") is None:
        hook = shop / ".git" / "hooks" / "pre-commit"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\nexec {entry}\n")
        hook.chmod(0o755)
        return "git's own pre-commit hook"
    _write(shop, {".pre-commit-config.yaml": PRE_COMMIT_CONFIG.format(entry=json.dumps(entry))})
    _run([sys.executable, "-m", "pre_commit", "install"], shop, env)
    return "run by pre-commit"


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def _run(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> str:
    """What a command that must succeed prints. Raises HealError when it does not."""
    try:
        done = subprocess.run(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        raise HealError(f"{argv[0]} is not on PATH.", f"install {argv[0]}") from None
    except subprocess.CalledProcessError as error:
        raise HealError(f"`{shlex.join(argv)}` failed: {(error.stderr or error.stdout).strip()}") from None
    return done.stdout
