"""What every engine is: something that proposes patches for a case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from heal_core.attempt import Attempt
from heal_core.localize import Case
from heal_core.patch import Patch, Refusal


class Engine(Protocol):
    """Proposes patches; neither verifies nor places them."""

    name: str

    def propose(self, case: Case, attempts: Sequence[Attempt]) -> Iterator[Patch | Refusal]:
        """Proposals, the best first.

        `attempts` grows while the iterator runs: what became of each proposal is appended before the next one is
        asked for. A Refusal is a proposal that could not be read or applied.
        """
        ...
