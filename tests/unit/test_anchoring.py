"""Where an edit belongs in a file: what is tolerated there, what keeps its bytes, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from replies import BAD, CART, FIXED, GOOD, TABBED, after, block, patched, refused, source

from heal_core.edits import read_patch
from heal_core.patch import Refusal
from heal_core.source import Source, split_lines

TWICE = "a = 0\nb = 1\na = 0\nb = 2\na = 0\n"


@pytest.mark.parametrize(("hint", "line"), [(1, 0), (3, 2), (5, 4), (90, 4)])
def test_a_line_hint_chooses_among_equal_places(hint: int, line: int) -> None:
    lines = TWICE.split("\n")
    lines[line] = "a = 9"
    assert after(block("a = 0", "a = 9", f"x.py @ line {hint}"), source("x.py", TWICE)) == "\n".join(lines)


def test_line_hints_count_in_the_file_as_the_model_saw_it() -> None:
    grown = block("b = 1", "b = 1\n" + "\n".join(f"c = {n}" for n in range(9)), "x.py")
    reply = grown + block("a = 0", "a = 9", "x.py @ line 5")
    assert after(reply, source("x.py", TWICE)).endswith("b = 2\na = 9\n")


@pytest.mark.parametrize(
    ("search", "replace"),
    [
        ("   6 |     return len(lines) - 1", "   6 |     return len(lines)"),
        ("6|     return len(lines) - 1", "6|     return len(lines)"),
        ("6:     return len(lines) - 1", "6:     return len(lines)"),
        (f"5 | def count(lines):\n6 | {BAD}", f"5 | def count(lines):\n6 | {GOOD}"),
        (BAD + "  \t", GOOD),
        ("return len(lines) - 1", "return len(lines)"),
        ("            return len(lines) - 1", "            return len(lines)"),
        (f"{BAD}\n", f"{GOOD}\n"),
        (f"{BAD}\r", f"{GOOD}\r"),
        (f"    def count(lines):\n    {BAD}", f"    def count(lines):\n    {GOOD}"),
    ],
)
def test_small_slips_are_tolerated(search: str, replace: str) -> None:
    assert after(block(search, replace)) == FIXED


def test_a_dictionary_with_numbers_as_keys_is_no_numbered_listing() -> None:
    text = "NAMES = {\n    12: 'a',\n    13: 'b',\n}\n"
    assert after(block("    12: 'a',", "    12: 'x',"), source(text=text)) == text.replace("'a'", "'x'")


@pytest.mark.parametrize(
    ("search", "replace"),
    [
        ("            return True", "            self.used += 1\n            return True"),
        (
            "        if amount:\n            return True",
            "        if amount:\n            self.used += 1\n            return True",
        ),
        ("    if amount:\n      return True", "    if amount:\n      self.used += 1\n      return True"),
        ("4 |            return True", "4 |            self.used += 1\n5 |            return True"),
        ("\t\t\treturn True", "\t\t\tself.used += 1\n\t\t\treturn True"),
        ("if amount:\n\treturn True", "if amount:\n\tself.used += 1\n\treturn True"),
    ],
)
def test_blanks_written_for_tabs_become_tabs(search: str, replace: str) -> None:
    wanted = TABBED.replace("\t\t\treturn True", "\t\t\tself.used += 1\n\t\t\treturn True")
    assert after(block(search, replace), source(text=TABBED)) == wanted


def test_a_deeper_line_in_blanks_becomes_one_more_tab() -> None:
    reply = block("        return False", "        if self:\n            return False")
    assert after(reply, source(text=TABBED)).endswith("\t\tif self:\n\t\t\treturn False\n")


@pytest.mark.parametrize(
    ("text", "search", "replace"),
    [
        (TABBED, "        return False", "        if self:\n           return False"),
        (TABBED, "\t\treturn False", "        return False or True"),
        (TABBED, "class Meter:", "class Meter:\n    size = 1"),
        (CART, BAD, "\treturn len(lines)"),
        (CART, "        return len(lines) - 1", "    return len(lines)\n  # odd"),
    ],
)
def test_tabs_and_blanks_are_never_mixed(text: str, search: str, replace: str) -> None:
    assert "indent" in refused(block(search, replace), source(text=text))


def test_every_line_of_a_mixed_file_keeps_its_own_end() -> None:
    text = "a = 1\r\nb = 2\nc = 3\r\nd = 4\n"
    reply = block("a = 1\nb = 2\nc = 3", "a = 1\nb = 0\nc = 3\nc2 = 3")
    assert after(reply, source(text=text)) == "a = 1\r\nb = 0\nc = 3\r\nc2 = 3\r\nd = 4\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a = 1\r\nb = 2", "a = 1\r\nb = 3\r\nc = 4"),
        ("b = 2", "b = 3\nc = 4"),
        ("a = 1\rb = 2\r", "a = 1\rb = 3\rc = 4\r"),
    ],
)
def test_a_file_without_a_last_line_end_stays_without(text: str, wanted: str) -> None:
    assert after(block("b = 2", "b = 3\nc = 4"), source(text=text)) == wanted


def test_trailing_blanks_of_unchanged_lines_stay() -> None:
    text = "def f():  \n    x = 1\t\n\t\n    y = 2\n"
    reply = block("def f():\n    x = 1\n\n    y = 2", "def f():\n    x = 1\n\n    y = 3")
    assert after(reply, source(text=text)) == text.replace("y = 2", "y = 3")


def test_a_letter_without_a_place_in_the_encoding_is_refused() -> None:
    latin = Source("a.py", "# coding: latin-1\nx = 'é'\n", "iso-8859-1")
    (rewrite,) = patched(block("x = 'é'", "x = 'è'", "a.py"), latin).files
    assert rewrite.after == b"# coding: latin-1\nx = '\xe8'\n"
    assert "iso-8859-1" in refused(block("x = 'é'", "x = '→'", "a.py"), latin)


def test_two_places_are_named() -> None:
    reason = refused(block("a = 0", "a = 9", "x.py"), source("x.py", TWICE))
    assert "3 times, at lines 1, 3, 5" in reason
    assert "3 times" in refused(block("a = 0", "a = 9", "x.py @ line 2"), source("x.py", TWICE))


@pytest.mark.parametrize(
    "line",
    [
        "# ... rest unchanged",
        "# ...",
        "...",
        "    ...  # the same",
        "...existing code...",
        "# … existing code …",
        "# rest of file",
        "# rest of the function stays as it is",
        "# existing code",
        "# remaining methods unchanged",
        "# other functions are as before",
        "# unchanged",
        "# Rest of the class remains the same",
    ],
)
def test_a_line_that_stands_for_code_left_out_is_refused(line: str) -> None:
    assert "only the changed lines are to be written" in refused(block(BAD, f"{GOOD}\n{line}"))


@pytest.mark.parametrize(
    "line",
    [
        "# the price stays unchanged by this",
        "x = [...]",
        "# numbers 1, 2, 3, ...",
        "# keep the rest of the line",
        "..., x",
    ],
)
def test_an_honest_line_is_not_taken_for_an_elision(line: str) -> None:
    assert line in after(block(BAD, f"{GOOD}\n{line}"))


def test_an_elision_that_stands_in_the_file_stays() -> None:
    text = "def f():\n    x = 1\n    # ... rest of the code\n    ...\n"
    reply = block("    x = 1\n    # ... rest of the code\n    ...", "    x = 2\n    # ... rest of the code\n    ...")
    assert after(reply, source(text=text)) == text.replace("x = 1", "x = 2")


def test_an_empty_body_of_dots_is_code() -> None:
    assert after(block(BAD, f"{GOOD}\n\n\ndef stub():\n    ...")).endswith("def stub():\n    ...\n")


LETTERS = st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\n")
CODE = st.text(LETTERS, max_size=12).filter(lambda text: text == text.strip())


@st.composite
def edited_files(draw: st.DrawFn) -> tuple[str, int, int, list[str]]:
    """A file with line ends of every kind, and lines start to end of it to be replaced by others."""
    indent = draw(st.sampled_from(["\t", "    "]))
    line = st.tuples(st.integers(0, 3), CODE).map(lambda row: indent * row[0] * bool(row[1]) + row[1])
    ends = st.sampled_from(["\n", "\r\n"])
    rows = draw(st.lists(st.tuples(line, ends), min_size=1, max_size=15))
    text = "".join(a + b for a, b in rows)
    if draw(st.booleans()):
        text = text.rstrip("\r\n")
    assume(text)
    count = len(split_lines(text))
    start = draw(st.integers(0, count - 1))
    end = draw(st.integers(start + 1, min(count, start + 5)))
    return text, start, end, draw(st.lists(line, max_size=5))


@given(edited_files())
def test_a_random_edit_written_as_a_block_is_exactly_that_edit(edit: tuple[str, int, int, list[str]]) -> None:
    text, start, end, new = edit
    whole = split_lines(text)
    lines = Source("a.py", text, "utf-8").lines
    old = lines[start:end]
    assume(any(line.strip() for line in old) and old != new)
    wanted = lines[:start] + new + lines[end:]
    assume(text.endswith("\n") or all(wanted[-1:]))  # an empty last line without an end is no line
    search, replace = "".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new)
    reply = f"a.py @ line {start + 1}\n<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"
    patch = read_patch("llm", reply, [Source("a.py", text, "utf-8")])
    if isinstance(patch, Refusal):  # a letter of chance made it an elision or a mixed indentation, or nothing changed
        assert any(word in patch.reason for word in ("in place of code", "indented with", "change nothing"))
        return
    result = split_lines(patch.files[0].after.decode())
    assert [line.rstrip("\r\n") for line in result] == wanted
    kept_tail = whole[end:]
    assert result[len(result) - len(kept_tail) :] == kept_tail
    kept_head = whole[:start] if new or kept_tail else whole[: max(start - 1, 0)]  # a new last line may lose its end
    assert result[: len(kept_head)] == kept_head
