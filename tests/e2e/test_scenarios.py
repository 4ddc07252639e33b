"""The commits that a hook meets, each through git's own hook (N), real pre-commit (P) and real prek (K).

m.py has 20 lines. Staged is line 1 -> A1; line 5 is wrong, and FIX5 is what it should be; U<n> is an edit of line n
that the user did not stage, LATE<n> one that was saved while selfheal was at work. C, I and W are what m.py is in the
commit, the index and the working tree, told by the lines that differ from its first state.

Scenarios 21 to 23 (death or an error in the middle of placing), 36 (an unwritable file) and 53 (a full disk) are in
test_crash.py and test_placing.py; 42 (pre-merge-commit) needs no test, since the hook is declared for the stage
pre-commit alone.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from projects import SELFHEAL, Project
from scripted_server import reply, serving
from states import KEY, blob, everything

BIN = Path(sys.executable).parent
NATIVE, PRE_COMMIT, PREK = "N", "P", "K"
FRAMEWORKS = (PRE_COMMIT, PREK)
ALL = (NATIVE, *FRAMEWORKS)

pytestmark = pytest.mark.slow

BASE = ['a = "A0"', "value = 2", "c3 = 3", "c4 = 4", "b = valeu", *(f"c{n} = {n}" for n in range(6, 21))]
NAMED = {1: 'a = "A1"', 5: "b = value"}
FILES = {
    "other.py": "x = 1\n",
    "tests/test_m.py": "import m\n\n\ndef test_b():\n    assert m.b == 2\n",
}
FIX = "The name is misspelt.\n\nm.py\n<<<<<<< SEARCH\nb = valeu\n=======\nb = value\n>>>>>>> REPLACE\n"
ASK = {".selfheal.yaml": "heal: {engines: [llm]}\nllm: {model: scripted}\n"}


def text(*marks: str, end: str = "\n") -> str:
    """m.py with the lines that `marks` name: A1, FIX5, and U<n> or LATE<n> for any other."""
    lines = list(BASE)
    for mark in marks:
        word, number = mark.rstrip("0123456789"), int(mark.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
        lines[number - 1] = NAMED[number] if word in ("A", "FIX") else f'c{number} = "{mark}"'
    return "".join(line + end for line in lines)


def marks(content: bytes | str | None) -> list[str] | None:
    """The marks of a content of m.py, None where there is no such file."""
    if content is None:
        return None
    told = content.decode() if isinstance(content, bytes) else content
    found = []
    for number, (old, new) in enumerate(zip(BASE, told.splitlines(), strict=True), 1):
        if new != old:
            found.append({NAMED[1]: "A1", NAMED[5]: "FIX5"}.get(new) or new.partition('"')[2].rstrip('"') or new)
            assert found[-1].lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == str(number), new
    return found


class Scene:
    """A repository with the hook of one kind, HEAD in its first state, A1 staged."""

    def __init__(self, project: Project, kind: str, home: Path) -> None:
        self.project, self.kind, self.file = project, kind, "m.py"
        self.env = {"PRE_COMMIT_HOME": str(home / "pre-commit"), "PREK_HOME": str(home / "prek")}
        self.hooks: list[str] = []

    def start(self, files: dict[str, str] | None = None, commit: bool = True) -> None:
        """Commit the first state, with the hook installed, and stage A1."""
        entry = shlex.join(SELFHEAL)
        hook = f'{{id: selfheal, name: selfheal, entry: "{entry}", language: system, pass_filenames: false,'
        rows = "".join(f"      - {row}\n" for row in [hook + " always_run: true, verbose: true}", *self.hooks])
        config = {".pre-commit-config.yaml": f"repos:\n  - repo: local\n    hooks:\n{rows}"}
        first = {**FILES, **(config if self.kind in FRAMEWORKS else {}), **(files or {})}
        if commit:
            self.project.commit({"m.py": text(), **first})
        else:
            self.project.stage(first)
        command = {
            NATIVE: [*SELFHEAL, "install"],
            PRE_COMMIT: [BIN / "pre-commit", "install"],
            PREK: [BIN / "prek", "install"],
        }
        assert self.project.run(*command[self.kind], env=self.env).returncode == 0
        self.project.stage({"m.py": text("A1")})

    def commit(
        self, *args: str, url: str = "", cwd: str = "", stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A real `git commit`."""
        message = [] if any(arg in ("-m", "--no-edit") for arg in args) else ["-m", "Change"]
        asked = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY} if url else {}
        return subprocess.run(
            ["git", "commit", *message, *args],
            cwd=self.project.path / cwd,
            env={**os.environ, **self.project.environ, **self.env, **asked},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )

    def state(self) -> tuple[list[str] | None, list[str] | None, list[str] | None]:
        """C, I and W."""
        done = self.project.run("git", "cat-file", "blob", f"HEAD:{self.file}")
        committed = done.stdout if done.returncode == 0 else None
        staged = self.project.run("git", "cat-file", "blob", f":{self.file}").stdout
        return marks(committed), marks(staged), marks(self.project.worktree().get(self.file))

    def assert_healed(self, done: subprocess.CompletedProcess[str], worktree: list[str] | None) -> None:
        """C and I are the staged change with the fix, W is `worktree`, and no lock is left."""
        assert done.returncode == 0, done.stdout
        assert self.state() == (["A1", "FIX5"], ["A1", "FIX5"], worktree)
        assert self.locks() == []

    def assert_stopped(self, done: subprocess.CompletedProcess[str], before: object) -> None:
        """The commit was refused, everything is as before, and no lock is left."""
        assert done.returncode == 1, done.stdout
        assert everything(self.project) == before
        assert self.locks() == []

    def locks(self) -> list[str]:
        git_dir = self.project.path / self.project.git("rev-parse", "--absolute-git-dir").strip()
        return sorted(path.name for path in git_dir.glob("*.lock*"))


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("frameworks")


@pytest.fixture(params=ALL)
def scene(request: pytest.FixtureRequest, project: Project, home: Path) -> Scene:
    return Scene(project, request.param, home)


def only(*kinds: str) -> pytest.MarkDecorator:
    """A scenario that says something of these kinds alone."""
    return pytest.mark.parametrize("scene", kinds, indirect=True)


# -- what is staged, and what is not (1 to 5, 16 to 20) --------------------------------------------------------------


def test_01_fully_staged(scene: Scene) -> None:
    scene.start()

    scene.assert_healed(scene.commit(), ["A1", "FIX5"])
    assert scene.project.git("status", "--porcelain") == ""


def test_02_an_unstaged_edit_far_away(scene: Scene) -> None:
    scene.start()
    scene.project.write({"m.py": text("A1", "U20")})

    scene.assert_healed(scene.commit(), ["A1", "FIX5", "U20"])


def test_03_an_unstaged_edit_three_lines_away(scene: Scene) -> None:
    scene.start()
    scene.project.write({"m.py": text("A1", "U8")})
    before = everything(scene.project)

    done = scene.commit()

    if scene.kind == NATIVE:
        scene.assert_healed(done, ["A1", "FIX5", "U8"])
    else:
        scene.assert_stopped(done, before)


@pytest.mark.parametrize("edit", [text("A1", "U6"), text("A1").replace("b = valeu", "b = valeu + 1")], ids=["4", "5"])
def test_04_05_an_unstaged_edit_next_to_the_fix_or_on_it(scene: Scene, edit: str) -> None:
    scene.start()
    scene.project.write({"m.py": edit, "other.py": "x = 7\n"})
    before = everything(scene.project)

    scene.assert_stopped(scene.commit(), before)


def test_16_an_edit_saved_while_healing(scene: Scene) -> None:
    scene.start(ASK)
    saved: list[object] = []

    def save() -> None:
        scene.project.write({"m.py": text("A1", "LATE20")})
        saved.append(everything(scene.project))

    with serving(reply(FIX, meanwhile=save)) as server:
        done = scene.commit(url=server.url)

    if scene.kind == NATIVE:
        scene.assert_healed(done, ["A1", "FIX5", "LATE20"])
    else:
        scene.assert_stopped(done, saved[0])


def test_15_another_file_staged_while_healing(scene: Scene) -> None:
    scene.start(ASK)
    saved: list[object] = []

    def stage() -> None:
        scene.project.stage({"other.py": "x = 2\n"})
        saved.append(everything(scene.project))

    with serving(reply(FIX, meanwhile=stage)) as server:
        done = scene.commit(url=server.url)

    scene.assert_stopped(done, saved[0])


def test_17_an_intent_to_add_file_beside(scene: Scene) -> None:
    scene.start()
    scene.project.write({"ita.py": "y = 1\n"})
    scene.project.git("add", "-N", "ita.py")

    scene.assert_healed(scene.commit(), ["A1", "FIX5"])
    assert scene.project.git("status", "--porcelain") == " A ita.py\n"
    assert scene.project.worktree()["ita.py"] == b"y = 1\n"


def test_18_the_first_commit(scene: Scene) -> None:
    scene.start(commit=False)

    scene.assert_healed(scene.commit(), ["A1", "FIX5"])


def test_19_the_file_deleted_after_staging(scene: Scene) -> None:
    scene.start()
    (scene.project.path / "m.py").unlink()
    before = everything(scene.project)

    done = scene.commit()

    if scene.kind == NATIVE:
        scene.assert_healed(done, None)
        assert scene.project.git("status", "--porcelain") == " D m.py\n"
    else:
        scene.assert_stopped(done, before)


def test_20_two_files_in_one_fix_one_of_them_partly_staged(scene: Scene) -> None:
    scene.start(
        ASK
        | {"n.py": "value = 3\nb = value\n", "tests/test_n.py": "import n\n\n\ndef test_n():\n    assert n.b == 3\n"}
    )
    scene.project.stage({"n.py": "value = 3\nb = valeu\n# more\n"})
    scene.project.write({"m.py": text("A1", "U20")})
    both = FIX + "\nn.py\n<<<<<<< SEARCH\nb = valeu\n=======\nb = value\n>>>>>>> REPLACE\n"

    with serving(reply(both)) as server:
        done = scene.commit(url=server.url)

    scene.assert_healed(done, ["A1", "FIX5", "U20"])
    assert scene.project.committed("n.py") == "value = 3\nb = value\n# more\n"


# -- kinds of commit (6 to 13, 39 to 42) -----------------------------------------------------------------------------


@pytest.mark.parametrize("cwd", ["", "tests"], ids=["6", "11"])
def test_06_11_commit_all(scene: Scene, cwd: str) -> None:
    scene.start()

    scene.assert_healed(scene.commit("-a", cwd=cwd), ["A1", "FIX5"])
    assert scene.project.git("status", "--porcelain") == ""


def test_07_commit_of_a_path_while_another_is_staged(scene: Scene) -> None:
    scene.start()
    scene.project.stage({"other.py": "x = 2\n"})

    scene.assert_healed(scene.commit("m.py"), ["A1", "FIX5"])
    assert scene.project.git("status", "--porcelain") == "M  other.py\n"


@pytest.mark.parametrize("besides", ["A  new.py\n", "D  other.py\n"])
def test_07b_commit_of_a_path_while_an_addition_or_a_deletion_is_staged(scene: Scene, besides: str) -> None:
    scene.start()
    if besides.startswith("A"):
        scene.project.stage({"new.py": "z = 1\n"})
    else:
        scene.project.git("rm", "-q", "other.py")

    scene.assert_healed(scene.commit("m.py"), ["A1", "FIX5"])
    assert scene.project.git("status", "--porcelain") == besides


@pytest.mark.parametrize("args", [["m.py"], ["-a"], []], ids=["path", "all", "plain"])
def test_07c_a_commit_that_cannot_be_healed(scene: Scene, args: Sequence[str]) -> None:
    scene.start()
    scene.project.stage({"other.py": "x = 2\n"})
    scene.project.write({"m.py": text("A1").replace("b = valeu", "b = object()")})
    if not args:
        scene.project.git("add", "m.py")
    before = everything(scene.project)

    scene.assert_stopped(scene.commit(*args), before)


def test_08_commit_including_a_path(scene: Scene) -> None:
    scene.start()
    scene.project.stage({"other.py": "x = 2\n"})

    scene.assert_healed(scene.commit("-i", "m.py"), ["A1", "FIX5"])
    assert scene.project.committed("other.py") == "x = 2\n"
    assert scene.project.git("status", "--porcelain") == ""


def test_09_commit_of_one_hunk(scene: Scene) -> None:
    scene.start()
    scene.project.git("reset", "-q")
    scene.project.write({"m.py": text("A1", "U20")})

    scene.assert_healed(scene.commit("-p", stdin="y\nn\n"), ["A1", "FIX5", "U20"])


def test_10_amend(scene: Scene) -> None:
    scene.start()

    scene.assert_healed(scene.commit("--amend"), ["A1", "FIX5"])
    assert scene.project.git("rev-list", "--count", "HEAD") == "1\n"


def test_12_a_linked_worktree(scene: Scene, tmp_path: Path) -> None:
    scene.start()
    scene.project.git("reset", "-q", "--hard")
    scene.project.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    main, linked = scene.project, Project(tmp_path / "linked", scene.project.python)
    before = {**everything(main), "refs": ""}
    scene.project = linked
    linked.stage({"m.py": text("A1")})
    linked.write({"m.py": text("A1", "U20")})

    scene.assert_healed(scene.commit(), ["A1", "FIX5", "U20"])
    assert {**everything(main), "refs": ""} == before
    assert main.git("config", "core.bare") == "false\n"


def test_13_the_conclusion_of_a_merge(scene: Scene) -> None:
    scene.start()
    scene.project.git("reset", "-q", "--hard")
    scene.project.git("switch", "-q", "-c", "side")
    scene.project.commit({"m.py": text("U10"), "theirs.py": "y = 1\n"})
    scene.project.git("switch", "-q", "main")
    scene.project.commit({"m.py": text().replace("c10 = 10", "c10 = 11")})
    assert scene.project.run("git", "merge", "side").returncode == 1
    scene.project.stage({"m.py": text("A1")})

    scene.assert_healed(scene.commit(), ["A1", "FIX5"])
    assert scene.project.git("rev-list", "--parents", "-1", "HEAD").count(" ") == 2
    assert not (scene.project.path / ".git" / "MERGE_HEAD").exists()


def test_39_no_hook_where_git_runs_none(scene: Scene) -> None:
    scene.start()

    assert scene.commit("--dry-run").returncode == 0
    assert scene.commit("-n").returncode == 0
    assert scene.state() == (["A1"], ["A1"], ["A1"])


def test_40_cherry_pick_continued(scene: Scene) -> None:
    scene.start()
    scene.project.git("reset", "-q", "--hard")
    scene.project.git("switch", "-q", "-c", "side")
    scene.project.commit({"m.py": text("U10")})
    scene.project.git("switch", "-q", "main")
    scene.project.commit({"m.py": text().replace("c10 = 10", "c10 = 11")})
    assert scene.project.run("git", "cherry-pick", "side").returncode == 1
    scene.project.stage({"m.py": text("A1")})

    done = scene.project.run("git", "-c", "core.editor=true", "cherry-pick", "--continue", env=scene.env)

    scene.assert_healed(done, ["A1", "FIX5"])


def test_41_a_clean_merge_runs_no_hook(scene: Scene) -> None:
    scene.start()
    scene.project.git("reset", "-q", "--hard")
    scene.project.git("switch", "-q", "-c", "side")
    scene.project.commit({"m.py": text("U10")})
    scene.project.git("switch", "-q", "main")
    scene.project.commit({"other.py": "x = 5\n"})

    done = scene.project.run("git", "merge", "--no-edit", "side", env=scene.env)

    assert done.returncode == 0, done.stdout
    assert scene.state() == (["U10"], ["U10"], ["U10"])


# -- the end of a commit after the hook (14, 45, 46) -----------------------------------------------------------------


def test_14_an_empty_message_after_the_hook_then_undo(scene: Scene) -> None:
    scene.start()
    scene.project.write({"m.py": text("A1", "U20")})

    done = scene.commit("-m", "")

    assert done.returncode == 1, done.stdout
    assert scene.state() == ([], ["A1", "FIX5"], ["A1", "FIX5", "U20"])
    assert scene.project.selfheal("undo").returncode == 0
    assert scene.state() == ([], ["A1"], ["A1", "U20"])


@only(*FRAMEWORKS)
def test_45_a_later_hook_fails(scene: Scene) -> None:
    scene.hooks = [
        '{id: fails, name: fails, entry: "false", language: system, pass_filenames: false, always_run: true}'
    ]
    scene.start()
    scene.project.write({"m.py": text("A1", "U20")})

    done = scene.commit()

    assert done.returncode == 1, done.stdout
    assert scene.state() == ([], ["A1", "FIX5"], ["A1", "FIX5", "U20"])
    assert scene.project.selfheal("undo").returncode == 0
    assert scene.state() == ([], ["A1"], ["A1", "U20"])


@only(PRE_COMMIT)
def test_46_an_earlier_hook_changed_the_file_without_staging_it(scene: Scene) -> None:
    """The framework stops that commit anyway, so no model is asked. (prek runs hooks of one priority side by side.)"""
    scene.start(ASK)
    config = scene.project.path / ".pre-commit-config.yaml"
    entry = 'entry: "sed -i s/c15.*/c15=15/ m.py", language: system, pass_filenames: false'
    first = f"      - {{id: format, name: format, {entry}}}\n"
    head, hooks, rest = config.read_text().partition("    hooks:\n")
    scene.project.stage({".pre-commit-config.yaml": head + hooks + first + rest})
    scene.project.write({"other.py": "x = 7\n"})

    with serving() as server:
        done = scene.commit(url=server.url)

    assert done.returncode == 1, done.stdout
    assert server.requests == []
    assert "another hook changed m.py without staging it" in " ".join(done.stdout.split())
    assert (scene.project.committed("m.py"), scene.project.staged("m.py")) == (text(), text("A1"))
    assert scene.project.worktree()["other.py"] == b"x = 7\n"


# -- files and settings (24 to 38) -----------------------------------------------------------------------------------


@pytest.mark.parametrize("edit", [[], ["U20"]], ids=["24", "25"])
def test_24_25_autocrlf_with_crlf_in_the_working_tree(scene: Scene, edit: Sequence[str]) -> None:
    scene.start()
    scene.project.git("config", "core.autocrlf", "true")
    scene.project.write({"m.py": text("A1", end="\r\n")})
    scene.project.git("add", "m.py")
    scene.project.write({"m.py": text("A1", *edit, end="\r\n")})

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert blob(scene.project, "HEAD:m.py") == text("A1", "FIX5").encode()
    assert scene.project.worktree()["m.py"] == text("A1", "FIX5", *edit, end="\r\n").encode()


@only(NATIVE)
def test_26_autocrlf_with_lf_in_the_working_tree_is_refused(scene: Scene) -> None:
    """Every line differs from a checkout: nothing tells the user's own edits apart; a framework rewrites the file."""
    scene.start()
    scene.project.git("config", "core.autocrlf", "true")
    scene.project.write({"m.py": text("A1", "U20")})
    before = everything(scene.project)

    scene.assert_stopped(scene.commit(), before)


def test_27_modes(scene: Scene) -> None:
    scene.start()
    (scene.project.path / "m.py").chmod(0o755)
    scene.project.git("add", "m.py")
    (scene.project.path / "m.py").chmod(0o700)

    scene.assert_healed(scene.commit(), ["A1", "FIX5"])
    assert scene.project.git("ls-tree", "HEAD", "m.py").startswith("100755 ")
    assert (scene.project.path / "m.py").stat().st_mode & 0o777 == 0o700


def test_28_a_staged_link_is_left_a_link(scene: Scene) -> None:
    scene.start()
    (scene.project.path / "link.py").symlink_to("m.py")
    scene.project.git("add", "link.py")

    scene.assert_healed(scene.commit(), ["A1", "FIX5"])
    assert (scene.project.path / "link.py").is_symlink()
    assert scene.project.git("ls-tree", "HEAD", "link.py").startswith("120000 ")


def test_29_a_staged_rename(scene: Scene) -> None:
    scene.start()
    scene.project.git("mv", "m.py", "q.py")
    scene.project.stage({"tests/test_m.py": FILES["tests/test_m.py"].replace("import m", "import q as m")})
    scene.file = "q.py"

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert scene.state() == (["A1", "FIX5"],) * 3
    assert scene.project.git("diff", "--name-status", "-M", "HEAD~", "--", "m.py", "q.py").startswith("R")


def test_30_an_odd_name(scene: Scene) -> None:
    scene.start()
    name = "-a b é.py"
    loads = f"import runpy\n\n\ndef test_b():\n    assert runpy.run_path({name!r})['b'] == 2\n"
    scene.project.git("mv", "m.py", "./" + name)
    scene.project.stage({"tests/test_m.py": loads})
    scene.file = name

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert scene.state() == (["A1", "FIX5"],) * 3


def test_31_a_fix_that_is_what_head_holds(scene: Scene) -> None:
    scene.start()
    scene.project.commit({"m.py": text("A1", "FIX5")})
    scene.project.stage({"m.py": text("A1")})
    before = everything(scene.project)

    done = scene.commit()

    scene.assert_stopped(done, before)
    assert "the commit would be empty" in " ".join(done.stdout.split())


def test_32_split_index_and_a_path(scene: Scene) -> None:
    scene.start()
    scene.project.git("update-index", "--split-index")
    scene.project.stage({"other.py": "x = 2\n"})

    scene.assert_healed(scene.commit("m.py"), ["A1", "FIX5"])
    assert scene.project.git("status", "--porcelain") == "M  other.py\n"


def test_33_index_version_4_and_all(scene: Scene) -> None:
    scene.start()
    scene.project.git("update-index", "--index-version", "4")

    scene.assert_healed(scene.commit("-a"), ["A1", "FIX5"])
    assert scene.project.git("status", "--porcelain") == ""


def test_34_sparse_index(scene: Scene) -> None:
    scene.start({"pkg/far.py": "z = 1\n", "pkg/more/far.py": "z = 1\n"})
    scene.project.git("commit", "-qn", "-m", "A1 first")
    scene.project.git("sparse-checkout", "set", "--cone", "--sparse-index", "tests")
    scene.project.stage({"m.py": text("A1", "U10")})
    scene.project.write({"m.py": text("A1", "U10", "U20")})

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert scene.state() == (["A1", "FIX5", "U10"], ["A1", "FIX5", "U10"], ["A1", "FIX5", "U10", "U20"])
    assert "S pkg/" in scene.project.git("ls-files", "-t", "--sparse")


def test_35_an_index_of_the_users_own(scene: Scene) -> None:
    scene.start()
    own = scene.project.path / ".git" / "mine"
    shutil.copyfile(scene.project.path / ".git" / "index", own)
    scene.env["GIT_INDEX_FILE"] = str(own)
    before = own.read_bytes(), scene.project.worktree(), scene.project.git("rev-parse", "HEAD")

    done = scene.commit()

    assert done.returncode == 1, done.stdout
    assert "an index of your own" in " ".join(done.stdout.split())
    assert (
        scene.project.git("ls-files", "-s", "m.py", env=scene.env).split()[1]
        == scene.project.git("hash-object", "m.py").strip()
    )
    assert (scene.project.worktree(), scene.project.git("rev-parse", "HEAD")) == before[1:]


def test_37_a_submodule_staged_besides(scene: Scene, tmp_path: Path) -> None:
    library = Project.create(tmp_path / "library", scene.project.python)
    library.commit({"tiny.py": "X = 1\n"})
    scene.start()
    scene.project.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.path), "vendor")

    scene.assert_healed(scene.commit(), ["A1", "FIX5"])
    assert scene.project.git("ls-tree", "HEAD", "vendor").startswith("160000 ")
    assert scene.project.git("status", "--porcelain") == ""


def test_38_the_newline_at_the_end_of_the_file(scene: Scene) -> None:
    scene.start()
    scene.project.stage({"m.py": text("A1").removesuffix("\n")})
    scene.project.write({"m.py": text("A1")})

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert blob(scene.project, "HEAD:m.py") == text("A1", "FIX5").removesuffix("\n").encode()
    assert scene.project.worktree()["m.py"] == text("A1", "FIX5").encode()


# -- the commit dies meanwhile (43, 44) ------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [[], ["-a"], ["m.py"]], ids=["plain", "all", "path"])
@pytest.mark.parametrize("death", [signal.SIGTERM, signal.SIGKILL], ids=["term", "kill"])
@only(NATIVE)
def test_43_git_dies_while_healing(scene: Scene, death: signal.Signals, args: Sequence[str]) -> None:
    scene.start(ASK)
    before = everything(scene.project)
    running: list[subprocess.Popen[bytes]] = []

    def kill() -> None:
        running[0].send_signal(death)
        running[0].wait()

    with serving(reply(FIX, meanwhile=kill)) as server:
        asked = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
        environ = {**os.environ, **scene.project.environ, **scene.env, **asked}
        running.append(
            subprocess.Popen(
                ["git", "commit", "-m", "Change", *args],
                cwd=scene.project.path,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
        output, _ = running[0].communicate(timeout=60)  # ends when the hook has closed its output

    assert server.requests, output
    for name in scene.locks():  # git's own, left by its death; never selfheal's
        assert death is signal.SIGKILL and not name.endswith(".lock.lock")
        (scene.project.path / ".git" / name).unlink()
    assert everything(scene.project) == before


@only(NATIVE, PRE_COMMIT)
def test_44_ctrl_c_while_healing(scene: Scene) -> None:
    scene.start(ASK)
    scene.project.write({"m.py": text("A1", "U20"), "other.py": "x = 7\n"})
    before = everything(scene.project)
    running: list[subprocess.Popen[bytes]] = []

    with serving(reply(FIX, meanwhile=lambda: os.killpg(running[0].pid, signal.SIGINT), delay=2)) as server:
        asked = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
        environ = {**os.environ, **scene.project.environ, **scene.env, **asked}
        running.append(
            subprocess.Popen(
                ["git", "commit", "-m", "Change"],
                cwd=scene.project.path,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        )
        output, _ = running[0].communicate(timeout=60)
        ended = time.monotonic() + 20
        while everything(scene.project) != before and time.monotonic() < ended:
            time.sleep(0.2)  # the framework restores what is not staged after git has gone

    assert running[0].returncode != 0, output
    assert everything(scene.project) == before
    assert scene.locks() == []


# -- by hand, and what tests do (47 to 55) ---------------------------------------------------------------------------


def by_hand(scene: Scene, *args: str) -> subprocess.CompletedProcess[str]:
    """The framework's own command, or `selfheal run`."""
    program = {NATIVE: [*SELFHEAL, "run"], PRE_COMMIT: [BIN / "pre-commit", "run"], PREK: [BIN / "prek", "run"]}
    return scene.project.run(*program[scene.kind], *args, env=scene.env)


def test_47_by_hand(scene: Scene) -> None:
    scene.start()
    scene.project.write({"m.py": text("A1", "U20")})

    done = by_hand(scene)

    assert done.returncode == 0, done.stdout
    assert scene.state() == ([], ["A1", "FIX5"], ["A1", "FIX5", "U20"])


@pytest.mark.parametrize("args", [["--all-files"], ["--files", "m.py"]], ids=["all-files", "files"])
@only(PRE_COMMIT)
def test_48_by_hand_on_all_files_no_unstaged_line_is_staged(scene: Scene, args: Sequence[str]) -> None:
    scene.start()
    scene.project.write({"m.py": text("A1", "U20")})

    done = by_hand(scene, *args)

    assert "healed by the search engine" in done.stdout
    assert scene.state() == ([], ["A1", "FIX5"], ["A1", "FIX5", "U20"])


GIT_IN_TESTS = """import subprocess

import m


def test_makes_a_repository(tmp_path):
    for words in (["init", "-q", "."], ["config", "user.email", "a@b"], ["config", "user.name", "a"],
                  ["commit", "-q", "--allow-empty", "-m", "fixture commit"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    assert m.b == 2
"""


@pytest.mark.parametrize("args", [[], ["-a"], ["m.py"]], ids=["plain", "all", "path"])
@only(NATIVE)
def test_49_tests_that_make_repositories_reach_only_their_own(scene: Scene, args: Sequence[str]) -> None:
    scene.start({"tests/test_m.py": GIT_IN_TESTS})

    scene.assert_healed(scene.commit(*args), ["A1", "FIX5"])
    assert "fixture commit" not in scene.project.git("log", "--all", "--format=%s")
    assert scene.project.git("config", "core.bare") == "false\n"


@only(NATIVE)
def test_50_an_editable_install_tests_what_is_staged(scene: Scene, tmp_path: Path) -> None:
    """The environment names the repository's own folder; the tests see the staged content there, not the user's."""
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    site = next(environment.glob("lib/python3*/site-packages"))
    tools = next(scene.project.python.parent.parent.glob("lib/python3*/site-packages"))
    (site / "tools.pth").write_text(f"{tools}\n")
    (site / "__editable__.m.pth").write_text(f"{scene.project.path}/lib\n")
    scene.project = Project(scene.project.path, environment / "bin" / "python")
    scene.start({"lib/k.py": "b = 2\n", "tests/test_k.py": "import k\n\n\ndef test_k():\n    assert k.b == 2\n"})
    scene.project.git("reset", "-q", "--hard")
    scene.project.stage({"lib/k.py": "b = 3\n"})
    scene.project.write({"lib/k.py": "b = 2\n"})

    done = scene.commit()

    assert done.returncode == 1, done.stdout
    assert "assert 3 == 2" in done.stdout


@only(NATIVE)
def test_51_a_fix_of_the_same_size_within_the_second_is_seen(scene: Scene) -> None:
    scene.start(
        ASK
        | {
            "s.py": "def s(a, b):\n    return a + b\n",
            "tests/test_s.py": "import s\n\n\ndef test_s():\n    assert s.s(5, 3) == 8\n",
        }
    )
    scene.project.git("reset", "-q", "--hard")
    scene.project.stage({"s.py": "def s(a, b):\n    return a - b\n", "other.py": "x = 2\n"})
    fix = "s.py\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n>>>>>>> REPLACE\n"

    with serving(reply(fix)) as server:
        done = scene.commit(url=server.url)

    assert done.returncode == 0, done.stdout
    assert scene.project.committed("s.py") == "def s(a, b):\n    return a + b\n"


def test_52_an_untracked_helper_is_not_seen(scene: Scene) -> None:
    scene.start()
    scene.project.stage({"m.py": "import helper\n" + text("A1", "FIX5")})
    scene.project.write({"helper.py": ""})
    before = everything(scene.project)

    done = scene.commit()

    scene.assert_stopped(done, before)
    assert "git add helper.py" in done.stdout


@only(NATIVE)
def test_54_an_edit_while_the_tests_run_reaches_neither_them_nor_the_commit(scene: Scene) -> None:
    slow = FILES["tests/test_m.py"].replace("    assert", "    import time\n\n    time.sleep(1)\n    assert")
    scene.start({"tests/test_m.py": slow})
    scene.project.stage({"m.py": text("A1", "FIX5")})
    process = subprocess.Popen(
        ["git", "commit", "-q", "-m", "Change"],
        cwd=scene.project.path,
        env={**os.environ, **scene.project.environ, **scene.env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    time.sleep(0.7)
    scene.project.write({"m.py": text("A1")})
    output, _ = process.communicate(timeout=60)

    assert process.returncode == 0, output
    assert scene.state() == (["A1", "FIX5"], ["A1", "FIX5"], ["A1"])


@only(PRE_COMMIT)
def test_55_one_process_for_thousands_of_files(scene: Scene) -> None:
    scene.start()
    names = {f"data/{'long' * 10}_{number}.txt": f"{number}\n" for number in range(4200)}
    scene.project.write(names)
    scene.project.git("add", "data")

    done = scene.commit()

    scene.assert_healed(done, ["A1", "FIX5"])
    assert done.stdout.count("selfheal: 1 test failed") == 1
