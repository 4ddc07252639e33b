"""What a green commit pays: `selfheal run` against bare pytest on the same tests, in turn, as a ratio.

    python benchmarks/overhead.py [--rounds N] [--tests N]

Makes a small repository with a staged change and N tests of about 0.5 s in all. The two commands run alternately, so
that a change of the machine's speed meets both. Prints the median seconds of each, the ratio of the medians, and the
difference; never fails on a number.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SELFHEAL = [sys.executable, "-I", "-m", "hooks.pre_commit"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="counted runs of each command (default: 9)")
    parser.add_argument("--tests", type=int, default=20, help="how many tests the repository has (default: 20)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="selfheal-overhead-") as folder:
        repository = make_repository(Path(folder), options.tests)
        bare = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
        seconds: dict[str, list[float]] = {"pytest": [], "selfheal": []}
        for number in range(options.rounds + 1):
            for name, command in (("pytest", bare), ("selfheal", SELFHEAL)):
                took = timed(command, repository)
                if number:  # the first round warms the caches
                    seconds[name].append(took)
    pytest_s, selfheal_s = (statistics.median(seconds[name]) for name in ("pytest", "selfheal"))
    print(f"bare pytest       {pytest_s:.3f} s (median of {options.rounds})")
    print(f"selfheal, green   {selfheal_s:.3f} s")
    print(f"ratio             {selfheal_s / pytest_s:.2f}, {selfheal_s - pytest_s:+.3f} s")


def make_repository(folder: Path, tests: int) -> Path:
    """A repository with one staged, harmless change, and its tests."""
    (folder / "tests").mkdir()
    (folder / "calc.py").write_text("def double(x):\n    return 2 * x\n")
    body = "\n".join(
        f"def test_{n}():\n    time.sleep({0.3 / tests:.4f})\n    assert double({n}) == {2 * n}\n" for n in range(tests)
    )
    (folder / "tests" / "test_calc.py").write_text(f"import time\n\nfrom calc import double\n\n\n{body}")
    for command in (["init", "-q"], ["config", "user.name", "b"], ["config", "user.email", "b@c"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    subprocess.run(["git", "commit", "-qnm", "Start"], cwd=folder, check=True)
    (folder / "calc.py").write_text('"""Doubling."""\n\n\ndef double(x):\n    return x + x\n')
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    return folder


def timed(command: list[str], cwd: Path) -> float:
    """The wall-clock seconds of a command that must end with 0."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTEST"))}
    began = time.perf_counter()
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL, env=environ)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
