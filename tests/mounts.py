"""Mounting in a namespace of one's own, for tests of full and read-only disks."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from projects import run


def own_mounts() -> Sequence[str]:
    """The command that runs another where it may mount; skips the test where there is none."""
    for words in (["unshare", "-m"], ["unshare", "-rm"]):
        if shutil.which("unshare") and run([*words, "sh", "-c", "mount -t tmpfs none /mnt"], Path("/")).returncode == 0:
            return words
    pytest.skip("needs unshare(1) and the right to mount in a namespace of its own")
