"""Every Python that the probe must run under, each in an environment with the newest pytest for it, made once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import Bench
from jobs import interpreter
from pythons import PYENV, VERSIONS, Environments, found


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environments]:
    """One environment a version; "newest" also has the plugins that users have."""
    made = Environments(tmp_path_factory.mktemp("pythons"))
    programs = {version: program for version in VERSIONS if (program := found(version))}
    for version, program in programs.items():
        made.begin(version, program, "pytest")
    newest = programs[max(programs, key=VERSIONS.index)] if programs else Path(sys.executable)
    made.begin("newest", newest, "pytest", "pytest-xdist", "pytest-cov")
    yield made
    for process in made.making.values():
        if process.returncode is None:
            process.communicate()


@pytest.fixture(scope="session", params=VERSIONS)
def python(request: pytest.FixtureRequest, environments: Environments) -> Path:
    """Every Python in turn."""
    if request.param not in environments.making:
        pytest.skip(f"no Python {request.param} under {PYENV} nor on PATH")
    return environments.python(request.param)


@pytest.fixture
def bench(python: Path, tmp_path: Path) -> Bench:
    """An empty project, its tests run by every Python in turn."""
    return Bench(tmp_path, interpreter(python))


@pytest.fixture
def newest(environments: Environments, tmp_path: Path) -> Bench:
    """An empty project, its tests run by the newest Python, with pytest-xdist and pytest-cov."""
    return Bench(tmp_path, interpreter(environments.python("newest")))
