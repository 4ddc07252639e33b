"""Guards for a division by zero, with the value that the failing test asks for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from heal_core.engines import _code as code
from heal_core.engines._code import Draft, Splice
from heal_core.failure import Raised
from heal_core.localize import Case
from heal_core.source import Source

DIVISIONS = (ast.Div, ast.FloorDiv, ast.Mod)
# Calls that may be written twice, as they change nothing.
HARMLESS = frozenset({"len", "sum", "abs", "min", "max", "int", "float", "round"})
SIMPLE = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.BinOp)
UNREPEATABLE = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)


def guards(case: Case, raised: Raised) -> Iterator[Draft]:
    """Drafts that give the expected value instead of dividing by zero at the place of `raised`."""
    spot = code.place(case, raised) if raised.type == "ZeroDivisionError" else None
    statement = code.statement(spot[0].text, spot[1]) if spot else None
    if spot is None or statement is None:
        return
    source, lineno = spot
    for divisor, division in _divisions(statement, lineno):
        for value in _expected(case, raised, division) if _repeatable(divisor) else ():
            yield from _guarded(source, statement, divisor, division, value)


def _divisions(statement: ast.stmt, lineno: int) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The divisors on the line, each with its division (None where the statement itself is one: `x /= n`)."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, DIVISIONS):
        yield statement.value, None
    for node in ast.walk(statement):
        covers = isinstance(node, ast.expr) and node.lineno <= lineno <= (node.end_lineno or node.lineno)
        if covers and isinstance(node, ast.BinOp) and isinstance(node.op, DIVISIONS) and not _text_format(node):
            yield node.right, node


def _text_format(node: ast.BinOp) -> bool:
    return isinstance(node.left, ast.Constant) and isinstance(node.left.value, (str, bytes))


def _repeatable(divisor: ast.expr) -> bool:
    """Whether the divisor can be looked at once more without an effect, and can be zero at all."""
    calls = [node for node in ast.walk(divisor) if isinstance(node, ast.Call)]
    harmless = all(isinstance(call.func, ast.Name) and call.func.id in HARMLESS for call in calls)
    return (
        harmless
        and not isinstance(divisor, ast.Constant)
        and not any(isinstance(node, UNREPEATABLE) for node in ast.walk(divisor))
    )


def _guarded(
    source: Source, statement: ast.stmt, divisor: ast.expr, division: ast.expr | None, value: str
) -> Iterator[Draft]:
    text = source.text
    condition = text[slice(*code.span(text, divisor))]
    told = f"`{condition}` can be zero; `{value}` is the value to give then."
    asked = condition if isinstance(divisor, SIMPLE) else f"({condition})"
    returned = statement.value if isinstance(statement, ast.Return) else None
    if returned is not None:
        yield Draft(source, _otherwise(text, returned, asked, value, bare=True), told)
    if division is not None and division is not returned:
        yield Draft(source, _otherwise(text, division, asked, value, bare=False), told)
    early = _early_return(text, statement, asked, value)
    if early is not None:
        yield Draft(source, early, told)


def _otherwise(text: str, node: ast.expr, condition: str, value: str, bare: bool) -> str:
    """`node` as a conditional expression, in parentheses unless it stands `bare`."""
    start, end = code.span(text, node)
    opened, closed = ("", "") if bare else ("(", ")")
    return code.spliced(text, [Splice(start, start, opened), Splice(end, end, f" if {condition} else {value}{closed}")])


def _early_return(text: str, statement: ast.stmt, condition: str, value: str) -> str | None:
    """An `if not ...: return ...` before the statement; None outside a function or behind other code on the line."""
    root = code.tree(text)
    around = code.enclosing(root, statement.lineno) if root else []
    start, _ = code.span(text, statement)
    first = code.starts(text)[statement.lineno - 1]
    indent = text[first:start]
    if not around or not isinstance(around[0], code.FUNCTIONS) or indent.strip() or "\n" in condition:
        return None
    end = code.line_end(text, first)
    deeper = indent + ("\t" if "\t" in indent else "    ")
    return code.spliced(text, [Splice(first, first, f"{indent}if not {condition}:{end}{deeper}return {value}{end}")])


def _expected(case: Case, raised: Raised, division: ast.expr | None) -> list[str]:
    """The values that the failing test compares with, the nearest to the failing line first; else the usual ones."""
    visible = list(
        dict.fromkeys(value for source, lineno in _tests(case, raised) for value in _compared(source, lineno))
    )
    whole = isinstance(division, ast.BinOp) and not isinstance(division.op, ast.Div)
    return visible[:3] or ["0" if whole else "0.0", "None"]


def _tests(case: Case, raised: Raised) -> Iterator[tuple[Source, int]]:
    tests = {source.path: source for source in case.tests}
    yield from ((tests[frame.path], frame.lineno) for frame in reversed(raised.frames) if frame.path in tests)


def _compared(source: Source, lineno: int) -> Iterator[str]:
    """The literals that the assertions of the test around `lineno` compare with, those at or below the line."""
    root = code.tree(source.text)
    around = code.enclosing(root, lineno) if root else []
    asserts = [n for n in ast.walk(around[0]) if isinstance(n, (ast.Assert, ast.Call))] if around else []
    for node in sorted((n for n in asserts if (n.end_lineno or 0) >= lineno), key=lambda n: n.lineno):
        yield from _literals(node)


def _literals(node: ast.Assert | ast.Call) -> Iterator[str]:
    """The literal sides of `assert a == b`, of `assertEqual(a, b)` and of `approx(b)`."""
    if isinstance(node, ast.Assert):
        sides = [node.test.left, *node.test.comparators] if isinstance(node.test, ast.Compare) else []
    else:
        called = ast.unparse(node.func).rpartition(".")[2]
        if called == "assertIsNone":
            yield "None"
        sides = node.args[:2] if called in ("assertEqual", "assertAlmostEqual", "assertIs", "approx") else []
    for side in sides:
        try:
            value = ast.literal_eval(side)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            continue
        if value is None or isinstance(value, (bool, int, float, str)):
            yield ast.unparse(side)
