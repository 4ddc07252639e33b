"""What placing a proved fix costs, in repositories of many files and of long history, against bare git in turn.

    python benchmarks/placing.py [--rounds N] [--files N ...] [--commits N ...]

For each number of files and of commits: a repository made with `git fast-import`, and then in turn `git update-index
--refresh`, `git add` of a changed file, and the whole of placing a fix in that file beside an unstaged line: every
check, the recovery record, working tree and index. Prints the median seconds and the ratio of placing to each of the
two; never fails on a number. Wanted: at most 0.5 s at 50,000 files, and no growth with history.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from heal_core import placing, repo
from heal_core.patch import Patch, Rewrite

ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
PATH = "package_0/module_0.py"
BODY = "".join(f"# line {number}\n" for number in range(60))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="counted rounds (default: 9)")
    parser.add_argument("--files", type=int, nargs="+", default=[1_000, 50_000])
    parser.add_argument("--commits", type=int, nargs="+", default=[10, 5_000])
    options = parser.parse_args()
    print("  files  commits   refresh      add    placing   to refresh   to add")
    for files in options.files:
        for commits in options.commits:
            with tempfile.TemporaryDirectory(prefix="selfheal-placing-") as folder:
                make_repository(Path(folder), files, commits)
                refresh, add, place = measured(Path(folder), options.rounds)
            print(
                f"{files:7,} {commits:8,} {refresh:7.3f} s {add:6.3f} s {place:8.3f} s {place / refresh:10.1f}"
                f" {place / add:10.1f}",
                flush=True,
            )


def make_repository(folder: Path, files: int, commits: int) -> None:
    """A repository of that many files, each changed in turn by one of so many commits, checked out."""
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "b")
    git(folder, "config", "user.email", "b@c")
    git(folder, "fast-import", "--quiet", data="".join(history(files, commits)).encode())
    git(folder, "reset", "-q", "--hard", "main")


def history(files: int, commits: int) -> Iterator[str]:
    """The input of `git fast-import`: one commit with all files, and the others with a change of one file each."""
    for number in range(commits):
        yield f"commit refs/heads/main\ncommitter b <b@c> {1_700_000_000 + number} +0000\ndata 1\nx\n"
        for file in range(files) if number == 0 else (number % files,):
            text = f"value = {number}\n# file {file}\n{BODY}"
            yield f"M 100644 inline package_{file // 100}/module_{file}.py\ndata {len(text)}\n{text}\n"


def measured(folder: Path, rounds: int) -> tuple[float, float, float]:
    """The median seconds of refreshing the index, of adding one file, and of placing a fix in it."""
    seconds: tuple[list[float], ...] = ([], [], [])
    for number in range(rounds + 1):
        staged, fixed = f"value = -{number}\n{BODY}", f"value = {number} + 1\n{BODY}"
        (folder / PATH).write_text(staged)
        refresh = timed(lambda: git(folder, "update-index", "-q", "--refresh"))
        add = timed(lambda: git(folder, "add", PATH))
        (folder / PATH).write_text(staged + "# not staged\n")
        patch = Patch("search", "A sum.", (Rewrite(PATH, staged.encode(), fixed.encode()),))
        with repo.snapshot(repo.find(folder, ENVIRON)) as snapshot:
            place = timed(lambda: placing.place(snapshot, patch, ENVIRON, placing.Story()))  # noqa: B023
        assert (folder / PATH).read_text() == fixed + "# not staged\n"
        if number:  # the first round warms the caches
            for kept, took in zip(seconds, (refresh, add, place), strict=True):
                kept.append(took)
    refresh, add, place = (statistics.median(kept) for kept in seconds)
    return refresh, add, place


def git(folder: Path, *args: str, data: bytes = b"") -> None:
    """Run a git command; exit status 1 is `update-index --refresh` that found a changed file."""
    done = subprocess.run(["git", *args], cwd=folder, env=ENVIRON, input=data, stdout=subprocess.DEVNULL, check=False)
    assert done.returncode in (0, 1), args


def timed(action: Callable[[], object]) -> float:
    """The wall-clock seconds that it takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
