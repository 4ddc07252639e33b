"""Repairs of a name that nobody imported."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from heal_core.engines import _code as code
from heal_core.engines._code import Draft, Splice
from heal_core.engines._misses import UNDEFINED
from heal_core.failure import Raised
from heal_core.localize import Case
from heal_core.source import Source

# Names of the standard library that are commonly imported by themselves, and from where.
WELL_KNOWN = {
    "Any": "typing",
    "Callable": "collections.abc",
    "Counter": "collections",
    "Decimal": "decimal",
    "Enum": "enum",
    "Fraction": "fractions",
    "Iterable": "collections.abc",
    "Iterator": "collections.abc",
    "Mapping": "collections.abc",
    "Optional": "typing",
    "OrderedDict": "collections",
    "Path": "pathlib",
    "Sequence": "collections.abc",
    "StringIO": "io",
    "Union": "typing",
    "ABC": "abc",
    "abstractmethod": "abc",
    "contextmanager": "contextlib",
    "dataclass": "dataclasses",
    "date": "datetime",
    "datetime": "datetime",
    "deepcopy": "copy",
    "defaultdict": "collections",
    "deque": "collections",
    "field": "dataclasses",
    "lru_cache": "functools",
    "namedtuple": "collections",
    "partial": "functools",
    "reduce": "functools",
    "timedelta": "datetime",
    "wraps": "functools",
}


def missing_imports(case: Case, raised: Raised) -> Iterator[Draft]:
    """Drafts that import the name that `raised`, a NameError, did not find; the statements of other sources first."""
    found = UNDEFINED.match(raised.message) if raised.type == "NameError" else None
    spot = code.place(case, raised)
    if found is None or found[1] is None or spot is None:
        return
    name, source = found[1], spot[0]
    dotted = any(t.text == name and t.after == "." and t.before != "." for t in code.tokens(source.text))
    for line in dict.fromkeys(_statements(case, source, name, dotted)):
        text = _inserted(source.text, line)
        if text is not None:
            yield Draft(source, text, f"`{name}` is used but never imported; `{line}` was missing.")


def _statements(case: Case, source: Source, name: str, dotted: bool) -> Iterator[str]:
    """The import statements that bind `name`; a plain module only where an attribute of it is used."""
    for other in code.sources(case):
        if other.path != source.path:
            yield from _copied(other, source, name)
    modules = {module.partition(".")[0] for module in case.modules} | sys.stdlib_module_names
    if dotted and name in modules and name != code.dotted(source.path):
        yield f"import {name}"
    if name in WELL_KNOWN:
        yield f"from {WELL_KNOWN[name]} import {name}"
    for other in case.editable:
        root = code.tree(other.text)
        defined = any(isinstance(n, code.SCOPES) and n.name == name for n in root.body) if root else False
        if defined and other.path != source.path:
            yield f"from {code.dotted(other.path)} import {name}"


def _copied(other: Source, source: Source, name: str) -> Iterator[str]:
    """The imports of `name` in `other`, alone; relative ones only between files of one folder."""
    root = code.tree(other.text)
    together = other.path.rpartition("/")[0] == source.path.rpartition("/")[0]
    for node in ast.walk(root) if root else ():
        if not isinstance(node, (ast.Import, ast.ImportFrom)) or getattr(node, "module", "") == "__future__":
            continue
        for alias in node.names:
            bound = alias.asname or (alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name)
            if bound == name and (isinstance(node, ast.Import) or together or not node.level):
                yield ast.unparse(_only(node, alias))


def _only(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> ast.stmt:
    if isinstance(node, ast.Import):
        return ast.Import([alias])
    return ast.ImportFrom(node.module, [alias], node.level)


def _inserted(text: str, line: str) -> str | None:
    """`text` with the import where its like stand: sorted into the group of its kind, else a group of its own."""
    root = code.tree(text)
    if root is None or not root.body:
        return None
    head = _head(root)
    imports = [node for node in root.body[head:] if isinstance(node, (ast.Import, ast.ImportFrom))]
    new = ast.parse(line).body[0]
    row, before, after = _row(root, head, imports, new)
    at = code.starts(text)[row]
    end = code.line_end(text, at)
    lead = "" if text[:at].endswith(("\n", "\r")) or not at else end
    return code.spliced(text, [Splice(at, at, lead + end * before + line + end * (1 + after))])


def _head(root: ast.Module) -> int:
    """How many statements must stay first: the docstring and the `__future__` imports."""
    count = 1 if ast.get_docstring(root, clean=False) is not None else 0
    while count < len(root.body) and getattr(root.body[count], "module", "") == "__future__":
        count += 1
    return count


def _row(
    root: ast.Module, head: int, imports: list[ast.Import | ast.ImportFrom], new: ast.stmt
) -> tuple[int, int, int]:
    """Before which line (from 0) to insert, and how many blank lines to put before and behind."""
    alike = [node for node in imports if _standard(node) == _standard(new)]
    if alike:
        later = [node for node in alike if _key(node) > _key(new)]
        return (later[0].lineno - 1 if later else alike[-1].end_lineno or 0), 0, 0
    if imports:
        return (imports[0].lineno - 1, 0, 1) if _standard(new) else (imports[-1].end_lineno or 0, 1, 0)
    if head:
        return root.body[head - 1].end_lineno or 0, 1, 0
    first = root.body[0]
    lineno = min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", ()))])
    return lineno - 1, 0, 2 if isinstance(first, code.SCOPES) else 1


def _standard(node: ast.stmt) -> bool:
    return _key(node)[1].partition(".")[0] in sys.stdlib_module_names


def _key(node: ast.stmt) -> tuple[bool, str]:
    """What imports are sorted by: plain ones first, then by module."""
    if isinstance(node, ast.ImportFrom):
        return True, "." * node.level + (node.module or "")
    return False, node.names[0].name if isinstance(node, ast.Import) else ""
