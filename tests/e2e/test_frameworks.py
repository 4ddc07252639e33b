"""Through real pre-commit, which installs the hook from this checkout as a user's `repo:` entry does, and real prek."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from projects import AREA_BUG, AREA_FILES, AREA_FIXED, AREA_REPLY, TOTAL_BUG, TOTAL_FILES, TOTAL_FIXED, Project, run
from scripted_server import reply, serving

CHECKOUT = Path(__file__).parent.parent.parent
LLM = {".selfheal.yaml": "llm: {model: scripted}\n"}
KEY = "key-of-the-test"


@pytest.fixture(scope="session")
def hook_repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The checkout as it stands now as a repository of its own, and the `rev` to name in a configuration."""
    folder = tmp_path_factory.mktemp("hook") / "pre-commit-selfheal"
    names = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], CHECKOUT).stdout
    for name in filter(None, names.split("\0")):
        if (CHECKOUT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(CHECKOUT / name, folder / name)
    identity = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "Release"], ["tag", "v1.0.0"]):
        assert run(["git", *command], folder, identity).returncode == 0
    return folder, "v1.0.0"


@pytest.fixture(scope="session")
def framework_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the frameworks keep the environments that they make, once for all tests."""
    return tmp_path_factory.mktemp("frameworks")


class Hooked:
    """A project whose commits run the hook through a framework."""

    def __init__(self, project: Project, framework: str, home: Path, hook: tuple[Path, str]) -> None:
        self.project = project
        self.program = shutil.which(framework, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        assert self.program, f"{framework} is not installed"
        self.env = {"PRE_COMMIT_HOME": str(home / "pre-commit"), "PREK_HOME": str(home / "prek")}
        self.config = {
            ".pre-commit-config.yaml": (
                f"repos:\n  - repo: {hook[0]}\n    rev: {hook[1]}\n    hooks:\n      - id: selfheal\n"
            )
        }
        assert project.run(self.program, "install", env=self.env).returncode == 0

    def commit(self, url: str = "") -> tuple[int, str]:
        """Commit what is staged; exit status and output."""
        asked = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY} if url else {}
        done = self.project.run("git", "commit", "-m", "Change", env=self.env | asked, timeout_seconds=600)
        return done.returncode, done.stdout


@pytest.fixture(params=["pre-commit", "prek"])
def hooked(
    request: pytest.FixtureRequest, project: Project, framework_home: Path, hook_repository: tuple[Path, str]
) -> Hooked:
    return Hooked(project, request.param, framework_home, hook_repository)


def test_the_server_heals_the_commit(hooked: Hooked) -> None:
    project = hooked.project
    project.commit(AREA_FILES | LLM | hooked.config)
    project.stage(AREA_BUG)

    with serving(reply(AREA_REPLY)) as server:
        status, output = hooked.commit(server.url)

    assert status == 0, output
    assert len(server.requests) == 1
    assert project.committed("shapes.py") == AREA_FIXED
    assert project.git("status", "--porcelain") == ""
    assert "healed by the llm engine" in output


def test_a_server_that_never_helps_stops_the_commit_byte_identical(hooked: Hooked) -> None:
    project = hooked.project
    project.commit(AREA_FILES | LLM | hooked.config)
    project.stage(AREA_BUG)
    before = project.index(), project.worktree(), project.git("rev-parse", "HEAD")

    with serving(reply("I would look at the product."), repeat_last=True) as server:
        status, output = hooked.commit(server.url)

    assert status == 1, output
    assert "tests/test_shapes.py::test_area" in output
    assert (project.index(), project.worktree(), project.git("rev-parse", "HEAD")) == before


def test_unstaged_lines_far_from_the_fix_are_kept(hooked: Hooked) -> None:
    project = hooked.project
    far = "".join(f"# line {number}\n" for number in range(20))
    project.commit({**TOTAL_FILES, "prices.py": TOTAL_FILES["prices.py"] + far} | hooked.config)
    project.stage({"prices.py": TOTAL_BUG["prices.py"] + far})
    project.write({"prices.py": TOTAL_BUG["prices.py"] + far + "# not staged\n", "notes.txt": "untracked\n"})

    status, output = hooked.commit()

    assert status == 0, output
    assert project.committed("prices.py") == TOTAL_FIXED + far
    assert project.worktree()["prices.py"].decode() == TOTAL_FIXED + far + "# not staged\n"
    assert project.git("status", "--porcelain") == " M prices.py\n?? notes.txt\n"


def test_unstaged_lines_too_near_for_the_frameworks_own_restore_stop_the_commit(hooked: Hooked) -> None:
    """Both frameworks restore with three lines of context; a fix within them would cost the user their edits."""
    project = hooked.project
    near = "\n# a line\n"
    project.commit({**TOTAL_FILES, "prices.py": TOTAL_FILES["prices.py"] + near, "other.py": "x = 1\n"} | hooked.config)
    project.stage({"prices.py": TOTAL_BUG["prices.py"] + near})
    project.write({"prices.py": TOTAL_BUG["prices.py"] + near + "# not staged\n", "other.py": "x = 7\n"})
    before = project.index(), project.worktree(), project.git("rev-parse", "HEAD")

    status, output = hooked.commit()

    assert status == 1, output
    assert "too near your unstaged lines" in output
    assert "next: selfheal apply" in output
    assert (project.index(), project.worktree(), project.git("rev-parse", "HEAD")) == before


def test_by_hand_the_framework_stages_the_fix_too(hooked: Hooked) -> None:
    project = hooked.project
    project.commit(TOTAL_FILES | hooked.config)
    project.stage(TOTAL_BUG)

    done = project.run(hooked.program, "run", "selfheal", env=hooked.env)

    assert done.returncode == 0, done.stdout
    assert project.staged("prices.py") == TOTAL_FIXED
    assert project.worktree()["prices.py"].decode() == TOTAL_FIXED
