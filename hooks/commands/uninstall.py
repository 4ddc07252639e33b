"""`selfheal uninstall`: take the native hook away, and put back the one that it ran first."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from hooks.commands.install import CHAINED, LEGACY, hooks_folder, is_ours


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Remove selfheal's hook, wherever a framework has moved it; 0 also when there is none."""
    parser = argparse.ArgumentParser(prog="selfheal uninstall", description="Remove selfheal's own git hook.")
    parser.parse_args(list(arguments))
    folder = hooks_folder(environ)
    ours = [folder / name for name in ("pre-commit", LEGACY) if is_ours(folder / name)]
    for hook in ours:
        hook.unlink()
        print(f"selfheal: removed {hook}.")
        if (folder / CHAINED).exists():
            (folder / CHAINED).rename(hook)
            print("selfheal: the hook that was there before is back.")
    if not ours:
        print(f"selfheal: there is no hook of selfheal's own in {folder}.")
    return 0
