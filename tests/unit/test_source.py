"""Text that goes back to the same bytes, and the rows that turn one text into another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heal_core.patch import Patch, Rewrite
from heal_core.source import Source, opcodes, split_lines

LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=12)


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


@given(LINES, LINES)
def test_the_rows_turn_the_old_lines_into_the_new(old: list[str], new: list[str]) -> None:
    built: list[str] = []
    for tag, i1, i2, j1, j2 in opcodes(old, new):
        assert tag != "equal" or old[i1:i2] == new[j1:j2]
        built += old[i1:i2] if tag == "equal" else new[j1:j2]

    assert built == new


def test_one_changed_line_of_a_long_file_counts_as_one() -> None:
    """A third of the lines are blank, which makes a plain alignment cost the square of the file's length."""
    old = "".join(f"line_{n} = {n}\n" if n % 3 else "\n" for n in range(20_000)).encode()
    patch = Patch("search", "", (Rewrite("a.py", old, old.replace(b"line_10000 = 10000", b"line_10000 = 1")),))

    assert patch.changed_lines() == 1
    assert patch.diff().count("\n") == 11
