"""An attempt: one proposal of an engine, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from heal_core.failure import Failure
from heal_core.patch import Patch


@dataclass(frozen=True, slots=True)
class Attempt:
    """One round: what an engine proposed and why it was not the fix, with the failures that it left.

    `patch` is None for a proposal that could not be read, `reason` is "" for the one that healed, `reply` is what a
    model wrote.
    """

    engine: str
    patch: Patch | None
    reason: str
    failures: tuple[Failure, ...] = ()
    reply: str = ""
