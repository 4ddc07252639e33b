"""The pytest settings that decide which files are tests and what can be imported, folder by folder."""

from __future__ import annotations

import configparser
import importlib
import posixpath
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from heal_core.errors import EnvironmentFault

PYTHON_FILES = ("test_*.py", "*_test.py")
NORECURSEDIRS = ("*.egg", ".*", "_darcs", "build", "CVS", "dist", "node_modules", "venv", "{arch}")

Table = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FolderSettings:
    """What pytest is told in one folder.

    `rootdir` is that folder relative to the repository ("" for its root), `source` the file that says so ("" where the
    defaults hold). `testpaths` and `pythonpath` are relative to the repository too; entries outside it are left out.
    """

    rootdir: str = ""
    source: str = ""
    python_files: tuple[str, ...] = PYTHON_FILES
    testpaths: tuple[str, ...] = ()
    pythonpath: tuple[str, ...] = ()
    norecursedirs: tuple[str, ...] = NORECURSEDIRS
    doctest_modules: bool = False

    def is_test_file(self, path: str) -> bool:
        """Whether pytest collects `path` (relative to the repository) as a test file when it walks the folder."""
        if not path.endswith(".py") or not _matches(path, self.python_files):
            return False
        return not any(_matches(folder, self.norecursedirs) for folder in self._folders_between(path))

    def _folders_between(self, path: str) -> Iterator[str]:
        """The folders of `path` below the rootdir: pytest never applies `norecursedirs` to where it starts."""
        starts = {self.rootdir, *self.testpaths}
        return (folder for folder in folders_above(path) if folder not in starts and _is_below(folder, self.rootdir))


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of every folder of a repository that has any."""

    folders: Mapping[str, FolderSettings] = field(default_factory=dict)

    def for_path(self, path: str) -> FolderSettings:
        """The settings of the nearest folder at or above `path` that has any, the defaults at "" where none has."""
        for folder in folders_above(path):
            if folder in self.folders:
                return self.folders[folder]
        return FolderSettings()

    def is_test_file(self, path: str) -> bool:
        """Whether pytest collects `path` under the settings that hold for it."""
        return path.endswith(".py") and self.for_path(path).is_test_file(path)


def read_settings(files: Mapping[str, bytes]) -> Settings:
    """The pytest settings in `files` (path relative to the repository to content).

    Only settings files at or above a Python file are read. Raises EnvironmentFault for one that does not parse.
    """
    names = list(files)
    with_python = {folder for name in names if name.endswith(".py") for folder in folders_above(name)}
    present = {name for name in names if posixpath.basename(name) in READERS}
    found = {}
    for folder in {posixpath.dirname(name) for name in present} & with_python:
        settings = _read_folder(folder, files, present)
        if settings is not None:
            found[folder] = settings
    return Settings(found)


def folders_above(path: str) -> tuple[str, ...]:
    """The folders that hold `path`, the nearest first, "" (the repository's root) last."""
    return _with_parents(path.rpartition("/")[0])


@lru_cache(maxsize=65536)  # files share their folders, and every step of a selection asks for them
def _with_parents(folder: str) -> tuple[str, ...]:
    return (folder, *_with_parents(folder.rpartition("/")[0])) if folder else ("",)


def _is_below(path: str, folder: str) -> bool:
    return not folder or path.startswith(folder + "/")


def _matches(path: str, patterns: Iterable[str]) -> bool:
    """As pytest does: a pattern with a slash is held against the whole path, any other against the last name."""
    name = posixpath.basename(path)
    return any(fnmatchcase("/" + path, "*/" + p) if "/" in p else fnmatchcase(name, p) for p in patterns)


def _read_folder(folder: str, files: Mapping[str, bytes], present: set[str]) -> FolderSettings | None:
    """The settings of `folder` from the first file, in pytest's order, that has any."""
    for name, reader in READERS.items():
        path = posixpath.join(folder, name)
        if path not in present:
            continue
        table = _read_file(path, files[path], reader)
        if table is not None:
            return _folder_settings(folder, path, table)
    return None


def _read_file(path: str, data: bytes, reader: Callable[[str], Table | None]) -> Table | None:
    """The settings in the file, or None where it is not about pytest."""
    always_counts = "pytest" in posixpath.basename(path)
    if b"pytest" not in data:
        return {} if always_counts else None
    try:
        table = reader(data.decode("utf-8-sig"))
        if not isinstance(table, dict | None):
            raise ValueError("[pytest] is not a table")
    except (ValueError, configparser.Error, AttributeError) as error:  # AttributeError: `tool` is no table
        reason = " ".join(str(error).split())
        raise EnvironmentFault(f"pytest's settings in {path} cannot be read: {reason}", f"correct {path}") from error
    except ModuleNotFoundError as error:
        raise EnvironmentFault(f"reading {path} needs tomli on Python 3.10", "pip install tomli") from error
    return {} if table is None and always_counts else table


def _read_toml(text: str) -> Table:
    # By name, because no one import statement suits every Python: tomllib came with 3.11.
    module = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    table: Table = module.loads(text)
    return table


def _read_pytest_toml(text: str) -> Table | None:
    table: Table | None = _read_toml(text).get("pytest")
    return table


def _read_pyproject(text: str) -> Table | None:
    table = _read_toml(text).get("tool", {}).get("pytest")
    if table is None:
        return None
    native = {key: value for key, value in table.items() if key != "ini_options"}
    options: Table | None = native or table.get("ini_options")
    return options


def _read_ini(text: str, section: str = "pytest") -> Table | None:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    parser.read_string(text)
    return dict(parser[section]) if parser.has_section(section) else None


def _read_setup_cfg(text: str) -> Table | None:
    return _read_ini(text, "tool:pytest")


READERS: Mapping[str, Callable[[str], Table | None]] = {  # in pytest's order of precedence
    "pytest.toml": _read_pytest_toml,
    ".pytest.toml": _read_pytest_toml,
    "pytest.ini": _read_ini,
    ".pytest.ini": _read_ini,
    "pyproject.toml": _read_pyproject,
    "tox.ini": _read_ini,
    "setup.cfg": _read_setup_cfg,
}


def _folder_settings(rootdir: str, source: str, table: Table) -> FolderSettings:
    try:
        words = {key: _words(table[key]) for key in table if key in KEYS}
    except ValueError as error:
        raise EnvironmentFault(f"pytest's settings in {source} cannot be read: {error}", f"correct {source}") from error
    return FolderSettings(
        rootdir=rootdir,
        source=source,
        python_files=words.get("python_files", PYTHON_FILES),
        testpaths=_inside(rootdir, words.get("testpaths", ())),
        pythonpath=_inside(rootdir, words.get("pythonpath", ())),
        norecursedirs=words.get("norecursedirs", NORECURSEDIRS),
        doctest_modules="--doctest-modules" in words.get("addopts", ()),
    )


KEYS = frozenset({"python_files", "testpaths", "pythonpath", "norecursedirs", "addopts"})


def _words(value: object) -> tuple[str, ...]:
    """A list as it stands, a text split as a shell would; raises ValueError for an open quote."""
    return tuple(map(str, value)) if isinstance(value, list) else tuple(shlex.split(str(value or "")))


def _inside(rootdir: str, entries: Iterable[str]) -> tuple[str, ...]:
    paths = (posixpath.normpath(posixpath.join(rootdir, entry)) for entry in entries)
    return tuple("" if path == "." else path for path in paths if path.split("/")[0] not in ("", ".."))
