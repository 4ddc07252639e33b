"""Starts pytest in the project's interpreter, as `python -m pytest` would, with the reporting plugin loaded.

Runs inside the sandbox: standard library only, Python 3.8 up. Reads one JSON object from standard input:
`args` (pytest's), `only` (node ids to keep, null for all), `roots` (folders to import from), `roots_first` (whether
those come before installed packages), `original` (the folder whose modules must not be imported instead, "" for none),
`seconds` (the time limit of the run).
"""

from __future__ import annotations

import faulthandler
import importlib.util
import json
import os
import sys
import time
from typing import List

NO_PYTEST_STATUS = 64
# The stack is dumped this share of the time limit into the run, so that a test that hangs can be named.
DUMP_AT = 0.9


def main() -> int:
    """Run pytest and return its exit status."""
    here = sys.path.pop(0)
    spec = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    _detach_stdin()
    _watch(max(spec["seconds"] * DUMP_AT, 0.5))
    # The working directory is not yet on the path: a `pytest.py` of the repository cannot take the runner's place.
    try:
        import pytest
    except ImportError as error:
        _report_missing(error)
        return NO_PYTEST_STATUS
    sys.path.append(here)
    import selfheal_probe  # type: ignore[import-not-found]

    selfheal_probe.given.update(only=spec["only"], original=spec["original"])
    sys.path.insert(0, os.getcwd())
    _add_roots(spec["roots"], spec["roots_first"])
    return int(pytest.main(spec["args"] + _runner_args()))


def _detach_stdin() -> None:
    """What comes after the specification is nothing: a test that reads standard input meets its end at once."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def _watch(seconds: float) -> None:
    """Dump the stack after so many seconds, on standard error as it is now, before pytest captures it.

    The watching thread does not live across a fork: the child would wait for it at its end, and Python would warn of a
    fork with threads.
    """
    until = time.monotonic() + seconds
    errors = os.dup(2)

    def arm() -> None:
        left = until - time.monotonic()
        if left > 0:
            faulthandler.dump_traceback_later(left, exit=False, file=errors)

    arm()
    os.register_at_fork(before=faulthandler.cancel_dump_traceback_later, after_in_parent=arm)


def _report_missing(error: ImportError) -> None:
    row = {"event": "no-pytest", "message": str(error), "python": sys.executable}
    os.write(int(os.environ["SELFHEAL_REPORT_FD"]), (json.dumps(row) + "\n").encode())


def _add_roots(roots: List[str], first: bool) -> None:
    known = {os.path.realpath(entry) for entry in sys.path}
    new = [root for root in roots if first or os.path.realpath(root) not in known]
    if first:
        sys.path[1:1] = new
    else:
        sys.path.extend(new)


def _runner_args() -> List[str]:
    """Settings that fit a run of a part of the suite: thresholds on coverage would fail any part.

    They come last: of an option given twice the last one counts.
    """
    scratch = os.path.join(os.environ.get("TMPDIR", "/tmp"), "selfheal-cache")
    args = ["-p", "selfheal_probe", "-o", "cache_dir=" + scratch]
    if importlib.util.find_spec("pytest_cov"):
        args.append("--no-cov")
    return args


if __name__ == "__main__":
    sys.exit(main())
