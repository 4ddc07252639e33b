"""Python source as text that goes back to the same bytes."""

from __future__ import annotations

import difflib
import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass

# Lines between the common head and tail of two texts that are aligned one by one; more are replaced as a whole.
MAX_ALIGNED_LINES = 400

LINE_END = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")


def split_lines(text: str) -> list[str]:
    """The lines of `text` with their own ends (LF, CRLF or CR; the last may have none).

    Unlike `str.splitlines` it breaks at nothing else, so form feeds and Unicode separators stay inside their line, as
    Python's own tokenizer counts them.
    """
    return [line for line in LINE_END.split(text) if line]


def opcodes(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, int, int, int, int]]:
    """The rows of `difflib.SequenceMatcher.get_opcodes` that turn the lines `old` into `new`, in bounded time.

    What both have in common at the head and the tail is found first; of what lies between, only so much is aligned line
    by line.
    """
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    tail = next((i for i in range(shorter - head) if old[-1 - i] != new[-1 - i]), shorter - head)
    i2, j2 = len(old) - tail, len(new) - tail
    middle = [("replace", head, i2, head, j2)] if i2 > head or j2 > head else []
    if i2 - head + j2 - head <= MAX_ALIGNED_LINES:
        rows = difflib.SequenceMatcher(None, old[head:i2], new[head:j2], autojunk=False).get_opcodes()
        middle = [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in rows]
    return [("equal", 0, head, 0, head), *middle, ("equal", i2, len(old), j2, len(new))]


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
