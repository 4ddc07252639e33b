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
from hypothesis import HealthCheck, settings
from projects import Project, run

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
    environment = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    pip = [environment / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "pytest"], check=True)
    return environment / "bin" / "python"


@pytest.fixture
def project(tmp_path: Path, project_python: Path) -> Project:
    """An empty repository whose tests run with `project_python`."""
    return Project.create(tmp_path / "project", project_python)
