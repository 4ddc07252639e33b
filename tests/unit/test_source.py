"""Text that goes back to the same bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heal_core.source import Source, split_lines, syntax_tree


@given(st.text(alphabet="ab\r\n\f\x85\u2028"))
def test_lines_keep_their_own_ends_and_break_where_python_does(text: str) -> None:
    lines = split_lines(text)

    assert "".join(lines) == text
    assert all("\n" not in line.rstrip("\r\n") for line in lines)


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"x = 1\n", "utf-8"),
        (b"\xef\xbb\xbfx = 1\n", "utf-8-sig"),
        (b"# coding: latin-1\nx = '\xe4'\n", "iso-8859-1"),
        ("naïve = 1\r\n".encode(), "utf-8"),
    ],
)
def test_a_source_goes_back_to_the_same_bytes(data: bytes, encoding: str) -> None:
    source = Source.read("a.py", data)

    assert source is not None
    assert source.encoding == encoding
    assert source.encode(source.text) == data


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"# coding: no-such-codec\n", b"# coding: utf-8\n\xe4\n"])
def test_what_is_no_text_in_its_encoding_is_no_source(data: bytes) -> None:
    assert Source.read("a.py", data) is None


@pytest.mark.parametrize("code", ["x = '\\d'\n", b"# coding: latin-1\nx = '\xe4'\n", "", "x = 1"])
def test_code_has_a_tree_and_an_invalid_escape_in_it_is_not_reported(code: str | bytes) -> None:
    assert syntax_tree(code) is not None


@pytest.mark.parametrize(
    "code", ["x =", b"\xff", "x = \0", "# coding: none\n".encode("utf-16"), "-" * 100_000 + "1", "'\ud800'"]
)
def test_what_is_no_program_has_no_tree(code: str | bytes) -> None:
    assert syntax_tree(code) is None
