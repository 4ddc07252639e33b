"""The Pythons of this machine, and environments for them made by the real pip, all at the same time."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
PYENV = Path.home() / ".pyenv" / "versions"

# $0 is the Python, $1 the environment to make, $2... what to install. The Python's own pip is the quick way.
INSTALL = """
python=$0 folder=$1; shift
"$python" -m venv --without-pip "$folder" &&
"$python" -m pip --disable-pip-version-check --python "$folder/bin/python" install -q "$@" ||
{ "$python" -m venv --clear "$folder" && "$folder/bin/python" -m pip install -q "$@"; }
"""


def found(version: str) -> Path | None:
    """The program of a Python of this version, which was seen to start."""
    on_path = shutil.which(f"python{version}")
    candidates = [*sorted(PYENV.glob(f"{version}.*/bin/python{version}")), *([Path(on_path)] if on_path else [])]
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    for program in candidates:
        done = subprocess.run([program, "-I", "-c", asked], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return program
    return None


class Environments:
    """Environments being made, all at the same time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.making: dict[str, subprocess.Popen[str]] = {}

    def begin(self, name: str, python: Path, *packages: str) -> None:
        """Start making the environment `name`."""
        self.making[name] = subprocess.Popen(
            ["/bin/sh", "-c", INSTALL, python, self.folder / name, *packages],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def python(self, name: str) -> Path:
        """The program of the environment `name`, once that is made."""
        process = self.making[name]
        output = process.communicate()[0] if process.returncode is None else ""
        assert process.returncode == 0, f"pip could not install into {name}: {output}"
        return self.folder / name / "bin" / "python"
