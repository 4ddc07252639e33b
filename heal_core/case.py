"""Making the case that engines are told of: from failures and the staged change to sources, suspects and diff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from heal_core import diagnose, policy
from heal_core.failure import Failure
from heal_core.import_graph import imported_modules
from heal_core.localize import Case, localize
from heal_core.pytest_settings import Settings
from heal_core.repo import Snapshot
from heal_core.source import Source

# How many of the repository's files are read for the names of the modules that they import.
MAX_READ_FILES = 300


def make_case(
    snapshot: Snapshot, failures: Sequence[Failure], settings: Settings, files: Mapping[str, bytes]
) -> tuple[Case, tuple[str, ...]]:
    """The case of `failures`, and sentences on staged files that no patch may touch; `files` is the staged tree."""
    editable, notes = [], []
    for path in snapshot.change.changed:
        if not path.endswith(".py") or policy.may_edit(path, settings.is_test_file(path)) is not None:
            continue
        source = Source.read(path, snapshot.read(path) or b"")
        if source is None:
            notes.append(f"{path} is not text in its declared encoding (UTF-8 where none is declared): left alone.")
        else:
            editable.append(source)
    tests = dict.fromkeys(failure.nodeid.partition("::")[0] for failure in failures)
    sources = (Source.read(path, snapshot.read(path) or b"") for path in tests if path.endswith(".py"))
    diff = snapshot.diff([source.path for source in editable])
    python = islice((path for path in files if path.endswith(".py")), MAX_READ_FILES)
    case = Case(
        failures=tuple(failures),
        suspects=localize(failures, editable, diff),
        editable=tuple(editable),
        tests=tuple(source for source in sources if source is not None),
        diff=diff,
        modules=imported_modules(files, list(python)),
    )
    return case, tuple(notes)


def nothing_editable(snapshot: Snapshot, settings: Settings) -> str:
    """Why none of the staged files may be changed, in a sentence."""
    reasons = (policy.may_edit(path, settings.is_test_file(path)) for path in snapshot.change.changed)
    first = next((reason for reason in reasons if reason), "they are no text files that are there after the change")
    return f"No staged file may be edited to heal this: {first}."


def check_environment(snapshot: Snapshot, failures: Sequence[Failure], python: str) -> None:
    """Raise for failures that come from a lacking environment or an incomplete commit (see `diagnose.check`)."""
    paths = snapshot.paths()
    tops = {path.partition("/")[0] for path in paths} | {
        path.split("/")[1] for path in paths if path.startswith("src/")
    }
    diagnose.check(
        failures,
        staged=lambda path: path in paths,
        project_modules={name.removesuffix(".py") for name in tops},
        in_working_tree=lambda path: (snapshot.repo.toplevel / path).is_file(),
        python=python,
    )
