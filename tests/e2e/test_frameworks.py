"""Through real pre-commit, which installs the hook from this checkout as a user's `repo:` entry does, and real prek."""

from __future__ import annotations

import pytest
from frameworks import FRAMEWORKS, Frameworks, program
from projects import AREA_BUG, AREA_FILES, AREA_FIXED, AREA_REPLY, TOTAL_BUG, TOTAL_FILES, TOTAL_FIXED, Project
from scripted_server import reply, serving

LLM = {".selfheal.yaml": "llm: {model: scripted}\n"}
KEY = "key-of-the-test"


class Hooked:
    """A project whose commits run the hook through a framework."""

    def __init__(self, project: Project, framework: str, frameworks: Frameworks) -> None:
        self.project, self.env, self.config = project, frameworks.env, frameworks.config()
        self.program = program(framework)
        assert project.run(self.program, "install", env=self.env).returncode == 0

    def commit(self, url: str = "") -> tuple[int, str]:
        """Commit what is staged; exit status and output."""
        asked = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY} if url else {}
        done = self.project.run("git", "commit", "-m", "Change", env=self.env | asked, timeout_seconds=600)
        return done.returncode, done.stdout


@pytest.fixture(params=FRAMEWORKS)
def hooked(request: pytest.FixtureRequest, project: Project, frameworks: Frameworks) -> Hooked:
    return Hooked(project, request.param, frameworks)


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
