"""Python source as text that goes back to the same bytes."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from dataclasses import dataclass

# All that CPython's tokenizer and parser are known to raise on text that is no program (SystemError: 3.12 and 3.13).
UNREADABLE = (SyntaxError, ValueError, tokenize.TokenError, RecursionError, MemoryError, OverflowError, SystemError)

LINE_END = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")


def split_lines(text: str) -> list[str]:
    """The lines of `text` with their own ends (LF, CRLF or CR; the last may have none).

    Unlike `str.splitlines` it breaks at nothing else, so form feeds and Unicode separators stay inside their line, as
    Python's own tokenizer counts them.
    """
    return [line for line in LINE_END.split(text) if line]


def syntax_tree(code: str | bytes) -> ast.Module | None:
    """The syntax tree of `code`, or None where the running Python reads no program in it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in the user's source is not ours to report
            return ast.parse(code)
    except UNREADABLE:
        return None


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file: its path relative to the repository, its text with its own line ends, its encoding (PEP 263)."""

    path: str
    text: str
    encoding: str

    @classmethod
    def read(cls, path: str, data: bytes) -> Source | None:
        """The source in `data`, or None when it is not text in its declared encoding (UTF-8 where none is declared)."""
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
            source = cls(path, data.decode(encoding), encoding)
        except (SyntaxError, UnicodeDecodeError, LookupError):
            return None
        return source if source.encode(source.text) == data else None

    def encode(self, text: str) -> bytes:
        """The bytes of `text` in this file's encoding; raises UnicodeEncodeError when it has no place for a letter."""
        return text.encode(self.encoding)

    @property
    def lines(self) -> list[str]:
        """The lines without their ends; line n is at n - 1."""
        return [line.rstrip("\r\n") for line in split_lines(self.text)]
