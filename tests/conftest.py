"""Guards around every test, and the fixtures that give one a real project.

Every test has a home of its own, a pinned git identity, and an environment without git's, the model's or a hook
framework's variables. No test may change the checkout that it runs in.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from frameworks import Frameworks, made_once, make
from hypothesis import HealthCheck, settings
from projects import Project, run
from scenes import NOTES, Scene

CHECKOUT = Path(__file__).parent.parent
LEFT_OUT = (
    "GIT_",
    "OPENAI",
    "PRE_COMMIT",
    "SELFHEAL",
    "PYTEST_ADDOPTS",
    "VIRTUAL_ENV",
    "CONDA",
    "UV_",
    "XDG_",
    "PYTHONPATH",
)

# What else the machine does meanwhile is no property of the code.
settings.register_profile("selfheal", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("selfheal")


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own, and nothing of the developer's environment that could steer git or selfheal."""
    home = tmp_path_factory.mktemp("home")
    for name in [name for name in os.environ if name.startswith(LEFT_OUT)]:
        monkeypatch.delenv(name)
    identity = "[user]\n\tname = Dev Example\n\temail = dev@example.com\n[init]\n\tdefaultBranch = main\n"
    (home / ".gitconfig").write_text(identity + "[commit]\n\tgpgsign = false\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    return home


@pytest.fixture(autouse=True, scope="module")
def checkout_untouched() -> Iterator[None]:
    """Fails the tests of a module that changed the checkout they ran in."""

    def state() -> str:
        return run(["git", "status", "--porcelain", "--untracked-files=all"], CHECKOUT).stdout

    before = state()
    yield
    assert state() == before


@pytest.fixture(scope="session")
def project_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The python of a virtual environment with pytest, as a project has one, made with the real pip."""

    def make_environment(folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        pip = [folder / "venv" / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "pytest"], check=True)

    return made_once(tmp_path_factory, "environment", make_environment) / "venv" / "bin" / "python"


@pytest.fixture
def project(tmp_path: Path, project_python: Path) -> Project:
    """An empty repository whose tests run with `project_python`."""
    return Project.create(tmp_path / "project", project_python)


@pytest.fixture(scope="session")
def frameworks(tmp_path_factory: pytest.TempPathFactory) -> Frameworks:
    """This checkout as pre-commit and prek install it from a `repo:` entry."""
    folder = made_once(tmp_path_factory, "frameworks", make)
    return Frameworks(folder / "pre-commit-selfheal", folder)


@pytest.fixture
def scene(request: pytest.FixtureRequest, project: Project, frameworks: Frameworks) -> Iterator[Scene]:
    """A repository with the kind of hook that the parameter tells; at the end nothing may lie about in it."""
    made = Scene.create(project, request.param, frameworks)
    notes = made.project.path / "notes.txt"
    state = notes.stat()
    yield made
    assert made.left() == []
    assert (notes.read_text(), notes.stat().st_mtime_ns, notes.stat().st_ino) == (
        NOTES,
        state.st_mtime_ns,
        state.st_ino,
    )
