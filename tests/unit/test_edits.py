"""The reply grammar: what is understood, what is tolerated, and what is refused with which words."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from heal_core.edits import GRAMMAR, MAX_REPLY, parse, read_patch
from heal_core.patch import Patch, Refusal
from heal_core.source import Source, split_lines

CART = """\
def total(lines):
    return sum(line["qty"] for line in lines)


def count(lines):
    return len(lines) - 1
"""
TABBED = "class Meter:\n\tdef take(self, amount):\n\t\tif amount:\n\t\t\treturn True\n\t\treturn False\n"
BAD, GOOD = "    return len(lines) - 1", "    return len(lines)"


def source(path: str = "shop/cart.py", text: str = CART, encoding: str = "utf-8") -> Source:
    return Source(path, text, encoding)


def block(search: str, replace: str, path: str = "shop/cart.py") -> str:
    head = f"{path}\n" if path else ""
    body = f"{replace}\n" if replace else ""
    return f"{head}<<<<<<< SEARCH\n{search}\n=======\n{body}>>>>>>> REPLACE\n"


def patched(reply: str, *sources: Source) -> Patch:
    patch = read_patch("llm", reply, sources or (source(),))
    assert isinstance(patch, Patch), patch.reason
    return patch


def after(reply: str, *sources: Source) -> str:
    """The new text of the one file that the reply changes."""
    (rewrite,) = patched(reply, *sources).files
    return rewrite.after.decode()


def refused(reply: str, *sources: Source) -> str:
    refusal = read_patch("llm", reply, sources or (source(),))
    assert isinstance(refusal, Refusal), refusal.diff()
    assert refusal.reply == reply[:MAX_REPLY]
    return refusal.reason


FIXED = CART.replace(BAD, GOOD)


# -- what is understood ----------------------------------------------------------------------------------------------


def test_the_block_is_applied_and_the_rest_is_the_diagnosis() -> None:
    patch = patched("The count is one short.\n\n" + block(BAD, GOOD))
    assert patch.engine == "llm"
    assert patch.diagnosis == "The count is one short."
    assert [(r.path, r.before.decode(), r.after.decode()) for r in patch.files] == [("shop/cart.py", CART, FIXED)]


def test_the_grammar_told_to_the_model_is_the_one_that_is_read() -> None:
    reply = parse(GRAMMAR)
    assert reply.fault == ""
    assert [edit.path for edit in reply.edits] == ["path/to/file.py"]


@pytest.mark.parametrize(
    "label",
    [
        "shop/cart.py",
        "./shop/cart.py",
        "`shop/cart.py`",
        "**shop/cart.py**",
        "**`shop/cart.py`**:",
        "File: shop/cart.py",
        "**File:** `shop/cart.py`",
        "### shop/cart.py",
        "### File: `shop/cart.py`",
        "1. `shop/cart.py`",
        "# shop/cart.py",
        "shop/cart.py:\n",
        "shop/cart.py\n```python",
        "```python shop/cart.py",
        "```python:shop/cart.py",
        "```shop/cart.py",
        '```python title="shop/cart.py"',
        "```\nshop/cart.py",
        "In `shop/cart.py`, the count is wrong:",
        "cart.py",
        "shop/cart.py @ line 6",
    ],
)
def test_a_path_is_found_however_it_is_decorated(label: str) -> None:
    assert after(f"Off by one.\n\n{label}\n{block(BAD, GOOD, path='')}```\nDone [1].") == FIXED


def test_a_path_with_blanks_and_accents_is_found() -> None:
    odd = source("büro/naïve calc.py")
    assert after(block(BAD, GOOD, "`büro/naïve calc.py`"), source("other.py"), odd) == FIXED


def test_a_file_name_is_completed_only_when_one_file_has_it() -> None:
    reply = block(BAD, GOOD, "cart.py")
    assert after(reply, source("shop/cart.py"), source("shop/xcart.py")) == FIXED
    assert "shop/cart.py, web/cart.py" in refused(reply, source("shop/cart.py"), source("web/cart.py"))


def test_a_decoy_fence_is_not_applied() -> None:
    decoy = "Today it reads {so}:\n\n```python\ndef count(lines):\n    return 0\n```\n\nThe change:\n\n"
    assert after(decoy + "```json\n" + block(BAD, GOOD) + "```\nNote [1]: {x} stays].") == FIXED


def test_several_blocks_of_one_file_are_applied_in_order_with_the_path_given_once() -> None:
    first = block(BAD, "    size = len(lines)\n    return size - 1")
    second = block("    return size - 1", "    return size", path="")
    assert "    size = len(lines)\n    return size\n" in after(first + "and then\n" + second)


def test_blocks_of_several_files_make_one_patch() -> None:
    reply = (
        block(BAD, GOOD, "a.py") + block(BAD, "    return 0", "b.py") + block("def total(lines):", "def t(lines):", "")
    )
    patch = patched(reply, source("a.py"), source("b.py"), source("c.py"))
    assert [(r.path, r.changed_lines()) for r in patch.files] == [("a.py", 1), ("b.py", 2)]


def test_a_block_in_a_list_item_is_read_with_its_indentation() -> None:
    reply = "- fix:\n" + "".join(f"  {line}\n" for line in block(BAD, GOOD).splitlines())
    assert after(reply) == FIXED


def test_an_empty_replace_deletes_the_lines() -> None:
    assert after(block("\n\ndef count(lines):\n" + BAD, "")) == CART[: CART.index("\n\ndef count")]


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


def test_thinking_aloud_is_no_part_of_the_reply() -> None:
    assert after("<think>\n" + block(BAD, "    return 0") + "</think>\nOne short.\n" + block(BAD, GOOD)) == FIXED


def test_the_reason_for_no_fix_is_handed_on() -> None:
    reply = "The test asks for both.\n\n**CANNOT FIX:** the tests contradict each other"
    assert parse(reply).cannot_fix == "the tests contradict each other"
    assert "the tests contradict each other" in refused(reply)


# -- what is tolerated -----------------------------------------------------------------------------------------------


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


def test_a_whole_function_in_a_fence_replaces_the_one_of_its_name() -> None:
    text = CART.replace("def count", "@cache\ndef count")
    reply = "One short.\n\nshop/cart.py\n```python\n@lru_cache\ndef count(lines):\n    return len(lines)\n```\n"
    assert after(reply, source(text=text)) == FIXED.replace("def count", "@lru_cache\ndef count")


@pytest.mark.parametrize("head", ["```python shop/cart.py", "```python\n# shop/cart.py", "**shop/cart.py**:\n\n~~~py"])
def test_the_path_of_a_fenced_function_may_stand_in_the_fence(head: str) -> None:
    assert after(f"{head}\ndef count(lines):\n    return len(lines)\n{'~~~' if '~' in head else '```'}\n") == FIXED


def test_a_method_in_a_fence_takes_the_indentation_of_the_file() -> None:
    text = "class A:\n    x = 1\n\n    def f(self):\n        return 1\r\n"
    reply = "`shop/cart.py`:\n```python\ndef f(self):\n    return 2\n```"
    assert after(reply, source(text=text)) == text.replace("return 1", "return 2")


@pytest.mark.parametrize(
    ("fence", "words"),
    [
        ("def other(lines):\n    return 1", "does not stand there"),
        ("import os\n\ndef count(lines):\n    return 1", "SEARCH/REPLACE"),
        ("def count(lines):\n    return (", "SEARCH/REPLACE"),
        ("def count(lines):\n    # ... rest unchanged\n    return 1", "only the changed lines"),
        ("def count(lines):\n    return 1\n\ndef count(lines):\n    return 2", "twice"),
        ("def count(lines):\n    return len(lines) - 1", "change nothing"),
    ],
)
def test_any_other_fence_under_a_path_is_refused(fence: str, words: str) -> None:
    assert words in refused(f"shop/cart.py\n```python\n{fence}\n```\n")


def test_a_fence_without_a_path_is_not_applied() -> None:
    assert "no edit block" in refused("Write:\n```python\ndef count(lines):\n    return len(lines)\n```\n")


# -- line ends and encodings -----------------------------------------------------------------------------------------


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


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("I would change the count.", "no edit block"),
        ("", "no edit block"),
        (block(BAD, GOOD)[:-20], "cut short"),
        (f"shop/cart.py\n<<<<<<< SEARCH\n{BAD}\n" + block(BAD, GOOD), "before the next"),
        (f"shop/cart.py\n<<<<<<< SEARCH\n{BAD}\n>>>>>>> REPLACE\n", "no lines of `=======`"),
        (block(BAD, "x\n=======\ny"), "2 lines of `=======`"),
        (f"{BAD}\n=======\n{GOOD}\n>>>>>>> REPLACE\n", "no `<<<<<<< SEARCH`"),
        (block(BAD, GOOD, path=""), "no path on the line above"),
        (block("", GOOD), "SEARCH is empty"),
        (block("", "x = 1\n# ... rest of the file unchanged ..."), "only the changed lines"),
        (block(BAD, BAD), "change nothing"),
        (block("(delete this file)", ""), "stands nowhere"),
        (block("    return len(items)", GOOD), "   6 |     return len(lines) - 1"),
        (block("wholly = different", GOOD), "stands nowhere"),
        (block("def count(lines):\n    ...", GOOD), "leaves lines out"),
        (block(f"6 | {BAD}", GOOD), "line numbers"),
        (block("lines", "x"), "Block 1 (shop/cart.py)"),
        (block(BAD, GOOD) + block("nothing like it", "x"), "Block 2 (shop/cart.py)"),
        (block("assert x", "assert y", "tests/test_cart.py"), "Files that may be edited: shop/cart.py"),
        (block(BAD, GOOD, "web/cart.py"), "web/cart.py, which may not be edited"),
        (block(BAD, GOOD, "../shop/cart.py"), "may not be edited"),
        (block(BAD, GOOD, "/shop/cart.py"), "may not be edited"),
        (block(BAD, GOOD) * 60, "more than 50 blocks"),
        ("x" * (MAX_REPLY + 1), "longer than"),
    ],
)
def test_a_refusal_says_what_to_change(reply: str, words: str) -> None:
    assert words in refused(reply)


def test_a_good_block_beside_one_for_a_test_is_refused_with_it() -> None:
    assert "tests/test_cart.py" in refused(block(BAD, GOOD) + block("a", "b", "tests/test_cart.py"))


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


@pytest.mark.parametrize(
    "reply",
    [
        block("\n" * 300_000, "\n" * 300_000),
        block("x = 1\n" + "\n" * 300_000, "\n" * 300_000),
        block("a\n" * 5_000 + "a", "b\n" * 100_000),
        block("a", "# ..." * 100_000),
        (" " * 499 + "\n") * 1_900,
        ("/" * 499 + "\n") * 1_900 + block("a", "b", ""),
        ("`" * 499 + "\n") * 1_900 + block("a", "b", ""),
        block("x\n" * 200_000, "y", "a.py @ line 7"),
        "```\n" * 200_000,
        "<<<<<<< SEARCH\n" * 60_000,
        "a.py\n```\ndef f():\n  " + "(" * 400_000 + "\n```\n",
        " " * 900_000 + "CANNOT FIX",
    ],
    ids=lambda reply: reply[:20],
)
def test_hostile_replies_are_read_in_bounded_time(reply: str) -> None:
    began = time.process_time()
    read_patch("llm", reply, [source("a.py", "a\n" * 20_000), source()])
    assert time.process_time() - began < 3


# -- properties ------------------------------------------------------------------------------------------------------

MARKS = "<<<<<<< SEARCH|=======|>>>>>>> REPLACE|a.py|b/c.py @ line 2|```python|```|`a.py`|CANNOT FIX: no|@ line 3"
CODES = "x = 1|  x = 1|\tx||def f():|    return 1|1 : x = 1|...|# ... rest|é|\x00|\ud800"
WORDS = st.sampled_from([*MARKS.split("|"), *CODES.split("|")])
ENDS = st.sampled_from(["\n", "\r\n", "\r", ""])
SCRAPS = st.lists(st.tuples(WORDS | st.text(max_size=8), ENDS)).map(lambda rows: "".join(a + b for a, b in rows))
SOURCES = st.lists(
    st.builds(Source, st.sampled_from(["a.py", "b/c.py"]), SCRAPS, st.sampled_from(["utf-8", "ascii", "x"]))
)


@given(SCRAPS | st.text(), SOURCES)
def test_no_reply_raises_and_a_patch_has_only_paths_of_the_sources(reply: str, sources: Sequence[Source]) -> None:
    patch = read_patch("llm", reply, sources)
    if isinstance(patch, Patch):
        known = {s.path: s for s in sources}
        assert patch.files
        for rewrite in patch.files:
            assert rewrite.before == known[rewrite.path].encode(known[rewrite.path].text) != rewrite.after
    else:
        assert patch.reason


@given(SCRAPS | st.text())
def test_parsing_alone_never_raises(reply: str) -> None:
    assert len(parse(reply).diagnosis) <= 500


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
