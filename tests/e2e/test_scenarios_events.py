"""What may happen while a commit is healed: the user works on, a process dies, a disk is full, another hook interferes;
and what the tests may see and do. By the number of the scenario, as in test_scenarios.py.

Not here, nor there: 42, since no hook is offered for the stage pre-merge-commit; 53, full disks, and the further
moments of a crash, which are in test_crash.py.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from frameworks import made_once
from projects import SELFHEAL, Project
from scenes import TEST, Scene, aborted, lines, text

# Runs selfheal until it is about to give a file its new name, the first argument being how that ends: there it is
# killed, or is told that the disk is full. Its lock is a second name of a file in the record.
DRIVER = """import errno, os, signal, sys

def step(event, args):
    if event == sys.argv[1] and str(args[1]).endswith(("/index", "/index.lock")):
        if sys.argv[2] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), args[1])

sys.addaudithook(step)
from hooks.pre_commit import main
sys.exit(main(["run"]))
"""
pytestmark = pytest.mark.slow

LOCKED, STAGED = "os.link", "os.rename"
WAYS = [pytest.param([], id="as is"), pytest.param(["-a"], id="all"), pytest.param(["m.py"], id="path")]


def ran(kinds: str) -> pytest.MarkDecorator:
    """A scenario for these kinds of hooks."""
    return pytest.mark.parametrize("scene", kinds.split(), indirect=True)


def local(name: str, entry: str) -> str:
    """A hook of the repository's own, as rows of pre-commit's configuration."""
    hook = f"id: {name}, name: {name}, language: system, pass_filenames: false, always_run: true, verbose: true"
    return f"  - repo: local\n    hooks:\n      - {{{hook}, entry: {json.dumps(entry)}}}\n"


# -- the user works on ----------------------------------------------------------------------------------------------


@ran("N P K")
def test_15_another_file_is_staged(scene: Scene) -> None:
    scene.stage("A1")
    scene.edit("A1,U20")

    with scene.meanwhile(lambda: scene.stage("B3", "other.py")):
        done = scene.commit()

    assert done.returncode == 1, done.stdout
    assert "something was staged while selfheal was at work" in " ".join(done.stdout.split())
    assert scene.state() == "C=[] I=[A1] W=[A1,U20]"
    assert scene.state("other.py") == "C=[] I=W=[B3]"


@ran("N P K")
def test_16_the_file_is_saved(scene: Scene) -> None:
    scene.stage("A1")
    scene.edit("U3", "other.py")

    with scene.meanwhile(lambda: scene.edit("A1,LATE20")):
        done = scene.commit()

    if scene.kind == "N":
        assert done.returncode == 0, done.stdout
        assert scene.state() == "C=I=[A1,FIX5] W=[A1,FIX5,LATE20]"
    else:
        assert done.returncode == 1, done.stdout
        assert "m.py was changed while the hooks ran" in " ".join(done.stdout.split())
        assert scene.state() == "C=[] I=[A1] W=[A1,LATE20]"
    assert scene.state("other.py") == "C=I=[] W=[U3]"


@ran("N")
def test_54_a_file_that_the_tests_use_is_saved(scene: Scene) -> None:
    """The tests that prove the fix run after it, and on what is staged."""
    wrong = TEST.replace("== 3", "== 4")
    scene.stage("A1")

    with scene.meanwhile(lambda: scene.project.write({"tests/test_m.py": wrong})):
        done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert (scene.state(), scene.status()) == ("C=I=W=[A1,FIX5]", " M tests/test_m.py\n")
    assert scene.project.worktree()["tests/test_m.py"] == wrong.encode()


# -- a process dies, a disk is full ---------------------------------------------------------------------------------


def drive(scene: Scene, tmp_path: Path, *arguments: str) -> None:
    """From here on the hook is DRIVER with these arguments."""
    (tmp_path / "driver.py").write_text(DRIVER)
    command = shlex.join([sys.executable, str(tmp_path / "driver.py"), *arguments])
    if scene.kind == "N":
        scene.project.write({".git/hooks/pre-commit": f"#!/bin/sh\nexec {command}\n"})
    else:
        scene.project.commit({".pre-commit-config.yaml": f"repos:\n{local('selfheal', command)}"})


@ran("N P")
def test_21_killed_after_the_record_is_written(scene: Scene, tmp_path: Path) -> None:
    drive(scene, tmp_path, LOCKED, "kill")
    scene.stage("A1")
    scene.edit("A1,U20")
    before = scene.before()

    done = scene.commit()

    assert done.returncode == 1, done.stdout
    assert "placing" in scene.left()
    assert scene.before() == before
    undone = scene.project.selfheal("undo")
    assert undone.returncode == 0
    assert "nothing of it was left to put back" in undone.stdout
    assert scene.before() == before


@ran("N P")
def test_22_killed_between_working_tree_and_index(scene: Scene, tmp_path: Path) -> None:
    drive(scene, tmp_path, STAGED, "kill")
    scene.stage("A1")
    scene.edit("A1,U20")
    before = scene.before()

    done = scene.commit()

    assert done.returncode == 1, done.stdout
    assert scene.state() == "C=[] I=[A1] W=[A1,FIX5,U20]"
    assert scene.project.selfheal("undo").returncode == 0
    assert scene.state() == "C=[] I=[A1] W=[A1,U20]"
    assert scene.before() == before


@ran("N P")
@pytest.mark.parametrize("args", WAYS[:2])
def test_23_an_error_after_the_working_tree_is_written(scene: Scene, tmp_path: Path, args: Sequence[str]) -> None:
    drive(scene, tmp_path, STAGED, "fail")
    scene.stage("A1")
    if args:
        scene.succeed("git", "reset", "-q")
    else:
        scene.edit("A1,U20")
        scene.edit("U3", "other.py")
    before = scene.before()

    done = scene.commit(*args)

    aborted(scene, done, before, "No space left on device")


@ran("N P")
@pytest.mark.parametrize("args", WAYS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_43_git_dies(scene: Scene, number: signal.Signals, args: Sequence[str]) -> None:
    scene.edit("A1")
    if not args:
        scene.succeed("git", "add", "m.py")
        scene.edit("A1,U20")
    before = scene.before()
    commits: list[subprocess.Popen[str]] = []

    def kill() -> None:
        commits[0].send_signal(number)
        commits[0].wait(timeout=10)

    with scene.meanwhile(kill), scene.started(*args) as process:
        commits.append(process)
        output = process.communicate(timeout=60)[0]  # to the end of selfheal too, which holds the pipe

    assert process.returncode == -number, output
    assert "the git commit that this was for has ended" in " ".join(output.split())
    # git takes its locks away on SIGTERM, and cannot on SIGKILL: those are its own, and not for selfheal to delete.
    gits = ["index.lock"] * bool(args) + [f"next-index-{process.pid}.lock"] * ("m.py" in args)
    assert sorted(scene.left()) == (gits if number == signal.SIGKILL else [])
    for lock in scene.left():
        (scene.project.path / ".git" / lock).unlink()
    assert scene.before() == before


@ran("N P")
def test_44_ctrl_c(scene: Scene) -> None:
    scene.stage("A1")
    scene.edit("A1,U20")
    scene.edit("U3", "other.py")
    before = scene.before()
    commits: list[subprocess.Popen[str]] = []

    with scene.meanwhile(lambda: os.killpg(commits[0].pid, signal.SIGINT)), scene.started() as process:
        commits.append(process)
        output = process.communicate(timeout=60)[0]

    assert process.returncode != 0, output
    assert scene.before() == before
    assert scene.state() == "C=[] I=[A1] W=[A1,U20]"


# -- other hooks, and no commit at all ------------------------------------------------------------------------------


@ran("P K")
def test_45_a_later_hook_fails(scene: Scene) -> None:
    scene.project.commit(scene.frameworks.config(after=local("strict", "false")))
    scene.stage("A1")
    scene.edit("A1,U20")

    done = scene.commit()

    assert done.returncode == 1, done.stdout
    assert scene.state() == "C=[] I=[A1,FIX5] W=[A1,FIX5,U20]"
    assert scene.project.selfheal("undo").returncode == 0
    assert scene.state() == "C=[] I=[A1] W=[A1,U20]"


@ran("P")
def test_46_an_earlier_hook_changed_the_file_without_staging_it(scene: Scene) -> None:
    """pre-commit stops such a commit in any case, so that no model need be asked."""
    scene.project.commit(scene.frameworks.config(before=local("format", "sed -i 's/line 12$/line 12  # H12/' m.py")))
    scene.stage("A1")
    scene.edit("U3", "other.py")

    with scene.model() as requests:
        done = scene.commit()

    assert done.returncode == 1, done.stdout
    assert "another hook changed m.py without staging it" in " ".join(done.stdout.split())
    assert requests == []
    assert scene.state() == "C=[] I=[A1] W=[A1,H12]"
    assert scene.state("other.py") == "C=I=[] W=[U3]"


@ran("N P K")
def test_47_by_hand(scene: Scene) -> None:
    scene.stage("A1")
    scene.edit("A1,U20")
    scene.edit("U3", "other.py")

    done = scene.by_hand()

    assert done.returncode == 0, done.stdout
    assert scene.state() == "C=[] I=[A1,FIX5] W=[A1,FIX5,U20]"
    assert scene.state("other.py") == "C=I=[] W=[U3]"


@ran("P")
@pytest.mark.parametrize("args", [["--all-files"], ["--files", "m.py"]], ids=["all files", "files"])
def test_48_by_hand_on_files_that_are_not_stashed(scene: Scene, args: Sequence[str]) -> None:
    """pre-commit compares diffs before and after, and so reports that the hook changed something."""
    scene.stage("A1")
    scene.edit("A1,U20")
    scene.edit("U3", "other.py")

    done = scene.by_hand(*args)

    assert done.returncode == 1, done.stdout
    assert "files were modified by this hook" in done.stdout
    assert scene.state() == "C=[] I=[A1,FIX5] W=[A1,FIX5,U20]"
    assert scene.state("other.py") == "C=I=[] W=[U3]"


@ran("P")
def test_55_thousands_of_staged_files_and_one_selfheal(scene: Scene) -> None:
    names = {f"data/{'long' * 20}-{number}.txt": "x\n" for number in range(4200)}
    scene.project.write(names)
    scene.succeed("git", "add", "data")
    scene.stage("A1")

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert done.stdout.count("healed by the search engine") == 1
    assert len(list(scene.project.path.glob(".git/selfheal/heals/*"))) == 1
    assert (scene.state(), scene.status()) == ("C=I=W=[A1,FIX5]", "")
    assert scene.succeed("git", "ls-tree", "HEAD", "data/").count("\n") == 4200


# -- what the tests see, and what they do ---------------------------------------------------------------------------

MAKES_REPOSITORIES = """import subprocess
from m import value


def test_value(tmp_path):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "--allow-empty", "-m", "of the tests"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    assert (tmp_path / ".git" / "HEAD").exists()
    assert value(3) == 3
"""


@ran("N")
@pytest.mark.parametrize("args", [*WAYS, pytest.param(["linked"], id="linked worktree")])
def test_49_tests_that_make_repositories(scene: Scene, tmp_path: Path, args: Sequence[str]) -> None:
    scene.project.commit({"tests/test_m.py": MAKES_REPOSITORIES})
    if args == ["linked"]:
        scene.succeed("git", "worktree", "add", "-q", "-b", "side", tmp_path / "linked")
    there = scene.at(tmp_path / "linked") if args == ["linked"] else scene
    there.stage("A1")
    config = (scene.project.path / ".git" / "config").read_bytes()

    done = there.commit(*(word for word in args if word != "linked"))

    assert done.returncode == 0, done.stdout
    assert (there.state(), there.status()) == ("C=I=W=[A1,FIX5]", "")
    commits = scene.succeed("git", "log", "--all", "--format=%s").splitlines()
    assert sorted(commits) == ["Change", "Earlier state", "Earlier state"]
    assert (scene.project.path / ".git" / "config").read_bytes() == config
    assert scene.succeed("git", "config", "core.bare") == "false\n"


@ran("N")
def test_51_a_fix_of_the_same_size_within_a_second(scene: Scene) -> None:
    wrong, right = "def less(a, b):\n    return a + b\n", "def less(a, b):\n    return a - b\n"
    scene.project.commit(
        {"s.py": right, "tests/test_s.py": "from s import less\n\n\ndef test_s():\n    assert less(5, 3) == 2\n"}
    )
    scene.project.stage({"s.py": "# Less.\n" + wrong})

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert scene.project.committed("s.py") == scene.project.staged("s.py") == "# Less.\n" + right
    assert scene.project.worktree()["s.py"].decode() == "# Less.\n" + right


@ran("N P K")
def test_52_an_untracked_helper_that_makes_the_tests_pass(scene: Scene) -> None:
    scene.project.stage({"m.py": "from helper import value\n"})
    scene.project.write({"helper.py": text("FIX5")})
    before = scene.before()

    done = scene.commit()

    aborted(scene, done, before, "helper")


BACKENDS = {"setuptools": "setuptools.build_meta", "hatchling": "hatchling.build"}
LAYOUTS = [f"{backend}-{layout}" for backend in BACKENDS for layout in ("src", "flat")]


def package(layout: str) -> tuple[str, str]:
    """The name of a layout's package, and its folder."""
    name = layout.replace("-", "_")
    return name, f"src/{name}" if layout.endswith("src") else name


@pytest.fixture(scope="module")
def editable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a project of each layout, all of them installed editable in the environment `venv` there."""

    def make(folder: Path) -> None:
        pip = [folder / "venv" / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        subprocess.run([*pip, "pytest", "setuptools>=70.1", "hatchling", "editables"], check=True)
        for layout in LAYOUTS:
            name, inside = package(layout)
            backend = layout.partition("-")[0]
            build = f'[build-system]\nrequires = ["{backend}"]\nbuild-backend = "{BACKENDS[backend]}"\n'
            Project(folder / layout, pip[0]).write(
                {
                    "pyproject.toml": f'{build}[project]\nname = "{name}"\nversion = "1"\n',
                    ".gitignore": "*.egg-info\nbuild\n",
                    f"{inside}/__init__.py": "",
                    f"{inside}/m.py": text("FIX5"),
                    "tests/test_m.py": TEST.replace("from m", f"from {name}.m"),
                }
            )
            subprocess.run([*pip, "--no-build-isolation", "--no-deps", "-e", folder / layout], check=True)

    return made_once(tmp_path_factory, "editable", make)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_50_an_editable_install(editable: Path, layout: str) -> None:
    """The user's files are what the environment names; the tests see what is staged."""
    project = Project(editable / layout, editable / "venv" / "bin" / "python")
    path = f"{package(layout)[1]}/m.py"
    project.git("init", "-q", ".")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "Earlier state")
    assert project.run(*SELFHEAL, "install").returncode == 0
    project.stage({path: text("A1")})
    project.write({path: text("A1,FIX5")})

    only_staged = project.run("git", "commit", "-m", "Wrong in what is staged alone")

    assert only_staged.returncode == 0, only_staged.stdout
    assert "healed by the search engine" in only_staged.stdout
    assert lines(project.committed(path)) == lines(project.staged(path)) == "A1,FIX5"
    assert lines(project.worktree()[path].decode()) == "A1,FIX5"

    project.stage({path: text("A1,A2,FIX5")})
    project.write({path: text("A1,A2")})

    only_unstaged = project.run("git", "commit", "-m", "Wrong in what is not staged alone")

    assert only_unstaged.returncode == 0, only_unstaged.stdout
    assert "1 passed" in only_unstaged.stdout
    assert lines(project.committed(path)) == lines(project.staged(path)) == "A1,A2,FIX5"
    assert lines(project.worktree()[path].decode()) == "A1,A2"
