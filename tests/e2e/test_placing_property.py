"""Placing with files, edits and fixes at random: done exactly, or refused with every byte as it was; undone exactly."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from projects import TOTAL_FILES, Project
from states import blob, commit, everything

from heal_core import recovery, repo
from heal_core.errors import NotPlaced
from heal_core.patch import Patch, Rewrite
from heal_core.placing import Story, place
from heal_core.undo import undo

PLACINGS = int(os.environ.get("SELFHEAL_PLACING_EXAMPLES", "50"))
COMMITS = int(os.environ.get("SELFHEAL_COMMIT_EXAMPLES", "10"))
RANDOM = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}

Lines = tuple[bytes, ...]
State = tuple[bytes, bytes, bytes, bytes | None]
ENDS = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n"])
NEW = st.lists(st.builds(bytes.__add__, st.sampled_from([b"# A", b"# B", b"# line 3", b""]), ENDS), max_size=3)


@st.composite
def bases(draw: st.DrawFn) -> Lines:
    """The lines of a file, with mixed line ends."""
    return tuple(b"# line %d" % number + draw(ENDS) for number in range(draw(st.integers(0, 14))))


@st.composite
def edited(draw: st.DrawFn, lines: Lines) -> Lines:
    """The lines after one or two edits, each a run of lines put in the place of another."""
    for _ in range(draw(st.integers(1, 2))):
        start = draw(st.integers(0, len(lines)))
        end = min(len(lines), start + draw(st.integers(0, 2)))
        lines = (*lines[:start], *draw(NEW), *lines[end:])
    return lines


@st.composite
def contents(draw: st.DrawFn, lines: Lines) -> bytes:
    """Their bytes, sometimes without a newline at the end."""
    data = b"".join(lines)
    return data.rstrip(b"\r\n") if draw(st.integers(0, 3)) == 0 else data


@st.composite
def states(draw: st.DrawFn) -> State:
    """A file in HEAD, staged, fixed, and in the working tree, where it may be gone."""
    lines = draw(bases())
    base, staged = draw(contents(lines)), draw(edited(lines))
    before, fixed = draw(contents(staged)), draw(edited(staged))
    edits = edited(staged).flatmap(contents)
    return base, before, draw(contents(fixed)), draw(st.one_of(edits, edits, edits, st.just(before), st.none()))


def merge(folder: Path, ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
    """git's own three-way merge; None for a conflict."""
    for name, data in (("ours", ours), ("base", base), ("theirs", theirs)):
        (folder / name).write_bytes(data)
    done = subprocess.run(
        ["git", "merge-file", "-p", "-q", "ours", "base", "theirs"], cwd=folder, capture_output=True, check=False
    )
    return done.stdout if done.returncode == 0 else None


def lay(project: Project, files: Mapping[str, State]) -> None:
    """HEAD, index and working tree as the states say, and nothing of an earlier example."""
    shutil.rmtree(project.path / ".git" / "selfheal", ignore_errors=True)
    other = {"other.py": (b"x = 1\n", b"x = 2\n", b"", b"x = 3\n")}
    history = b""
    for number, branch in enumerate((b"main", b"staged")):
        history += b"commit refs/heads/%s\ncommitter d <d@e> 1700000000 +0000\ndata 0\n\ndeleteall\n" % branch
        for path, state in {**files, **other}.items():
            history += b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(state[number]), state[number])
    command = ["git", "fast-import", "--quiet", "--force"]
    subprocess.run(command, cwd=project.path, input=history, capture_output=True, check=True)
    project.git("read-tree", "--reset", "-u", "staged")
    for path, (_, staged, _, lying) in {**files, **other}.items():
        if lying is None:
            (project.path / path).unlink()
        elif lying != staged:
            project.write({path: lying})
    project.write({"notes.txt": "untracked\n"})


def bytes_of(project: Project) -> dict[str, tuple[bytes, int, int]]:
    """Every file of the working tree, and the index: its bytes, its inode, its time of change."""
    # Not by rglob, which would walk the object folder too, that grows with each example.
    top = [path for path in project.path.iterdir() if path.name != ".git"]
    found = [file for path in top for file in (path, *path.rglob("*")) if file.is_file()]
    return {
        str(path): (path.read_bytes(), path.stat().st_ino, path.stat().st_mtime_ns)
        for path in [*found, project.path / ".git" / "index"]
    }


def worktree_of(state: Mapping[str, tuple[bytes, int, int]]) -> dict[str, bytes]:
    """The bytes alone, without the index."""
    return {path: data for path, (data, _, _) in state.items() if not path.endswith("/.git/index")}


@pytest.fixture
def example(tmp_path: Path) -> Project:
    """A repository that the examples of one test share."""
    return Project.create(tmp_path / "project", Path("no-python"))


@settings(max_examples=PLACINGS, **RANDOM)
@given(one=states(), two=states())
def test_a_fix_is_placed_exactly_or_refused_with_every_byte_as_it_was(example: Project, one: State, two: State) -> None:
    files = {"one.py": one, "pkg/two.py": two}
    rewrites = tuple(Rewrite(path, s[1], s[2]) for path, s in files.items() if s[0] != s[1] != s[2])
    assume(rewrites)
    lay(example, files)
    healed = {rewrite.path for rewrite in rewrites}
    wanted = {
        path: lying if lying is None or path not in healed else merge(example.path.parent, lying, staged, fixed)
        for path, (_, staged, fixed, lying) in files.items()
    }
    conflicts = any(files[path][3] is not None and wanted[path] is None for path in healed)
    before, entries = bytes_of(example), example.index()
    repository = repo.find(example.path, dict(os.environ))

    with repo.snapshot(repository) as snapshot:
        try:
            identity = place(snapshot, Patch("search", "", rewrites), {}, Story())
        except NotPlaced as error:
            event("refused")
            assert conflicts, error.problem
            assert "overlaps your unstaged lines" in error.problem
            assert bytes_of(example) == before
            assert not list(example.path.glob(".git/selfheal/heals/*"))
            return
    event("placed")
    assert not conflicts
    assert_placed(example, before, {path: files[path][2] for path in healed}, wanted, entries)

    with repo.snapshot(repository) as snapshot:
        undone = undo(snapshot, recovery.read(repository.records, identity))

    assert undone.left == ()
    assert example.index() == entries
    assert worktree_of(bytes_of(example)) == worktree_of(before)


def assert_placed(
    project: Project,
    before: Mapping[str, tuple[bytes, int, int]],
    fixed: Mapping[str, bytes],
    wanted: Mapping[str, bytes | None],
    entries: Mapping[str, str],
) -> None:
    """The index holds the fix, the working tree the merge, and no other file was so much as touched."""
    after = bytes_of(project)
    index = project.index()
    for path, data in fixed.items():
        assert index[path].split()[1] == hashlib.sha1(b"blob %d\0%s" % (len(data), data)).hexdigest()
    for path, data in wanted.items():
        assert (project.path / path).exists() == (data is not None)
        assert data is None or (project.path / path).read_bytes() == data
    ours = {str(project.path / path) for path in (*fixed, ".git/index")}
    assert {path: state for path, state in after.items() if path not in ours} == {
        path: state for path, state in before.items() if path not in ours
    }
    assert {path: entry for path, entry in index.items() if path not in fixed} == {
        path: entry for path, entry in entries.items() if path not in fixed
    }


# -- through a whole commit -----------------------------------------------------------------------------------------

TEST = TOTAL_FILES["tests/test_prices.py"]
BUG, FIX = b"def total(prices):\n    return sum(price)\n", b"def total(prices):\n    return sum(prices)\n"


@st.composite
def around(draw: st.DrawFn, code: bytes) -> tuple[bytes, bytes, bytes]:
    """A file in HEAD, staged and in the working tree, in which only the comments around `code` differ."""
    above, below = draw(bases()), draw(bases())
    found = []
    for _ in range(3):
        found.append(b"".join(above) + code + b"".join(below))
        above, below = draw(edited(above)), draw(edited(below))
    return found[0], found[1], found[2]


@pytest.fixture
def repositories(tmp_path: Path, project_python: Path) -> Callable[[], Project]:
    """Makes a new repository for each example."""
    numbers = iter(range(10**6))
    return lambda: Project.create(tmp_path / str(next(numbers)), project_python)


@settings(max_examples=COMMITS, **RANDOM)
@given(files=around(BUG), args=st.sampled_from([(), ("-a",), ("prices.py",)]))
def test_a_commit_holds_the_fix_exactly_or_all_is_as_it_was(
    repositories: Callable[[], Project], files: tuple[bytes, bytes, bytes], args: tuple[str, ...]
) -> None:
    project = repositories()
    head, staged, lying = files
    staged = staged if not args else lying
    project.commit({"prices.py": head.replace(BUG, FIX), "tests/test_prices.py": TEST, "other.py": "x = 1\n"})
    project.stage({"other.py": "x = 2\n"})
    project.write({"prices.py": staged})
    if not args:
        project.git("add", "prices.py")
    project.write({"prices.py": lying, "notes.txt": "untracked\n"})
    fixed = staged.replace(BUG, FIX)
    wanted = merge(project.path.parent, lying, staged, fixed)
    before = everything(project)

    done = commit(project, *args)

    event(f"{' '.join(args) or 'plain'}: {'healed' if done.returncode == 0 else 'refused'}")
    if done.returncode:
        assert wanted is None or (args == ("prices.py",) and staged == head), done.stdout
        assert everything(project) == before
        return
    assert blob(project, "HEAD:prices.py") == blob(project, ":prices.py") == fixed
    assert project.worktree() == {
        "prices.py": wanted,
        "other.py": b"x = 2\n",
        "notes.txt": b"untracked\n",
        "tests/test_prices.py": TEST.encode(),
    }
    assert project.git("diff", "--name-only", "--cached") == ("other.py\n" if args == ("prices.py",) else "")
