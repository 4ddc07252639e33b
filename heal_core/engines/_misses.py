"""What an exception says of a name that was not found, and which names may have been meant."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from heal_core.engines import _code as code
from heal_core.engines._code import Token
from heal_core.failure import Raised
from heal_core.localize import Case
from heal_core.source import Source

UNDEFINED = re.compile(r"name '(\w+)' is not defined|(?:local|free) variable '(\w+)'")
ATTRIBUTE = re.compile(
    r"(?:module '(?P<module>[\w.]+)'|(?:type object )?'(?P<type>[\w.]+)'(?: object)?) has no attribute '(?P<name>\w+)'"
)
IMPORTED = re.compile(r"cannot import name '(\w+)' from (?:partially initialized module )?'([\w.]+)'")
NO_MODULE = re.compile(r"No module named '([\w.]+)'")
KEYWORD = re.compile(r"([\w.<>]+)\(\) got an unexpected keyword argument '(\w+)'")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A name that may have been meant, and the editable source that defines it (None where none does)."""

    name: str
    home: Source | None = None


@dataclass(frozen=True, slots=True)
class Miss:
    """A name that was not found: which `kind` of token it is, what the `problem` is, and `where` it was looked for.

    `sure` are names to propose however far they are off.
    """

    name: str
    kind: str
    problem: str
    where: str
    candidates: tuple[Candidate, ...]
    sure: tuple[str, ...] = ()


def read_miss(case: Case, raised: Raised) -> Miss | None:
    """The name that `raised` did not find, or None where it is of another kind."""
    reader = READERS.get(raised.type)
    return reader(case, raised) if reader else None


def spells(token: Token, kind: str, name: str) -> bool:
    """Whether `token` is `name` in the role that `kind` says."""
    if kind == "key":
        return token.kind == tokenize.STRING and name in token.text and code.read_literal(token.text) == name
    if token.kind != tokenize.NAME or token.text != name:
        return False
    roles = {
        "name": token.before != ".",
        "attribute": token.before == ".",
        "keyword": token.after == "=" and token.before in ("(", ","),
    }
    return roles.get(kind, True)


def imported(root: ast.Module) -> set[str]:
    """The names that the imports of a source bind, wherever they stand."""
    return {node.asname or node.name for node in ast.walk(root) if isinstance(node, ast.alias)}


def _undefined(case: Case, raised: Raised) -> Miss | None:
    found = UNDEFINED.search(raised.message)
    spot = code.place(case, raised)
    root = code.tree(spot[0].text) if spot else None
    if found is None or spot is None or root is None:
        return None
    name = found[1] or found[2]
    problem = "is not defined" if found[1] else "has no value yet"
    around = code.enclosing(root, spot[1])
    candidates = tuple(_in_scope(root, around, spot[0]))
    return Miss(name, "name", problem, "in scope", candidates, tuple(_of_self(around, name)))


def _in_scope(root: ast.Module, around: list[code.Scope], source: Source) -> Iterator[Candidate]:
    """The names that a line in the scopes `around` can see, the innermost scope's first."""
    visible = [scope for scope in around if scope is around[0] or not isinstance(scope, ast.ClassDef)]
    foreign = imported(root)
    for scope in (*visible, root):
        yield from (Candidate(name, None if name in foreign else source) for name in code.bound(scope))
    yield from (Candidate(name) for name in dir(builtins) if not name.startswith("_"))


def _of_self(around: list[code.Scope], name: str) -> Iterator[str]:
    """`self.name`, where the class around a method has that very attribute."""
    method = around[0] if around else None
    owner = next((scope for scope in around if isinstance(scope, ast.ClassDef)), None)
    if isinstance(method, code.FUNCTIONS) and owner and method.args.args and name in _attributes(owner):
        yield f"{method.args.args[0].arg}.{name}"


def _attributes(scope: ast.ClassDef) -> Iterator[str]:
    """What an instance of the class has by its body: names bound there and `self.x` assignments."""
    yield from code.bound(scope)
    for node in ast.walk(scope):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def _no_attribute(case: Case, raised: Raised) -> Miss | None:
    found = ATTRIBUTE.search(raised.message)
    if found is None:
        return None
    owner = found["module"] or found["type"]
    candidates = _of_module(case, owner) if found["module"] else _of_type(case, owner)
    return Miss(found["name"], "attribute", f"is no attribute of `{owner}`", "there", tuple(candidates))


def _of_module(case: Case, module: str) -> Iterator[Candidate]:
    """What the module defines: by its source, or, for a library that is loaded anyway, by looking at it."""
    for source in code.of_module(case, module):
        root = code.tree(source.text)
        yield from (Candidate(name, _editable(case, source)) for name in (code.bound(root) if root else ()))
    if module.partition(".")[0] in sys.stdlib_module_names:
        yield from (Candidate(name) for name in dir(sys.modules.get(module)) if not name.startswith("_"))


def _of_type(case: Case, owner: str) -> Iterator[Candidate]:
    """What an instance of the class has: as a class of Python's own, or by its source and that of its bases."""
    known = _known_type(case, owner)
    if known is not None:
        yield from (Candidate(name) for name in dir(known) if not name.startswith("_"))
        return
    waiting, seen = [owner.rpartition(".")[2]], set()
    while waiting:
        name = waiting.pop(0)
        for source, scope in _classes(case, name) if name not in seen else ():
            yield from (Candidate(attribute, _editable(case, source)) for attribute in _attributes(scope))
            waiting.extend(ast.unparse(base).rpartition(".")[2] for base in scope.bases)
        seen.add(name)
    yield from _written(case, "attribute")


def _written(case: Case, kind: str) -> Iterator[Candidate]:
    """What stands in the sources in the role of `kind`: all that is known of what unstaged files define."""
    for token in (token for source in code.sources(case) for token in code.tokens(source.text)):
        if not keyword.iskeyword(token.text) and spells(token, kind, token.text):
            yield Candidate(token.text)


def _known_type(case: Case, owner: str) -> type | None:
    """The builtin or standard class of that name; of the modules that are loaded anyway, as none is imported for it."""
    module, _, name = owner.rpartition(".")
    imported = [module] if module else ["builtins", *sorted(case.modules)]
    standard = (other for other in imported if other.partition(".")[0] in sys.stdlib_module_names)
    found = (getattr(sys.modules.get(other), name, None) for other in standard)
    return next((known for known in found if isinstance(known, type)), None)


def _classes(case: Case, name: str) -> Iterator[tuple[Source, ast.ClassDef]]:
    for source in code.sources(case):
        root = code.tree(source.text)
        for node in ast.walk(root) if root else ():
            if isinstance(node, ast.ClassDef) and node.name == name:
                yield source, node


def _editable(case: Case, source: Source) -> Source | None:
    return source if source in case.editable else None


def _not_imported(case: Case, raised: Raised) -> Miss | None:
    found = IMPORTED.search(raised.message)
    if found is None:
        return None
    problem = f"cannot be imported from `{found[2]}`"
    candidates = (*_of_module(case, found[2]), *_submodules(case, found[2]), *_written(case, "name"))
    return Miss(found[1], "import", problem, "there", candidates)


def _submodules(case: Case, package: str) -> Iterator[Candidate]:
    for source in code.sources(case):
        _, inside, rest = f".{code.dotted(source.path)}".partition(f".{package}.")
        if inside:
            yield Candidate(rest.partition(".")[0])


def _no_module(case: Case, raised: Raised) -> Miss | None:
    """The one part of the dotted name that no module has; a module's file is not renamed, so there is no home."""
    found = NO_MODULE.search(raised.message)
    if found is None:
        return None
    parts = found[1].split(".")
    paths = [code.dotted(source.path).split(".") for source in code.sources(case)]
    suffixes = [path[at:] for path in paths for at in range(len(path))]
    known = [*suffixes, *(name.split(".") for name in sorted({*case.modules, *sys.stdlib_module_names}))]
    family = [other for other in known if other[: len(parts) - 1] == parts[:-1] and len(other) >= len(parts)]
    candidates = tuple(
        Candidate(other[len(parts) - 1]) for other in family if found[1] != ".".join(other[: len(parts)])
    )
    return Miss(parts[-1], "module", "is no module", "among the modules", candidates)


def _unexpected_keyword(case: Case, raised: Raised) -> Miss | None:
    found = KEYWORD.search(raised.message)
    if found is None:
        return None
    candidates = (*_parameters(case, found[1].split(".")), *_written(case, "keyword"))
    return Miss(found[2], "keyword", f"is no parameter of `{found[1]}`", "there", candidates)


def _parameters(case: Case, name: list[str]) -> Iterator[Candidate]:
    """The parameters of the functions of that name, or the fields of the class whose generated `__init__` it is."""
    owner = name[-2] if name[-1] == "__init__" and len(name) > 1 else None
    for source, scope in _classes(case, owner) if owner else ():
        fields = (n.target.id for n in scope.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name))
        yield from (Candidate(field, _editable(case, source)) for field in fields)
    for source in code.sources(case):
        root = code.tree(source.text)
        for node in ast.walk(root) if root else ():
            if isinstance(node, code.FUNCTIONS) and node.name == name[-1]:
                arguments = (*node.args.args, *node.args.kwonlyargs)
                yield from (Candidate(argument.arg, _editable(case, source)) for argument in arguments)


def _no_key(case: Case, raised: Raised) -> Miss | None:
    key = code.read_literal(re.split(r"\n| \[subtest ", raised.message)[0])
    if not isinstance(key, str) or not _plain_key(key):
        return None
    return Miss(key, "key", "is no key here", "among the keys", tuple(_keys(case)))


def _keys(case: Case) -> Iterator[Candidate]:
    for source in code.sources(case):
        for token in code.tokens(source.text):
            value = code.read_literal(token.text) if token.kind == tokenize.STRING and len(token.text) < 60 else None
            if isinstance(value, str) and _plain_key(value):
                yield Candidate(value, _editable(case, source))


def _plain_key(key: str) -> bool:
    """Whether the key stands between quotes of any kind as it is."""
    return key.isprintable() and not set(key) & set("'\"\\") and 1 < len(key) < 60


READERS: dict[str, Callable[[Case, Raised], Miss | None]] = {
    "NameError": _undefined,
    "UnboundLocalError": _undefined,
    "AttributeError": _no_attribute,
    "ImportError": _not_imported,
    "ModuleNotFoundError": _no_module,
    "TypeError": _unexpected_keyword,
    "KeyError": _no_key,
}
