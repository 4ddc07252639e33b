"""One repository to commit in, with the hook of one kind: N is git's own hook, P is pre-commit, K is prek.

m.py has 20 lines, and what becomes of it is told by the lines that differ from its first content: A1 is line 1 as the
change has it, FIX5 is line 5 as the fix has it, U<n> is line n as the user edited it without staging that, LATE<n> the
same while selfheal was at work. Line 5 is wrong from the start, so that [] is what HEAD holds and [A1] what is staged.

    scene.stage("A1")
    scene.edit("A1,U20")
    scene.commit()
    assert scene.state() == "C=I=[A1,FIX5] W=[A1,FIX5,U20]"    # C is the commit, I the index, W the working tree
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from frameworks import Frameworks, program
from projects import SELFHEAL, Project
from scripted_server import Step, reply, serving
from states import KEY, everything

FRAMEWORK = {"P": "pre-commit", "K": "prek"}
COMMENTS = tuple(f"# line {number}" for number in range(1, 21))
# The fix has as many bytes as what it mends: Python must not take its compiled form from the run before.
WRONG, FIX = "    return nunber", "    return number"
M = (*COMMENTS[:2], "def value(number):", "    # line 4", WRONG, *COMMENTS[5:])
TEST = "from m import value\n\n\ndef test_value():\n    assert value(3) == 3\n"
NOTES = "of the user, untracked\n"
MODEL = "heal: {engines: [llm]}\nllm: {model: scripted}\n"


def block(path: str) -> str:
    """The fix of a file as a model writes it."""
    return f"{path}\n<<<<<<< SEARCH\n{WRONG}\n=======\n{FIX}\n>>>>>>> REPLACE\n"


def text(edits: str = "", base: Sequence[str] = M, end: str = "\n") -> str:
    """A file's content with those edits, such as "A1,U20"; NOEOL takes the newline at its end away."""
    rows = list(base)
    for edit in filter(None, edits.replace("NOEOL", "").split(",")):
        at = int(re.sub(r"\D", "", edit)) - 1
        rows[at] = FIX if edit == "FIX5" else f"{base[at]}  # {edit}"
    return end.join(rows) + ("" if edits.endswith("NOEOL") else end)


def lines(content: str, base: Sequence[str] = M) -> str:
    """What differs from the first content, the reverse of `text`: such as "A1,U20"."""
    rows = content.splitlines()
    assert len(rows) == len(base), content
    differing = [(first, row) for first, row in zip(base, rows, strict=True) if row != first]
    names = ["FIX5" if row == FIX else row.removeprefix(f"{first}  # ") for first, row in differing]
    return ",".join(names + ["NOEOL"] * (not content.endswith("\n")))


@dataclass
class Scene:
    """A repository whose commits run selfheal by the hook of `kind`; its HEAD is [] in m.py, other.py and notes.py.

    `path` is the file that is healed; notes.txt is untracked.
    """

    project: Project
    kind: str
    frameworks: Frameworks
    path: str = "m.py"
    env: dict[str, str] = field(default_factory=dict)

    @classmethod
    def create(cls, project: Project, kind: str, frameworks: Frameworks) -> Scene:
        """The repository with the hook installed, and its first commit."""
        scene = cls(project, kind, frameworks, env=dict(frameworks.env))
        files = {"m.py": text(), "other.py": text(base=COMMENTS), "tests/test_m.py": TEST}
        project.commit(files | (frameworks.config() if kind in FRAMEWORK else {}))
        project.write({"notes.txt": NOTES})
        scene.succeed(*([program(FRAMEWORK[kind])] if kind in FRAMEWORK else SELFHEAL), "install")
        return scene

    def at(self, folder: Path) -> Scene:
        """The same hook in another working tree of the repository."""
        return replace(self, project=Project(folder, self.project.python))

    # -- what the user does

    def edit(self, edits: str, path: str = "", end: str = "\n") -> None:
        """Save a file with those edits."""
        path = path or self.path
        self.project.write({path: text(edits, self.base(path), end)})

    def stage(self, edits: str, path: str = "") -> None:
        """Save a file with those edits, and stage it."""
        self.edit(edits, path)
        self.project.git("add", "--", path or self.path)

    def run(self, *argv: str | Path, cwd: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the repository, with the variables of the scene."""
        return replace(self.project, path=self.project.path / cwd).run(*argv, env=self.env | env)

    def succeed(self, *argv: str | Path, **env: str) -> str:
        """Run a command that must succeed; what it prints."""
        done = self.run(*argv, **env)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def commit(self, *args: str, typed: str = "", cwd: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """A real `git commit`, to which `typed` is said on standard input."""
        words = ["git", "commit", "-m", "Change", *args]
        return self.run(*(["sh", "-c", 'printf "$0" | "$@"', typed] if typed else []), *words, cwd=cwd, **env)

    @contextmanager
    def started(self, *args: str, **env: str) -> Iterator[subprocess.Popen[str]]:
        """A `git commit` in a process group of its own, its output in a pipe."""
        process = subprocess.Popen(
            ["git", "commit", "-m", "Change", *args],
            cwd=self.project.path,
            env={**os.environ, **self.project.environ, **self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        with process:
            yield process

    @contextmanager
    def model(self, *steps: Step) -> Iterator[list[object]]:
        """From here to the end, commits ask a model that answers `steps`; the requests that came are in the list."""
        config = Path(os.environ["HOME"], ".config", "selfheal", "selfheal.yaml")
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(MODEL)
        with serving(*steps) as server:
            self.env |= {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
            yield server.requests  # type: ignore[misc]

    @contextmanager
    def meanwhile(self, event: Callable[[], object]) -> Iterator[list[object]]:
        """`event` happens while selfheal waits for the model, which then proposes the fix."""
        with self.model(reply(block(self.path), meanwhile=event)) as requests:
            yield requests
            assert len(requests) == 1

    def by_hand(self, *args: str) -> subprocess.CompletedProcess[str]:
        """The hook without a commit: `selfheal run`, `pre-commit run selfheal` or `prek run selfheal`."""
        words = [program(FRAMEWORK[self.kind]), "run", "selfheal"] if self.kind in FRAMEWORK else [*SELFHEAL, "run"]
        return self.run(*words, *args)

    # -- what came of it

    def base(self, path: str) -> Sequence[str]:
        """The first content of a file."""
        return COMMENTS if path == "other.py" else M

    def state(self, path: str = "") -> str:
        """What a file is in commit, index and working tree, "-" where it is not there."""
        path = path or self.path
        file = self.project.path / path
        held = {
            "C": self._blob(f"HEAD:{path}"),
            "I": self._blob(f":{path}"),
            "W": file.read_bytes().decode() if file.exists() else None,
        }
        told = {place: "-" if it is None else f"[{lines(it, self.base(path))}]" for place, it in held.items()}
        return " ".join(
            "=".join([*(place for place in told if told[place] == it), it]) for it in dict.fromkeys(told.values())
        )

    def _blob(self, name: str) -> str | None:
        done = self.project.run("git", "cat-file", "blob", name)
        return done.stdout if done.returncode == 0 else None

    def status(self) -> str:
        """What git says of tracked files."""
        return self.project.git("status", "--porcelain", "--untracked-files=no")

    def before(self) -> dict[str, object]:
        """All that an aborted commit must leave as it is."""
        return everything(self.project)

    def left(self) -> list[str]:
        """Locks and temporary files that lie about, and records of heals that did not come to their end."""
        git_dir = Path(self.project.git("rev-parse", "--path-format=absolute", "--git-common-dir").strip())
        found = [*git_dir.rglob("*.lock*"), *self.project.path.rglob(".selfheal-*")]
        return [path.name for path in (*found, *git_dir.rglob("selfheal/heals/*/placing"))]


def aborted(scene: Scene, done: subprocess.CompletedProcess[str], before: object, reason: str) -> None:
    """The commit was refused for that reason, and all is as before."""
    assert done.returncode == 1, done.stdout
    assert reason in " ".join(done.stdout.split())
    assert scene.before() == before
