"""Replies of a model, written in the grammar, and what becomes of them."""

from __future__ import annotations

from heal_core.edits import MAX_REPLY, read_patch
from heal_core.patch import Patch, Refusal
from heal_core.source import Source

CART = """\
def total(lines):
    return sum(line["qty"] for line in lines)


def count(lines):
    return len(lines) - 1
"""
TABBED = "class Meter:\n\tdef take(self, amount):\n\t\tif amount:\n\t\t\treturn True\n\t\treturn False\n"
BAD, GOOD = "    return len(lines) - 1", "    return len(lines)"
FIXED = CART.replace(BAD, GOOD)


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
