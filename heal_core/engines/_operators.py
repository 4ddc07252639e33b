"""Single edits at suspect lines, for a failure that does not say what is wrong."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator

from heal_core.engines import _code as code
from heal_core.engines._code import Draft, Splice, Token
from heal_core.localize import Case, staged_lines

INSTEAD: dict[str, tuple[str, ...]] = {
    "<": ("<=", ">"),
    "<=": ("<", ">="),
    ">": (">=", "<"),
    ">=": (">", "<="),
    "==": ("!=",),
    "!=": ("==",),
    "+": ("-",),
    "-": ("+",),
    "*": ("+",),
    "/": ("//",),
    "//": ("/",),
    "+=": ("-=",),
    "-=": ("+=",),
    "and": ("or",),
    "or": ("and",),
    "min": ("max",),
    "max": ("min",),
    "any": ("all",),
    "all": ("any",),
    "True": ("False",),
    "False": ("True",),
}


def mutations(case: Case) -> Iterator[Draft]:
    """Drafts that change one operator or constant on a staged line: the suspects in their order, then the others."""
    staged = staged_lines(case.diff)
    editable = {source.path: source for source in case.editable}
    suspected = [place for suspect in case.suspects if (place := (suspect.path, suspect.lineno)) in staged]
    for path, lineno in dict.fromkeys((*suspected, *staged)):
        if path not in editable:
            continue
        source = editable[path]
        for token in [token for token in code.tokens(source.text) if token.row == lineno]:
            for text in _instead(token):
                told = f"Line {lineno} of {path} may have to say `{text}` where it says `{token.text}`."
                yield Draft(source, code.spliced(source.text, [Splice(token.start, token.end, text)]), told)


def _instead(token: Token) -> tuple[str, ...]:
    """What may be meant where `token` stands."""
    if token.kind == tokenize.NUMBER and token.text.isdecimal() and len(token.text) < 10:
        return tuple(str(n) for n in (int(token.text) + 1, int(token.text) - 1) if n >= 0)
    unary = token.text in ("+", "-", "*") and not re.search(r"[\w)\]}'\"]$", token.before)
    return () if unary or token.before == "." else INSTEAD.get(token.text, ())
