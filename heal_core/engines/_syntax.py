"""Repairs of a source that is not Python: one colon, bracket, quote, operator, keyword or indentation."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

from heal_core.engines import _code as code
from heal_core.engines._code import Draft, Splice
from heal_core.engines._nearest import nearest
from heal_core.localize import Case
from heal_core.source import split_lines

CLOSER = {"(": ")", "[": "]", "{": "}"}
HEADER = re.compile(r"\s*(?:async\s+)?(?:if|elif|else|for|while|def|class|try|except|finally|with|match|case)\b")
CONDITION = re.compile(r"\s*(?:if|elif|while|assert|return)\b|.*\b(?:if|and|or|not)\b")
SINGLE_EQUALS = re.compile(r"(?<![=!<>:+\-*/%&|^@])=(?!=)")
BEYOND = 6  # lines behind an opening bracket at whose ends its partner may be missing


def repairs(case: Case) -> Iterator[Draft]:
    """Drafts for every editable source that does not compile; most of them still will not, which the caller checks."""
    for source in case.editable:
        error = code.syntax_error(source.text)
        if error is not None and error.lineno and 1 <= error.lineno < len(code.starts(source.text)):
            for splices, lineno, what in _splices(source.text, error):
                said = f"Line {lineno} of {source.path} is not Python ({error.msg}): {what}."
                yield Draft(source, code.spliced(source.text, splices), said)


Repair = tuple[list[Splice], int, str]


def _splices(text: str, error: SyntaxError) -> Iterator[Repair]:
    lineno, column = error.lineno or 1, max((error.offset or 1) - 1, 0)
    if isinstance(error, IndentationError):
        yield from _indentation(text, lineno)
    if "unterminated" in error.msg:
        yield from _quotes(text, lineno, column)
    near = [row for row in (lineno, lineno - 1) if row >= 1]
    for row in near:
        yield from _colon(text, row)
        yield from _equals(text, row)
    yield from _brackets(text, lineno, column)
    for row in near:
        yield from _keywords(text, row)
    yield from _comma(text, error)
    if not isinstance(error, IndentationError):
        yield from _indentation(text, lineno)


def _line(text: str, row: int) -> tuple[int, str]:
    """Where a line begins, and the line up to its comment and trailing blanks."""
    start = code.starts(text)[row - 1]
    line = split_lines(text)[row - 1].rstrip()
    quote = ""
    for at, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "#":
            return start, line[:at].rstrip()
    return start, line


def _colon(text: str, row: int) -> Iterator[Repair]:
    start, line = _line(text, row)
    end = start + len(line)
    if line and not line.endswith(":") and (HEADER.match(line) or line.lstrip()[0] in ")]}"):
        if line[-1] in ";,.":
            yield [Splice(end - 1, end, ":")], row, f"`{line[-1]}` stands for the colon"
        yield [Splice(end, end, ":")], row, "a colon is missing"


def _equals(text: str, row: int) -> Iterator[Repair]:
    start, line = _line(text, row)
    for found in SINGLE_EQUALS.finditer(line) if CONDITION.match(line) else ():
        yield [Splice(start + found.start(), start + found.end(), "==")], row, "`=` stands for `==`"


def _brackets(text: str, lineno: int, column: int) -> Iterator[Repair]:
    """A partner for what is open at the error, then another or no bracket at the error itself."""
    at = code.starts(text)[lineno - 1] + column
    wrong = text[at : at + 1]
    opened = _open(text, at + (wrong in CLOSER))
    if opened is not None:
        offset, row = opened
        closer = CLOSER[text[offset]]
        if wrong in CLOSER.values() and wrong:
            yield [Splice(at, at, closer)], lineno, f"`{closer}` is missing"
            yield [Splice(at, at + 1, closer)], lineno, f"`{wrong}` stands for `{closer}`"
        yield from _closings(text, row, offset, closer)
        yield [Splice(offset, offset + 1, "")], row, f"`{text[offset]}` is one too many"
    if wrong in CLOSER.values() and wrong:
        yield [Splice(at, at + 1, "")], lineno, f"`{wrong}` is one too many"


def _open(text: str, before: int) -> tuple[int, int] | None:
    """The innermost bracket that is still open at the offset, and its line."""
    stack: list[tuple[int, int]] = []
    for token in code.tokens(text):
        if token.start >= before:
            break
        if token.text in CLOSER:
            stack.append((token.start, token.row))
        elif token.text in CLOSER.values() and stack:
            stack.pop()
    return stack[-1] if stack else None


def _closings(text: str, row: int, opened: int, closer: str) -> Iterator[Repair]:
    """The bracket at the end of its line or of one of the next, also before a comma or colon that ends it."""
    for at in range(row, min(row + BEYOND, len(code.starts(text)))):
        start, line = _line(text, at)
        bare = line.rstrip(",:")
        for length in dict.fromkeys((len(bare), len(line))):
            if start + length > opened:
                yield [Splice(start + length, start + length, closer)], at, f"`{closer}` is missing"


def _quotes(text: str, lineno: int, column: int) -> Iterator[Repair]:
    """The quote at the end of the line, or before what closes the code around it; or one quote too many."""
    start = code.starts(text)[lineno - 1]
    line = split_lines(text)[lineno - 1].rstrip()
    begin = re.compile(r"\w*(['\"])").match(line, column)
    if begin is None:
        return
    quote, body = begin[1], begin.end()
    other = "'" if quote == '"' else '"'
    for at in [m.start() for m in re.finditer(other, line) if m.start() >= body][-1:]:
        yield [Splice(start + at, start + at + 1, quote)], lineno, f"`{other}` stands for `{quote}`"
    shortest = max(body, len(line.rstrip(")]},:; ")))
    word = re.compile(r"[\w ./-]*").match(line, body)
    lengths = [*range(shortest, len(line) + 1), *([word.end()] if word else [])]
    for length in dict.fromkeys(lengths):
        yield [Splice(start + length, start + length, quote)], lineno, f"a closing `{quote}` is missing"
    yield [Splice(start + body - 1, start + body, "")], lineno, f"`{quote}` is one too many"


def _keywords(text: str, row: int) -> Iterator[Repair]:
    start, line = _line(text, row)
    for word in code.WORD.finditer(line):
        for meant in nearest(word[0], keyword.kwlist, 2) if word[0] not in keyword.kwlist else ():
            splice = Splice(start + word.start(), start + word.end(), meant)
            yield [splice], row, f"`{word[0]}` stands for `{meant}`"


def _comma(text: str, error: SyntaxError) -> Iterator[Repair]:
    lineno = error.lineno or 1
    inside = [t for t in code.tokens(text) if lineno <= t.row <= (error.end_lineno or lineno)]
    for token in inside[:40] if "forgot a comma" in error.msg else ():
        yield [Splice(token.end, token.end, ",")], token.row, "a comma is missing"


def _indentation(text: str, lineno: int) -> Iterator[Repair]:
    """The line, then the one before it, at each indentation that its surroundings allow, the nearest first."""
    lines = split_lines(text)
    for row in (lineno, lineno - 1):
        line = lines[row - 1] if row >= 1 else ""
        if line.strip():
            present = line[: len(line) - len(line.lstrip(" \t"))]
            start = code.starts(text)[row - 1]
            for indent in sorted(_indents(lines[: row - 1]) - {present}, key=lambda i: (_gap(i, present), i)):
                yield [Splice(start, start + len(present), indent)], row, "its indentation is off"


def _gap(left: str, right: str) -> int:
    return abs(len(left.expandtabs()) - len(right.expandtabs()))


def _indents(before: list[str]) -> set[str]:
    """The indentations in use above, and one step deeper than the last line."""
    used = [line[: len(line) - len(line.lstrip(" \t"))] for line in before[-40:] if line.strip()]
    last = used[-1] if used else ""
    return {*used, last + ("\t" if "\t" in "".join(used) else "    "), ""}
