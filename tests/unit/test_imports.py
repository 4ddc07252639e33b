"""What a source imports, as it is written."""

from __future__ import annotations

import pytest

from heal_core.imports import Import, imports_of


def names(source: str | bytes) -> list[tuple[int, str, tuple[str, ...]]]:
    data = source.encode() if isinstance(source, str) else source
    return [(each.level, each.module, each.members) for each in imports_of(data) if each.how == "import"]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import a.b, c as d", [(0, "a.b", ()), (0, "c", ())]),
        ("from a.b import c, d as e", [(0, "a.b", ("c", "d"))]),
        ("from a import *", [(0, "a", ())]),
        ("from ..a import b", [(2, "a", ("b",))]),
        ("from . import b", [(1, "", ("b",))]),
        ("def f():\n    import a", [(0, "a", ())]),
        ("try:\n    pass\nexcept E:\n    import a\nelse:\n    import b\nfinally:\n    import c",
         [(0, "c", ()), (0, "a", ()), (0, "b", ())]),
        ("match x:\n    case 1:\n        import a", [(0, "a", ())]),
        ("async def f():\n    async with x:\n        import a", [(0, "a", ())]),
        ("importlib.import_module('a.b')", [(0, "a.b", ())]),
        ("import_module('..a', package='p.q.r')", [(0, "p.q.a", ())]),
        ("import_module('.a', __package__)", [(1, "a", ())]),
        ("__import__('a')", [(0, "a", ())]),
        ("pytest.importorskip('a')", [(0, "a", ())]),
        ("from importlib import import_module as f\nf('a')", [(0, "importlib", ("import_module",)), (0, "a", ())]),
        ("pytest_plugins = ['a']", [(0, "a", ())]),
        ("import_module(name)", []),
        ("# import a\n'import b'", []),
    ],
)  # fmt: skip
def test_every_form_of_import_is_found(source: str, found: list[tuple[int, str, tuple[str, ...]]]) -> None:
    assert sorted(names(source)) == sorted(found)


@pytest.mark.parametrize("guard", ["TYPE_CHECKING", "typing.TYPE_CHECKING"])
def test_what_only_type_checkers_read_is_left_out(guard: str) -> None:
    assert names(f"if {guard}:\n    import a\nelse:\n    import b") == [(0, "b", ())]
    assert names(f"if not {guard}:\n    import a\nelse:\n    import b") == [(0, "a", ())]


def test_a_literal_that_looks_like_a_module_is_told_apart_from_an_import() -> None:
    assert imports_of(b"patch('app.views.load')\nuvicorn('app.main:app')") == (
        Import("app.views.load", how="literal"),
        Import("app.main", how="literal"),
    )


def test_a_source_that_does_not_parse_is_read_by_its_lines() -> None:
    source = (
        "import a.b as x, c  # why\r\nfrom d import (  # more\r\n    e,\r\n    f as g,\r\n)\r\nfrom .h import *\r\n"
        "from . import i; import j\r\ntry: import k\r\nimport_module('..l')\r\n"
        "def broken(:\r\n    from m import n, \\\r\n  o\r\n"
    )
    assert sorted(names(source)) == sorted(
        [
            (0, "a.b", ()),
            (0, "c", ()),
            (0, "d", ("e", "f")),
            (1, "h", ()),
            (1, "", ("i",)),
            (0, "j", ()),
            (0, "k", ()),
            (2, "l", ()),
            (0, "m", ("n", "o")),
        ]
    )


@pytest.mark.parametrize(
    "source", [b"import a\nx = \0", b"\xff\xfe", b"# coding: nonsense\nimport a", b"(" * 5000 + b"\nimport a"]
)
def test_any_bytes_can_be_read(source: bytes) -> None:
    assert names(source) == ([(0, "a", ())] if b"import" in source else [])


def test_an_invalid_escape_in_the_source_is_not_reported() -> None:
    assert names(r"import a; x = '\d'") == [(0, "a", ())]


def test_the_declared_encoding_counts() -> None:
    assert names("# coding: latin-1\nimport büro".encode("latin-1")) == [(0, "büro", ())]
