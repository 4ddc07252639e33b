"""`selfheal --help`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hooks.commands import COMMANDS


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Print the commands; always 0."""
    del arguments, environ
    print("usage: selfheal [COMMAND] [--help]")
    print("Heals Python commits: runs the affected tests on what is staged, and stages a proved fix.")
    for name, sentence in COMMANDS.items():
        print(f"  {name:<8} {sentence}")
    return 0
