"""The import graph of a repository, read from its sources: who depends on a module, and through which files.

Nothing is parsed but what may matter: an import names the last part of the module's dotted name, so a file without that
word is no importer. What is not written as a word (an `__init__.py` above the file, a `conftest.py` above a test) is a
dependency without any import statement.
"""

from __future__ import annotations

import ast
import io
import posixpath
import re
import sys
import tokenize
import unicodedata
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from heal_core.pytest_settings import Settings, folders_above

LOADERS = frozenset({"import_module", "__import__", "importorskip", "run_module"})
COMPUTED = (*sorted(LOADERS), "pytest_plugins")  # a file with one of these words may name a module by any literal
Key = TypeVar("Key")

NAME_LISTS = ("__all__", "pytest_plugins")

WORD_BYTES = bytes(c if chr(c).isalnum() or c == ord("_") or c >= 0x80 else ord(" ") for c in range(256))
W = r"[0-9A-Za-z_\u0080-\U0010ffff]"  # the same letters as WORD_BYTES
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
    tree = _parse(source)
    if tree is None:
        return (*_scanned(text), *literals)
    statements = list(_statements(tree))
    found = [*_from_statements(statements), *_from_lists(statements, set(_words(source)))]
    if any(word in text for word in LOADERS):
        found.extend(_from_calls(tree, statements))
    return (*found, *literals)


class ImportGraph:
    """Who imports whom in `files`; every file is read at most once, and parsed only when it may be an importer.

    `present` are the Python files, `tests` those of them that pytest collects (never a `conftest.py`). `absent` are
    paths that are not in `files` (any more) but whose dotted names count.
    """

    def __init__(self, files: Mapping[str, bytes], settings: Settings, absent: Iterable[str] = ()) -> None:
        self._files = files
        self._sources: dict[str, bytes] = {}
        self._imports: dict[str, frozenset[str]] = {}
        self.present = frozenset(path for path in files if path.endswith(".py"))
        self.tests = frozenset(path for path in self.present if _is_test(path, settings))
        known = self.present | {path for path in absent if path.endswith(".py")}
        self._known = known
        self._named = _by_name(known, _roots(known, self.tests, settings))
        self._implied = {path: _implied(path, known, path in self.tests) for path in self.present}
        self._below = _inverted(self._implied)
        self._mentioning: dict[bytes, list[str]] | None = None

    def source(self, path: str) -> bytes:
        """The content of `path`."""
        if path not in self._sources:
            self._sources[path] = self._files[path]
        return self._sources[path]

    def sources(self) -> Iterator[tuple[str, bytes]]:
        """Path and content of every Python file, by path."""
        return ((path, self.source(path)) for path in sorted(self.present))

    def imports(self, path: str) -> frozenset[str]:
        """The paths that `path` depends on directly: what it imports, and what runs before it without being asked."""
        if path not in self._imports:
            found = (self._resolve(path, each) for each in imports_of(self.source(path)))
            self._imports[path] = frozenset(self._implied[path]).union(*found) - {path}
        return self._imports[path]

    def importers(self, targets: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """For every other file that depends on one of `targets`, a shortest chain of paths from it to the target."""
        chains: dict[str, tuple[str, ...]] = {target: (target,) for target in targets}
        frontier = set(targets)
        while frontier:
            found = {}
            for path in self._candidates(frontier):
                if path not in chains and (hit := self._implied[path] & frontier or self.imports(path) & frontier):
                    found[path] = (path, *chains[min(hit)])
            chains |= found
            frontier = set(found)
        return {path: chain for path, chain in chains.items() if len(chain) > 1}

    def _candidates(self, frontier: set[str]) -> set[str]:
        """The files that may depend on one of `frontier` directly."""
        index = self._index()
        words = {_last_name(path) for path in frontier}
        words.update(COMPUTED)
        found = {path for word in words for path in index.get(word.encode("utf-8", "surrogateescape"), ())}
        return found.union(*(self._below.get(path, ()) for path in frontier))

    def _index(self) -> Mapping[bytes, list[str]]:
        """The files by the words that they hold, for the words that a module of this repository is named by."""
        if self._mentioning is None:
            names = {_last_name(path) for path in self._known} | set(COMPUTED)
            wanted = frozenset(name.encode("utf-8", "surrogateescape") for name in names)
            words = {path: wanted.intersection(_words(data)) for path, data in self.sources()}
            self._mentioning = _inverted(words)
        return self._mentioning

    def _resolve(self, path: str, each: Import) -> frozenset[str]:
        """The files that one import of `path` runs."""
        if each.how == "all" and posixpath.basename(path) != "__init__.py":
            return frozenset()
        if each.level:
            return frozenset(self._resolve_relative(path, each))
        return frozenset(self._resolve_absolute(path, each))

    def _resolve_relative(self, path: str, each: Import) -> Iterator[str]:
        package = _package_folder(path, each.level)
        if package is not None:
            for name in _executed(each):
                yield from self._at(_in(package, name.replace(".", "/")))

    def _resolve_absolute(self, path: str, each: Import) -> Iterator[str]:
        names = _executed(each)
        # A literal that shares only its first part with a package ("app.title") says too little.
        if each.how == "literal" and not any("." in name and name in self._named for name in names):
            return
        base = _base(path, self._known)
        for name in names:
            yield from self._named.get(name, ())
            yield from self._at(_in(base, name.replace(".", "/")))

    def _at(self, stem: str) -> Iterator[str]:
        return (path for path in (stem + ".py", stem + "/__init__.py") if path in self._known)


def importers(
    targets: Collection[str], files: Mapping[str, bytes], settings: Settings
) -> Mapping[str, tuple[str, ...]]:
    """For every file that transitively imports one of `targets`, a shortest chain of paths from it to the target.

    A target may be absent from `files`: its dotted names count. Targets themselves are no keys of the answer.
    """
    return ImportGraph(files, settings, absent=targets).importers(targets)


def imported_modules(files: Mapping[str, bytes], paths: Iterable[str]) -> frozenset[str]:
    """The dotted names of the modules that the sources at `paths` import; relative ones by their package's name."""
    known = frozenset(path for path in files if path.endswith(".py"))
    modules = {name for path in known if (name := _dotted(path, _base(path, known)))} | {_dotted(p, "") for p in known}
    found: set[str] = set()
    for path in paths:
        for each in imports_of(files[path]):
            if each.how == "import" and (module := _absolute(path, each, known)):
                found.add(module)
                found.update(name for member in each.members if (name := f"{module}.{member}") in modules)
    return frozenset(found)


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


def _words(source: bytes) -> list[bytes]:
    """The words of the source, in UTF-8; every identifier is one, and every identifier within a literal."""
    plain = source if source.isascii() else _text(source).encode("utf-8", "replace")
    return plain.translate(WORD_BYTES).split()


def _parse(source: bytes) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an invalid escape in the user's source is not ours to report
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


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


def _executed(each: Import) -> list[str]:
    """The dotted names that the import may run: the module, its packages, and its members in case they are modules."""
    parts = each.module.split(".") if each.module else []
    prefixes = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
    return prefixes + [".".join([*parts, member]) for member in each.members]


def _is_test(path: str, settings: Settings) -> bool:
    return posixpath.basename(path) != "conftest.py" and settings.is_test_file(path)


def _base(path: str, known: Collection[str]) -> str:
    """The first folder above `path` that is no package: what pytest and `python FILE` put on `sys.path`."""
    return next(
        folder for folder in folders_above(path) if posixpath.join(folder, "__init__.py") not in known or not folder
    )


def _in(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _dotted(path: str, root: str) -> str:
    """The name by which `path` is imported when `root` is on `sys.path`, "" when it has none."""
    stem = path[len(root) + 1 if root else 0 : -len(".py")]
    package = "" if stem == "__init__" else stem.removesuffix("/__init__")
    return "" if "." in package else package.replace("/", ".")


def _last_name(path: str) -> str:
    """The last part of every dotted name that `path` can have."""
    stem = path.removesuffix(".py").removesuffix("/__init__")
    return posixpath.basename(stem)


def _package_folder(path: str, level: int) -> str | None:
    """The folder that a relative import with `level` dots starts from, None beyond the repository."""
    folders = list(folders_above(path))
    return folders[level - 1] if level <= len(folders) else None


def _absolute(path: str, each: Import, known: Collection[str]) -> str:
    """The dotted name of the module that `path` imports from, "" where it is not known."""
    if not each.level:
        return each.module
    folder = _package_folder(path, each.level)
    if folder is None:
        return ""
    base = _base(path, known)
    inside = base if folder == base or folder.startswith(base + "/") else ""
    package = _dotted(_in(folder, "__init__.py"), inside)
    return ".".join(filter(None, (package, each.module)))


def _roots(known: Collection[str], tests: Collection[str], settings: Settings) -> frozenset[str]:
    """The folders from which any file may import."""
    sources = {folder for path in known for folder in folders_above(path) if folder.rpartition("/")[2] == "src"}
    told = {folder for each in settings.folders.values() for folder in (each.rootdir, *each.pythonpath)}
    collected = (path for path in known if path in tests or posixpath.basename(path) == "conftest.py")
    return frozenset({"", *sources, *told, *(_base(path, known) for path in collected)})


def _by_name(known: Collection[str], roots: Collection[str]) -> Mapping[str, list[str]]:
    """The files by dotted name; one file has a name for every root above it."""
    named: dict[str, list[str]] = {}
    for path in sorted(known):
        base = _base(path, known)
        for folder in folders_above(path):
            name = _dotted(path, folder) if folder in roots or folder == base else ""
            # A folder that nothing is known to import from must not make `import logging` mean acme/logging.py.
            if name and (folder in roots or name.partition(".")[0] not in sys.stdlib_module_names):
                named.setdefault(name, []).append(path)
    return named


def _implied(path: str, known: Collection[str], is_test: bool) -> frozenset[str]:
    """What runs before `path` without being imported: its packages and, for a test, every conftest.py above it."""
    names = ("__init__.py", "conftest.py") if is_test else ("__init__.py",)
    above = {_in(folder, name) for folder in folders_above(path) for name in names}
    return frozenset(above.intersection(known) - {path})


def _inverted(values: Mapping[str, Iterable[Key]]) -> dict[Key, list[str]]:
    inverted: dict[Key, list[str]] = {}
    for path, keys in values.items():
        for key in keys:
            inverted.setdefault(key, []).append(path)
    return inverted
