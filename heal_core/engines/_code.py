"""What the offline engine sees of a source: its tokens, its tree, and how a spot in it is replaced."""

from __future__ import annotations

import ast
import re
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from heal_core.failure import Raised
from heal_core.localize import Case
from heal_core.source import UNREADABLE, Source, split_lines, syntax_tree

BRACES = re.compile(r"\{[^{}]*\}")
WORD = re.compile(r"[^\W\d]\w*")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.ClassDef)
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposal that nobody has compiled yet: `source` would become `text`, for the reason in `diagnosis`."""

    source: Source
    text: str
    diagnosis: str


@dataclass(frozen=True, slots=True)
class Token:
    """One token: `start` and `end` count characters of the whole text, `row` lines from 1.

    `before` and `after` are the texts of its neighbours.
    """

    kind: int
    text: str
    start: int
    end: int
    row: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Splice:
    """Characters `start` to `end` of a text become `text`; an insertion where both are equal."""

    start: int
    end: int
    text: str


def spliced(text: str, splices: Iterable[Splice]) -> str:
    """`text` with all `splices`, which must not overlap, every other character kept."""
    for splice in sorted(splices, key=lambda s: (s.start, s.end), reverse=True):
        text = text[: splice.start] + splice.text + text[splice.end :]
    return text


def compiles(data: bytes) -> bool:
    """Whether `data` is a Python file that the running Python accepts."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(data, "<proposal>", "exec", dont_inherit=True)
    except UNREADABLE:
        return False
    return True


def syntax_error(text: str) -> SyntaxError | None:
    """What the running Python has against `text`; None when it compiles, or cannot even be looked at."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(plain(text), "<source>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return error
    except UNREADABLE:
        return None
    return None


def plain(text: str) -> str:
    """`text` with every line end as LF: rows and columns stay, as all ends lie behind the last column."""
    return "".join(line.rstrip("\r\n") + "\n" if line[-1] in "\r\n" else line for line in split_lines(text))


@lru_cache(maxsize=64)
def tree(text: str) -> ast.Module | None:
    """The syntax tree, or None where there is none; shared between callers, who only read it."""
    return syntax_tree(plain(text))


@lru_cache(maxsize=64)
def starts(text: str) -> tuple[int, ...]:
    """The offset at which each line begins, and behind them the length of the text."""
    return tuple(accumulate(map(len, split_lines(text)), initial=0))


def span(text: str, node: ast.expr | ast.stmt) -> tuple[int, int]:
    """From where to where `node` reaches in `text`, in characters (the tree counts UTF-8 bytes)."""
    lines = split_lines(text)

    def offset(row: int, column: int) -> int:
        return starts(text)[row - 1] + len(lines[row - 1].encode("utf-8", "replace")[:column].decode("utf-8", "ignore"))

    return offset(node.lineno, node.col_offset), offset(node.end_lineno or node.lineno, node.end_col_offset or 0)


@lru_cache(maxsize=64)
def tokens(text: str) -> tuple[Token, ...]:
    """The tokens with a text, as far as the text can be read; names inside an f-string count as tokens too."""
    found: list[tuple[int, str, int, int]] = []
    lines = iter(split_lines(plain(text)))
    try:
        for token in tokenize.generate_tokens(lambda: next(lines, "")):
            if token.string.strip() and token.type != tokenize.COMMENT:
                begin = starts(text)[token.start[0] - 1] + token.start[1]
                end = starts(text)[token.end[0] - 1] + token.end[1]
                found.append((token.type, token.string, begin, end))
    except (*UNREADABLE, IndexError):
        pass  # a broken text still has the tokens before the break
    rows = _rows(text, [begin for _, _, begin, _ in found])
    texts = ["", *(string for _, string, _, _ in found), ""]
    result = []
    for at, (kind, string, begin, end) in enumerate(found):
        result.append(Token(kind, string, begin, end, rows[at], texts[at], texts[at + 2]))
        result.extend(_names_in_fstring(result[-1]))
    return tuple(result)


def _rows(text: str, offsets: list[int]) -> list[int]:
    """The row of each of the rising `offsets`."""
    rows, row = [], 1
    for offset in offsets:
        while row < len(starts(text)) and starts(text)[row] <= offset:
            row += 1
        rows.append(row)
    return rows


def _names_in_fstring(token: Token) -> Iterator[Token]:
    """The names in the braces of an f-string, which Python before 3.12 hands out as one string."""
    prefix = token.text[: len(token.text) - len(token.text.lstrip("rRfFbBuU"))]
    if token.kind != tokenize.STRING or "f" not in prefix.lower():
        return
    for braces in BRACES.finditer(token.text):
        for word in WORD.finditer(token.text, *braces.span()):
            begin, end = word.span()
            row = token.row + token.text.count("\n", 0, begin)
            before, after = token.text[begin - 1], token.text[end]
            yield Token(tokenize.NAME, word[0], token.start + begin, token.start + end, row, before, after)


def sources(case: Case) -> tuple[Source, ...]:
    """Every source of the case, the editable ones first."""
    return (*case.editable, *case.tests)


def place(case: Case, raised: Raised) -> tuple[Source, int] | None:
    """The innermost frame of `raised` in an editable source, as that source and the line."""
    editable = {source.path: source for source in case.editable}
    for frame in reversed(raised.frames):
        if frame.path in editable:
            return editable[frame.path], frame.lineno
    return None


def statement(text: str, lineno: int) -> ast.stmt | None:
    """The smallest statement that covers the line."""
    root = tree(text)
    if root is None:
        return None
    covering = [n for n in ast.walk(root) if isinstance(n, ast.stmt) and n.lineno <= lineno <= (n.end_lineno or 0)]
    return min(covering, key=lambda n: (n.end_lineno or 0) - n.lineno, default=None)


def around(text: str, lineno: int) -> tuple[Token, ...]:
    """The tokens of the line, then those of the other lines of its statement."""
    found = statement(text, lineno)
    first, last = (found.lineno, found.end_lineno or found.lineno) if found else (lineno, lineno)
    inside = [token for token in tokens(text) if first <= token.row <= last]
    return tuple(sorted(inside, key=lambda token: token.row != lineno))


def enclosing(root: ast.Module, lineno: int) -> list[Scope]:
    """The functions and classes around the line, the innermost first."""
    found = [n for n in ast.walk(root) if isinstance(n, SCOPES) and n.lineno <= lineno <= (n.end_lineno or 0)]
    return sorted(found, key=lambda node: node.lineno, reverse=True)


def bound(scope: ast.AST) -> Iterator[str]:
    """The names that `scope` itself binds, nested functions and classes by their name only."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop(0)
        yield from _binds(node)
        if not isinstance(node, SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def _binds(node: ast.AST) -> Iterator[str]:
    """The names that this one node binds."""
    if isinstance(node, (*SCOPES, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.alias):
        yield node.asname or node.name.partition(".")[0]


def dotted(path: str) -> str:
    """The module's name for a path in the repository: `src/shop/cart.py` is `shop.cart`."""
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    return ".".join(parts[1:] if parts[0] == "src" and len(parts) > 1 else parts)


def of_module(case: Case, module: str) -> tuple[Source, ...]:
    """The sources of the case that `module` may name."""
    return tuple(s for s in sources(case) if f".{dotted(s.path)}".endswith(f".{module}"))


def line_end(text: str, offset: int) -> str:
    """The line end in use just before `offset`, else just behind it."""
    ends = [
        line[len(line.rstrip("\r\n")) :] for line in split_lines(text[:offset])[-1:] + split_lines(text[offset:])[:1]
    ]
    return next(filter(None, ends), "\n")


def read_literal(string: str) -> object:
    """The value of a literal, or None where it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.literal_eval(string)
    except (*UNREADABLE, TypeError):
        return None
