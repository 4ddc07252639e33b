"""The sandboxes under test, each with a workspace, and a folder for temporary files that must end up empty."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from jobs import Desk

from heal_core.sandbox import Sandbox
from heal_core.sandbox.bubblewrap import Bubblewrap, find
from heal_core.sandbox.process import ProcessSandbox


@pytest.fixture(scope="session")
def isolating() -> Bubblewrap:
    """bubblewrap, where it isolates."""
    program = find()
    if program is None:
        pytest.skip("bubblewrap is not installed")
    sandbox = Bubblewrap(program)
    if reason := sandbox.isolated():
        pytest.skip(f"bubblewrap does not isolate here: {reason}")
    return sandbox


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where selfheal makes its temporary files; fails a test that leaves any."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture(params=["process", "bubblewrap"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Every backend in turn."""
    return ProcessSandbox() if request.param == "process" else request.getfixturevalue("isolating")


def make_desk(sandbox: Sandbox, tmp_path: Path) -> Desk:
    """A desk with an empty workspace, and a repository that is there too."""
    for name in ("workspace", "repository"):
        (tmp_path / name).mkdir()
    return Desk(sandbox, tmp_path / "workspace", tmp_path / "repository")


@pytest.fixture
def desk(sandbox: Sandbox, tmp_path: Path, scratch: Path) -> Desk:
    """Every backend in turn, with an empty workspace."""
    return make_desk(sandbox, tmp_path)


@pytest.fixture
def walled(isolating: Bubblewrap, tmp_path: Path, scratch: Path) -> Desk:
    """bubblewrap with an empty workspace."""
    return make_desk(isolating, tmp_path)
