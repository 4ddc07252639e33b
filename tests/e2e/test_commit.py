"""Through a real `git commit` with selfheal as git's own hook."""

from __future__ import annotations

import subprocess

from projects import AREA_BUG, AREA_FILES, AREA_FIXED, AREA_REPLY, TOTAL_BUG, TOTAL_FILES, TOTAL_FIXED, Project
from scripted_server import reply, serving

LLM = {".selfheal.yaml": "llm: {model: scripted}\n"}


def commit(project: Project, *args: str, url: str = "") -> subprocess.CompletedProcess[str]:
    """A commit through the hook, asking the model at `url` where it is given."""
    project.install_hook()
    asked = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "key-of-the-test"} if url else {}
    return project.run("git", "commit", "-m", "Change", *args, env=asked)


def test_a_misspelt_name_is_healed_without_a_key(project: Project) -> None:
    project.commit(TOTAL_FILES)
    project.stage(TOTAL_BUG)

    done = commit(project)

    assert done.returncode == 0, done.stdout
    assert project.committed("prices.py") == TOTAL_FIXED
    assert project.git("status", "--porcelain") == ""
    assert "NameError" in done.stdout
    assert "+    return sum(prices)" in done.stdout


def test_a_model_heals_what_the_offline_engine_cannot(project: Project) -> None:
    project.commit(AREA_FILES | LLM)
    project.stage(AREA_BUG)

    with serving(reply(AREA_REPLY)) as server:
        done = commit(project, url=server.url)

    assert done.returncode == 0, done.stdout
    assert len(server.requests) == 1
    assert project.committed("shapes.py") == AREA_FIXED
    assert project.git("status", "--porcelain") == ""


def test_a_model_that_never_helps_stops_the_commit_and_changes_nothing(project: Project) -> None:
    project.commit(AREA_FILES | LLM)
    project.stage(AREA_BUG)
    before = project.index(), project.worktree(), project.git("rev-parse", "HEAD")

    with serving(reply("I would look at the product."), repeat_last=True) as server:
        done = commit(project, url=server.url)

    assert done.returncode == 1
    assert "tests/test_shapes.py::test_area" in done.stdout
    assert (project.index(), project.worktree(), project.git("rev-parse", "HEAD")) == before
