"""The reply grammar: what is understood, what is tolerated, and what is refused with which words."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replies import BAD, CART, FIXED, GOOD, after, block, patched, refused, source

from heal_core.edits import GRAMMAR, MAX_REPLY, parse, read_patch
from heal_core.patch import Patch
from heal_core.source import Source

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


def test_thinking_aloud_is_no_part_of_the_reply() -> None:
    assert after("<think>\n" + block(BAD, "    return 0") + "</think>\nOne short.\n" + block(BAD, GOOD)) == FIXED


def test_the_reason_for_no_fix_is_handed_on() -> None:
    reply = "The test asks for both.\n\n**CANNOT FIX:** the tests contradict each other"
    assert parse(reply).cannot_fix == "the tests contradict each other"
    assert "the tests contradict each other" in refused(reply)


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
