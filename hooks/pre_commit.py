"""The entrance: reads the command line, runs one command inside the error boundary, and exits by its outcome."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence

from heal_core.errors import HealError
from hooks.signals import end_cleanly

ISSUES = "https://github.com/selfheal/pre-commit-selfheal/issues"


def main(argv: Sequence[str] | None = None) -> int:
    """Run `selfheal ARGV` (no argument: the main job, as the hook does) and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        # A file name that the terminal's encoding does not have must not end the run.
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    end_cleanly()
    try:
        _check_folder()
        return _dispatch(arguments, os.environ)
    except KeyboardInterrupt as interrupt:
        print("selfheal: interrupted. A fix that was placed already, `selfheal undo` takes back.", file=sys.stderr)
        return getattr(interrupt, "status", 130)
    except HealError as error:
        _report_problem(error, as_json="json" in arguments or "--format=json" in arguments)
        return error.exit_status
    except BrokenPipeError:
        return 1
    except Exception:
        _report_bug()
        return 3


def _dispatch(arguments: list[str], environ: Mapping[str, str]) -> int:
    """The command that the first argument names; `run` where it names none."""
    import importlib

    from hooks.commands import COMMANDS

    if arguments[:1] in (["-h"], ["--help"]):
        name, rest = "help", []
    elif arguments and not arguments[0].startswith("-"):
        name, rest = arguments[0], arguments[1:]
    else:
        name, rest = "run", arguments
    if name not in COMMANDS:
        raise HealError(f"There is no command {name!r}.", "selfheal --help")
    command = importlib.import_module(f"hooks.commands.{name}")
    return int(command.main(rest, environ))


def _check_folder() -> None:
    """Raise HealError when the current directory is gone: git and everything else would stumble over it later."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise HealError("The current directory does not exist any more.", "cd into the repository") from None


def _report_problem(error: HealError, as_json: bool) -> None:
    """What kept selfheal from judging, in a sentence and what to do next."""
    if as_json:
        import json

        row = {"outcome": "BROKEN", "exit": error.exit_status, "problem": error.problem, "next": error.advice}
        print(json.dumps(row))
        return
    print(f"selfheal: {error.problem}")
    if error.advice:
        print(f"next: {error.advice}")


def _report_bug() -> None:
    """A bug of selfheal's own: the traceback, the versions, and where to report it."""
    import platform
    import traceback

    traceback.print_exc()
    from importlib.metadata import PackageNotFoundError, version

    try:
        own = version("pre-commit-selfheal")
    except PackageNotFoundError:
        own = "not installed"
    print(f"selfheal: this is a bug in selfheal {own} (Python {platform.python_version()}, {platform.platform()}).")
    print(f"next: report it with the lines above at {ISSUES}")


if __name__ == "__main__":
    sys.exit(main())
