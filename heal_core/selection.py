"""From staged paths to the tests that the change can affect, with the reason for each."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from heal_core.import_graph import ImportGraph
from heal_core.pytest_settings import Settings

NAME_BYTES = bytes(c if chr(c).isalnum() or chr(c) in "_-." or c >= 0x80 else ord(" ") for c in range(256))
NAMELESS = frozenset({"__init__.py", "__main__.py", "conftest.py", "setup.py"})  # too common to mean one file


@dataclass(frozen=True, slots=True)
class Chosen:
    """A test file to run under the settings of `rootdir` ("" is the repository's root), and why it was chosen."""

    path: str
    rootdir: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """The tests to run, the closest to the change first, and the staged sources for which there is none."""

    tests: tuple[Chosen, ...]
    untested: tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class Reason:
    """Why `test` is chosen for the staged `cause`; `distance` counts the files from one to the other, both included."""

    distance: int
    words: str
    test: str
    cause: str


def select(changed: Sequence[str], removed: Sequence[str], files: Mapping[str, bytes], settings: Settings) -> Selection:
    """The tests in `files` that the staged change can affect; when in doubt a test is chosen.

    `changed` are the paths whose staged content is new, `removed` those that the commit takes away, all relative to the
    repository as the keys of `files` are. Where pytest's settings switch doctests on, a module with examples is a test.
    """
    staged = tuple(dict.fromkeys((*changed, *removed)))
    graph = ImportGraph(files, settings, absent=staged)
    sources = [path for path in staged if path.endswith(".py")]
    reasons = [Reason(1, "changed", path, path) for path in sources if _is_target(path, graph, settings)]
    tests = [path for path in sources if path in graph.tests]
    for targets in (tests, [path for path in sources if path not in graph.tests]):
        reasons += _importing(targets, graph, settings)
    for path in _unexplained(sources, reasons):
        reasons += _importing([path], graph, settings)
    lonely = [path for path in _unexplained(sources, reasons) if not settings.is_test_file(path)]
    data = [path for path in staged if not path.endswith(".py")]
    reasons += _mentioning([*data, *lonely], graph, settings)
    reasons += [reason for path in lonely for reason in _named_like(path, graph)]
    untested = [path for path in _unexplained(lonely, reasons) if path in changed and _wants_a_test(path, graph)]
    return Selection(_in_order(reasons, settings), tuple(untested))


def _is_target(path: str, graph: ImportGraph, settings: Settings) -> bool:
    """Whether pytest finds tests in `path`: a test file, or with --doctest-modules a module with examples."""
    if path in graph.tests:
        return True
    return path in graph.present and settings.for_path(path).doctest_modules and b">>>" in graph.source(path)


def _unexplained(paths: Iterable[str], reasons: Iterable[Reason]) -> list[str]:
    """Those of `paths` for which no test was chosen yet."""
    causes = {reason.cause for reason in reasons}
    return [path for path in paths if path not in causes]


def _wants_a_test(path: str, graph: ImportGraph) -> bool:
    name = posixpath.basename(path)
    if path not in graph.present or name == "conftest.py":
        return False
    return name != "__init__.py" or bool(graph.source(path).strip())


def _importing(targets: Sequence[str], graph: ImportGraph, settings: Settings) -> Iterator[Reason]:
    """The tests that depend on one of `targets`."""
    for path, chain in graph.importers(targets).items():
        if _is_target(path, graph, settings):
            yield Reason(len(chain), _worded(chain), path, chain[-1])


def _worded(chain: Sequence[str]) -> str:
    test, *via, target = chain
    folder, name = posixpath.split(target)
    if not via and name in ("conftest.py", "__init__.py") and (not folder or test.startswith(folder + "/")):
        return f"below {target}"
    return f"imports {target} via {', '.join(via)}" if via else f"imports {target}"


def _mentioning(paths: Sequence[str], graph: ImportGraph, settings: Settings) -> Iterator[Reason]:
    """The tests that hold the name of one of the files `paths`, or depend on a module that does."""
    named: dict[str, list[str]] = {}
    for path in paths:
        if posixpath.basename(path) not in NAMELESS:
            named.setdefault(posixpath.basename(path), []).append(path)
    for name, holders in _holders(named, graph).items():
        for path in named[name]:
            others = [holder for holder in holders if holder != path]
            direct = [holder for holder in others if _is_target(holder, graph, settings)]
            yield from (Reason(2, f"mentions {path}", holder, path) for holder in direct)
            for reason in _importing(others, graph, settings):
                yield Reason(reason.distance + 1, f"{reason.words}, which mentions {path}", reason.test, path)


def _holders(names: Iterable[str], graph: ImportGraph) -> Mapping[str, list[str]]:
    """The sources that hold each of the file names `names` as a whole."""
    wanted = {name.encode("utf-8", "surrogateescape"): name for name in names}
    plain = {name: name for name in wanted if b" " not in name.translate(NAME_BYTES)}
    plain |= {name + b".": name for name in plain}  # at the end of a sentence
    odd = wanted.keys() - plain.keys()
    holders: dict[str, list[str]] = {}
    for path, source in graph.sources() if wanted else ():
        found = {plain[word] for word in plain.keys() & set(source.translate(NAME_BYTES).split())}
        for name in found.union(name for name in odd if name in source):
            holders.setdefault(wanted[name], []).append(path)
    return holders


def _named_like(path: str, graph: ImportGraph) -> Iterator[Reason]:
    """The tests whose names say that they are for `path`: `test_NAME`, `NAME_test`, else any with NAME in it."""
    name = _own_name(path)
    tests = {test: posixpath.basename(test).removesuffix(".py") for test in graph.tests}
    exact = [test for test, stem in tests.items() if stem in (f"test_{name}", f"{name}_test")]
    part = re.compile(rf"(?:^|_){re.escape(name)}")
    found = exact or [test for test, stem in tests.items() if name and part.search(stem.removeprefix("test_"))]
    nearest = max((_nearness(path, test) for test in found), default=None)
    for test in found:
        if _nearness(path, test) == nearest:
            yield Reason(2, f"named like {path}", test, path)


def _own_name(path: str) -> str:
    """What a test for `path` would be called after: the module, or its folder where the module is `__init__`."""
    folder, name = posixpath.split(path.removesuffix(".py"))
    if name == "conftest":
        return ""
    return posixpath.basename(folder) if name in ("__init__", "__main__") else name.lstrip("_")


def _nearness(path: str, test: str) -> tuple[int, int]:
    """How many folders the two share from the top, then how many of the same name anywhere (a mirrored tree)."""
    ours, theirs = (posixpath.dirname(each).split("/") for each in (path, test))
    shared = next(
        (n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
    )
    return shared, len({*ours} & {*theirs})


def _in_order(reasons: Iterable[Reason], settings: Settings) -> tuple[Chosen, ...]:
    """The tests by their shortest distance, then by path, each with its reasons in the same order."""
    by_test: dict[str, list[Reason]] = {}
    for reason in sorted(set(reasons)):
        by_test.setdefault(reason.test, []).append(reason)
    tests = sorted(by_test, key=lambda test: (by_test[test][0].distance, test))
    return tuple(
        Chosen(test, settings.for_path(test).rootdir, tuple(dict.fromkeys(reason.words for reason in by_test[test])))
        for test in tests
    )
