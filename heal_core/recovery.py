"""The recovery record of a heal: written before the first byte of the user's is touched, kept for `undo` and `log`.

One folder a heal below the git directory: `heal.json`, the staged and the working tree's content before and after as
plain files, and an empty file whose name is the phase. Nothing of it is a git object or a ref, so that no history shows
it, no push sends it and no clean-up prunes it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from heal_core.ancestry import Process
from heal_core.errors import HealError

KEPT = 20
PLACING, PLACED, UNDONE = "placing", "placed", "undone"
PHASES = (PLACING, PLACED, UNDONE)
# What a file system says that knows no hard links, or when two folders lie on two of them.
NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK)


@dataclass(frozen=True, slots=True)
class Content:
    """One healed file: its mode, what was staged and what is staged instead, and the same for the working tree.

    The latter two are None where there was no such file.
    """

    path: str
    mode: str
    staged_before: bytes
    staged_after: bytes
    worktree_before: bytes | None
    worktree_after: bytes | None


@dataclass(frozen=True, slots=True)
class Heal:
    """One heal, as it is recorded.

    `phase` is "placing", "placed" or "undone"; `process` is the selfheal that placed it; `model` is "" for an engine
    without one; `attempts`, `tokens` and `seconds` are what it cost; `stash` is where a hook framework kept unstaged
    changes meanwhile.
    """

    id: str
    phase: str
    process: Process | None
    head: str | None
    tree: str
    expected_tree: str
    style: str
    engine: str
    model: str
    diagnosis: str
    attempts: int
    tokens: int
    seconds: float
    stash: str
    files: tuple[Content, ...]

    @property
    def interrupted(self) -> bool:
        """Whether the selfheal that placed it died in the middle."""
        return self.phase == PLACING and (self.process is None or not self.process.alive())


def new_id() -> str:
    """An id that sorts by time, also among the heals of one second."""
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(seconds))}-{nanoseconds // 1000:06}"


def write(records: Path, heal: Heal) -> Path:
    """Write the record in the phase "placing", all of it on disk when this returns; the folder it lies in.

    Raises OSError when it cannot be written, with nothing left behind.
    """
    folder = records / "heals" / heal.id
    folder.mkdir(parents=True, mode=0o700)
    try:
        for number, content in enumerate(heal.files):
            for name in ("staged_before", "staged_after", "worktree_before", "worktree_after"):
                data = getattr(content, name)
                if data is not None:
                    _write(folder / f"{number}.{name}", data)
        _write(folder / "heal.json", json.dumps(_row(heal)).encode("utf-8", "surrogatepass"))
        _write(folder / PLACING, b"")
        _sync(folder, folder.parent)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _keep_last(folder.parent)
    return folder


def advance(folder: Path, phase: str) -> None:
    """Note that the heal has come to `phase`."""
    now = next(name for name in PHASES if (folder / name).exists())
    os.replace(folder / now, folder / phase)
    _sync(folder)


def forget(folder: Path) -> None:
    """Remove a record whose heal was not placed after all."""
    shutil.rmtree(folder, ignore_errors=True)


def read_all(records: Path) -> tuple[Heal, ...]:
    """Every heal on record that can be read, the oldest first."""
    names = _ids(records / "heals")
    return tuple(heal for name in names if (heal := _read(records / "heals" / name)) is not None)


def read(records: Path, identity: str = "") -> Heal:
    """The heal of that id, or the newest that is not undone. Raises HealError when there is none."""
    known = read_all(records)
    wanted = [heal for heal in known if (heal.id == identity if identity else heal.phase != UNDONE)]
    if not wanted:
        what = f"There is no heal {identity!r} on record" if identity else "There is no heal to undo"
        raise HealError(f"{what} in this repository.", "selfheal log" if known else "")
    return wanted[-1]


def interrupted(records: Path) -> tuple[str, ...]:
    """The ids of the heals whose placing did not come to its end; cheap where there are none."""
    folder = records / "heals"
    names = [name for name in _ids(folder) if (folder / name / PLACING).exists()]
    return tuple(name for name in names if (heal := _read(folder / name)) is not None and heal.interrupted)


@contextlib.contextmanager
def lock_file(folder: Path, lock: Path) -> Iterator[None]:
    """The lock file `lock`, made for the heal recorded in `folder`, gone again afterwards.

    It is a second name of a file in `folder`: whoever finds it after a crash can tell that it is ours, and it is there
    at once or not at all. Raises FileExistsError when somebody else holds the lock.
    """
    own = folder / f"lock-{lock.name}"
    own.touch(exist_ok=False)
    try:
        _link(own, lock)
        with open(lock, "rb") as held:  # while it is open, its inode is no other file's
            try:
                yield
            finally:
                if lock.exists() and os.path.samestat(os.fstat(held.fileno()), lock.stat()):
                    lock.unlink()
    finally:
        own.unlink(missing_ok=True)


def _link(own: Path, lock: Path) -> None:
    try:
        os.link(own, lock)
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        lock.touch(exist_ok=False)


def remove_stale_locks(folder: Path, git_dir: Path) -> None:
    """Remove the lock files in `git_dir` that a crash left of the heal recorded in `folder`; git's own all stay.

    No selfheal may be at work in the repository, see `only_one`.
    """
    for own in folder.glob("lock-*"):
        for lock in git_dir.glob("*.lock"):
            if lock.samefile(own):
                lock.unlink()
        own.unlink()
    for unfinished in folder.glob("new-*"):
        unfinished.unlink()


@contextlib.contextmanager
def only_one(records: Path) -> Iterator[bool]:
    """Whether this is the only selfheal that heals in the repository now; it is until the block ends."""
    import fcntl

    records.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(records / "lock", "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def _row(heal: Heal) -> dict[str, Any]:
    """The record without the contents, which are files of their own."""
    files = [
        {"path": content.path, "mode": content.mode, "in_worktree": content.worktree_before is not None}
        for content in heal.files
    ]
    bare = asdict(replace(heal, files=()))
    return {name: value for name, value in bare.items() if name not in ("id", "phase", "files")} | {"files": files}


def _read(folder: Path) -> Heal | None:
    """The record in `folder`, None where it is not whole."""
    try:
        row = json.loads((folder / "heal.json").read_bytes().decode("utf-8", "surrogatepass"))
        phase = next(name for name in PHASES if (folder / name).exists())
        files = tuple(_content(folder, number, file) for number, file in enumerate(row.pop("files")))
        process = Process(**row.pop("process")) if row["process"] else row.pop("process")
        return Heal(id=folder.name, phase=phase, process=process, files=files, **row)
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        return None


def _content(folder: Path, number: int, file: dict[str, Any]) -> Content:
    def data(name: str) -> bytes:
        return (folder / f"{number}.{name}").read_bytes()

    inside = bool(file["in_worktree"])
    return Content(
        path=file["path"],
        mode=file["mode"],
        staged_before=data("staged_before"),
        staged_after=data("staged_after"),
        worktree_before=data("worktree_before") if inside else None,
        worktree_after=data("worktree_after") if inside else None,
    )


def _ids(folder: Path) -> Sequence[str]:
    if not folder.is_dir():
        return ()
    return sorted(entry.name for entry in folder.iterdir() if re.fullmatch(r"\d{8}-\d{6}-\d+", entry.name))


def _keep_last(folder: Path) -> None:
    for name in _ids(folder)[:-KEPT]:
        shutil.rmtree(folder / name, ignore_errors=True)


def _write(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(*folders: Path) -> None:
    """Make the names in `folders` last."""
    for folder in folders:
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
