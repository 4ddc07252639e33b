"""The import graph of a repository, read from its sources: who depends on a module, and through which files.

Nothing is parsed but what may matter: an import names the last part of the module's dotted name, so a file without that
word is no importer. What is not written as a word (an `__init__.py` above the file, a `conftest.py` above a test) is a
dependency without any import statement.
"""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeVar

from heal_core.imports import LOADERS, Import, imports_of, words_of
from heal_core.pytest_settings import Settings, folders_above

COMPUTED = (*sorted(LOADERS), "pytest_plugins")  # a file with one of these words may name a module by any literal
Key = TypeVar("Key")


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
            words = {path: wanted.intersection(words_of(data)) for path, data in self.sources()}
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
