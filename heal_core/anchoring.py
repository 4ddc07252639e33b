"""Anchoring: where an edit belongs in a file, and how its lines fit in there.

An edit is found by its text; tolerated are only white space at line ends, a uniform shift of indentation, copied line
numbers, and blank lines around it. Every unchanged line keeps its own bytes. What does not fit is `Unusable`, with a
reason that says how the nearest lines stand.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from heal_core.alignment import opcodes
from heal_core.patch import Rewrite
from heal_core.source import Source, split_lines, syntax_tree

MAX_REASON_LINE = 500  # characters of a line that may stand for code left out
_MAX_PLACES = 200  # where a SEARCH may stand, before a line hint is of no use

_NUMBER = re.compile(r"[ \t]*\d{1,6} ?(?:\| ?|:(?: |$))")
_INDENT = re.compile(r"[ \t]*")

_DOTS = r"(?:\.\.\.|…)"
_LEFT_OUT = r"(?:file|code|module|class|function|method|body|implementation|lines|methods|functions)s?"
_ELIDED = re.compile(
    rf"""{_DOTS}\s*\w.*                                       # ...existing code...
      | (?:\#|//)\s*{_DOTS}.*                               # a comment that begins with dots
      | (?:\#|//).*\b(?:rest|remainder)\ of\ (?:\w+\ ){{0,2}}{_LEFT_OUT}\b.{{0,40}}
      | (?:\#|//).*\b(?:existing|remaining|previous|original|other)\ {_LEFT_OUT}\b.{{0,40}}
      | (?:\#|//)\s*(?:(?:rest|everything|{_LEFT_OUT})\b.*)?\b(?:unchanged|same\ as\ before|omitted)\b.{{0,20}}
    """,
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Edit:
    """One SEARCH/REPLACE block.

    `path` is as the model wrote it ("" when none), `search` and `replace` are lines that each end in a line feed, and
    `line_hint` is the line, from 1, that the model pointed at.
    """

    path: str
    search: str
    replace: str
    line_hint: int | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file being edited: text, its own end, and its number in the file as the model saw it."""

    text: str
    end: str
    number: int


class Unusable(Exception):
    """The reply cannot be used, in words for the model."""


def lines_of(text: str) -> list[Line]:
    """The lines of a file; the last one is given the end of the one before it where it has none."""
    lines: list[Line] = []
    for number, whole in enumerate(split_lines(text), 1):
        bare = whole.rstrip("\r\n")
        lines.append(Line(bare, whole[len(bare) :] or (lines[-1].end if lines else "\n"), number))
    return lines


def rewritten(source: Source, lines: list[Line]) -> Rewrite:
    """The file with its new lines; one that had no line end after its last line has none afterwards."""
    parts = [line.text + line.end for line in lines]
    if parts and not source.text.endswith(("\n", "\r")):
        parts[-1] = lines[-1].text
    try:
        return Rewrite(source.path, source.encode(source.text), source.encode("".join(parts)))
    except UnicodeEncodeError as error:
        letter = str(error.object)[error.start : error.end][:10]
        raise Unusable(f"{source.path} is in {source.encoding}, which has no place for {letter!a}.") from None
    except (LookupError, UnicodeError):
        raise Unusable(f"{source.path} is in {source.encoding!a}, which cannot be written.") from None


def replaced(lines: list[Line], edit: Edit, where: str) -> list[Line]:
    """The file's lines after one edit."""
    search, replace = edit.search.split("\n")[:-1], edit.replace.split("\n")[:-1]
    if not any(line.strip() for line in search):
        _refuse_elision(replace, [], where)
        raise Unusable(f"{where}: SEARCH is empty. Copy into it the lines to change, and into REPLACE their new form.")
    start, search, replace, fitted = _anchored(lines, search, replace, edit.line_hint, where)
    end = start + len(search)
    fresh = _merged(lines[start:end], search, replace, fitted)
    _refuse_elision(fitted, [line.text for line in lines[start:end]], where)
    _refuse_mixed_indent(lines, fresh, where)
    return lines[:start] + fresh + lines[end:]


_Pair = tuple[list[str], list[str] | None]  # SEARCH and REPLACE, the latter None when it does not fit the former


def _readings(search: list[str], replace: list[str]) -> Iterator[_Pair]:
    """The block as written, without blank lines around it, and without line numbers."""
    yield search, replace
    first = next(i for i, line in enumerate(search) if line.strip())
    last = next(i for i, line in enumerate(reversed(search)) if line.strip())
    if first or last:
        search, replace = search[first : len(search) - last], _less_blank(replace, first, last)
        yield search, replace
    if all(_NUMBER.match(line) for line in search if line.strip()):
        numbered = all(_NUMBER.match(line) for line in replace if line.strip())
        yield _unnumbered(search), _unnumbered(replace) if numbered else None


def _less_blank(lines: list[str], first: int, last: int) -> list[str]:
    """`lines` without up to `first` blank lines at the top and `last` at the bottom."""
    written = [i for i, line in enumerate(lines) if line.strip()]
    if not written:
        return []
    return lines[min(first, written[0]) : max(len(lines) - last, written[-1] + 1)]


def _unnumbered(lines: list[str]) -> list[str]:
    return [_NUMBER.sub("", line, count=1) for line in lines]


def _anchored(
    lines: list[Line], search: list[str], replace: list[str], hint: int | None, where: str
) -> tuple[int, list[str], list[str], list[str]]:
    """Where SEARCH stands (from 0), SEARCH and REPLACE in a form to compare, and REPLACE as it fits there."""
    readings = tuple(_readings(search, replace))
    for key in (str, str.rstrip, str.strip):
        have = [key(line.text) for line in lines]
        for written, new in readings:
            places = _places(have, [key(line) for line in written])
            shifts = {at: _shift(lines[at : at + len(written)], written) for at in places} if key is str.strip else {}
            places = [at for at in places if at not in shifts or shifts[at]]
            if not places:
                continue
            if new is None:
                raise Unusable(
                    f"{where}: SEARCH has line numbers, but not every line of REPLACE. Write none in either."
                )
            at = _chosen(lines, places, hint, where)
            fitted = [_fitted(line, shifts.get(at), where) for line in new]
            if key is str:
                return at, written, new, fitted
            return at, [line.rstrip() for line in written], [line.rstrip() for line in new], fitted
    raise Unusable(_not_found(lines, readings[-1][0], where))


def _places(have: list[str], wanted: list[str]) -> list[int]:
    """The indexes, from 0, at which the lines `wanted` stand in `have`; no more than _MAX_PLACES + 1 are looked for."""
    text = "\n" + "\n".join(have) + "\n"
    needle = "\n" + "\n".join(wanted) + "\n"
    found: list[int] = []
    at, line, seen = text.find(needle), 0, 0
    while at >= 0 and len(found) <= _MAX_PLACES:
        line += text.count("\n", seen, at)
        seen = at
        found.append(line)
        at = text.find(needle, at + 1)
    return found


def _chosen(lines: list[Line], places: list[int], hint: int | None, where: str) -> int:
    """The one place, or the one nearest to the hint."""
    if len(places) == 1:
        return places[0]
    far = sorted(places, key=lambda at: abs(lines[at].number - hint)) if hint and len(places) <= _MAX_PLACES else []
    if far and hint and abs(lines[far[0]].number - hint) != abs(lines[far[1]].number - hint):
        return far[0]
    numbers = ", ".join(str(lines[at].number) for at in places[:8]) + (", ..." if len(places) > 8 else "")
    raise Unusable(
        f"{where}: SEARCH stands {len(places)} times, at lines {numbers}. Add lines from around the right place to "
        f"SEARCH and REPLACE, or write `@ line {lines[places[0]].number}` (the right one) after the path."
    )


# -- indentation -----------------------------------------------------------------------------------------------------

_Shift = Callable[[str], "str | None"]  # from the indentation as written to the file's, None where it does not fit


def _indent(text: str) -> str:
    match = _INDENT.match(text)
    return match[0] if match else ""


def _shift(old: Sequence[Line], written: Sequence[str]) -> _Shift | None:
    """How the indentation of the file differs from the written one, or None when it does not do so uniformly."""
    pairs = {(_indent(new), _indent(line.text)) for line, new in zip(old, written, strict=True) if new.strip()}
    new, have = min(pairs, key=lambda pair: (len(pair[0]), pair))
    if have.endswith(new):
        more = have[: len(have) - len(new)]
        if all(there == more + here for here, there in pairs):
            return lambda indent: more + indent
    if new.endswith(have):
        less = new[: len(new) - len(have)]
        if all(here == less + there for here, there in pairs):
            return lambda indent: indent[len(less) :] if indent.startswith(less) else None
    return _spaces_to_tabs(pairs)


def _spaces_to_tabs(pairs: set[tuple[str, str]]) -> _Shift | None:
    """The shift for a file indented with tabs and a model that wrote blanks: so many for a tab, plus an offset."""
    if any(here.strip(" ") or there.strip("\t") for here, there in pairs):
        return None
    counts = sorted((len(there), len(here)) for here, there in pairs)
    (tabs, blanks), (most_tabs, most_blanks) = counts[0], counts[-1]
    if most_tabs > tabs:
        width = (most_blanks - blanks) // (most_tabs - tabs)
    else:
        width = blanks // tabs if tabs and blanks % tabs == 0 else 4
    offset = blanks - width * tabs
    if not 1 <= width <= 8 or any(b != width * t + offset for t, b in counts):
        return None

    def shift(indent: str) -> str | None:
        steps, rest = divmod(len(indent) - offset, width)
        return "\t" * steps if steps >= 0 and not rest and not indent.strip(" ") else None

    return shift


def _fitted(line: str, shift: _Shift | None, where: str) -> str:
    """A line of REPLACE with the indentation of the file."""
    if shift is None or not line.strip():
        return line
    indent = _indent(line)
    moved = shift(indent)
    if moved is None:
        raise Unusable(
            f"{where}: the indentation of SEARCH differs from the file's, and that of REPLACE does not follow it in "
            f"the line `{line.strip()[:100]}`. Copy the indentation of the file exactly, tabs as tabs."
        )
    return moved + line[len(indent) :]


def _refuse_mixed_indent(lines: Sequence[Line], fresh: Sequence[Line], where: str) -> None:
    """New lines may not bring tabs into a file of blanks, nor blanks into a file of tabs."""
    known = set(lines)
    used = {line.text[0] for line in lines if line.text.strip() and line.text[0] in " \t"}
    for line in fresh:
        if line not in known and line.text.strip() and used and line.text[0] in {" ", "\t"} - used:
            style = "tabs" if used == {"\t"} else "blanks"
            raise Unusable(f"{where}: the file is indented with {style}; write `{line.text.strip()[:100]}` so too.")


# -- putting lines in ------------------------------------------------------------------------------------------------


def _merged(old: Sequence[Line], search: list[str], replace: list[str], fitted: list[str]) -> list[Line]:
    """The old lines with the new ones among them, which take the line ends of those that they replace or stand behind.

    What SEARCH and REPLACE have in common is kept as it stands in the file, so that its bytes do not change.
    """
    merged: list[Line] = []
    for tag, i1, i2, j1, j2 in opcodes(search, replace):
        if tag == "equal":
            merged += old[i1:i2]
            continue
        for at in range(j1, j2):
            like = old[max(min(i1 + at - j1, i2 - 1), 0)]
            merged.append(Line(fitted[at], like.end, like.number))
    return merged


def _refuse_elision(lines: Sequence[str], standing: Sequence[str], where: str) -> None:
    """Refuses lines that stand for code left out, unless the file has them at that place."""
    known = {line.strip() for line in standing}
    before = ""
    for line in lines:
        text = line.strip()
        bare = text.partition("#")[0].rstrip() in ("...", "…") and not before.endswith(":")
        if text not in known and (bare or (len(text) <= MAX_REASON_LINE and _ELIDED.fullmatch(text))):
            raise Unusable(
                f"{where}: REPLACE has the line `{text[:100]}` in place of code. It would be taken literally and the "
                "code would be lost: only the changed lines are to be written, and SEARCH holds just what they replace."
            )
        before = text or before


def _not_found(lines: Sequence[Line], search: Sequence[str], where: str) -> str:
    """Says that SEARCH stands nowhere, and shows the lines that are most like it."""
    if any(line.strip() in ("...", "…") or _ELIDED.fullmatch(line.strip()[:MAX_REASON_LINE]) for line in search):
        return f"{where}: SEARCH leaves lines out. It must hold whole, consecutive lines; make it short instead."
    at = _nearest([line.text.strip()[:120] for line in lines[:20000]], [line.strip()[:120] for line in search[:50]])
    if at is None:
        return f"{where}: SEARCH stands nowhere in the file, nor does anything like it. Copy the lines as they stand."
    shown = lines[max(at - 1, 0) : at + min(len(search), 12) + 1]
    listing = "\n".join(f"{line.number:4} | {line.text[:200]}" for line in shown)
    return (
        f"{where}: SEARCH was not found. The nearest lines stand so:\n{listing}\n"
        "Copy them exactly into SEARCH, without the numbers."
    )


def _nearest(have: list[str], wanted: list[str]) -> int | None:
    """The index at which `wanted` would begin: where most of its lines stand, else where one like its longest does."""
    where: dict[str, list[int]] = {}
    for number, line in enumerate(have):
        where.setdefault(line, []).append(number)
    votes: dict[int, int] = {}
    for offset, line in enumerate(wanted):
        for number in where.get(line, [])[:100] if line else []:
            votes[number - offset] = votes.get(number - offset, 0) + len(line)
    if votes:
        return max(0, max(votes, key=lambda at: (votes[at], -at)))
    longest = max(wanted, key=len)
    alike = difflib.get_close_matches(longest, list(where)[:1000], n=1, cutoff=0.5)
    return max(0, where[alike[0]][0] - wanted.index(longest)) if alike else None


# -- whole definitions -----------------------------------------------------------------------------------------------

_Def = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_AnyDef = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def redefined(lines: list[Line], text: str, path: str) -> list[Line] | None:
    """The file's lines with each definition of a code fence in place of the one of the same name.

    None when the text holds anything but definitions.
    """
    written = _dedented(text.split("\n")[:-1])
    new = syntax_tree("\n".join(written))
    if new is None or not new.body or not all(isinstance(node, _Def) for node in new.body):
        return None
    names = [node.name for node in new.body if isinstance(node, _Def)]
    if len(set(names)) < len(names):
        raise Unusable(f"The code fence for {path} defines a name twice. Write SEARCH/REPLACE blocks.")
    for node in new.body:
        if isinstance(node, _Def):
            lines = _definition_replaced(lines, node, written, path)
    return lines


def _definition_replaced(lines: list[Line], node: _AnyDef, written: list[str], path: str) -> list[Line]:
    tree = syntax_tree("\n".join(line.text for line in lines))
    found = [old for old in ast.walk(tree) if isinstance(old, _Def) and old.name == node.name] if tree else []
    where = f"The code fence for {path}"
    if len(found) != 1:
        count = f"stands there {len(found)} times" if found else "does not stand there"
        raise Unusable(f"{where} defines `{node.name}`, which {count}. Write SEARCH/REPLACE blocks.")
    start, end = _extent(found[0])
    old, indent = [line.text for line in lines[start:end]], _indent(lines[start].text)
    new = [indent + line if line.strip() else line for line in written[slice(*_extent(node))]]
    fresh = _merged(lines[start:end], [line.rstrip() for line in old], [line.rstrip() for line in new], new)
    _refuse_elision(new, old, where)
    _refuse_mixed_indent(lines, fresh, where)
    return lines[:start] + fresh + lines[end:]


def _extent(node: _AnyDef) -> tuple[int, int]:
    """First line, from 0, and the line behind the last, with the decorators."""
    return min(part.lineno for part in (node, *node.decorator_list)) - 1, node.end_lineno or node.lineno


def _dedented(lines: list[str]) -> list[str]:
    margin = min((len(_indent(line)) for line in lines if line.strip()), default=0)
    return [line[margin:] for line in lines]
