"""The records that are kept of patches which were proved but not placed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from heal_core import record
from heal_core.patch import Patch, Rewrite


def test_a_saved_diff_is_what_git_applies_though_the_file_is_no_utf8(tmp_path: Path) -> None:
    before, after = (b"# coding: latin-1\nname = '\xe4'\nx = %d\n" % n for n in (1, 2))
    saved = record.save(tmp_path / "records", Patch("search", "", (Rewrite("a.py", before, after),)), "")
    (tmp_path / "a.py").write_bytes(before)

    assert saved is not None
    subprocess.run(["git", "apply", saved.diff_file], cwd=tmp_path, check=True)
    assert (tmp_path / "a.py").read_bytes() == after
