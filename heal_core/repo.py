"""The user's repository, as it is read: its folders, the index that git gave the hook, and what is staged in it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from heal_core.errors import GitError, HealError
from heal_core.plumbing import Git, as_path, base_environment

REGULAR = ("100644", "100755")
# What git says where there is no repository, in a bare one, and in the git directory itself.
NO_WORKING_TREE = ("not a git repository", "must be run in a work tree", "cannot use bare repository")


class IndexStyle(Enum):
    """How git hands the index to the hook (githooks(5), GIT_INDEX_FILE in git(1)); the value words it for the user."""

    PLAIN = "a plain commit"
    LOCKED = "commit -a, -i or -p"
    PARTIAL = "commit PATH"
    FOREIGN = "an index of your own (GIT_INDEX_FILE)"


@dataclass(frozen=True, slots=True)
class Staged:
    """One staged path.

    `status` is git's letter (A, C, M, D, R or T), `mode` and `blob` are those after the change ("" when deleted),
    `old_path` is where a renamed or copied file came from.
    """

    path: str
    status: str
    mode: str
    blob: str
    old_path: str = ""

    @property
    def regular(self) -> bool:
        """Whether it is a file to read: neither deleted, nor a symbolic link, nor a submodule."""
        return self.mode in REGULAR


@dataclass(frozen=True, slots=True)
class Change:
    """What is staged: the commit that it is against (None before the first), its tree, and the paths that differ."""

    head: str | None
    tree: str
    files: tuple[Staged, ...]

    @property
    def changed(self) -> tuple[str, ...]:
        """Regular files that are there after the change."""
        return tuple(file.path for file in self.files if file.regular)

    @property
    def removed(self) -> tuple[str, ...]:
        """Paths that the change takes away: deleted, or renamed to another."""
        gone = (file.path if file.status == "D" else file.old_path for file in self.files if file.status in "DR")
        return tuple(gone)


@dataclass(frozen=True, slots=True)
class Repository:
    """A working tree and its git directory, with absolute paths; `index` is the one that the coming commit reads."""

    toplevel: Path
    git_dir: Path
    common_dir: Path
    objects: Path
    index: Path
    in_commit: bool
    git: Git

    @property
    def style(self) -> IndexStyle:
        """What kind of commit this is, told from where git keeps the index that it gave us."""
        real = self.git_dir / "index"
        if _same(self.index, real):
            return IndexStyle.PLAIN
        if _same(self.index, real.with_name("index.lock")):
            return IndexStyle.LOCKED
        name = self.index.name
        if name.startswith("next-index-") and name.endswith(".lock") and _same(self.index.parent, self.git_dir):
            return IndexStyle.PARTIAL
        return IndexStyle.FOREIGN

    def merge_heads(self) -> tuple[str, ...]:
        """The commits that a merge under way brings in, none when the commit concludes none."""
        try:
            return tuple((self.git_dir / "MERGE_HEAD").read_text("ascii").split())
        except FileNotFoundError:
            return ()

    @property
    def records(self) -> Path:
        """The folder in the git directory where selfheal keeps what it saved for the user."""
        return self.git_dir / "selfheal"

    def head(self) -> str | None:
        """The id of HEAD's commit, None before the first commit."""
        return self.git.line("rev-parse", "-q", "--verify", "HEAD^{commit}", ok=(0, 1)) or None


def find(cwd: Path, environ: Mapping[str, str]) -> Repository:
    """The repository around `cwd`, with the index that git named in `environ` when a hook runs.

    Raises HealError when there is no working tree around `cwd`.
    """
    named = {name: environ[name] for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR") if name in environ}
    git = Git(cwd, base_environment(environ) | named)
    try:
        answer = git.run(
            "rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--git-path", "objects"
        )
    except GitError as error:
        if any(words in error.problem for words in NO_WORKING_TREE):
            raise HealError(f"{cwd} is not in a git working tree.", "cd into the repository, or `git init`") from None
        raise
    top, git_dir, common, objects = (Path(os.path.abspath(cwd / as_path(line))) for line in answer.split(b"\n")[:4])
    index = cwd / environ.get("GIT_INDEX_FILE", git_dir / "index")
    explicit = git.having(GIT_DIR=git_dir, GIT_WORK_TREE=top, GIT_INDEX_FILE=index)
    return Repository(top, git_dir, common, objects, index, "GIT_INDEX_FILE" in environ, Git(top, explicit.environ))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The staged state at one moment, in a private folder: a copy of the index, and an object folder for what we add.

    Whatever is tried is written here, so that neither the user's index nor their object database sees it.
    """

    repo: Repository
    folder: Path
    git: Git
    change: Change

    def paths(self) -> frozenset[str]:
        """Every path of the staged tree."""
        rows = self.git.run("ls-tree", "-r", "-z", "--name-only", self.change.tree)
        return frozenset(as_path(row) for row in rows.split(b"\0") if row)

    def diff(self, paths: Sequence[str]) -> str:
        """The staged change of `paths` against HEAD as a unified diff, "" before the first commit."""
        if self.change.head is None or not paths:
            return ""
        options = (
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "-M",
            "-p",
            "-r",
            "--src-prefix=a/",
            "--dst-prefix=b/",
        )
        names = [
            name for file in self.change.files if file.path in paths for name in (file.path, file.old_path) if name
        ]
        diff = self.git.run("diff-tree", *options, self.change.head, self.change.tree, "--", *names)
        return diff.decode("utf-8", "replace")

    def read(self, path: str, revision: str = "") -> bytes | None:
        """The content of `path` in the staged tree, or in `revision`; None where there is no such file."""
        try:
            return self.git.run("cat-file", "blob", f"{revision or self.change.tree}:{path}")
        except GitError as error:
            if "does not exist in" in error.problem or "but not in" in error.problem:
                return None
            raise


@contextmanager
def snapshot(repo: Repository) -> Iterator[Snapshot]:
    """What is staged now, in a folder of its own that is gone afterwards.

    Raises HealError when the index has unmerged paths.
    """
    folder = Path(tempfile.mkdtemp(prefix="selfheal-"))
    try:
        git = _private(repo, folder)
        yield Snapshot(repo, folder, git, _read_change(repo, git))
    finally:
        remove_tree(folder)


def remove_tree(folder: Path) -> None:
    """Remove a folder of ours, also when a test took away its own write permission."""

    def let_in(function: Callable[[str], object], path: str, _: object) -> None:
        for name in (os.path.dirname(path), path):
            if not os.path.islink(name):
                os.chmod(name, 0o700)
        function(path)

    if folder.exists():
        shutil.rmtree(folder, onerror=let_in)


def _private(repo: Repository, folder: Path) -> Git:
    """git on a copy of the index, which writes objects into `folder` and reads the repository's."""
    (folder / "objects").mkdir()
    if repo.index.exists():
        shutil.copyfile(repo.index, folder / "index")
    return repo.git.having(
        GIT_INDEX_FILE=folder / "index",
        GIT_OBJECT_DIRECTORY=folder / "objects",
        GIT_ALTERNATE_OBJECT_DIRECTORIES=_alternate(repo.objects),
    )


def _alternate(objects: Path) -> str:
    """The folder as GIT_ALTERNATE_OBJECT_DIRECTORIES takes it: quoted where it holds the list's separator."""
    text = str(objects)
    if ":" not in text and not text.startswith('"'):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _write_tree(git: Git) -> str:
    try:
        return git.line("write-tree")
    except GitError as error:
        if "unmerged" in error.problem or "not uptodate" in error.problem:
            raise HealError("The index has unmerged paths.", "resolve them and `git add` the files") from None
        raise


def _read_change(repo: Repository, git: Git) -> Change:
    """What is staged against HEAD; of a merge only what differs from every parent: the rest was committed before."""
    tree, head = _write_tree(git), repo.head()
    files = _differences(git, head or git.line("hash-object", "-t", "tree", "--stdin"), tree)
    for parent in repo.merge_heads():
        differing = {file.path for file in _differences(git, parent, tree)}
        files = tuple(file for file in files if file.path in differing)
    return Change(head, tree, files)


def _differences(git: Git, base: str, tree: str) -> tuple[Staged, ...]:
    options = ("-r", "-z", "--raw", "-M", "--no-abbrev", "--no-ext-diff")
    return tuple(_parse_raw(git.run("diff-tree", *options, "--end-of-options", base, tree)))


def _parse_raw(raw: bytes) -> Iterator[Staged]:
    """The rows of `git diff-tree --raw -z` (git-diff-tree(1), "Raw output format")."""
    fields = iter(raw.split(b"\0"))
    for meta in fields:
        if not meta.startswith(b":"):
            continue
        _, mode, _, blob, status = meta.decode("ascii").split(" ")
        first = as_path(next(fields))
        if status[0] in "RC":
            yield Staged(as_path(next(fields)), status[0], mode, blob, first)
        else:
            gone = status[0] == "D"
            yield Staged(first, status[0], "" if gone else mode, "" if gone else blob)


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
