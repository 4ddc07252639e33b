"""The project's interpreter: found from inside a hook's own environment, by looking at files and running none."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from heal_core.errors import EnvironmentFault

# What a virtual environment in a project is called; the first may also be a file that names one (PEP 832).
ENVIRONMENT_NAMES = (".venv", "venv", "env")
# Of the root folder, what every sandbox shows, by itself or as a link into /usr.
SYSTEM_NAMES = ("usr", "bin", "sbin", "lib", "lib32", "lib64")
MAX_PATH_CHARACTERS = 4096


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python to run the project's tests with: the program, and where it was found.

    `readable` are the folders outside the system's own that it needs to read: its environment, its base installation,
    what its `.pth` files name. Never one that holds the user's home folder.
    """

    program: Path
    found_by: str
    readable: tuple[Path, ...]


def find(
    configured: str | None, environ: Mapping[str, str], toplevel: Path, own_prefix: Path, tracked: Callable[[str], bool]
) -> Interpreter:
    """The first interpreter that has pytest, in the order of `_candidates`.

    `own_prefix` is the environment that selfheal itself runs in, which pre-commit also puts into VIRTUAL_ENV and PATH;
    `tracked` tells whether git tracks something at or below a path of the repository, since a committed program is not
    the user's. Raises EnvironmentFault with all the places that were tried.
    """
    home = Path(environ.get("HOME", "/"))
    if configured:
        program = toplevel / Path(configured).expanduser()
        if not _can_be_run(program):
            raise EnvironmentFault(f"tests.python is {configured}, which is not a program.", "correct tests.python")
        return _interpreter(program, "tests.python", toplevel, home)
    tried = []
    for program, found_by in _candidates(environ, toplevel, own_prefix):
        if committed := next(filter(tracked, _in_repository(program, found_by, toplevel)), ""):
            tried.append(f"{found_by}: {committed} is tracked by git, so it is not run")
        elif not _can_be_run(program) or not _is_program(program):
            tried.append(f"{found_by}: no python in {program.parent}")
        elif not _has_pytest(program):
            tried.append(f"{found_by}: no pytest for {program}")
        else:
            return _interpreter(program, found_by, toplevel, home)
    places = "; ".join(dict.fromkeys(tried)) or "no virtual environment, none on PATH"
    raise EnvironmentFault(
        f"No interpreter with pytest was found for this project ({places}).",
        "install pytest in the project's .venv, or name its python: selfheal run --set tests.python=PATH",
    )


def _candidates(environ: Mapping[str, str], toplevel: Path, own_prefix: Path) -> Iterator[tuple[Path, str]]:
    """Programs to try, the user's explicit choice first, selfheal's own environment last.

    Where that is active it is pre-commit's doing or the user's own environment, and still better than any on PATH.
    """
    if named := environ.get("UV_PROJECT_ENVIRONMENT"):
        yield _python(toplevel / named), "UV_PROJECT_ENVIRONMENT"
    active = environ.get("VIRTUAL_ENV")
    if active and not _same(Path(active), own_prefix):
        yield _python(Path(active)), "VIRTUAL_ENV"
    on_path = [Path(entry) for entry in environ.get("PATH", "").split(os.pathsep) if entry.startswith("/")]
    on_path = [folder for folder in on_path if not _same(folder.parent, own_prefix)]
    for folder in on_path:
        if (folder.parent / "pyvenv.cfg").exists():
            yield _python(folder.parent), "an environment on PATH"
    for name in ENVIRONMENT_NAMES:
        if environment := _environment_at(toplevel / name):
            yield _python(environment), name
    if environ.get("CONDA_PREFIX") and environ.get("CONDA_DEFAULT_ENV") != "base":
        yield _python(Path(environ["CONDA_PREFIX"])), "CONDA_PREFIX"
    if active and _same(Path(active), own_prefix):
        yield _python(own_prefix), "selfheal's own environment"
    programs = (folder / name for folder in on_path for name in ("python3", "python"))
    yield from ((program, "PATH") for program in programs if program.exists())
    yield _python(own_prefix), "selfheal's own environment"


def _environment_at(path: Path) -> Path | None:
    """The environment that `path` is, or that the one-line file `path` names (PEP 832)."""
    if path.is_file():
        with open(path, encoding="utf-8", errors="replace") as file:
            path = path.parent / file.readline(MAX_PATH_CHARACTERS).strip()
    # What stands in a file of that name may be anything: os.path.exists takes names that no path can have.
    return path if os.path.exists(path / "pyvenv.cfg") else None


def _python(environment: Path) -> Path:
    return environment / "bin" / "python"


def _can_be_run(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _is_program(path: Path) -> bool:
    """Whether it is a binary: a version manager's shim is a script that needs the home folder."""
    with open(path, "rb") as file:
        return not file.read(2).startswith(b"#!")


def _has_pytest(program: Path) -> bool:
    return any((folder / "pytest").is_dir() for folder in _package_folders(program))


def _package_folders(program: Path) -> Iterator[Path]:
    """Where the interpreter looks for installed packages, its `.pth` entries among them."""
    prefixes = [program.parent.parent]
    if _setting(prefixes[0], "include-system-site-packages") == "true" or not (prefixes[0] / "pyvenv.cfg").exists():
        prefixes.append(_base_prefix(program))
    for prefix in dict.fromkeys(prefixes):
        patterns = ("lib/python3*/site-packages", "lib/python3*/dist-packages", "local/lib/python3*/dist-packages")
        for folder in (found for pattern in patterns for found in sorted(prefix.glob(pattern))):
            yield folder
            yield from _pth_targets(folder)


def _pth_targets(folder: Path) -> Iterator[Path]:
    """The folders that `.pth` files and setuptools' editable finders in `folder` name (site module's documentation)."""
    for file in sorted(folder.glob("*.pth")):
        for line in file.read_text("utf-8", "replace").splitlines():
            if line.startswith("/") and Path(line.strip()).is_dir():
                yield Path(line.strip())
    for file in sorted(folder.glob("__editable__*_finder.py")):
        for name in re.findall(r"['\"](/[^'\"]+)['\"]", file.read_text("utf-8", "replace")):
            if Path(name).exists():
                yield Path(name)


def _interpreter(program: Path, found_by: str, toplevel: Path, home: Path) -> Interpreter:
    own = tuple(_installations(program))
    linked = (target for folder in _package_folders(program) for target in _pth_targets(folder))
    needed = (*own, *(target for target in linked if not _within(target, toplevel)))
    outside = [folder for folder in dict.fromkeys(needed) if not _is_shown(folder) and not _within(home, folder)]
    tops = [folder for folder in outside if not any(folder.is_relative_to(o) for o in outside if o != folder)]
    return Interpreter(program, found_by, tuple(tops))


def _installations(program: Path) -> Iterator[Path]:
    """The environment of `program`, and every installation that its chain of links and its pyvenv.cfg lead to."""
    for hop in (program, *_links(program), _base_prefix(program) / "bin" / "python3"):
        prefix = hop.parent.parent
        if (prefix / "pyvenv.cfg").exists() or any(prefix.glob("lib/python3*/os.py")):
            yield prefix
        elif hop.exists():
            # A link in, say, ~/.local/bin makes the link readable, never all of ~/.local.
            yield hop


def _links(program: Path) -> Iterator[Path]:
    """Where the chain of symbolic links that `program` starts leads, link by link."""
    while program.is_symlink():
        program = Path(os.path.normpath(program.parent / os.readlink(program)))
        yield program


def _base_prefix(program: Path) -> Path:
    """The installation that a virtual environment was made from, or the program's own."""
    home = _setting(program.parent.parent, "home")
    return Path(home).parent if home else program.resolve().parent.parent


def _setting(environment: Path, key: str) -> str:
    """A value of the environment's pyvenv.cfg, "" where there is none."""
    try:
        lines = (environment / "pyvenv.cfg").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    pairs = (line.partition("=") for line in lines)
    return next((value.strip() for name, _, value in pairs if name.strip().lower() == key), "")


def _in_repository(program: Path, found_by: str, toplevel: Path) -> Iterator[str]:
    """The paths in the repository that make the environment of `program` what it is, none where it lies elsewhere."""
    if found_by in ENVIRONMENT_NAMES:
        yield found_by
    environment = program.parent.parent
    for folder in (environment, Path(os.path.realpath(environment))):
        if folder == toplevel:
            yield from ("bin", "pyvenv.cfg")
        elif folder.is_relative_to(toplevel):
            yield folder.relative_to(toplevel).as_posix()


def _is_shown(folder: Path) -> bool:
    return folder.parts[1:2] != () and folder.parts[1] in SYSTEM_NAMES


def _within(inner: Path, outer: Path) -> bool:
    """Whether `inner` lies in `outer` or is it, by name or by where links lead."""
    return inner.is_relative_to(outer) or Path(os.path.realpath(inner)).is_relative_to(os.path.realpath(outer))


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
