"""What a source imports, as it is written: statements, calls of the import machinery, and names in literals."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from heal_core.source import syntax_tree

LOADERS = frozenset({"import_module", "__import__", "importorskip", "run_module"})
NAME_LISTS = ("__all__", "pytest_plugins")

WORD_BYTES = bytes(c if chr(c).isalnum() or c == ord("_") or c >= 0x80 else ord(" ") for c in range(256))
W = r"[^\x00-/:-@\[-^`{-\x7f]"  # the same letters as WORD_BYTES, all that ASCII has not excluded
DOTTED_STRING = re.compile(rf"""["']({W}+(?:\.{W}+)+)["':]""")
STATEMENT = re.compile(
    rf"(?:^|[;:])[ \t\f]*(?:from[ \t]*(\.*)[ \t]*((?:{W}|\.)*)[ \t]+import[ \t]*(\([^)]*\)?|[^\n;(]+)"
    r"|import[ \t]+([^\n;]+))",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Import:
    """One import as it is written.

    `level` counts the leading dots, `module` is the dotted name after them, `members` what is taken from it (which may
    be modules or not). `how` says where it was found: a statement or call that imports, the package's own `__all__`,
    or a literal with the look of a module's name (`mock.patch("app.views.load")`).
    """

    module: str
    level: int = 0
    members: tuple[str, ...] = ()
    how: Literal["import", "all", "literal"] = "import"


def imports_of(source: bytes) -> tuple[Import, ...]:
    """Every import in `source`, those in `if TYPE_CHECKING:` left out; where it does not parse, by its import lines."""
    text = _text(source)
    literals = (Import(name, how="literal") for name in DOTTED_STRING.findall(text))
    tree = syntax_tree(source)
    if tree is None:
        return (*_scanned(text), *literals)
    statements = list(_statements(tree))
    found = [*_from_statements(statements), *_from_lists(statements, set(words_of(source)))]
    if any(word in text for word in LOADERS):
        found.extend(_from_calls(tree, statements))
    return (*found, *literals)


def _text(source: bytes) -> str:
    """The source as text, its identifiers in the normal form that Python compares them in."""
    if source.isascii():
        return source.decode("ascii")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        text = source.decode(encoding, "replace")
    except (SyntaxError, LookupError):
        text = source.decode("utf-8", "replace")
    return unicodedata.normalize("NFKC", text)


def words_of(source: bytes) -> list[bytes]:
    """The words of the source, in UTF-8; every identifier is one, and every identifier within a literal."""
    plain = source if source.isascii() else _text(source).encode("utf-8", "replace")
    return plain.translate(WORD_BYTES).split()


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Every statement that can run, at any depth; expressions are not entered."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        yield node
        never = _never_run(node)
        for block in ("body", "orelse", "handlers", "finalbody", "cases"):
            if block != never:
                stack.extend(getattr(node, block, ()))


def _never_run(node: ast.AST) -> str:
    """The block of an `if` on TYPE_CHECKING that only type checkers read, "" for any other statement."""
    if not isinstance(node, ast.If):
        return ""
    test, block = node.test, "body"
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, block = test.operand, "orelse"
    name = test.id if isinstance(test, ast.Name) else test.attr if isinstance(test, ast.Attribute) else ""
    return block if name == "TYPE_CHECKING" else ""


def _from_statements(statements: Iterable[ast.AST]) -> Iterator[Import]:
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            members = tuple(alias.name for alias in node.names if alias.name != "*")
            yield Import(node.module or "", node.level, members)


def _from_lists(statements: Iterable[ast.AST], words: Collection[bytes]) -> Iterator[Import]:
    """The modules that `__all__` may make a star import run, and the plugins that a conftest names."""
    for node in statements:
        if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        if names.isdisjoint(NAME_LISTS):
            continue
        strings = tuple(value for part in ast.walk(node.value) if (value := _literal(part)))
        if "__all__" in names:
            yield Import("", 1, tuple(text for text in strings if text.encode("utf-8", "replace") in words), "all")
        else:
            yield from map(Import, strings)


def _from_calls(tree: ast.Module, statements: Iterable[ast.AST]) -> Iterator[Import]:
    """`importlib.import_module("x")` and its like, under whatever name they were imported."""
    aliases = (alias for node in statements if isinstance(node, ast.ImportFrom) for alias in node.names)
    loaders = LOADERS | {alias.asname for alias in aliases if alias.asname and alias.name in LOADERS}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        values = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in ("name", "package"))]
        if name in loaders and values and (module := _literal(values[0])):
            yield _loaded(module, _literal(values[1]) if len(values) > 1 else "")


def _loaded(module: str, package: str) -> Import:
    """What `import_module(module, package)` imports; without a literal package it is the file's own."""
    bare = module.lstrip(".")
    level = len(module) - len(bare)
    if not level or not package:
        return Import(bare, level)
    parts = package.split(".")
    return Import(".".join(filter(None, [*parts[: len(parts) - level + 1], bare])))


def _literal(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


LOADER_CALL = re.compile(rf"""(?:{"|".join(sorted(LOADERS))})\(\s*["'](\.*)((?:{W}|\.)+)["']""")
DOTTED_NAME = re.compile(rf"{W}+(?:\.{W}+)*")


def _scanned(text: str) -> Iterator[Import]:
    """The imports in a source that does not parse, by the look of its lines."""
    text = re.sub(r"#[^\n]*", "", text.replace("\r\n", "\n").replace("\r", "\n")).replace("\\\n", " ")
    for dots, module, members, modules in STATEMENT.findall(text):
        if modules:
            yield from map(Import, _listed(modules))
        elif dots or module:
            yield Import(module, len(dots), tuple(_listed(members)))
    for dots, module in LOADER_CALL.findall(text):
        yield Import(module, len(dots))


def _listed(text: str) -> list[str]:
    """The names in `a.b as c, d`, the part after `import`."""
    firsts = (part.split()[:1] for part in text.strip("() \t\n").split(","))
    return [name for first in firsts for name in first if DOTTED_NAME.fullmatch(name)]
