"""Taking a heal back, telling of it, and stopping for a look at it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from projects import TOTAL_BUG, TOTAL_FILES, TOTAL_FIXED, Project
from states import blob, commit, everything

from heal_core import record, recovery
from heal_core.patch import Patch, Rewrite

LINES = "".join(f"# line {number}\n" for number in range(20))
HEAD, BUG, FIXED = (text + LINES for text in (TOTAL_FILES["prices.py"], TOTAL_BUG["prices.py"], TOTAL_FIXED))
TEST = {"tests/test_prices.py": TOTAL_FILES["tests/test_prices.py"]}


def last_line(output: str) -> str:
    return output.rstrip("\n").rpartition("\n")[2]


def words(output: str) -> str:
    return " ".join(output.split())


def heal_without_tests(project: Project, before: str = BUG, after: str = FIXED) -> None:
    """A heal placed from a patch that is given, which takes a tenth of the time of one that is looked for."""
    patch = Patch("search", "A name was one letter off.", (Rewrite("prices.py", before.encode(), after.encode()),))
    assert record.save(project.path / ".git" / "selfheal", patch, "of the test")
    done = project.selfheal("apply")
    assert done.returncode == 0, done.stdout


def heals(project: Project) -> list[recovery.Heal]:
    return list(recovery.read_all(project.path / ".git" / "selfheal"))


# -- undo -----------------------------------------------------------------------------------------------------------


def test_before_the_commit_undo_restores_index_and_working_tree(project: Project) -> None:
    project.commit(TEST | {"prices.py": HEAD, "other.py": "x = 1\n"})
    project.stage({"prices.py": BUG})
    project.write({"prices.py": BUG + "# mine\n", "other.py": "x = 2\n", "notes.txt": "untracked\n"})
    before = everything(project)
    healed = project.selfheal("run")
    assert blob(project, ":prices.py") == FIXED.encode(), healed.stdout

    done = project.selfheal(*last_line(healed.stdout).partition("(selfheal ")[2].split()[:2])

    assert done.returncode == 0, done.stdout
    assert everything(project) == before
    assert "put back in the working tree: prices.py" in done.stdout
    assert "put back in the index: prices.py" in done.stdout


@pytest.mark.parametrize("args", [[], ["-a"], ["prices.py"]], ids=["plain", "all", "path"])
def test_after_the_commit_undo_stages_the_reversal_and_the_commit_stays(project: Project, args: Sequence[str]) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.write({"prices.py": BUG})
    if not args:
        project.git("add", "prices.py")
    assert commit(project, *args).returncode == 0
    head = project.git("rev-parse", "HEAD")

    done = project.selfheal("undo")

    assert done.returncode == 0, done.stdout
    assert project.git("rev-parse", "HEAD") == head
    assert blob(project, "HEAD:prices.py") == FIXED.encode()
    assert blob(project, ":prices.py") == project.worktree()["prices.py"] == BUG.encode()
    assert project.git("status", "--porcelain") == "M  prices.py\n"


EDITS = {
    # how the file is edited after the heal, and what undo leaves in it; None where it is left alone
    "far away": (FIXED + "# later\n", BUG + "# later\n"),
    "the fix taken out by hand": (BUG, BUG),
    "over the fix": (FIXED.replace("sum(prices)", "sum(prices, 0)"), None),
    "beside the fix": (FIXED.replace("# line 0\n", "# LATER\n"), None),
}


@pytest.mark.parametrize("edit", EDITS)
def test_after_further_edits_undo_takes_out_the_fix_alone_or_leaves_the_file_and_says_so(
    project: Project, edit: str
) -> None:
    later, left = EDITS[edit]
    project.commit({"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    heal_without_tests(project)
    project.write({"prices.py": later})

    done = project.selfheal("undo")

    assert done.returncode == (1 if left is None else 0), done.stdout
    assert project.worktree()["prices.py"].decode() == (later if left is None else left)
    assert blob(project, ":prices.py") == BUG.encode()
    assert ("left alone: prices.py was edited over the fix" in words(done.stdout)) == (left is None)
    assert left is not None or last_line(done.stdout).startswith(f"next: selfheal log --show {heals(project)[0].id}")


def test_what_was_staged_over_the_fix_is_left_in_the_index(project: Project) -> None:
    project.commit({"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    heal_without_tests(project)
    project.stage({"prices.py": FIXED + "# later\n"})

    done = project.selfheal("undo")

    assert project.worktree()["prices.py"].decode() == BUG + "# later\n"
    assert blob(project, ":prices.py").decode() == FIXED + "# later\n"
    assert "left alone: prices.py was staged anew" in words(done.stdout)
    assert done.returncode == 1


def test_a_file_that_is_gone_or_beyond_a_link_is_left_alone(project: Project, tmp_path: Path) -> None:
    project.commit({"shop/prices.py": HEAD})
    project.stage({"shop/prices.py": BUG})
    patch = Patch("search", "", (Rewrite("shop/prices.py", BUG.encode(), FIXED.encode()),))
    assert record.save(project.path / ".git" / "selfheal", patch, "of the test")
    assert project.selfheal("apply").returncode == 0
    shutil.move(project.path / "shop", tmp_path / "elsewhere")
    (project.path / "shop").symlink_to(tmp_path / "elsewhere")

    done = project.selfheal("undo")

    assert done.returncode == 1
    assert "shop/prices.py is not there any more" in words(done.stdout)
    assert (tmp_path / "elsewhere" / "prices.py").read_text() == FIXED
    assert blob(project, ":shop/prices.py") == BUG.encode()


def test_a_second_undo_takes_back_the_heal_before_and_a_third_has_nothing_to_do(project: Project) -> None:
    again = FIXED.replace("sum(prices)", "sum(list(prices))")
    project.commit({"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    heal_without_tests(project)
    heal_without_tests(project, FIXED, again)
    seen = []
    for _ in range(3):
        done = project.selfheal("undo")
        seen.append((done.returncode, blob(project, ":prices.py").decode(), project.worktree()["prices.py"].decode()))

    assert seen == [(0, FIXED, FIXED), (0, BUG, BUG), (2, BUG, BUG)]
    assert done.stdout.startswith("selfheal: There is no heal to undo in this repository.")
    assert last_line(done.stdout) == "next: selfheal log"


def test_undo_with_an_id_takes_back_that_heal_and_once_more_finds_nothing_left(project: Project) -> None:
    project.commit({"prices.py": HEAD, "taxes.py": HEAD})
    project.stage({"prices.py": BUG, "taxes.py": BUG})
    heal_without_tests(project)
    patch = Patch("search", "", (Rewrite("taxes.py", BUG.encode(), FIXED.encode()),))
    assert record.save(project.path / ".git" / "selfheal", patch, "of the test")
    assert project.selfheal("apply").returncode == 0
    first = heals(project)[0].id

    done = project.selfheal("undo", first)
    after = everything(project)

    assert done.returncode == 0, done.stdout
    assert (project.staged("prices.py"), project.staged("taxes.py")) == (BUG, FIXED)
    done = project.selfheal("undo", first)
    assert done.returncode == 0, done.stdout
    assert "nothing of it was left to put back" in done.stdout
    assert everything(project) == after


@pytest.mark.parametrize("identity", ["", "20200101-000000-000001", "../../config"])
def test_undo_without_such_a_heal_says_so(project: Project, identity: str) -> None:
    project.commit({"prices.py": HEAD})

    done = project.selfheal("undo", *filter(None, [identity]))

    assert done.returncode == 2
    assert done.stdout.startswith("selfheal: There is no heal ")
    assert identity in done.stdout


def test_undo_brings_back_what_was_staged_after_git_has_pruned_it(project: Project) -> None:
    project.commit({"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    heal_without_tests(project)
    project.git("gc", "-q", "--prune=now")
    assert project.run("git", "cat-file", "-e", project.git("hash-object", "prices.py").strip()).returncode == 0

    done = project.selfheal("undo")

    assert done.returncode == 0, done.stdout
    assert blob(project, ":prices.py") == BUG.encode()
    assert project.git("fsck", "--no-dangling") == ""


def test_undo_while_git_holds_the_index_changes_nothing(project: Project) -> None:
    project.commit({"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    heal_without_tests(project)
    project.write({".git/index.lock": ""})
    before = everything(project)

    done = project.selfheal("undo")

    assert done.returncode == 1
    assert "another git process holds the index" in words(done.stdout)
    assert everything(project) == before
    (project.path / ".git" / "index.lock").unlink()
    assert project.selfheal("undo").returncode == 0
    assert blob(project, ":prices.py") == project.worktree()["prices.py"] == BUG.encode()


# -- log ------------------------------------------------------------------------------------------------------------


def test_the_log_of_a_repository_without_heals_says_so(project: Project) -> None:
    project.commit({"prices.py": HEAD})

    assert project.selfheal("log").stdout == "selfheal: nothing was healed in this repository yet.\n"
    assert json.loads(project.selfheal("log", "--format", "json").stdout) == []


def test_the_log_tells_of_each_heal_in_text_and_in_json(project: Project) -> None:
    project.commit(TEST | {"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    head = project.git("rev-parse", "HEAD").strip()
    assert project.selfheal("run").returncode == 0
    identity = heals(project)[0].id

    assert project.selfheal("log").stdout.split() == [identity, "placed", "search", "prices.py"]
    shown = project.selfheal("log", "--show", identity).stdout
    assert "-    return sum(price)" in shown
    assert "+    return sum(prices)" in shown
    (row,) = json.loads(project.selfheal("log", "--format", "json").stdout)
    assert row.pop("seconds") > 0
    assert "+    return sum(prices)" in row.pop("diff")
    assert row.pop("diagnosis")
    assert row == {
        "id": identity,
        "state": "placed",
        "engine": "search",
        "model": "",
        "files": ["prices.py"],
        "attempts": 1,
        "tokens": 0,
        "head": head,
    }
    project.selfheal("undo")
    assert project.selfheal("log").stdout.split()[1] == "undone"


def test_the_last_twenty_heals_are_kept(project: Project) -> None:
    project.commit({"prices.py": HEAD})
    project.stage({"prices.py": BUG})
    seen = []
    for _ in range(22):
        heal_without_tests(project)
        seen.append(heals(project)[-1].id)
        project.selfheal("undo")

    assert [line.split()[0] for line in project.selfheal("log").stdout.splitlines()] == seen[-20:]


# -- review and propose ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [[], ["-a"], ["prices.py"]], ids=["plain", "all", "path"])
@pytest.mark.parametrize("on_heal", ["review", "propose"])
def test_a_fix_that_is_to_be_looked_at_first_stops_the_commit(
    project: Project, on_heal: str, args: Sequence[str]
) -> None:
    project.commit(TEST | {"prices.py": HEAD, ".selfheal.yaml": f"heal: {{on_heal: {on_heal}}}\n"})
    project.write({"prices.py": BUG})
    if not args:
        project.git("add", "prices.py")
    before = everything(project)

    done = commit(project, *args)

    assert done.returncode == 1
    assert "+    return sum(prices)" in done.stdout
    assert not list(project.path.glob(".git/*.lock*"))
    if on_heal == "review" and not args:  # in the others git takes the index away with the commit
        assert "a fix by the search engine is staged, and the commit stops for your review" in words(done.stdout)
        assert blob(project, ":prices.py") == project.worktree()["prices.py"] == FIXED.encode()
        assert everything(project)["refs"] == before["refs"]
        assert project.selfheal("undo").returncode == 0
    else:
        assert last_line(done.stdout).startswith("next: selfheal apply ")
    assert everything(project) == before
