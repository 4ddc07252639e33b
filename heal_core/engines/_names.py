"""Repairs of a name that is one or two letters off, at its use or at its definition."""

from __future__ import annotations

import ast
import builtins
import re
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from heal_core.engines import _code as code
from heal_core.engines._code import Draft, Splice, Token
from heal_core.engines._nearest import nearest
from heal_core.failure import Failure, Raised
from heal_core.localize import Case
from heal_core.source import Source

UNDEFINED = re.compile(r"name '(\w+)' is not defined|(?:local|free) variable '(\w+)'")
ATTRIBUTE = re.compile(
    r"(?:module '(?P<module>[\w.]+)'|(?:type object )?'(?P<type>[\w.]+)'(?: object)?) has no attribute '(?P<name>\w+)'"
)
IMPORTED = re.compile(r"cannot import name '(\w+)' from (?:partially initialized module )?'([\w.]+)'")
NO_MODULE = re.compile(r"No module named '([\w.]+)'")
KEYWORD = re.compile(r"([\w.<>]+)\(\) got an unexpected keyword argument '(\w+)'")
HINT = re.compile(r"Did you mean:? '([\w.]+)'\?")


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


def respellings(case: Case, failure: Failure, raised: Raised) -> Iterator[Draft]:
    """Drafts that respell the name that `raised` did not find, the likeliest first."""
    reader = READERS.get(raised.type)
    miss = reader(case, raised) if reader else None
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
    drafts = [_at_use(miss, candidate.name, *found) if found else None, _at_definition(miss, candidate)]
    every = [token for source in code.sources(case) for token in code.tokens(source.text)]
    missing, known = (sum(_spells(token, _loose(miss.kind), n) for token in every) for n in (miss.name, candidate.name))
    if missing > known:
        drafts.reverse()
    yield from filter(None, drafts)


def _at_use(miss: Miss, name: str, source: Source, lineno: int) -> Draft | None:
    """The name replaced where it was looked up; in the whole file when the file itself never defines it."""
    here = [token for token in code.around(source.text, lineno) if _spells(token, miss.kind, miss.name)]
    if not here:
        return None
    if _defines(source, miss.name):
        spots = [token for token in here if token.row == here[0].row]
    else:
        kind = "name" if miss.kind == "import" else miss.kind
        spots = [token for token in code.tokens(source.text) if _spells(token, kind, miss.name)]
    diagnosis = f"`{miss.name}` {miss.problem}; the nearest name {miss.where} is `{name}`."
    return _replace(source, spots, miss.name, name, diagnosis)


def _at_definition(miss: Miss, candidate: Candidate) -> Draft | None:
    """Every token of the candidate respelt as it was asked for, in the source that defines it."""
    if candidate.home is None:
        return None
    spots = [t for t in code.tokens(candidate.home.text) if _spells(t, _loose(miss.kind), candidate.name)]
    diagnosis = f"`{miss.name}` {miss.problem}; `{candidate.name}` in {candidate.home.path} looks like a slip for it."
    return _replace(candidate.home, spots, candidate.name, miss.name, diagnosis)


def _replace(source: Source, spots: Iterable[Token], old: str, new: str, diagnosis: str) -> Draft | None:
    splices = [Splice(token.start, token.end, token.text.replace(old, new)) for token in spots]
    return Draft(source, code.spliced(source.text, splices), diagnosis) if splices else None


def _loose(kind: str) -> str:
    """The kind of token that a definition is written with: a key is a string, all else may be any name."""
    return "key" if kind == "key" else "any"


def _spells(token: Token, kind: str, name: str) -> bool:
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


def _defines(source: Source, name: str) -> bool:
    """Whether the source binds `name` anywhere, by other means than an import."""
    root = code.tree(source.text)
    if root is None:
        return True
    imported = {n.asname or n.name for n in ast.walk(root) if isinstance(n, ast.alias)}
    names = (
        name for scope in ast.walk(root) if isinstance(scope, (ast.Module, *code.SCOPES)) for name in code.bound(scope)
    )
    attributes = (n.attr for n in ast.walk(root) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return name not in imported and (name in names or name in attributes)


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
    for scope in (*visible, root):
        yield from (Candidate(name, source) for name in code.bound(scope))
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
    owner = found["module"] or found["type"].rpartition(".")[2]
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
    """What an instance of the class has: by its source and that of its bases, or as a builtin."""
    known = getattr(builtins, owner, None)
    if isinstance(known, type):
        yield from (Candidate(name) for name in dir(known) if not name.startswith("_"))
        return
    waiting, seen = [owner], set()
    while waiting:
        name = waiting.pop(0)
        for source, scope in _classes(case, name) if name not in seen else ():
            yield from (Candidate(attribute, _editable(case, source)) for attribute in _attributes(scope))
            waiting.extend(ast.unparse(base).rpartition(".")[2] for base in scope.bases)
        seen.add(name)
    texts = (token for source in code.sources(case) for token in code.tokens(source.text))
    yield from (Candidate(token.text) for token in texts if token.before == "." and token.kind == tokenize.NAME)


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
    return Miss(found[1], "import", problem, "there", tuple(_of_module(case, found[2])))


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
    candidates = tuple(_parameters(case, found[1].split(".")))
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
    key = code.read_literal(raised.message)
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
