"""What may stand in the way of a fix when a commit is made, by the number of the scenario: each way to commit, each
kind of unstaged change, each form of a file and of an index. Every one is a real `git commit`, by git's own hook (N),
real pre-commit (P) and real prek (K); see `scenes` for the words. test_scenarios_events.py has those in which something
happens meanwhile, and says which are not here.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from mounts import own_mounts
from projects import Project
from scenes import COMMENTS, TEST, Scene, aborted, block, text
from scripted_server import reply
from states import blob

pytestmark = pytest.mark.slow

NEAR = "too near your unstaged lines in m.py"
OVERLAP = "overlaps your unstaged lines in m.py"


def ran(kinds: str) -> pytest.MarkDecorator:
    """A scenario for these kinds of hooks."""
    return pytest.mark.parametrize("scene", kinds.split(), indirect=True)


# -- unstaged edits -------------------------------------------------------------------------------------------------

PLACED = {
    "1": ("", "C=I=W=[A1,FIX5]", "NPK"),
    "2": ("U20", "C=I=[A1,FIX5] W=[A1,FIX5,U20]", "NPK"),
    "3": ("U8", "C=I=[A1,FIX5] W=[A1,FIX5,U8]", "N"),
}
ABORTED = {
    "3": ("U8", {"P": NEAR, "K": NEAR}),
    "4": ("U6", {"N": OVERLAP, "P": NEAR, "K": NEAR}),
    "5": ("U5", {"N": OVERLAP, "P": NEAR, "K": NEAR}),
}


def unstaged(edits: str) -> str:
    return ",".join(filter(None, ["A1", edits]))


@pytest.mark.parametrize(
    ("edits", "expected", "scene"),
    [
        pytest.param(edits, expected, kind, id=f"{number}-{kind}")
        for number, (edits, expected, kinds) in PLACED.items()
        for kind in kinds
    ],
    indirect=["scene"],
)
def test_the_fix_is_placed_beside_unstaged_edits(scene: Scene, edits: str, expected: str) -> None:
    scene.stage("A1")
    scene.edit(unstaged(edits))
    scene.edit("U3", "other.py")

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert scene.state() == expected
    assert scene.state("other.py") == "C=I=[] W=[U3]"
    assert scene.status() == (" M m.py\n" if edits else "") + " M other.py\n"


@pytest.mark.parametrize(
    ("edits", "reason", "scene"),
    [
        pytest.param(edits, reason, kind, id=f"{number}-{kind}")
        for number, (edits, reasons) in ABORTED.items()
        for kind, reason in reasons.items()
    ],
    indirect=["scene"],
)
def test_a_fix_on_or_too_near_unstaged_edits_aborts(scene: Scene, edits: str, reason: str) -> None:
    scene.stage("A1")
    scene.edit(unstaged(edits))
    scene.edit("U3", "other.py")
    before = scene.before()

    done = scene.commit()

    aborted(scene, done, before, reason)
    assert scene.state() == f"C=[] I=[A1] W=[A1,{edits}]"
    assert scene.state("other.py") == "C=I=[] W=[U3]"


# -- ways to commit -------------------------------------------------------------------------------------------------


@ran("N P K")
@pytest.mark.parametrize("cwd", [pytest.param("", id="6"), pytest.param("tests", id="11")])
def test_all(scene: Scene, cwd: str) -> None:
    scene.edit("A1")

    done = scene.commit("-a", cwd=cwd)

    assert done.returncode == 0, done.stdout
    assert (scene.state(), scene.status()) == ("C=I=W=[A1,FIX5]", "")


@ran("N P K")
def test_7_a_path_while_another_file_is_staged(scene: Scene) -> None:
    scene.edit("A1")
    scene.stage("B3", "other.py")

    done = scene.commit("m.py")

    assert done.returncode == 0, done.stdout
    assert (scene.state(), scene.status()) == ("C=I=W=[A1,FIX5]", "M  other.py\n")
    assert scene.state("other.py") == "C=[] I=W=[B3]"


@ran("N P K")
@pytest.mark.parametrize(("command", "status"), [("add new.py", "A  new.py\n"), ("rm -q other.py", "D  other.py\n")])
def test_7b_a_path_while_an_addition_or_a_deletion_is_staged(scene: Scene, command: str, status: str) -> None:
    scene.edit("A1")
    if "new.py" in command:
        scene.edit("", "new.py")
    scene.succeed("git", *command.split())

    done = scene.commit("m.py")

    assert done.returncode == 0, done.stdout
    assert (scene.state(), scene.status()) == ("C=I=W=[A1,FIX5]", status)
    assert scene.state("new.py") == ("C=- I=W=[]" if "new.py" in command else "C=I=W=-")
    assert scene.state("other.py") == ("C=I=W=[]" if "new.py" in command else "C=[] I=W=-")


@ran("N P K")
@pytest.mark.parametrize("args", [["m.py"], ["-a"], []], ids=["path", "all", "as is"])
def test_7c_a_commit_that_cannot_be_healed(scene: Scene, args: Sequence[str]) -> None:
    scene.project.write({"m.py": text("A1").replace("return nunber", "raise ValueError(number)")})
    scene.stage("B3", "other.py")
    if not args:
        scene.succeed("git", "add", "m.py")
        scene.edit("B3,U20", "other.py")
    before = scene.before()

    done = scene.commit(*args)

    aborted(scene, done, before, "tests/test_m.py::test_value")


@ran("N")
def test_7c_a_path_whose_commit_is_refused_after_the_fix_keeps_it_in_the_working_tree(scene: Scene) -> None:
    """git drops both of its indexes; that it does so no hook is told."""
    scene.edit("A1")
    scene.stage("B3", "other.py")
    scene.project.write({".git/hooks/commit-msg": "#!/bin/sh\nexit 1\n"})
    (scene.project.path / ".git/hooks/commit-msg").chmod(0o755)

    done = scene.commit("m.py")

    assert done.returncode == 1, done.stdout
    assert scene.state() == "C=I=[] W=[A1,FIX5]"
    assert scene.state("other.py") == "C=[] I=W=[B3]"
    assert scene.project.selfheal("undo").returncode == 0
    assert scene.state() == "C=I=[] W=[A1]"


@ran("N P K")
def test_8_including_a_path(scene: Scene) -> None:
    scene.edit("A1")
    scene.stage("B3", "other.py")

    done = scene.commit("-i", "m.py")

    assert done.returncode == 0, done.stdout
    assert (scene.state(), scene.status()) == ("C=I=W=[A1,FIX5]", "")
    assert scene.state("other.py") == "C=I=W=[B3]"


@ran("N P K")
def test_9_one_hunk_of_two(scene: Scene) -> None:
    scene.edit("A1,U20")

    done = scene.commit("-p", typed="y\nn\n")

    assert done.returncode == 0, done.stdout
    assert (scene.state(), scene.status()) == ("C=I=[A1,FIX5] W=[A1,FIX5,U20]", " M m.py\n")


@ran("N P K")
def test_10_amend(scene: Scene) -> None:
    scene.project.commit({"more.py": "x = 1\n"})
    scene.stage("A1")

    done = scene.commit("--amend")

    assert done.returncode == 0, done.stdout
    assert (scene.state(), scene.status()) == ("C=I=W=[A1,FIX5]", "")
    assert scene.succeed("git", "rev-list", "--count", "HEAD") == "2\n"


@ran("N P K")
def test_12_a_linked_worktree(scene: Scene, tmp_path: Path) -> None:
    scene.edit("U7")
    scene.stage("B3", "other.py")
    scene.succeed("git", "worktree", "add", "-q", "-b", "side", tmp_path / "linked")
    linked = scene.at(tmp_path / "linked")
    linked.stage("A1")
    linked.edit("A1,U20")
    before = scene.before()

    done = linked.commit()

    assert done.returncode == 0, done.stdout
    assert linked.state() == "C=I=[A1,FIX5] W=[A1,FIX5,U20]"
    assert linked.state("other.py") == "C=I=W=[]"
    assert {**scene.before(), "refs": ""} == {**before, "refs": ""}
    assert scene.succeed("git", "config", "core.bare") == "false\n"


def conflict(scene: Scene, command: str) -> None:
    """`git COMMAND side`, which wants the user's word on line 1 of m.py and brings theirs.py."""
    scene.succeed("git", "switch", "-q", "-c", "side")
    scene.project.commit({"m.py": text("SIDE1"), "theirs.py": "x = 1\n"})
    scene.succeed("git", "switch", "-q", "main")
    scene.project.commit({"m.py": text("MAIN1")})
    assert scene.run("git", command, "side").returncode == 1
    scene.stage("A1")


@ran("N P K")
def test_13_the_conclusion_of_a_merge(scene: Scene) -> None:
    conflict(scene, "merge")

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert (scene.state(), scene.status()) == ("C=I=W=[A1,FIX5]", "")
    assert scene.succeed("git", "rev-list", "--parents", "-1", "HEAD").count(" ") == 2
    assert not (scene.project.path / ".git" / "MERGE_HEAD").exists()
    assert scene.project.committed("theirs.py") == "x = 1\n"


@ran("N P K")
def test_14_an_empty_message_after_the_hook_and_then_undo(scene: Scene) -> None:
    scene.stage("A1")
    scene.edit("A1,U20")

    done = scene.run("git", "-c", "core.editor=true", "commit")

    assert done.returncode == 1, done.stdout
    assert "due to empty commit message" in done.stdout
    assert scene.state() == "C=[] I=[A1,FIX5] W=[A1,FIX5,U20]"
    assert scene.project.selfheal("undo").returncode == 0
    assert scene.state() == "C=[] I=[A1] W=[A1,U20]"


@ran("N P K")
def test_17_an_intent_to_add_file(scene: Scene) -> None:
    absent = "import os\nimport m\n\n\ndef test_absent():\n    assert m and not os.path.exists('ita.py')\n"
    scene.project.commit({"tests/test_ita.py": absent})
    scene.edit("U2", "ita.py")
    scene.succeed("git", "add", "-N", "ita.py")
    scene.stage("A1")

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert (scene.state(), scene.status()) == ("C=I=W=[A1,FIX5]", " A ita.py\n")
    assert (scene.project.path / "ita.py").read_text() == text("U2")


@ran("N P K")
def test_18_the_first_commit(scene: Scene) -> None:
    scene.stage("A1")
    scene.succeed("git", "update-ref", "-d", "HEAD")

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert (scene.state(), scene.status()) == ("C=I=W=[A1,FIX5]", "")
    assert scene.succeed("git", "rev-list", "--count", "HEAD") == "1\n"


@ran("N P K")
def test_19_deleted_in_the_working_tree_after_staging(scene: Scene) -> None:
    scene.stage("A1")
    (scene.project.path / "m.py").unlink()
    before = scene.before()

    done = scene.commit()

    if scene.kind == "N":
        assert done.returncode == 0, done.stdout
        assert (scene.state(), scene.status()) == ("C=I=[A1,FIX5] W=-", " D m.py\n")
    else:
        aborted(scene, done, before, NEAR)
        assert scene.state() == "C=[] I=[A1] W=-"


@ran("N P K")
def test_20_two_files_one_of_them_partly_staged(scene: Scene) -> None:
    scene.project.commit({"k.py": text(), "tests/test_k.py": TEST.replace("from m", "from k")})
    scene.stage("A1")
    scene.edit("A1,U20")
    scene.stage("A1", "k.py")

    with scene.model(reply(block("m.py") + "\n" + block("k.py"))):
        done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert scene.state() == "C=I=[A1,FIX5] W=[A1,FIX5,U20]"
    assert (scene.state("k.py"), scene.status()) == ("C=I=W=[A1,FIX5]", " M m.py\n")


@ran("N P K")
@pytest.mark.parametrize("option", ["--dry-run", "-n"])
def test_39_options_by_which_git_runs_no_hook(scene: Scene, option: str) -> None:
    scene.stage("A1")

    done = scene.commit(option)

    assert done.returncode == 0, done.stdout
    assert "selfheal" not in done.stdout
    assert scene.state() == ("C=I=W=[A1]" if option == "-n" else "C=[] I=W=[A1]")


@ran("N P K")
def test_40_a_cherry_pick_that_goes_on(scene: Scene) -> None:
    conflict(scene, "cherry-pick")

    done = scene.run("git", "-c", "core.editor=true", "cherry-pick", "--continue")

    assert done.returncode == 0, done.stdout
    assert (scene.state(), scene.status()) == ("C=I=W=[A1,FIX5]", "")
    assert scene.project.committed("theirs.py") == "x = 1\n"


@ran("N P K")
@pytest.mark.parametrize("command", ["rebase --continue", "merge", "revert"])
def test_41_commits_for_which_git_runs_no_hook(scene: Scene, command: str) -> None:
    if command == "rebase --continue":
        conflict(scene, "rebase")
        expected, words = "[A1]", command.split()
    else:
        scene.succeed("git", "switch", "-q", "-c", "side")
        scene.project.commit({"m.py": text("SIDE1")})
        scene.succeed("git", "switch", "-q", "main")
        scene.project.commit({"other.py": text("B3", COMMENTS)})
        expected, words = ("[SIDE1]", ["merge", "side"]) if command == "merge" else ("[]", ["revert", "HEAD"])

    done = scene.run("git", "-c", "core.editor=true", *words)

    assert done.returncode == 0, done.stdout
    assert "selfheal" not in done.stdout
    assert (scene.state(), scene.status()) == (f"C=I=W={expected}", "")


# -- forms of files -------------------------------------------------------------------------------------------------


@ran("N P K")
@pytest.mark.parametrize("mine", [pytest.param("", id="24"), pytest.param(",U20", id="25")])
def test_line_ends_by_core_autocrlf(scene: Scene, mine: str) -> None:
    scene.succeed("git", "config", "core.autocrlf", "true")
    scene.edit("A1", end="\r\n")
    scene.succeed("git", "add", "m.py")
    scene.edit(f"A1{mine}", end="\r\n")

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert blob(scene.project, "HEAD:m.py") == blob(scene.project, ":m.py") == text("A1,FIX5").encode()
    assert scene.project.worktree()["m.py"] == text(f"A1,FIX5{mine}", end="\r\n").encode()
    assert scene.status() == (" M m.py\n" if mine else "")


@ran("N P K")
@pytest.mark.parametrize("mine", ["", ",U20"])
def test_26_a_file_with_other_line_ends_than_core_autocrlf_gives(scene: Scene, mine: str) -> None:
    """They stay as they are, but where a framework has checked the file out before selfheal comes to see it."""
    scene.succeed("git", "config", "core.autocrlf", "true")
    scene.stage("A1")
    scene.edit(f"A1{mine}")
    scene.edit("U3", "other.py")

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert blob(scene.project, "HEAD:m.py") == blob(scene.project, ":m.py") == text("A1,FIX5").encode()
    end = "\r\n" if mine and scene.kind != "N" else "\n"
    assert scene.project.worktree()["m.py"] == text(f"A1,FIX5{mine}", end=end).encode()
    assert scene.state("other.py") == "C=I=[] W=[U3]"
    assert scene.status() == (" M m.py\n" if mine else "") + " M other.py\n"


@ran("N P K")
def test_27_modes(scene: Scene) -> None:
    scene.edit("A1")
    (scene.project.path / "m.py").chmod(0o755)
    scene.succeed("git", "add", "m.py")
    (scene.project.path / "m.py").chmod(0o700)

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert (scene.state(), scene.status()) == ("C=I=W=[A1,FIX5]", "")
    assert scene.succeed("git", "ls-tree", "HEAD", "m.py").startswith("100755 ")
    assert (scene.project.path / "m.py").stat().st_mode & 0o777 == 0o700


@ran("N")
def test_28_a_staged_link_is_not_healed(scene: Scene) -> None:
    """The bug is in the file that the link leads to, which is not staged."""
    scene.project.commit({"m.py": text("FIX5"), "real.py": text()})
    (scene.project.path / "m.py").unlink()
    (scene.project.path / "m.py").symlink_to("real.py")
    scene.succeed("git", "add", "m.py")
    before = scene.before()

    done = scene.commit()

    aborted(scene, done, before, "NameError")
    assert (scene.project.path / "m.py").readlink() == Path("real.py")
    assert scene.succeed("git", "ls-files", "-s", "m.py").startswith("120000 ")


@ran("N P K")
def test_28_a_link_staged_besides_stays_a_link(scene: Scene) -> None:
    (scene.project.path / "link.py").symlink_to("m.py")
    scene.succeed("git", "add", "link.py")
    scene.stage("A1")

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert (scene.state(), scene.status()) == ("C=I=W=[A1,FIX5]", "")
    assert (scene.project.path / "link.py").readlink() == Path("m.py")
    assert scene.succeed("git", "ls-tree", "HEAD", "link.py").startswith("120000 ")


@ran("N P K")
def test_29_a_staged_rename(scene: Scene) -> None:
    scene.succeed("git", "mv", "m.py", "old.py")
    scene.succeed("git", "commit", "-q", "-n", "-m", "Old name")
    scene.succeed("git", "mv", "old.py", "m.py")
    scene.stage("A1")

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert (scene.state(), scene.status()) == ("C=I=W=[A1,FIX5]", "")
    assert scene.succeed("git", "diff", "--name-status", "-M", "HEAD~", "HEAD").split()[1:] == ["old.py", "m.py"]
    assert scene.state("old.py") == "C=I=W=-"


@ran("N P K")
def test_30_an_odd_name(scene: Scene) -> None:
    scene.path = "-a b é.py"
    loads = f"import runpy\n\nvalue = runpy.run_path({scene.path!r})['value']\n"
    scene.edit("A1")
    scene.project.stage({"tests/test_odd.py": TEST.replace("from m import value\n", loads)})
    scene.succeed("git", "add", "--", scene.path)

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert (scene.state(), scene.status()) == ("C=I=W=[A1,FIX5]", "")


@ran("N P K")
def test_31_a_fix_that_is_what_head_holds(scene: Scene) -> None:
    scene.project.commit({"m.py": text("FIX5")})
    scene.stage("")
    before = scene.before()

    done = scene.commit()

    aborted(scene, done, before, "the commit would be empty")
    assert scene.state() == "C=[FIX5] I=W=[]"


@ran("N P K")
def test_36_a_file_that_cannot_be_written(scene: Scene) -> None:
    scene.stage("A1")
    scene.edit("U3", "other.py")
    before = scene.before()
    mount = "mount --bind m.py m.py && mount -o remount,bind,ro m.py"

    done = scene.run(*own_mounts(), "sh", "-c", f"{mount} && git commit -m Change")

    aborted(scene, done, before, "could not be written")


@ran("N P K")
def test_37_a_submodule_staged_besides(scene: Scene, tmp_path: Path) -> None:
    library = Project.create(tmp_path / "library", scene.project.python)
    library.commit({"tiny.py": "X = 1\n"})
    scene.succeed("git", "-c", "protocol.file.allow=always", "submodule", "-q", "add", library.path, "vendor")
    scene.project.write({"vendor/tiny.py": "X = 2\n"})
    scene.stage("A1")

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert (scene.state(), scene.status()) == ("C=I=W=[A1,FIX5]", " M vendor\n")
    assert scene.succeed("git", "ls-tree", "HEAD", "vendor").split()[:3:2] == [
        "160000",
        library.git("rev-parse", "HEAD").strip(),
    ]
    assert scene.project.worktree()["vendor/tiny.py"] == b"X = 2\n"


@ran("N P K")
def test_38_no_newline_at_the_end_but_in_the_working_tree(scene: Scene) -> None:
    scene.stage("A1,NOEOL")
    scene.edit("A1")

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert scene.state() == "C=I=[A1,FIX5,NOEOL] W=[A1,FIX5]"


# -- forms of the index ---------------------------------------------------------------------------------------------


@ran("N P K")
def test_32_a_split_index_and_a_path(scene: Scene) -> None:
    scene.succeed("git", "update-index", "--split-index")
    scene.edit("A1")
    scene.stage("B3", "other.py")

    done = scene.commit("m.py")

    assert done.returncode == 0, done.stdout
    assert (scene.state(), scene.status()) == ("C=I=W=[A1,FIX5]", "M  other.py\n")
    assert scene.state("other.py") == "C=[] I=W=[B3]"
    assert scene.succeed("git", "fsck", "--no-dangling") == ""


@ran("N P K")
def test_33_version_4_of_the_index_and_all(scene: Scene) -> None:
    scene.succeed("git", "update-index", "--index-version", "4")
    scene.edit("A1")

    done = scene.commit("-a")

    assert done.returncode == 0, done.stdout
    assert (scene.state(), scene.status()) == ("C=I=W=[A1,FIX5]", "")
    assert (scene.project.path / ".git/index").read_bytes()[4:8] == b"\0\0\0\4"


@ran("N P K")
def test_34_a_sparse_index(scene: Scene) -> None:
    scene.project.commit({"pkg/far.py": "x = 1\n"})
    scene.succeed("git", "sparse-checkout", "set", "--cone", "--sparse-index", "tests")
    scene.stage("A1")
    scene.edit("A1,U20")
    collapsed = "S pkg/\n"
    assert collapsed in scene.succeed("git", "ls-files", "-t", "--sparse")

    done = scene.commit()

    assert done.returncode == 0, done.stdout
    assert scene.state() == "C=I=[A1,FIX5] W=[A1,FIX5,U20]"
    assert collapsed in scene.succeed("git", "ls-files", "-t", "--sparse")
    assert scene.project.committed("pkg/far.py") == "x = 1\n"
    assert not (scene.project.path / "pkg").exists()


@ran("N P K")
def test_35_an_index_of_the_users_own(scene: Scene) -> None:
    own = {"GIT_INDEX_FILE": str(scene.project.path / ".git" / "mine")}
    shutil.copyfile(scene.project.path / ".git" / "index", own["GIT_INDEX_FILE"])
    scene.edit("A1")
    scene.succeed("git", "add", "m.py", **own)
    staged, before = scene.succeed("git", "ls-files", "-s", **own), scene.before()

    done = scene.commit(**own)

    aborted(scene, done, before, "an index of your own")
    assert scene.succeed("git", "ls-files", "-s", **own) == staged
