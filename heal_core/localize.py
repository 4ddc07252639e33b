"""From failures and the staged change to the places that a fix is most likely to touch."""

from __future__ import annotations

from dataclasses import dataclass

from heal_core.failure import Failure
from heal_core.source import Source


@dataclass(frozen=True, slots=True)
class Suspect:
    """A place that may hold the fault: `path` and `lineno` (from 1), and why it is suspected, in a few words."""

    path: str
    lineno: int
    reason: str


@dataclass(frozen=True, slots=True)
class Case:
    """All that an engine is told.

    `suspects` are in order, the most suspicious first; `editable` are the staged, non-test Python files that a patch
    may change; `tests` the sources of the failing tests; `diff` the staged change of the editable files against HEAD;
    `modules` the dotted names that the repository's own sources import.
    """

    failures: tuple[Failure, ...]
    suspects: tuple[Suspect, ...]
    editable: tuple[Source, ...]
    tests: tuple[Source, ...]
    diff: str
    modules: frozenset[str]
