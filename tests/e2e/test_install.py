"""`selfheal install` and `uninstall`: git's own hook, beside whatever hook is there; the trailer of a healed commit."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from projects import SELFHEAL, TOTAL_BUG, TOTAL_FILES, TOTAL_FIXED, Project, run

BIN = Path(sys.executable).parent
LINES = "".join(f"# line {number}\n" for number in range(20))
LOCAL_HOOK = """repos:
  - repo: local
    hooks:
      - {id: ok, name: ok, entry: 'true', language: system, always_run: true}
"""


def install(project: Project) -> str:
    done = project.selfheal("install")
    assert done.returncode == 0, done.stdout
    return done.stdout


def commit_bug(project: Project) -> tuple[int, str]:
    """Commit a misspelt name through whatever hook is there; exit status and output."""
    project.stage({"prices.py": TOTAL_BUG["prices.py"] + LINES})
    done = project.run("git", "commit", "-m", "Change")
    return done.returncode, done.stdout


def hook(project: Project, name: str = "pre-commit") -> Path:
    return project.path / ".git" / "hooks" / name


def user_hook(project: Project, body: str) -> None:
    hook(project).parent.mkdir(exist_ok=True)
    hook(project).write_text(f"#!/bin/sh\n{body}\n")
    hook(project).chmod(0o755)


@pytest.fixture
def shop(project: Project, own_surroundings: Path) -> Project:
    project.commit(
        {**TOTAL_FILES, "prices.py": TOTAL_FILES["prices.py"] + LINES, ".pre-commit-config.yaml": LOCAL_HOOK}
    )
    return project


def test_the_hook_heals_a_commit_and_uninstall_takes_it_away(shop: Project) -> None:
    install(shop)

    status, output = commit_bug(shop)

    assert status == 0, output
    assert shop.committed("prices.py") == TOTAL_FIXED + LINES
    assert shop.selfheal("uninstall").returncode == 0
    assert not hook(shop).exists()


def test_a_hook_that_is_there_runs_first_and_comes_back(shop: Project) -> None:
    user_hook(shop, "echo first >> ../order; cat prices.py > ../seen")
    before = hook(shop).read_text()
    install(shop)

    status, output = commit_bug(shop)

    assert status == 0, output
    assert "sum(price)" in (shop.path.parent / "seen").read_text(), "it runs before the heal"
    assert shop.selfheal("uninstall").returncode == 0
    assert hook(shop).read_text() == before
    assert os.access(hook(shop), os.X_OK)


def test_a_hook_that_is_there_and_fails_stops_the_commit_before_any_test_runs(shop: Project) -> None:
    user_hook(shop, "echo no; exit 3")
    install(shop)

    status, output = commit_bug(shop)

    assert status == 1
    assert "no\n" in output
    assert "selfheal:" not in output


def test_installing_twice_is_installing_once(shop: Project) -> None:
    user_hook(shop, "echo first >> ../order")
    install(shop)
    install(shop)

    assert commit_bug(shop)[0] == 0
    assert (shop.path.parent / "order").read_text() == "first\n"


@pytest.mark.parametrize("framework", ["pre-commit", "prek"])
@pytest.mark.parametrize("order", ["before", "after"])
def test_beside_a_framework_it_runs_before_the_stash(shop: Project, framework: str, order: str, tmp_path: Path) -> None:
    """A fix three lines from an unstaged edit: the framework's own restore could not do it."""
    env = {"PRE_COMMIT_HOME": str(tmp_path / "pc"), "PREK_HOME": str(tmp_path / "prek")}
    steps = [lambda: install(shop), lambda: shop.run(BIN / framework, "install", env=env)]
    for step in steps if order == "before" else reversed(steps):
        step()
    shop.stage({"prices.py": TOTAL_BUG["prices.py"] + LINES})
    near = LINES.replace("# line 1\n", "# mine\n", 1)
    shop.write({"prices.py": TOTAL_BUG["prices.py"] + near})

    done = shop.run("git", "commit", "-m", "Change", env=env)

    assert done.returncode == 0, done.stdout
    assert shop.committed("prices.py") == TOTAL_FIXED + LINES
    assert shop.worktree()["prices.py"].decode() == TOTAL_FIXED + near
    assert hook(shop, "pre-commit.legacy").exists()
    assert shop.selfheal("uninstall").returncode == 0
    assert "selfheal" not in hook(shop).read_text()
    assert not hook(shop, "pre-commit.legacy").exists()


def test_a_hooks_folder_that_other_repositories_share_is_left_alone(shop: Project, tmp_path: Path) -> None:
    shop.git("config", "core.hooksPath", str(tmp_path / "shared"))

    done = shop.selfheal("install")

    assert done.returncode == 2
    assert f"core.hooksPath is {tmp_path / 'shared'}, which other repositories share" in done.stdout
    assert not (tmp_path / "shared").exists()


def test_a_hooks_folder_inside_the_repository_is_used(shop: Project) -> None:
    shop.git("config", "core.hooksPath", ".githooks")
    install(shop)

    assert (shop.path / ".githooks" / "pre-commit").exists()
    assert commit_bug(shop)[0] == 0
    assert shop.committed("prices.py") == TOTAL_FIXED + LINES


def test_an_environment_that_is_gone_is_said_with_what_to_do(shop: Project) -> None:
    install(shop)
    hook(shop).write_text(hook(shop).read_text().replace(sys.executable, "/nowhere/python"))

    status, output = commit_bug(shop)

    assert status == 1
    assert "/nowhere/python is gone" in output
    assert "next: selfheal install" in output


def test_uninstall_without_a_hook_says_so(shop: Project) -> None:
    user_hook(shop, "true")

    done = shop.selfheal("uninstall")

    assert done.returncode == 0
    assert "there is no hook of selfheal's own" in done.stdout
    assert hook(shop).exists()


TRAILER_HOOKS = """repos:
  - repo: local
    hooks:
      - {{id: selfheal, name: selfheal, entry: '{entry}', language: system, pass_filenames: false, always_run: true}}
      - {{id: trailer, name: trailer, entry: '{entry} trailer', language: system, always_run: true,
          stages: [prepare-commit-msg]}}
"""


@pytest.mark.parametrize("wanted", [True, False])
def test_a_healed_commit_says_so_where_that_is_wanted_and_the_next_one_does_not(
    shop: Project, wanted: bool, tmp_path: Path
) -> None:
    env = {"PRE_COMMIT_HOME": str(tmp_path / "pc")}
    hooks = TRAILER_HOOKS.format(entry=" ".join(SELFHEAL))
    setting = f"heal: {{trailer: {str(wanted).lower()}}}\n"
    shop.commit({".pre-commit-config.yaml": hooks, ".selfheal.yaml": setting})
    for kind in ("pre-commit", "prepare-commit-msg"):
        assert shop.run(BIN / "pre-commit", "install", "--hook-type", kind, env=env).returncode == 0
    shop.stage({"prices.py": TOTAL_BUG["prices.py"] + LINES})

    healed = shop.run("git", "commit", "-m", "Change", env=env)
    shop.stage({"prices.py": TOTAL_FIXED + LINES + "# more\n"})
    green = shop.run("git", "commit", "-m", "More", env=env)

    assert (healed.returncode, green.returncode) == (0, 0), healed.stdout + green.stdout
    messages = shop.git("log", "-2", "--format=%B%x00").split("\0")
    assert "Healed-by" not in messages[0]
    assert ("Healed-by: selfheal (search, 1 attempt)" in messages[1]) is wanted


def test_install_outside_a_repository_says_so(tmp_path: Path) -> None:
    done = run([*SELFHEAL, "install"], tmp_path)

    assert done.returncode == 2
    assert "is not in a git working tree" in done.stdout
