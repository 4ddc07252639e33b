"""Who imports whom: what an import resolves to, and the chains from a file to what it depends on."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heal_core.import_graph import ImportGraph, imported_modules, importers
from heal_core.pytest_settings import FolderSettings, Settings, read_settings


def tree(**files: str) -> dict[str, bytes]:
    """Files by path, written with __ for the slash and without .py; a folder's `__init__` is FOLDER___init."""
    slashed = {name.replace("___init", "/INIT").replace("__", "/"): name for name in files}
    return {f"{path.replace('INIT', '__init__')}.py": files[name].encode() for path, name in slashed.items()}


def direct(files: Mapping[str, bytes], path: str) -> set[str]:
    return set(ImportGraph(files, read_settings(files)).imports(path))


# What an import resolves to


@pytest.mark.parametrize(
    ("statement", "path"),
    [
        ("import app.views", "app/views.py"),
        ("from app import views", "app/views.py"),
        ("from app.views import load", "app/views.py"),
        ("import space.deep.leaf", "space/deep/leaf.py"),
        ("import pricing.rates", "packages/pricing/src/pricing/rates.py"),
        ("import odd", "packages/told/code/odd.py"),
        ("import helpers", "tests/helpers.py"),
        ("from support import tools", "tests/support/tools.py"),
        ("import jobs", "scripts/jobs.py"),
        ("import lib_only.x", "lib/lib_only/x.py"),
        ("patch('app.views.load')", "app/views.py"),
    ],
)
def test_a_module_is_found_under_every_root(statement: str, path: str) -> None:
    files = {
        "app/__init__.py": b"",
        "app/views.py": b"",
        "space/deep/leaf.py": b"",
        "packages/pricing/src/pricing/__init__.py": b"",
        "packages/pricing/src/pricing/rates.py": b"",
        "packages/told/code/odd.py": b"",
        "packages/told/pytest.ini": b"[pytest]\npythonpath = code\n",
        "tests/support/tools.py": b"",
        "tests/helpers.py": b"",
        "scripts/jobs.py": b"",
        "lib/lib_only/__init__.py": b"",
        "lib/lib_only/x.py": b"",
        "tests/test_it.py": statement.encode(),
    }
    assert path in direct(files, "tests/test_it.py")


def test_importing_a_module_runs_its_packages_too() -> None:
    files = tree(a___init="", a__b___init="", a__b__c="", x="import a.b.c")
    assert direct(files, "x.py") == {"a/__init__.py", "a/b/__init__.py", "a/b/c.py"}


def test_relative_imports_start_from_the_files_own_package() -> None:
    files = tree(
        a___init="from . import b",
        a__b="",
        a__c__d="from ..b import x\nfrom . import e\nfrom .... import y",
        a__c__e="",
    )
    assert direct(files, "a/__init__.py") == {"a/b.py"}
    assert direct(files, "a/c/d.py") == {"a/__init__.py", "a/b.py", "a/c/e.py"}


def test_a_star_import_runs_the_modules_that_all_lists() -> None:
    files = tree(a___init="__all__ = ['b']", a__b="", x="from a import *", y="__all__ = ['x']")
    assert importers(["a/b.py"], files, Settings())["x.py"] == ("x.py", "a/__init__.py", "a/b.py")
    assert direct(files, "y.py") == set()


def test_a_standard_module_is_not_taken_for_one_of_a_folder_that_nobody_imports_from() -> None:
    files = tree(acme__util__logging="", acme__util__run="import logging", app__main="import logging")
    assert direct(files, "app/main.py") == set()
    assert direct(files, "acme/util/run.py") == {"acme/util/logging.py"}


def test_a_literal_that_shares_only_its_first_part_with_a_package_is_no_import() -> None:
    files = tree(app___init="", app__views="", x="title('app.title')")
    assert direct(files, "x.py") == set()


# Who imports a module


def test_the_chain_is_a_shortest_one_from_the_file_to_the_target() -> None:
    files = tree(a="", b="import a", c="import b", d="import c, b", e="import nothing")
    assert importers(["a.py"], files, Settings()) == {
        "b.py": ("b.py", "a.py"),
        "c.py": ("c.py", "b.py", "a.py"),
        "d.py": ("d.py", "b.py", "a.py"),
    }


def test_a_circle_of_imports_ends() -> None:
    files = tree(a="import b", b="import a")
    assert set(importers(["a.py"], files, Settings())) == {"b.py"}


def test_a_removed_module_still_has_its_names() -> None:
    files = tree(billing___init="", tests__test_tax="from billing.tax import vat")
    assert set(importers(["billing/tax.py"], files, Settings())) == {"tests/test_tax.py"}


def test_every_file_of_a_package_depends_on_its_init() -> None:
    files = tree(a___init="", a__b__c="", x="import a.b.c", y="import b")
    assert set(importers(["a/__init__.py"], files, Settings())) == {"a/b/c.py", "x.py"}


def test_tests_depend_on_the_conftests_above_them_and_on_what_those_import() -> None:
    files = tree(app="", tests__conftest="import app", tests__deep__test_x="", tests__helper="", test_y="")
    assert importers(["app.py"], files, Settings()) == {
        "tests/conftest.py": ("tests/conftest.py", "app.py"),
        "tests/deep/test_x.py": ("tests/deep/test_x.py", "tests/conftest.py", "app.py"),
    }


def test_identifiers_are_compared_in_their_normal_form() -> None:
    files = {"file.py": b"", "x.py": "import ﬁle".encode(), "y.py": b"import le"}
    assert set(importers(["file.py"], files, Settings())) == {"x.py"}


class CountingFiles(dict[str, bytes]):
    """Files that remember what was read."""

    def __getitem__(self, path: str) -> bytes:
        self.read = [*getattr(self, "read", []), path]
        return super().__getitem__(path)


def test_a_file_is_read_once_and_only_if_it_is_python() -> None:
    files = CountingFiles({**tree(a="", b="import a", c="import b"), "data.json": b"a"})
    importers(["a.py"], files, Settings())
    assert sorted(files.read) == ["a.py", "b.py", "c.py"]


# The filter in front of the parser misses nothing

NAMES = ["a", "b", "test_c", "é"]
FOLDERS = ["", "a", "b", "a/b", "src", "src/a", "src/a/b", "lib/a"]
PATHS = [f"{folder}/{name}.py".lstrip("/") for folder in FOLDERS for name in [*NAMES, "__init__", "conftest"]]
DOTTED = st.lists(st.sampled_from(["a", "b", "test_c", "é", "conftest"]), min_size=1, max_size=3).map(".".join)
PLAIN = st.one_of(
    st.builds("import {}".format, DOTTED),
    st.builds("from {} import {}".format, DOTTED, st.sampled_from([*NAMES, "*"])),
    st.builds(
        "from {}{} import {}".format, st.sampled_from([".", "..", "..."]), st.just("") | DOTTED, st.sampled_from(NAMES)
    ),
    st.builds("def f():\n    import {}".format, DOTTED),
)
ODD = st.one_of(
    st.builds("import_module({!r})".format, DOTTED),
    st.builds("import_module('.' '{}')".format, DOTTED),
    st.builds("__import__('\\x61.b')".format),
    st.builds("patch('{}')".format, DOTTED),
    st.builds("__all__ = [{!r}]".format, st.sampled_from(NAMES)),
    st.builds("pytest_plugins = '\\x62'".format),
    st.builds("broken( ; import {}".format, DOTTED),
    st.just("import ª"),
)


def repositories(statements: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, bytes]]:
    sources = st.lists(statements, max_size=3).map(lambda lines: "\n".join(lines).encode())
    return st.dictionaries(st.sampled_from(PATHS), sources, min_size=1, max_size=8)


def distances(edges: Mapping[str, set[str]], targets: set[str]) -> dict[str, int]:
    """How far each file is from the nearest target, by going through all edges again and again."""
    found = dict.fromkeys(targets, 1)
    while new := {
        p: min(found[d] for d in to & found.keys()) + 1
        for p, to in edges.items()
        if p not in found and to & found.keys()
    }:
        nearest = min(new.values())
        found |= {path: distance for path, distance in new.items() if distance == nearest}
    return {path: distance for path, distance in found.items() if path not in targets}


def all_edges(files: Mapping[str, bytes], known: set[str]) -> dict[str, set[str]]:
    """The whole graph, every file parsed, every name tried under every folder that may be on `sys.path`."""
    tests = [p for p in files if PurePosixPath(p).name.startswith("test_")]
    roots = {"", "src"} | {base(p, known) for p in known if p in tests or PurePosixPath(p).name == "conftest.py"}
    return {
        path: set(_edges(path, ast.parse(data), known, roots, path in tests)) - {path} for path, data in files.items()
    }


def _edges(path: str, module: ast.AST, known: set[str], roots: set[str], is_test: bool) -> Iterator[str]:
    folders = [str(parent).removeprefix(".") for parent in PurePosixPath(path).parents]
    implied = ["__init__.py", "conftest.py"] if is_test else ["__init__.py"]
    yield from (join(folder, name) for folder in folders for name in implied if join(folder, name) in known)
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            wanted, level = [alias.name for alias in node.names], 0
        elif isinstance(node, ast.ImportFrom):
            wanted, level = [f"{node.module or ''}.{alias.name}".strip(".") for alias in node.names], node.level
        else:
            continue
        starts = folders[level - 1 : level] if level else []
        for other in known:
            own = starts if level else [*roots, base(path, known), base(other, known)]
            for start in own:
                if any(runs(name, other, start) for name in wanted):
                    yield other


def runs(name: str, other: str, start: str) -> bool:
    parts = name.split(".")
    return other in {
        join(start, "/".join(parts[:n]) + end) for n in range(1, len(parts) + 1) for end in (".py", "/__init__.py")
    }


def join(folder: str, name: str) -> str:
    return f"{folder}/{name}".lstrip("/")


def base(path: str, known: set[str]) -> str:
    folders = [str(parent).removeprefix(".") for parent in PurePosixPath(path).parents]
    return next((folder for folder in folders if join(folder, "__init__.py") not in known), "")


@settings(max_examples=120, deadline=None)
@given(repositories(PLAIN), st.sets(st.sampled_from(PATHS), min_size=1, max_size=2))
def test_importers_are_those_of_the_whole_graph(files: dict[str, bytes], targets: set[str]) -> None:
    found = importers(sorted(targets), files, Settings())
    edges = all_edges(files, files.keys() | targets)
    assert {path: len(chain) for path, chain in found.items()} == distances(edges, targets)
    for chain in found.values():
        assert all(after in edges[before] for before, after in pairwise(chain))


@settings(max_examples=120, deadline=None)
@given(repositories(PLAIN | ODD), st.sets(st.sampled_from(PATHS), min_size=1, max_size=2))
def test_the_filter_hides_no_import_however_it_is_written(files: dict[str, bytes], targets: set[str]) -> None:
    graph = ImportGraph(files, Settings(), absent=targets)
    edges = {path: set(graph.imports(path)) for path in files}
    found = importers(sorted(targets), files, Settings())
    assert {path: len(chain) for path, chain in found.items()} == distances(edges, targets)


# The names for the repair engine


def test_imported_modules_are_the_dotted_names_of_statements() -> None:
    files = tree(
        src__app___init="",
        src__app__views="from . import urls\nfrom .urls import go\nfrom .. import up\nimport json\nx = 'app.literal'",
        src__app__urls="import os.path as p\nfrom src.app import views",
        other="import unread",
    )
    assert imported_modules(files, ["src/app/views.py", "src/app/urls.py"]) == {
        "app", "app.urls", "json", "os.path", "src.app", "src.app.views",
    }  # fmt: skip


def test_settings_of_every_folder_give_roots() -> None:
    files = tree(pkg__lib__x="", y="import x")
    told = Settings({"pkg": FolderSettings(rootdir="pkg", pythonpath=("pkg/lib",))})
    assert set(importers(["pkg/lib/x.py"], files, told)) == {"y.py"}
