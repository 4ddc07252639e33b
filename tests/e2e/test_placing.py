"""Placing a proved fix through a real `git commit`: into commit, index and working tree, and nowhere else."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from projects import (
    AREA_BUG,
    AREA_FILES,
    AREA_FIXED,
    AREA_REPLY,
    SELFHEAL,
    TOTAL_BUG,
    TOTAL_FILES,
    TOTAL_FIXED,
    Project,
    run,
)
from scripted_server import reply, serving
from states import blob, commit, everything, folder

LLM = {".selfheal.yaml": "llm: {model: scripted}\n"}
LINES = "".join(f"# line {number}\n" for number in range(20))
HEAD, BUG, FIXED = (text + LINES for text in (TOTAL_FILES["prices.py"], TOTAL_BUG["prices.py"], TOTAL_FIXED))
TEST = {"tests/test_prices.py": TOTAL_FILES["tests/test_prices.py"]}


def last_line(output: str) -> str:
    return output.rstrip("\n").rpartition("\n")[2]


def saved_patches(project: Project) -> list[str]:
    return sorted(path.name for path in project.path.glob(".git/selfheal/patches/*") if (path / "patch.diff").is_file())


def assert_refused(project: Project, status: int, output: str, reason: str) -> None:
    """The commit stopped with exit 1, the patch is saved, and the last line says how to place it."""
    assert status == 1, output
    assert reason in " ".join(output.split())
    assert saved_patches(project), output
    assert last_line(output) == f"next: selfheal apply {saved_patches(project)[-1]}"


# -- what is staged and what is not ---------------------------------------------------------------------------------


def test_a_fully_staged_file_is_healed_in_commit_index_and_working_tree_and_all_else_is_left_alone(
    project: Project,
) -> None:
    project.commit(TEST | {"prices.py": HEAD, "other.py": "x = 1\n", "todo.md": "one\n", "gone.txt": "\n"})
    project.stage({"prices.py": BUG, "other.py": "x = 2\n"})
    project.write({"other.py": "x = 3\n", "todo.md": "two\n", "notes.txt": "untracked\n"})
    (project.path / "gone.txt").unlink()
    others = [project.path / name for name in ("other.py", "todo.md", "notes.txt", "tests/test_prices.py")]
    before = [(path.read_bytes(), path.stat().st_ino, path.stat().st_mtime_ns) for path in others]

    done = commit(project)

    assert done.returncode == 0, done.stdout
    assert blob(project, "HEAD:prices.py") == blob(project, ":prices.py") == FIXED.encode()
    assert project.worktree()["prices.py"] == FIXED.encode()
    assert blob(project, "HEAD:other.py") == blob(project, ":other.py") == b"x = 2\n"
    assert project.git("diff", "--name-only", "HEAD~", "HEAD") == "other.py\nprices.py\n"
    assert project.git("status", "--porcelain") == " D gone.txt\n M other.py\n M todo.md\n?? notes.txt\n"
    assert [(path.read_bytes(), path.stat().st_ino, path.stat().st_mtime_ns) for path in others] == before


@pytest.mark.parametrize(
    ("mine", "merged"),
    [
        pytest.param(BUG + "# mine\n", FIXED + "# mine\n", id="far away"),
        pytest.param(BUG.replace("# line 3", "# MINE"), FIXED.replace("# line 3", "# MINE"), id="three lines away"),
        pytest.param(FIXED, FIXED, id="the fix itself, not yet staged"),
    ],
)
def test_unstaged_lines_are_kept_and_not_committed(project: Project, mine: str, merged: str) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    project.write({"prices.py": mine})

    done = commit(project)

    assert done.returncode == 0, done.stdout
    assert blob(project, "HEAD:prices.py") == blob(project, ":prices.py") == FIXED.encode()
    assert project.worktree()["prices.py"] == merged.encode()


@pytest.mark.parametrize(
    "mine",
    [
        pytest.param(BUG.replace("# line 0", "# MINE"), id="adjacent"),
        pytest.param(BUG.replace("sum(price)", "sum(price, 0)"), id="same line"),
    ],
)
def test_a_fix_that_overlaps_unstaged_lines_is_refused_and_nothing_changes(project: Project, mine: str) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    project.write({"prices.py": mine})
    before = everything(project)

    done = commit(project)

    assert_refused(project, done.returncode, done.stdout, "overlaps your unstaged lines in prices.py")
    assert everything(project) == before


def test_unstaged_edits_and_untracked_files_are_never_seen_by_the_tests(project: Project) -> None:
    """The working tree holds a failing file and an untracked helper; what is staged passes without either."""
    sees_helper = "import os\n\n\ndef test_helper():\n    assert not os.path.exists('helper.py')\n"
    project.commit(TEST | {"prices.py": HEAD})
    project.stage({"prices.py": HEAD + "# more\n", "tests/test_helper.py": sees_helper})
    project.write({"prices.py": BUG, "helper.py": "", "tests/test_prices.py": "assert False\n"})

    done = commit(project)

    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_a_helper_that_was_never_added_stops_the_commit_though_it_lies_in_the_working_tree(project: Project) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.stage({"prices.py": "import helper\n" + HEAD})
    project.write({"helper.py": ""})
    before = everything(project)

    done = commit(project)

    assert done.returncode == 1
    assert last_line(done.stdout) == "next: git add helper.py"
    assert everything(project) == before


def test_an_intent_to_add_file_stays_one_and_is_absent_from_the_tests(project: Project) -> None:
    absent = "import os\n\n\ndef test_draft():\n    assert not os.path.exists('draft.py')\n"
    project.commit(TEST | {"prices.py": HEAD})
    project.write({"draft.py": "x = 1\n"})
    project.git("add", "-N", "draft.py")
    project.stage({"prices.py": BUG, "tests/test_draft.py": absent})

    done = commit(project)

    assert done.returncode == 0, done.stdout
    assert blob(project, "HEAD:prices.py") == FIXED.encode()
    assert project.git("status", "--porcelain") == " A draft.py\n"
    assert project.worktree()["draft.py"] == b"x = 1\n"


def test_a_renamed_file_is_healed_under_its_new_name(project: Project) -> None:
    project.commit({"old_prices.py": HEAD, "tests/test_prices.py": TEST["tests/test_prices.py"].replace("prices", "p")})
    project.git("mv", "old_prices.py", "prices.py")
    project.stage(TEST | {"prices.py": BUG})

    done = commit(project)

    assert done.returncode == 0, done.stdout
    assert blob(project, "HEAD:prices.py") == FIXED.encode()
    assert project.git("status", "--porcelain") == ""
    assert "old_prices.py" not in project.git("ls-files")


# -- bytes, modes, and files that are not there ---------------------------------------------------------------------

LF = "# Prices in cents.\ndef total(prices):\n    return sum({})\n"
STORED: dict[str, tuple[str, str, dict[str, str], Sequence[str]]] = {
    # how it is staged, how it lies in the working tree, further files, git's configuration
    "CRLF": (*[LF.replace("\n", "\r\n")] * 2, {}, ()),
    "mixed line ends": (*["# Prices in cents.\r\ndef total(prices):\n    return sum({})\r\n# end\n"] * 2, {}, ()),
    "no newline at the end": (*[LF.rstrip("\n")] * 2, {}, ()),
    "byte order mark": (*["\ufeff" + LF] * 2, {}, ()),
    "letters outside ASCII": (*["# Preise in \u20ac\n" + LF] * 2, {}, ()),
    "eol=crlf": (LF, LF.replace("\n", "\r\n"), {".gitattributes": "*.py text eol=crlf\n"}, ()),
    "core.autocrlf": (LF, LF.replace("\n", "\r\n"), {}, ("core.autocrlf", "true")),
}


@pytest.mark.parametrize("name", STORED)
def test_every_byte_but_the_fix_stays_as_it_was(project: Project, name: str) -> None:
    staged, lying, more, setting = STORED[name]
    if setting:
        project.git("config", *setting)
    project.commit(TEST | {"prices.py": lying.format("prices").replace("in cents", "")} | more)
    project.stage({"prices.py": lying.format("price")})
    assert blob(project, ":prices.py") == staged.format("price").encode()

    done = commit(project)

    assert done.returncode == 0, done.stdout
    assert blob(project, "HEAD:prices.py") == blob(project, ":prices.py") == staged.format("prices").encode()
    assert project.worktree()["prices.py"] == lying.format("prices").encode()
    assert project.git("status", "--porcelain") == ""


@pytest.mark.parametrize(("mode", "staged"), [(0o755, "100755"), (0o700, "100755"), (0o600, "100644")])
def test_the_modes_of_index_and_working_tree_stay(project: Project, mode: int, staged: str) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.write({"prices.py": BUG})
    (project.path / "prices.py").chmod(mode)
    project.git("add", "prices.py")

    done = commit(project)

    assert done.returncode == 0, done.stdout
    assert project.git("ls-tree", "HEAD", "prices.py").split()[0] == staged
    assert (project.path / "prices.py").stat().st_mode & 0o777 == mode
    assert project.worktree()["prices.py"] == FIXED.encode()
    assert project.git("status", "--porcelain") == ""


def test_a_file_that_was_deleted_after_staging_stays_deleted(project: Project) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    (project.path / "prices.py").unlink()

    done = commit(project)

    assert done.returncode == 0, done.stdout
    assert blob(project, "HEAD:prices.py") == FIXED.encode()
    assert project.git("status", "--porcelain") == " D prices.py\n"
    assert "prices.py" not in project.worktree()


def test_a_file_below_a_folder_that_became_a_link_is_not_written_through_the_link(
    project: Project, tmp_path: Path
) -> None:
    """git takes such a file for deleted; what the link leads to is not part of the repository."""
    init = {"shop/__init__.py": ""}
    test = {"tests/test_prices.py": TEST["tests/test_prices.py"].replace("from prices", "from shop.prices")}
    project.commit(test | init | {"shop/prices.py": HEAD})
    project.stage({"shop/prices.py": BUG})
    shutil.move(project.path / "shop", tmp_path / "elsewhere")
    (project.path / "shop").symlink_to(tmp_path / "elsewhere")

    done = commit(project)

    assert done.returncode == 0, done.stdout
    assert blob(project, "HEAD:shop/prices.py") == FIXED.encode()
    assert (tmp_path / "elsewhere" / "prices.py").read_text() == BUG


def test_a_file_below_a_folder_that_became_a_file_is_not_missed(project: Project) -> None:
    test = {"tests/test_prices.py": TEST["tests/test_prices.py"].replace("from prices", "from shop.prices")}
    project.commit(test | {"shop/__init__.py": "", "shop/prices.py": HEAD})
    project.stage({"shop/prices.py": BUG})
    shutil.rmtree(project.path / "shop")
    project.write({"shop": "a file\n"})

    done = commit(project)

    assert done.returncode == 0, done.stdout
    assert blob(project, "HEAD:shop/prices.py") == FIXED.encode()
    assert project.worktree()["shop"] == b"a file\n"


def test_a_file_that_became_a_link_is_refused(project: Project, tmp_path: Path) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    (tmp_path / "elsewhere.py").write_text(BUG)
    (project.path / "prices.py").unlink()
    (project.path / "prices.py").symlink_to(tmp_path / "elsewhere.py")
    before = everything(project)

    done = commit(project)

    assert_refused(project, done.returncode, done.stdout, "prices.py is not a regular file in the working tree")
    assert everything(project) == before
    assert (project.path / "prices.py").is_symlink()


# -- kinds of commits -----------------------------------------------------------------------------------------------


def own_index(project: Project) -> dict[str, str]:
    """An index beside git's own, with the bug staged in it."""
    env = {"GIT_INDEX_FILE": str(project.path / ".git" / "mine")}
    shutil.copyfile(project.path / ".git" / "index", env["GIT_INDEX_FILE"])
    project.git("add", "prices.py", env=env)
    return env


@pytest.mark.parametrize("args", [["-a"], ["prices.py"], ["-i", "prices.py"]], ids=["all", "path", "include"])
def test_a_commit_that_reads_another_index_holds_the_fix_and_so_does_the_index_that_is_kept(
    project: Project, args: Sequence[str]
) -> None:
    project.commit(TEST | {"prices.py": HEAD, "other.py": "x = 1\n"})
    project.stage({"other.py": "x = 2\n"})
    project.write({"prices.py": BUG})

    done = commit(project, *args)

    assert done.returncode == 0, done.stdout
    assert blob(project, "HEAD:prices.py") == blob(project, ":prices.py") == FIXED.encode()
    assert project.worktree()["prices.py"] == FIXED.encode()
    assert project.git("status", "--porcelain") == ("M  other.py\n" if args == ["prices.py"] else "")
    assert not list(project.path.glob(".git/*.lock*"))


def test_an_index_of_the_users_own_is_never_written_to(project: Project) -> None:
    project.commit(TEST | {"prices.py": HEAD, "other.py": "x = 1\n"})
    project.stage({"other.py": "x = 2\n"})
    project.write({"prices.py": BUG})
    env = own_index(project)
    staged_there = project.git("ls-files", "-s", env=env)
    before = everything(project)

    done = commit(project, **env)

    assert_refused(project, done.returncode, done.stdout, "an index of your own")
    assert everything(project) == before
    assert project.git("ls-files", "-s", env=env) == staged_there
    assert not list(project.path.glob(".git/*.lock"))


def test_the_conclusion_of_a_merge_is_healed_where_it_differs_from_both_sides(project: Project) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.git("switch", "-q", "-c", "side")
    project.commit({"prices.py": "# side\n" + HEAD, "theirs.py": "x = nothing\n"})
    project.git("switch", "-q", "main")
    project.commit({"prices.py": "# main\n" + HEAD})
    assert project.run("git", "merge", "side").returncode == 1
    project.stage({"prices.py": BUG})

    done = commit(project)

    assert done.returncode == 0, done.stdout
    assert blob(project, "HEAD:prices.py") == project.worktree()["prices.py"] == FIXED.encode()
    assert project.git("rev-list", "--parents", "-1", "HEAD").count(" ") == 2
    assert not (project.path / ".git" / "MERGE_HEAD").exists()
    assert project.git("status", "--porcelain") == ""


def test_an_amended_commit_is_healed(project: Project) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.commit({"other.py": "x = 1\n"})
    project.stage({"prices.py": BUG})

    done = commit(project, "--amend")

    assert done.returncode == 0, done.stdout
    assert blob(project, "HEAD:prices.py") == project.worktree()["prices.py"] == FIXED.encode()
    assert project.git("rev-list", "--count", "HEAD").strip() == "2"
    assert project.git("status", "--porcelain") == ""


def test_the_first_commit_of_a_repository_is_healed(project: Project) -> None:
    project.stage(TEST | {"prices.py": BUG})

    done = commit(project)

    assert done.returncode == 0, done.stdout
    assert blob(project, "HEAD:prices.py") == project.worktree()["prices.py"] == FIXED.encode()
    assert project.git("status", "--porcelain") == ""


def test_a_linked_worktree_is_healed_and_the_main_one_is_left_alone(project: Project, tmp_path: Path) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    linked = Project(tmp_path / "linked", project.python)
    linked.stage({"prices.py": BUG})
    before = everything(project)

    done = commit(linked)

    assert done.returncode == 0, done.stdout
    assert blob(linked, "HEAD:prices.py") == linked.worktree()["prices.py"] == FIXED.encode()
    assert linked.git("status", "--porcelain") == ""
    after = everything(project)
    assert {**after, "refs": ""} == {**before, "refs": ""}


def test_a_commit_from_a_subfolder_is_healed(project: Project) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    project.install_hook()

    done = run(["git", "commit", "-m", "Change"], project.path / "tests", project.environ)

    assert done.returncode == 0, done.stdout
    assert blob(project, "HEAD:prices.py") == project.worktree()["prices.py"] == FIXED.encode()


def test_a_fix_that_is_what_head_holds_is_refused(project: Project) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.stage({"prices.py": HEAD.replace("sum(prices)", "sum(price)")})
    before = everything(project)

    done = commit(project)

    assert_refused(project, done.returncode, done.stdout, "the commit would be empty")
    assert everything(project) == before


@pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
def test_a_file_that_the_user_marked_in_the_index_is_refused_and_keeps_its_mark(project: Project, mark: str) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    project.git("update-index", mark, "prices.py")
    marked, before = project.git("ls-files", "-v"), everything(project)

    done = commit(project)

    assert_refused(project, done.returncode, done.stdout, "prices.py is marked as assume-unchanged or skip-worktree")
    assert everything(project) == before
    assert project.git("ls-files", "-v") == marked


@pytest.mark.parametrize(
    "setting", ["core.splitIndex=true", "index.version=4", "core.untrackedCache=true", "merge.conflictStyle=zdiff3"]
)
def test_whatever_form_the_index_has_a_heal_keeps_it_in_order(project: Project, setting: str) -> None:
    project.git("config", *setting.split("="))
    project.commit(TEST | {"prices.py": HEAD, "other.py": "x = 1\n"})
    project.git("update-index", "--assume-unchanged", "other.py")
    project.stage({"prices.py": BUG})
    project.write({"prices.py": BUG + "# mine\n"})
    marked = project.git("ls-files", "-v")

    done = commit(project)

    assert done.returncode == 0, done.stdout
    assert blob(project, "HEAD:prices.py") == FIXED.encode()
    assert project.worktree()["prices.py"] == (FIXED + "# mine\n").encode()
    assert project.git("ls-files", "-v") == marked
    assert project.git("fsck", "--no-dangling") == ""


# -- what happens meanwhile -----------------------------------------------------------------------------------------


def stage_another(project: Project) -> None:
    project.stage({"other.py": "x = 2\n"})


def stage_the_same(project: Project) -> None:
    project.stage({"shapes.py": AREA_BUG["shapes.py"] + "# more\n"})


def save_the_same_line(project: Project) -> None:
    project.write({"shapes.py": AREA_BUG["shapes.py"].replace("and 7", "and 8")})


def move_head(project: Project) -> None:
    project.git("commit", "-q", "--no-verify", "--only", "--allow-empty", "-m", "Meanwhile")


def lock_the_index(project: Project) -> None:
    project.write({".git/index.lock": ""})


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (stage_another, "something was staged while selfheal was at work"),
        (stage_the_same, "something was staged while selfheal was at work"),
        (save_the_same_line, "overlaps your unstaged lines in shapes.py"),
        (move_head, "HEAD moved while selfheal was at work"),
        (lock_the_index, "another git process holds the index"),
    ],
)
def test_what_the_user_does_meanwhile_is_never_lost(
    project: Project, event: Callable[[Project], None], reason: str
) -> None:
    project.commit(AREA_FILES | LLM | {"other.py": "x = 1\n"})
    project.stage(AREA_BUG)
    meanwhile: list[object] = []

    def happen() -> None:
        event(project)
        meanwhile.append(everything(project))

    with serving(reply(AREA_REPLY, meanwhile=happen)) as server:
        done = commit(project, url=server.url)

    assert_refused(project, done.returncode, done.stdout, reason)
    assert [everything(project)] == meanwhile


def test_lines_that_were_saved_far_from_the_fix_meanwhile_are_kept(project: Project) -> None:
    project.commit(AREA_FILES | LLM)
    project.stage({"shapes.py": AREA_BUG["shapes.py"] + LINES})
    saved = {"shapes.py": AREA_BUG["shapes.py"] + LINES + "# mine\n"}

    with serving(reply(AREA_REPLY, meanwhile=lambda: project.write(saved))) as server:
        done = commit(project, url=server.url)

    assert done.returncode == 0, done.stdout
    assert blob(project, "HEAD:shapes.py") == (AREA_FIXED + LINES).encode()
    assert project.worktree()["shapes.py"] == (AREA_FIXED + LINES + "# mine\n").encode()


# -- what cannot be written -----------------------------------------------------------------------------------------


def own_mounts() -> Sequence[str]:
    """The command that runs another where it may mount; skips the test where there is none."""
    for words in (["unshare", "-m"], ["unshare", "-rm"]):
        if shutil.which("unshare") and run([*words, "sh", "-c", "mount -t tmpfs none /mnt"], Path("/")).returncode == 0:
            return words
    pytest.skip("needs unshare(1) and the right to mount in a namespace of its own")


@pytest.mark.parametrize(
    ("mount", "reason"),
    [
        pytest.param(
            "mount --bind shop shop && mount -o remount,bind,ro shop", "Read-only file system", id="read-only"
        ),
        pytest.param(
            "cp -a shop ../saved && mount -t tmpfs -o size=4k none shop && cp -a ../saved/prices.py shop/",
            "No space left on device",
            id="full",
        ),
    ],
)
def test_a_file_that_cannot_be_written_stops_the_commit_and_nothing_changes(
    project: Project, tmp_path: Path, mount: str, reason: str
) -> None:
    namespace = own_mounts()
    test = {"tests/test_prices.py": TEST["tests/test_prices.py"].replace("from prices", "from shop.prices")}
    project.commit(test | {"shop/prices.py": HEAD})
    project.stage({"shop/prices.py": BUG})
    project.install_hook()
    before = everything(project)
    script = f"{mount}; git commit -m Change; status=$?; cp -a shop ../after; exit $status"

    done = project.run(*namespace, "sh", "-c", script)

    assert_refused(project, done.returncode, done.stdout, reason)
    assert everything(project) == before
    assert folder(tmp_path / "after") == {"prices.py": BUG.encode()}


def test_a_patch_that_cannot_be_saved_is_still_shown(project: Project) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    project.write({".git/selfheal": "a file where the folder should be\n"})
    before = everything(project)

    done = project.selfheal("run", "--dry-run")

    assert done.returncode == 1
    assert "+    return sum(prices)" in done.stdout
    assert "Traceback" not in done.stdout
    assert everything(project) == before


def test_ctrl_c_in_the_middle_of_placing_comes_too_late_to_leave_half_of_it(project: Project, tmp_path: Path) -> None:
    """git runs the user's clean filter while the fix is staged, which here sends the signal."""
    when = "grep -q refresh /proc/$PPID/cmdline"
    script = f'#!/bin/sh\n{when} && kill -INT "$(cat ../pid)" && touch ../interrupted\ncat\n'
    (tmp_path / "interrupting").write_text(script)
    (tmp_path / "interrupting").chmod(0o755)
    project.commit(TEST | {"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    project.git("config", "filter.interrupting.clean", str(tmp_path / "interrupting"))
    project.write({".git/info/attributes": "prices.py filter=interrupting\n"})

    done = project.run("sh", "-c", f"echo $$ > ../pid; exec {' '.join(SELFHEAL)}")

    assert (tmp_path / "interrupted").exists(), done.stdout
    assert done.returncode == 130
    assert blob(project, ":prices.py") == project.worktree()["prices.py"] == FIXED.encode()
    assert not list(project.path.glob(".git/*.lock"))


# -- proposed now, placed later -------------------------------------------------------------------------------------


def test_a_dry_run_changes_nothing_and_apply_places_its_patch_later(project: Project) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    before = everything(project)

    done = project.selfheal("run", "--dry-run")

    assert_refused(project, done.returncode, done.stdout, "--dry-run was given")
    assert everything(project) == before

    done = project.selfheal(*last_line(done.stdout).split()[2:])

    assert done.returncode == 0, done.stdout
    assert last_line(done.stdout) == "next: git commit"
    assert blob(project, ":prices.py") == project.worktree()["prices.py"] == FIXED.encode()
    assert project.git("status", "--porcelain") == "M  prices.py\n"


def test_apply_places_beside_lines_that_were_edited_since(project: Project) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    project.selfheal("run", "--dry-run")
    project.write({"prices.py": BUG + "# mine\n"})

    done = project.selfheal("apply")

    assert done.returncode == 0, done.stdout
    assert blob(project, ":prices.py") == FIXED.encode()
    assert project.worktree()["prices.py"] == (FIXED + "# mine\n").encode()


def test_apply_places_what_commit_all_only_proposed_once_it_is_staged(project: Project) -> None:
    project.commit(TEST | {"prices.py": HEAD, ".selfheal.yaml": "heal: {on_heal: review}\n"})
    project.write({"prices.py": BUG})
    proposed = commit(project, "-a")
    assert_refused(project, proposed.returncode, proposed.stdout, "heal.on_heal is review")
    apply = last_line(proposed.stdout).split()[2:]

    done = project.selfheal(*apply)

    assert done.returncode == 1
    assert last_line(done.stdout).startswith("next: git add prices.py")
    project.git("add", "prices.py")
    assert project.selfheal(*apply).returncode == 0
    assert blob(project, ":prices.py") == project.worktree()["prices.py"] == FIXED.encode()


@pytest.mark.parametrize(
    ("staged", "words"),
    [
        ({"prices.py": BUG + "# more\n"}, "prices.py is not staged as it was when the patch was proved"),
        ({"prices.py": FIXED}, "the fix is staged already"),
    ],
)
def test_apply_refuses_when_what_is_staged_moved_on(project: Project, staged: dict[str, str], words: str) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    project.selfheal("run", "--dry-run")
    project.stage(staged)
    before = everything(project)

    done = project.selfheal("apply")

    assert done.returncode == 1
    assert words in " ".join(done.stdout.split())
    assert last_line(done.stdout).startswith("next: ")
    assert everything(project) == before


@pytest.mark.parametrize("identity", ["", "20200101-000000-1", "../../config"])
def test_apply_without_such_a_patch_says_so(project: Project, identity: str) -> None:
    project.commit(TEST | {"prices.py": HEAD})

    done = project.selfheal("apply", *filter(None, [identity]))

    assert done.returncode == 2
    assert done.stdout.startswith(f"selfheal: There is no saved patch{f' {identity!r}' if identity else ''}")
    assert "Traceback" not in done.stdout


# -- what is left in the git directory ------------------------------------------------------------------------------


def test_a_green_run_leaves_the_git_directory_as_it_was(project: Project) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.stage({"prices.py": HEAD + "# more\n"})
    before, tree = folder(project.path / ".git"), everything(project)
    before = folder(project.path / ".git")  # after `git status`, which may refresh the index

    done = project.selfheal("run")

    assert done.returncode == 0, done.stdout
    assert folder(project.path / ".git") == before
    assert everything(project) == tree


def test_a_heal_adds_one_object_the_index_entry_and_its_own_record(project: Project) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    project.git("status")
    before = folder(project.path / ".git")

    done = project.selfheal("run")

    assert done.returncode == 0, done.stdout
    after = folder(project.path / ".git")
    fixed = project.git("rev-parse", ":prices.py").strip()
    changed = {name for name in after if after[name] != before.get(name)}
    assert {name for name in changed if not name.startswith("selfheal/")} == {
        "index",
        f"objects/{fixed[:2]}/{fixed[2:]}",
    }
    assert blob(project, fixed) == FIXED.encode()


def test_nothing_of_ours_is_left_in_the_temporary_folder(project: Project, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    project.commit(TEST | {"prices.py": HEAD})
    project.stage({"prices.py": BUG})

    done = project.selfheal("run", env={"TMPDIR": str(scratch)})

    assert done.returncode == 0, done.stdout
    assert list(scratch.iterdir()) == []
