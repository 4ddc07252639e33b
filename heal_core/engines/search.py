"""The offline engine: small patches that the failure itself suggests, without a model and without running anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from heal_core.attempt import Attempt
from heal_core.engines._code import Draft, compiles
from heal_core.engines._division import guards
from heal_core.engines._missing_imports import missing_imports
from heal_core.engines._names import respellings
from heal_core.engines._operators import mutations
from heal_core.engines._syntax import repairs
from heal_core.failure import Failure, Raised
from heal_core.localize import Case
from heal_core.patch import Patch, Refusal, Rewrite

MOST = 30  # proposals, each of which costs a run of the tests
MOST_MUTATIONS = 12
MOST_DRAFTS = 600  # drafts looked at, each of which costs a compilation


class SearchEngine:
    """Proposes single edits of one editable file, the likeliest first; every proposal compiles, none comes twice."""

    name = "search"

    def propose(self, case: Case, attempts: Sequence[Attempt]) -> Iterator[Patch | Refusal]:
        """At most 30 patches, made one by one as they are asked for; what `attempts` already holds is left out."""
        seen = {attempt.patch.files for attempt in attempts if attempt.patch is not None}
        return islice(self._unseen(islice(_drafts(case), MOST_DRAFTS), seen), MOST)

    def _unseen(self, drafts: Iterator[Draft], seen: set[tuple[Rewrite, ...]]) -> Iterator[Patch]:
        for draft in drafts:
            rewrite = _rewrite(draft)
            if rewrite is not None and (rewrite,) not in seen:
                seen.add((rewrite,))
                if compiles(rewrite.after):
                    yield Patch(self.name, draft.diagnosis, (rewrite,))


def _drafts(case: Case) -> Iterator[Draft]:
    """All drafts: what hinders the import of a file first, then what the exceptions name, then mere guesses."""
    yield from repairs(case)
    for failure, raised in _exceptions(case):
        yield from missing_imports(case, raised)
        yield from respellings(case, failure, raised)
        yield from guards(case, raised)
    yield from islice(mutations(case), MOST_MUTATIONS)


def _exceptions(case: Case) -> Iterator[tuple[Failure, Raised]]:
    """The distinct exceptions of all failures, each failure's root cause first."""
    seen = set()
    for failure in case.failures:
        for raised in reversed(failure.chain()):
            key = (raised.type, raised.message, raised.frames[-1:])
            if key not in seen:
                seen.add(key)
                yield failure, raised


def _rewrite(draft: Draft) -> Rewrite | None:
    """The draft in the file's own bytes; None when it changes nothing, or has no place in the file's encoding."""
    source = draft.source
    try:
        before, after = source.encode(source.text), source.encode(draft.text)
    except (UnicodeError, LookupError):
        return None
    return Rewrite(source.path, before, after) if after != before else None
