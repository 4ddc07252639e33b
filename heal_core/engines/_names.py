"""Repairs of a name that is one or two letters off, at its use or at its definition."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from heal_core.engines import _code as code
from heal_core.engines._code import Draft, Splice, Token
from heal_core.engines._misses import Candidate, Miss, imported, read_miss, spells
from heal_core.engines._nearest import nearest
from heal_core.failure import Failure, Raised
from heal_core.localize import Case
from heal_core.source import Source

HINT = re.compile(r"Did you mean:? '([\w.]+)'\?")


def respellings(case: Case, failure: Failure, raised: Raised) -> Iterator[Draft]:
    """Drafts that respell the name that `raised` did not find, the likeliest first."""
    miss = read_miss(case, raised)
    if miss is None:
        return
    homes = {candidate.name: candidate.home for candidate in reversed(miss.candidates)}
    near = nearest(miss.name, (c.name for c in miss.candidates))
    for name in dict.fromkeys((*miss.sure, *_hints(failure, raised), *near)):
        yield from _respell(case, raised, miss, Candidate(name, homes.get(name)))


def _hints(failure: Failure, raised: Raised) -> list[str]:
    """What Python itself suggests, in the message or in the runner's rendering of it."""
    first = raised.message.partition("\n")[0]
    rendered = [line for line in failure.text.split("\n") if first and first in line]
    return [hint for line in (raised.message, *rendered) for hint in HINT.findall(line)]


def _respell(case: Case, raised: Raised, miss: Miss, candidate: Candidate) -> Iterator[Draft]:
    """The use respelt as the definition, and the definition as the use; the rarer spelling is the likelier slip."""
    found = code.place(case, raised)
    tried = (_at_use(miss, candidate.name, *found) if found else None, _at_definition(miss, candidate))
    drafts = [draft for draft in tried if draft]
    if len(drafts) > 1 and _count(case, miss, miss.name) > _count(case, miss, candidate.name):
        drafts.reverse()
    yield from drafts


def _count(case: Case, miss: Miss, name: str) -> int:
    """How often the sources of the case spell `name`."""
    kind = _loose(miss.kind)
    return sum(spells(token, kind, name) for source in code.sources(case) for token in code.tokens(source.text))


def _at_use(miss: Miss, name: str, source: Source, lineno: int) -> Draft | None:
    """The name replaced where it was looked up; in the whole file when the file itself never defines it."""
    here = [token for token in code.around(source.text, lineno) if spells(token, miss.kind, miss.name)]
    if not here:
        return None
    if _defines(source, miss.name):
        spots = [token for token in here if token.row == here[0].row]
    else:
        kind = "name" if miss.kind == "import" else miss.kind
        spots = [token for token in code.tokens(source.text) if spells(token, kind, miss.name)]
    diagnosis = f"`{miss.name}` {miss.problem}; the nearest name {miss.where} is `{name}`."
    return _replace(source, spots, miss.name, name, diagnosis)


def _at_definition(miss: Miss, candidate: Candidate) -> Draft | None:
    """Every token of the candidate respelt as it was asked for, in the source that defines it."""
    if candidate.home is None:
        return None
    spots = [t for t in code.tokens(candidate.home.text) if spells(t, _loose(miss.kind), candidate.name)]
    diagnosis = f"`{miss.name}` {miss.problem}; `{candidate.name}` in {candidate.home.path} looks like a slip for it."
    return _replace(candidate.home, spots, candidate.name, miss.name, diagnosis)


def _replace(source: Source, spots: Iterable[Token], old: str, new: str, diagnosis: str) -> Draft | None:
    splices = [Splice(token.start, token.end, token.text.replace(old, new)) for token in spots]
    return Draft(source, code.spliced(source.text, splices), diagnosis) if splices else None


def _loose(kind: str) -> str:
    """The kind of token that a definition is written with: a key is a string, all else may be any name."""
    return "key" if kind == "key" else "any"


def _defines(source: Source, name: str) -> bool:
    """Whether the source binds `name` anywhere, by other means than an import."""
    root = code.tree(source.text)
    if root is None:
        return True
    names = (
        name for scope in ast.walk(root) if isinstance(scope, (ast.Module, *code.SCOPES)) for name in code.bound(scope)
    )
    attributes = (n.attr for n in ast.walk(root) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return name not in imported(root) and (name in names or name in attributes)
