"""Aligning the lines of two texts in bounded time, whatever their length."""

from __future__ import annotations

from collections.abc import Sequence

# Lines taken away and added, up to which they are told one by one; beyond, all between the first and last is replaced.
MAX_EDITS = 400

_Run = tuple[int, int, int]  # lines in common: where they begin in the old text and in the new, from 0; how many
_Chain = tuple[_Run, "_Chain | None"]  # a run, and those before it


def opcodes(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, int, int, int, int]]:
    """Rows of the form of `difflib.SequenceMatcher.get_opcodes` that turn the lines `old` into `new`."""
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    tail = next((i for i in range(shorter - head) if old[-1 - i] != new[-1 - i]), shorter - head)
    between = _common(old[head : len(old) - tail], new[head : len(new) - tail])
    rows: list[tuple[str, int, int, int, int]] = []
    i = j = 0
    for i1, j1, size in (
        (0, 0, head),
        *((head + at, head + stands, size) for at, stands, size in between),
        (len(old) - tail, len(new) - tail, tail),
    ):
        if i < i1 or j < j1:
            rows.append(("insert" if i == i1 else "delete" if j == j1 else "replace", i, i1, j, j1))
        i, j = i1 + size, j1 + size
        if size:
            rows.append(("equal", i1, i, j1, j))
    return rows


def _common(old: Sequence[str], new: Sequence[str]) -> list[_Run]:
    """The runs of a longest common subsequence, by Myers's greedy search; none where it takes over MAX_EDITS edits."""
    nowhere: tuple[int, _Chain | None] = (-2, None)
    reached: dict[int, tuple[int, _Chain | None]] = {1: (0, None)}  # by line of old less line of new: the furthest
    for edits in range(min(len(old) + len(new), MAX_EDITS) + 1):
        for shift in range(-edits, edits + 1, 2):
            added, taken = reached.get(shift + 1, nowhere), reached.get(shift - 1, nowhere)
            start, chain = added if added[0] > taken[0] else (taken[0] + 1, taken[1])
            i = start
            while i < len(old) and i - shift < len(new) and old[i] == new[i - shift]:
                i += 1
            if i > start:
                chain = ((start, start - shift, i - start), chain)
            if (i, i - shift) == (len(old), len(new)):
                return _unwound(chain)
            reached[shift] = i, chain
    return []


def _unwound(chain: _Chain | None) -> list[_Run]:
    runs = []
    while chain:
        run, chain = chain
        runs.append(run)
    return runs[::-1]
