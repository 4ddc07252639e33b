"""The offline engine, on failures that really happened: each case is run, and so is what is proposed for it."""

from __future__ import annotations

import datetime  # noqa: F401 - the engine looks at loaded modules only, and a case names this one
import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heal_core.attempt import Attempt
from heal_core.engines import Engine
from heal_core.engines._misses import READERS
from heal_core.engines.search import SearchEngine
from heal_core.failure import Failure, Frame, Raised
from heal_core.localize import Case, Suspect
from heal_core.patch import Patch
from heal_core.source import Source

# Runs a test file's functions and prints the first exception: type, message, frames, and Python's own rendering.
RUNNER = """
import json, sys, traceback
sys.dont_write_bytecode = True
sys.path.insert(0, ".")
path = sys.argv[1]
try:
    scope = {"__name__": "tests", "__file__": path}
    exec(compile(open(path, "rb").read(), path, "exec"), scope)
    for name, function in list(scope.items()):
        if name.startswith("test"):
            function()
except Exception as error:
    frames = [[f.filename, f.lineno, f.name, f.line or ""] for f in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        frames.append([error.filename, error.lineno, "<module>", error.text or ""])
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    print(json.dumps([type(error).__qualname__, str(error), frames, text]))
"""
TEST = "test_it.py"


def run(folder: Path) -> Failure | None:
    """Run the folder's test file in a process of its own; None when it passes."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", RUNNER, TEST], cwd=folder, capture_output=True, text=True, timeout=20, check=True
    )
    if not done.stdout:
        return None
    kind, message, rows, text = json.loads(done.stdout.splitlines()[-1])
    frames = tuple(Frame(place(folder, path), lineno, name, line) for path, lineno, name, line in rows)
    return Failure(f"{TEST}::test", "call", Raised(kind, message, frames), text)


def place(folder: Path, path: str) -> str:
    return (folder / path).resolve().relative_to(folder.resolve()).as_posix() if "<" not in path else path


def write(folder: Path, files: dict[str, str | bytes]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content if isinstance(content, bytes) else content.encode())


def case_of(folder: Path, **fields: object) -> Case:
    """The case of a folder whose test must fail; every file but the test is editable."""
    failure = run(folder)
    assert failure is not None, "the broken program passes"
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))
    read = {path: Source.read(path, (folder / path).read_bytes()) for path in paths}
    sources = {path: source for path, source in read.items() if source}
    editable = tuple(source for path, source in sources.items() if path != TEST)
    values = {"suspects": (), "diff": "", "modules": frozenset(), "tests": (sources[TEST],), **fields}
    return Case(failures=(failure,), editable=editable, **values)  # type: ignore[arg-type]


def proposals(case: Case) -> list[Patch]:
    found = [patch for patch in SearchEngine().propose(case, []) if isinstance(patch, Patch)]
    assert len(found) == len({patch.files for patch in found}) <= 30
    return found


def healed(folder: Path, files: dict[str, str | bytes], within: int = 3, **fields: object) -> Patch:
    """The first proposal with which the test passes, which must be among the first `within`."""
    write(folder, files)
    patches = proposals(case_of(folder, **fields))
    for patch in patches[:within]:
        (rewrite,) = patch.files
        staged = (folder / rewrite.path).read_bytes()
        assert rewrite.before == staged
        (folder / rewrite.path).write_bytes(rewrite.after)
        if run(folder) is None:
            return patch
        (folder / rewrite.path).write_bytes(staged)
    raise AssertionError("not healed by:\n" + "\n".join(patch.diagnosis + "\n" + patch.diff() for patch in patches))


def added(patch: Patch) -> list[str]:
    """The lines that a patch adds."""
    return [row[1:] for row in patch.diff().split("\n") if row.startswith("+") and not row.startswith("+++")]


def test_it_is_an_engine() -> None:
    engine: Engine = SearchEngine()
    assert engine.name == "search"


NAMES = {
    "of a standard class": (
        "import datetime\ndef today():\n    return datetime.date.toady()\n",
        "from shop import today\ndef test(): assert today()\n",
        "    return datetime.date.today()",
    ),
    "imported, as the rest of the file spells it": (
        "from base64 import b64decoed\ndef read(text):\n    return b64decode(text)\n",
        "from shop import read\ndef test(): assert read('') == b''\n",
        "from base64 import b64decode",
    ),
    "local": (
        "def total(prices):\n    return_total = sum(prices)\n    return retrun_total\n",
        "from shop import total\ndef test(): assert total([1, 2]) == 3\n",
        "    return return_total",
    ),
    "builtin": (
        "def total(prices):\n    return smu(prices)\n",
        "from shop import total\ndef test(): assert total([1, 2]) == 3\n",
        "    return sum(prices)",
    ),
    "in an f-string": (
        "def hello(person):\n    return f'hello {presno}'\n",
        "from shop import hello\ndef test(): assert hello('you') == 'hello you'\n",
        "    return f'hello {person}'",
    ),
    "of self": (
        "class Cart:\n    def __init__(self):\n        self.items = [1]\n"
        "    def size(self):\n        return len(items)\n",
        "from shop import Cart\ndef test(): assert Cart().size() == 1\n",
        "        return len(self.items)",
    ),
    "unbound": (
        "def total(prices):\n    totl = 0\n    for price in prices:\n        total += price\n    return total\n",
        "from shop import total\ndef test(): assert total([1, 2]) == 3\n",
        "    total = 0",
    ),
    "of str": (
        "def shout(text):\n    return text.uper()\n",
        "from shop import shout\ndef test(): assert shout('a') == 'A'\n",
        "    return text.upper()",
    ),
    "of a method": (
        "class Cart:\n    def size(self):\n        return 0\n    def empty(self):\n        return self.sise() == 0\n",
        "from shop import Cart\ndef test(): assert Cart().empty()\n",
        "        return self.size() == 0",
    ),
    "of an attribute assigned elsewhere": (
        "class Cart:\n    def __init__(self):\n        self.items = []\n"
        "    def size(self):\n        return len(self.itmes)\n",
        "from shop import Cart\ndef test(): assert Cart().size() == 0\n",
        "        return len(self.items)",
    ),
    "of a module, defined wrong": (
        "def totla(prices):\n    return sum(prices)\n",
        "import shop\ndef test(): assert shop.total([1, 2]) == 3\n",
        "def total(prices):",
    ),
    "of a standard module": (
        "import re\ndef words(text):\n    return re.findal('[a-z]+', text)\n",
        "from shop import words\ndef test(): assert words('a b') == ['a', 'b']\n",
        "    return re.findall('[a-z]+', text)",
    ),
    "imported by the test": (
        "def totla(prices):\n    return sum(prices)\n",
        "from shop import total\ndef test(): assert total([1, 2]) == 3\n",
        "def total(prices):",
    ),
    "imported from the library": (
        "from re import finadll\ndef words(text):\n    return finadll('[a-z]+', text)\n",
        "from shop import words\ndef test(): assert words('a b') == ['a', 'b']\n",
        "from re import findall",
    ),
    "of a library module": (
        "import jsno\ndef read(text):\n    return jsno.loads(text)\n",
        "from shop import read\ndef test(): assert read('1') == 1\n",
        "import json",
    ),
    "key": (
        "def price(row):\n    return row['pirce']\n",
        "from shop import price\ndef test(): assert price({'price': 3}) == 3\n",
        "    return row['price']",
    ),
    "key written wrong": (
        "def row():\n    return {'pirce': 3}\n",
        "from shop import row\ndef test(): assert row()['price'] == 3\n",
        "    return {'price': 3}",
    ),
    "keyword": (
        "def tax(price, rate):\n    return price * rate\ndef gross(price):\n    return price + tax(price, raet=2)\n",
        "from shop import gross\ndef test(): assert gross(1) == 3\n",
        "    return price + tax(price, rate=2)",
    ),
    "parameter": (
        "def tax(price, raet):\n    return price * raet\n",
        "from shop import tax\ndef test(): assert tax(1, rate=2) == 2\n",
        "def tax(price, rate):",
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_letters_off_is_respelt(name: str, tmp_path: Path) -> None:
    source, test, line = NAMES[name]
    patch = healed(tmp_path, {"shop.py": source, TEST: test})
    assert line in added(patch)


def test_a_module_of_the_project_is_respelt(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "shop/__init__.py": "",
        "shop/prices.py": "RATE = 2\n",
        "shop/cart.py": "from shop.pricse import RATE\n",
        TEST: "from shop.cart import RATE\ndef test(): assert RATE == 2\n",
    }
    assert added(healed(tmp_path, files)) == ["from shop.prices import RATE"]


def test_a_submodule_is_respelt(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "shop/__init__.py": "",
        "shop/prices.py": "RATE = 2\n",
        "shop/cart.py": "from shop import pricse\nRATE = pricse.RATE\n",
        TEST: "from shop.cart import RATE\ndef test(): assert RATE == 2\n",
    }
    assert added(healed(tmp_path, files)) == ["from shop import prices", "RATE = prices.RATE"]


def test_the_hint_of_the_running_python_is_taken(tmp_path: Path) -> None:
    write(tmp_path, {"shop.py": "def f(it):\n    return it.go()\n"})
    write(tmp_path, {TEST: "from shop import f\nclass It:\n    pass\ndef test(): f(It())\n"})
    case = case_of(tmp_path)
    (failure,) = case.failures
    assert failure.raised is not None
    text = f"E   AttributeError: {failure.raised.message}. Did you mean: 'proceed'?"
    hinted = Case((Failure("t", "call", failure.raised, text),), (), case.editable, case.tests, "", frozenset())
    assert added(proposals(hinted)[0]) == ["    return it.proceed()"]


def test_the_diagnosis_is_a_sentence_for_the_user(tmp_path: Path) -> None:
    source, test, _ = NAMES["local"]
    patch = healed(tmp_path, {"shop.py": source, TEST: test}, within=1)
    assert patch.diagnosis == "`retrun_total` is not defined; the nearest name in scope is `return_total`."


def test_only_the_token_changes_and_line_ends_and_encoding_stay(tmp_path: Path) -> None:
    source = "# coding: latin-1\r\n# caf\xe9\r\ndef total(prices):\r\n    return smu(prices)  # \xe9 smu\n".encode(
        "latin-1"
    )
    patch = healed(tmp_path, {"shop.py": source, TEST: "from shop import total\ndef test(): assert total([1]) == 1\n"})
    assert patch.files[0].after == source.replace(b"smu(", b"sum(")


IMPORTS = {
    "below the docstring": ("'''Doc.'''\n\ndef up(n):\n    return math.ceil(n)\n", "'''Doc.'''\n\nimport math\n\ndef"),
    "below __future__": (
        "from __future__ import annotations\n\ndef up(n):\n    return math.ceil(n)\n",
        "from __future__ import annotations\n\nimport math\n\ndef",
    ),
    "sorted into its group": (
        "import json\nimport os\n\nimport shelf\n\ndef up(n):\n    return math.ceil(n)\n",
        "import json\nimport math\nimport os\n\nimport shelf\n",
    ),
    "with CRLF": ("import os\r\n\r\ndef up(n):\r\n    return math.ceil(n)\r\n", "import math\r\nimport os\r\n\r\n"),
    "in a file without any": ("def up(n):\n    return math.ceil(n)\n", "import math\n\n\ndef up"),
    "below a comment": (
        "#!/usr/bin/python\n\ndef up(n):\n    return math.ceil(n)\n",
        "#!/usr/bin/python\n\nimport math\n\n\n",
    ),
}


@pytest.mark.parametrize("name", IMPORTS)
def test_a_standard_module_is_imported(name: str, tmp_path: Path) -> None:
    source, begins = IMPORTS[name]
    test = "from shop import up\ndef test(): assert up(1.5) == 2\n"
    patch = healed(tmp_path, {"shop.py": source, "shelf.py": "", TEST: test}, within=1)
    assert patch.files[0].after.startswith(begins.encode())


def test_a_name_is_imported_as_another_source_does(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "money.py": "class Money(int): pass\n",
        "bill.py": "from money import Money as Coin\n",
        "shop.py": "def pay():\n    return Coin(3)\n",
        TEST: "from shop import pay\ndef test(): assert pay() == 3\n",
    }
    assert "from money import Money as Coin" in added(healed(tmp_path, files, within=1))


def test_a_name_that_another_source_defines_is_imported_from_it(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "money.py": "class Money(int): pass\n",
        "shop.py": "def pay():\n    return Money(3)\n",
        TEST: "from shop import pay\ndef test(): assert pay() == 3\n",
    }
    assert "from money import Money" in added(healed(tmp_path, files, within=1))


def test_a_module_that_the_repository_imports_is_imported(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "money.py": "COIN = 3\n",
        "shop.py": "def pay():\n    return money.COIN\n",
        TEST: "from shop import pay\ndef test(): assert pay() == 3\n",
    }
    assert "import money" in added(healed(tmp_path, files, within=1, modules=frozenset({"money"})))


def test_a_well_known_name_is_imported(tmp_path: Path) -> None:
    source = "def count():\n    seen = defaultdict(int)\n    return seen['a']\n"
    test = "from shop import count\ndef test(): assert count() == 0\n"
    assert "from collections import defaultdict" in added(healed(tmp_path, {"shop.py": source, TEST: test}, within=1))


SYNTAX = {
    "colon of a def": ("def f(n)\n    return n\n", "def f(n):"),
    "colon before a comment": ("def f(n):\n    if n  # always\n        return n\n", "    if n:  # always"),
    "colon of a header over lines": ("def f(\n    n,\n)\n    return n\n", "):"),
    "semicolon for colon": ("def f(n);\n    return n\n", "def f(n):"),
    "bracket at the end": ("def f(n):\n    return int(n + (0)\n", "    return int(n + (0))"),
    "bracket before the colon": ("def f(n):\n    if int(n:\n        return n\n", "    if int(n):"),
    "bracket of a list over lines": ("A = [\n    1,\n    2,\ndef f(n):\n    return A[n]\n", "    2,]"),
    "bracket of another kind": ("def f(n):\n    return [n)[0]\n", "    return [n][0]"),
    "inner bracket": ("def f(n):\n    return sum([n)\n", "    return sum([n])"),
    "bracket too many": ("def f(n):\n    return int(n))\n", "    return int(n)"),
    "quote at the end": ("A = 'a\ndef f(n):\n    return n\n", "A = 'a'"),
    "quote before brackets": ("A = len(['a])\ndef f(n):\n    return A\n", "A = len(['a'])"),
    "quote of another kind": ("A = 'a\"\ndef f(n):\n    return n\n", "A = 'a'"),
    "quote within the line": ("A = {'a: 1}\ndef f(n):\n    return A['a']\n", "A = {'a': 1}"),
    "equals in a condition": ("def f(n):\n    if n = 1:\n        return n\n", "    if n == 1:"),
    "equals with a keyword argument": (
        "def f(n):\n    if int('1', base=10) = n:\n        return n\n",
        "    if int('1', base=10) == n:",
    ),
    "line not indented": ("def f(n):\nreturn n\n", "    return n"),
    "line indented too far": ("def f(n):\n    m = n\n      return m\n", "    return m"),
    "line not indented enough": ("def f(n):\n    m = n\n  return m\n", "    return m"),
    "tabs among spaces": ("def f(n):\n        m = n\n\treturn m\n", "        return m"),
    "keyword": ("def f(n):\n    retrun n\n", "    return n"),
    "keyword at the start": ("dfe f(n):\n    return n\n", "def f(n):"),
    "comma": ("def f(n):\n    return max([n 0])\n", "    return max([n, 0])"),
}


@pytest.mark.parametrize("name", SYNTAX)
def test_a_source_that_is_not_python_is_repaired(name: str, tmp_path: Path) -> None:
    source, line = SYNTAX[name]
    test = "from shop import f\ndef test(): assert f(1) == 1 or f(1) == 2\n"
    patch = healed(tmp_path, {"shop.py": source, TEST: test})
    assert line.replace(" ", "") in [row.replace(" ", "") for row in added(patch)]


def test_a_repair_of_syntax_keeps_crlf(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "shop.py": b"def f(n)\r\n    return n\r\n",
        TEST: "from shop import f\ndef test(): assert f(1) == 1\n",
    }
    assert healed(tmp_path, files).files[0].after == b"def f(n):\r\n    return n\r\n"


DIVISIONS = {
    "float": ("    return a / b\n", "assert rate(3, 0) == 0.0", "    return a / b if b else 0.0"),
    "None": ("    return round(a / b, 2)\n", "assert rate(3, 0) is None", "    return round(a / b, 2) if b else None"),
    "later assertion": ("    return a // b\n", "r = rate(3, 0)\n    assert r == 7", "    return a // b if b else 7"),
    "not visible": ("    return a / b\n", "assert not rate(3, 0)", "    return a / b if b else 0.0"),
    "within": ("    share = 1 - a / b\n    return share\n", "assert rate(3, 0) == 1", None),
    "approximate": (
        "    return a / b\n",
        "from math import isclose as approx\n    assert approx(rate(3, 0), 2.5) is True",
        "    return a / b if b else 2.5",
    ),
    "augmented": ("    a /= b\n    return a\n", "assert rate(3, 0) == 0", "    if not b:"),
    "compound divisor": (
        "    return a / (b - 0)\n",
        "assert rate(3, 0) == 0",
        "    return a / (b - 0) if b - 0 else 0",
    ),
}


@pytest.mark.parametrize("name", DIVISIONS)
def test_a_division_by_zero_is_guarded_with_the_expected_value(name: str, tmp_path: Path) -> None:
    body, check, line = DIVISIONS[name]
    test = f"from shop import rate\ndef test():\n    {check}\n"
    patch = healed(tmp_path, {"shop.py": "def rate(a, b):\n" + body, TEST: test})
    assert line is None or line in added(patch)
    assert b"except" not in patch.files[0].after


def test_an_early_return_is_among_the_guards(tmp_path: Path) -> None:
    write(tmp_path, {"shop.py": "def rate(a, b):\r\n    return a / b\r\n"})
    write(tmp_path, {TEST: "from shop import rate\ndef test(): assert rate(3, 0) == 0\n"})
    early = b"def rate(a, b):\r\n    if not b:\r\n        return 0\r\n    return a / b\r\n"
    assert early in [patch.files[0].after for patch in proposals(case_of(tmp_path))]


DIFF = "--- a/shop.py\n+++ b/shop.py\n@@ -1,2 +1,2 @@\n def grown(age):\n-    return age >= 18\n+    return age > 18\n"
SHOP = "def grown(age):\n    return age > 18\n"


def test_an_operator_on_a_staged_suspect_line_is_changed(tmp_path: Path) -> None:
    suspects = (Suspect("shop.py", 1, "near"), Suspect("shop.py", 2, "staged"))
    test = "from shop import grown\ndef test(): assert grown(18) and not grown(17)\n"
    patch = healed(tmp_path, {"shop.py": SHOP, TEST: test}, suspects=suspects, diff=DIFF)
    assert added(patch) == ["    return age >= 18"]


def test_a_staged_line_that_no_frame_names_is_changed_too(tmp_path: Path) -> None:
    test = "from shop import grown\ndef test(): assert grown(18) and not grown(17)\n"
    patch = healed(tmp_path, {"shop.py": SHOP, TEST: test}, diff=DIFF)
    assert added(patch) == ["    return age >= 18"]


def test_a_line_that_is_not_staged_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path, {"shop.py": SHOP + "def old(n):\n    return n > 3\n"})
    write(tmp_path, {TEST: "from shop import grown\ndef test(): assert grown(18)\n"})
    suspects = (Suspect("shop.py", 4, "near"), Suspect("test_it.py", 2, "the test"))
    patches = proposals(case_of(tmp_path, suspects=suspects, diff=DIFF))
    assert patches
    assert all(b"def old(n):\n    return n > 3\n" in patch.files[0].after for patch in patches)


def test_what_was_tried_is_not_proposed_again(tmp_path: Path) -> None:
    source, test, _ = NAMES["local"]
    write(tmp_path, {"shop.py": source, TEST: test})
    case = case_of(tmp_path)
    first = proposals(case)[0]
    again = SearchEngine().propose(case, [Attempt("search", first, "the test still fails")])
    assert first.files not in [patch.files for patch in again if isinstance(patch, Patch)]


def test_a_misspelling_in_the_test_alone_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, {"shop.py": "def f(n):\n    return n\n", TEST: "def test():\n    wrods = 1\n    assert words\n"})
    assert proposals(case_of(tmp_path)) == []


MESSAGES = st.sampled_from(
    (
        "name 'n' is not defined",
        "name 'math' is not defined. Did you mean: 'nath'?",
        "local variable 'total' referenced before assignment",
        "'str' object has no attribute 'uper'",
        "module 'shop' has no attribute 'ff'",
        "cannot import name 'gg' from 'shop' (shop.py)",
        "No module named 'shop.x'",
        "No module named ''",
        "f() got an unexpected keyword argument 'nn'",
        "'pirce'",
        "division by zero",
        "",
    )
)
TYPES = st.sampled_from((*READERS, "ZeroDivisionError", "SyntaxError", "AssertionError", "x.Y"))
CODE = ("def f(n):", "return n / nn", "x = ", "import nath", "from . import *", "n.uper()", "total += 1", "if n = 1:")
LETTERS = (
    "\n",
    "\r\n",
    "\r",
    "    ",
    "\t",
    "'",
    '"',
    "(",
    "]",
    "{",
    "'pirce'",
    "#",
    "f'{nn}'",
    "é",
    "\\",
    "\f",
    "\0",
    "ﬁ",
    ":",
)
PIECES = st.lists(st.sampled_from(CODE + LETTERS), max_size=14).map("".join)


@settings(max_examples=150, deadline=None)
@given(
    text=PIECES | st.text(max_size=60), kind=TYPES, message=MESSAGES | st.text(max_size=30), lineno=st.integers(-2, 9)
)
def test_it_never_raises_and_every_patch_compiles(text: str, kind: str, message: str, lineno: int) -> None:
    source, test = Source("shop.py", text, "utf-8"), Source(TEST, text, "utf-8")
    frames = (Frame(TEST, lineno, "test", ""), Frame("shop.py", lineno, "f", ""))
    suspects = tuple(Suspect("shop.py", row, "") for row in range(-1, 4))
    diff = "+++ b/shop.py\n@@ -0,0 +1,3 @@\n+\n+\n+\n"
    failure = Failure(TEST, "call", Raised(kind, message, frames), message)
    for patch in proposals(Case((failure,), suspects, (source,), (test,), diff, frozenset({"math", "a.b"}))):
        (rewrite,) = patch.files
        assert rewrite.path == "shop.py"
        assert rewrite.before == text.encode() != rewrite.after
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # code that Python only warns of compiles all the same
            compile(rewrite.after, "shop.py", "exec", dont_inherit=True)
