"""The rows that turn the lines of one text into those of another."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heal_core.alignment import MAX_EDITS, opcodes

LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=12)
LONG = [f"x = {n % 50}" for n in range(5000)]


def most_in_common(old: list[str], new: list[str]) -> int:
    """The length of a longest common subsequence, by the book."""
    row = [0] * (len(new) + 1)
    for line in old:
        before = row
        row = [0]
        for j, other in enumerate(new):
            row.append(before[j] + 1 if line == other else max(before[j + 1], row[j]))
    return row[-1]


@given(LINES, LINES)
def test_the_rows_turn_the_old_lines_into_the_new(old: list[str], new: list[str]) -> None:
    built: list[str] = []
    for tag, i1, i2, j1, j2 in opcodes(old, new):
        assert tag != "equal" or old[i1:i2] == new[j1:j2]
        built += old[i1:i2] if tag == "equal" else new[j1:j2]

    assert built == new


@given(LINES, LINES)
def test_the_rows_follow_one_another_and_each_is_named_for_what_it_does(old: list[str], new: list[str]) -> None:
    rows = opcodes(old, new)
    names = {(True, True): {"equal", "replace"}, (True, False): {"delete"}, (False, True): {"insert"}}

    assert [row[1::2] for row in rows] == [(0, 0), *(row[2::2] for row in rows)][: len(rows)]
    assert all(tag in names[i1 < i2, j1 < j2] for tag, i1, i2, j1, j2 in rows)
    assert all((one[0] == "equal") != (following[0] == "equal") for one, following in pairwise(rows))


@given(LINES, LINES)
def test_as_many_lines_stay_as_can(old: list[str], new: list[str]) -> None:
    stay = sum(i2 - i1 for tag, i1, i2, _, _ in opcodes(old, new) if tag == "equal")

    assert stay == most_in_common(old, new)


@pytest.mark.parametrize(
    ("new", "changes"),
    [
        ([*LONG[:2000], "y = 2", *LONG[2000:]], [("insert", 2000, 2000, 2000, 2001)]),
        ([*LONG[:100], *LONG[101:]], [("delete", 100, 101, 100, 100)]),
        (
            [*LONG[:100], "y = 2", *LONG[101:4000], "y = 3", *LONG[4001:]],
            [("replace", 100, 101, 100, 101), ("replace", 4000, 4001, 4000, 4001)],
        ),
    ],
    ids=["a line more", "a line less", "two places far apart"],
)
def test_changes_of_a_long_text_are_told_one_by_one_though_no_line_is_unlike_all_others(
    new: list[str], changes: list[tuple[str, int, int, int, int]]
) -> None:
    assert [row for row in opcodes(LONG, new) if row[0] != "equal"] == changes


def test_a_text_with_too_many_changes_is_replaced_from_the_first_to_the_last() -> None:
    old = [f"old {n}" if n % 2 else "same" for n in range(2 * MAX_EDITS + 2)]
    new = [line.replace("old", "new") for line in old]

    assert opcodes(old, new) == [("equal", 0, 1, 0, 1), ("replace", 1, len(old), 1, len(new))]
