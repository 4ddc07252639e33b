"""What a patch may touch, and how it may not cheat.

The tables come first: everything that is never touched, and everything that a patch may not newly do. Only what is new
counts: a file that has always called `sys.exit` may go on doing so, and may move the call.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
import unicodedata
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from heal_core.patch import Patch, Rewrite
from heal_core.source import UNREADABLE

MAX_FILES = 3
GROWTH = 2, 10_000  # a file may become so many times longer, plus so many bytes

# Patterns of single path components, compared without case and in compatibility form (so a full-width letter is none).
NEVER_FOLDERS: tuple[tuple[str, str], ...] = (
    (".*", "it is in a hidden folder: version control, CI, an editor or an environment"),
    ("ci", "it belongs to the continuous integration"),
    ("tests", "it is a test or a helper of tests"),
    ("test", "it is a test or a helper of tests"),
    ("site-packages", "it belongs to an installed package"),
    ("__pycache__", "it is compiled code"),
    ("_pytest", "it has the name of a part of the test runner"),
    ("pluggy", "it has the name of a part of the test runner"),
)
NEVER_FILES: tuple[tuple[str, str], ...] = (
    ("conftest.py", "it is a helper of tests"),
    ("test_*.py", "it is a test"),
    ("*_test.py", "it is a test"),
    ("tests.py", "it is a test"),
    ("pytest.py", "it has the name of the test runner"),
    ("pluggy.py", "it has the name of a part of the test runner"),
    ("setup.py", "it holds settings of the project"),
    ("noxfile.py", "it holds settings of the tests"),
    ("sitecustomize.py", "Python runs it at every start"),
    ("usercustomize.py", "Python runs it at every start"),
    ("*.pth", "Python runs it at every start"),
    ("pyproject.toml", "it holds settings of the project"),
    ("pytest.ini", "it holds settings of the tests"),
    ("pytest.toml", "it holds settings of the tests"),
    ("tox.ini", "it holds settings of the tests"),
    ("setup.cfg", "it holds settings of the project"),
    ("*makefile", "it holds commands of the project"),
    ("*.lock", "it is a lock file"),
    ("*lock.json", "it is a lock file"),
    ("requirements*.txt", "it names dependencies"),
    (".*", "it is a hidden file: settings of git, pre-commit, an editor or the environment"),
    ("*.so", "it is a binary"),
    ("*.pyd", "it is a binary"),
    ("*.pyc", "it is a binary"),
)

# Modules that a fix has no business to import newly. A longer name in HARMLESS wins.
SUSPECT_MODULES: dict[str, str] = {
    **dict.fromkeys(
        ("subprocess", "multiprocessing", "pty", "signal", "threading", "_thread", "atexit", "posix", "faulthandler"),
        "starts, ends or outlives processes",
    ),
    **dict.fromkeys(
        ("socket", "ssl", "http", "urllib", "requests", "httpx", "aiohttp", "ftplib", "smtplib", "xmlrpc"),
        "talks to a network",
    ),
    **dict.fromkeys(
        ("ctypes", "gc", "inspect", "importlib", "builtins", "runpy", "code", "pdb", "bdb", "trace", "imp", "site"),
        "looks into or changes the running interpreter",
    ),
    **dict.fromkeys(
        ("pytest", "_pytest", "pluggy", "unittest", "doctest", "hypothesis", "mock", "coverage", "xdist"),
        "belongs to the tests",
    ),
}
HARMLESS = ("urllib.parse", "http.HTTPStatus", "importlib.metadata", "importlib.resources")

# Names, by their full dotted path, that a fix may not newly use; a trailing * stands for any ending.
SUSPECT_NAMES: tuple[tuple[str, str], ...] = (
    ("os.[*]", "hides what it uses"),
    ("sys.[*]", "hides what it uses"),
    ("sys.exit", "ends the process"),
    ("os._exit", "ends the process"),
    ("os.abort", "ends the process"),
    ("exit", "ends the process"),
    ("quit", "ends the process"),
    ("SystemExit", "ends the process"),
    ("os.kill*", "ends processes"),
    ("os.fork*", "starts processes"),
    ("os.exec*", "replaces the process"),
    ("os.spawn*", "starts processes"),
    ("os.posix_spawn*", "starts processes"),
    ("os.system", "starts processes"),
    ("os.popen", "starts processes"),
    ("sys._*", "looks into the running interpreter"),
    ("sys.settrace", "changes the running interpreter"),
    ("sys.setprofile", "changes the running interpreter"),
    ("sys.modules", "looks at what else is running"),
    ("sys.meta_path", "changes the running interpreter"),
    ("exec", "runs text as code"),
    ("eval", "runs text as code"),
    ("compile", "runs text as code"),
    ("__import__", "runs text as code"),
    ("globals", "reaches around the code"),
    ("__builtins__", "reaches around the code"),
)
# Attributes of whatever object, and strings (as for getattr), that a fix may not newly name.
SUSPECT_ATTRIBUTES = frozenset(
    (
        *("_exit", "_getframe", "__globals__", "__builtins__", "__subclasses__", "__code__", "__import__", "co_consts"),
        *("f_back", "f_code", "f_globals", "f_locals", "tb_frame", "gi_frame", "cr_frame"),
    )
)


def may_edit(path: str, is_test: bool) -> str | None:
    """Why no patch may ever touch `path` (relative to the repository), or None when one may.

    `is_test` says that the project's settings make it a test or a helper of tests, whatever its name.
    """
    parts = path.split("/")
    if not path or any(part in ("", ".", "..") for part in parts) or re.search(r"[\\\x00-\x1f\x7f]|^[A-Za-z]:", path):
        return f"{path!a} is not a plain path inside the repository"
    if unicodedata.normalize("NFC", path) != path:
        return f"{path!a} is not in the normal form of Unicode"
    *folders, name = (unicodedata.normalize("NFKC", part).casefold().rstrip(". ") for part in parts)
    for table, names in ((NEVER_FOLDERS, folders), (NEVER_FILES, [name])):
        for pattern, reason in table:
            if any(fnmatchcase(part, pattern) for part in names):
                return f"{path} may not be changed: {reason}"
    if is_test:
        return f"{path} may not be changed: it is a test or a helper of tests"
    return None if path.endswith(".py") else f"{path} may not be changed: it is not a Python file"


def refuse(
    patch: Patch, editable: Collection[str], max_changed_lines: int, protected: Collection[str] = ()
) -> str | None:
    """Why `patch` is not even tried, in words for the engine, or None when it may be.

    `editable` are the paths of the staged files that a patch may change, `protected` those of tests and their helpers,
    `max_changed_lines` counts over all files. Looks at nothing but its arguments.
    """
    if not patch.files:
        return "The patch changes no file."
    if len(patch.files) > MAX_FILES:
        return f"The patch changes {len(patch.files)} files; at most {MAX_FILES} are allowed. Propose a smaller fix."
    if len({rewrite.path for rewrite in patch.files}) < len(patch.files):
        return "The patch has the same file twice."
    for rewrite in patch.files:
        reason = _path_refused(rewrite.path, editable, protected) or _content_refused(rewrite)
        if reason:
            return reason
    changed = patch.changed_lines()
    if changed > max_changed_lines:
        return f"The patch changes {changed} lines; at most {max_changed_lines} are allowed. Propose a smaller fix."
    return next((reason for rewrite in patch.files if (reason := _cheat(rewrite))), None)


def _path_refused(path: str, editable: Collection[str], protected: Collection[str]) -> str | None:
    if reason := may_edit(path, path in protected):
        return f"{reason}. Correct the code under test instead."
    return None if path in editable else f"{path} is not among the staged files that may be changed."


def _content_refused(rewrite: Rewrite) -> str | None:
    factor, plus = GROWTH
    if rewrite.before == rewrite.after:
        return f"The patch leaves {rewrite.path} as it is."
    if len(rewrite.after) > factor * len(rewrite.before) + plus:
        return f"The patch makes {rewrite.path} far longer ({len(rewrite.after)} bytes). Propose a smaller fix."
    return _uncompilable(rewrite)


# -- does it compile -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fault:
    """Where and why a file does not compile: `lineno` from 1, 0 where unknown."""

    message: str
    lineno: int
    line: str


def _compile(data: bytes) -> ast.Module | _Fault:
    """The syntax tree of a file that this Python can compile, else what stands against it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a SyntaxWarning of the user's file is not ours to raise
            compile(data, "<patch>", "exec", dont_inherit=True)
            return ast.parse(data)
    except SyntaxError as error:
        return _Fault(str(error.msg), error.lineno or 0, (error.text or "").strip())
    except UNREADABLE as error:
        return _Fault(str(error) or type(error).__name__, 0, "")


def _uncompilable(rewrite: Rewrite) -> str | None:
    after = _compile(rewrite.after)
    if isinstance(after, ast.Module):
        return None
    where = f"line {after.lineno}: {after.message}: `{after.line[:100]}`" if after.lineno else after.message
    before = _compile(rewrite.before)
    if isinstance(before, _Fault) and (before.message, before.line) == (after.message, after.line):
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return (
            f"With the patch {rewrite.path} still does not compile, {where}. That line stood there before: correct it, "
            f"unless its syntax is newer than Python {version}, which runs selfheal and so cannot judge the file."
        )
    return f"With the patch {rewrite.path} does not compile, {where}"


# -- does it cheat ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Deed:
    """Something that a fix may not newly do: the name in the source, and for an import the module that it is from."""

    word: str
    what: str
    module: str = ""


def _cheat(rewrite: Rewrite) -> str | None:
    """The first thing that the file newly does and that no honest fix needs, or None."""
    after, before = _compile(rewrite.after), _compile(rewrite.before)
    if isinstance(after, _Fault):
        return None
    deeds = Counter(_deeds(after))
    if isinstance(before, ast.Module):
        new = _new_deeds(deeds, before)
    else:  # the syntax error being healed hides the tree: what the text names as often is not new
        words = Counter(re.findall(r"\w+", rewrite.before.decode("utf-8", "replace").casefold()))
        new = [deed for deed, count in deeds.items() if words[(deed.module or deed.word).casefold()] < count]
    if not new:
        return None
    return (
        f"The patch makes {rewrite.path} {new[0].what}. That is not a fix: correct what the code computes, without "
        "reference to the tests, the process or the interpreter."
    )


def _new_deeds(deeds: Counter[_Deed], before: ast.Module) -> list[_Deed]:
    """The deeds that the file did not do as often before, less the names it lacks and the modules it has."""
    old = Counter(_deeds(before))
    used, bound = _names(before)
    lacking = used - bound - set(dir(builtins))  # importing these may be the very fix
    modules = {deed.module for deed in old} - {""}
    known = lacking | (bound & set(dir(builtins)))  # and a file's own `eval` is not Python's
    return [deed for deed in deeds - old if deed.word not in known and deed.module not in modules]


def _deeds(tree: ast.Module) -> Iterator[_Deed]:
    """Every suspect thing in a file, as often as it stands there."""
    aliases = dict(_aliases(tree))
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from _imports(node)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            yield from _uses(node, aliases)
        elif isinstance(node, ast.Constant) and id(node) not in prose:
            yield from _strings(node.value)
        elif isinstance(node, ast.keyword) and node.arg:
            yield from _strings(node.arg)
        elif _always_equal(node):
            yield _Deed("__eq__", "define a comparison that does not compare")


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """(the name bound, the dotted name of what is imported) of an absolute import."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            yield alias.asname or top, alias.name if alias.asname else top
    elif node.module and not node.level:
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from _imported(node)


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[_Deed]:
    full = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    for (name, dotted), module in zip(_imported(node), full or [""] * len(node.names), strict=False):
        target = module or dotted
        top = target.partition(".")[0]
        if top in SUSPECT_MODULES and not any(f"{target}.".startswith(f"{known}.") for known in HARMLESS):
            yield _Deed(name, f"import `{target}`, which {SUSPECT_MODULES[top]}", top)
        if isinstance(node, ast.ImportFrom):
            yield from _named(dotted)


def _uses(node: ast.Name | ast.Attribute, aliases: dict[str, str]) -> Iterator[_Deed]:
    if isinstance(node, ast.Attribute) and node.attr in SUSPECT_ATTRIBUTES:
        yield _Deed(node.attr, f"use `{node.attr}`, which looks into the running interpreter")
    yield from _named(_dotted(node, aliases))


def _named(dotted: str) -> Iterator[_Deed]:
    for pattern, reason in SUSPECT_NAMES:
        if dotted and fnmatchcase(dotted, pattern):
            yield _Deed(dotted.rpartition(".")[2], f"use `{dotted}`, which {reason}")


def _dotted(node: ast.expr, aliases: dict[str, str]) -> str:
    """`a.b.c` of a chain of attributes, with the imported name in place of its alias; "" for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < 8:
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([aliases.get(node.id, node.id), *reversed(parts)])


def _strings(value: object) -> Iterator[_Deed]:
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    if not isinstance(text, str):
        return
    if "pytest" in text.casefold():
        yield _Deed("pytest", f"mention {text[:40]!r}: it must not matter to the code whether a test runs")
    if text in SUSPECT_ATTRIBUTES or text in _COMPARES:
        yield _Deed(text, f"mention {text!r}, a name of Python's own workings")


_COMPARES = ("__eq__", "__ne__")


def _always_equal(node: ast.AST) -> bool:
    """Whether it defines an `__eq__` or `__ne__` that says yes always, or without a look at the other operand."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
        named = any(getattr(to, "id", getattr(to, "attr", "")) in _COMPARES for to in node.targets)
        return named and _blind(node.value.args, [node.value.body], [node.value.body])
    if isinstance(node, ast.FunctionDef) and node.name in _COMPARES:
        answers = [part.value for part in ast.walk(node) if isinstance(part, ast.Return) and part.value]
        return _blind(node.args, answers, node.body)
    return isinstance(node, ast.AsyncFunctionDef) and node.name in _COMPARES  # a coroutine is always true


def _blind(arguments: ast.arguments, answers: Sequence[ast.expr], body: Sequence[ast.AST]) -> bool:
    others = {argument.arg for argument in [*arguments.posonlyargs, *arguments.args][-1:]}
    read = {part.id for top in body for part in ast.walk(top) if isinstance(part, ast.Name)}
    always = all(isinstance(answer, ast.Constant) and answer.value for answer in answers)
    return bool(answers) and (always or not others & read)


def _names(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The names that a file uses, and those that it binds, in whatever scope."""
    used: set[str] = set()
    bound = {name for name, _ in _aliases(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
    return used, bound
