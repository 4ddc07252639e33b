"""Whatever ends selfheal, whenever it does: index and working tree are as before, or `selfheal undo` makes them so."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from mounts import own_mounts
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
)
from scripted_server import reply, serving
from states import KEY, everything

from heal_core import record
from heal_core.patch import Patch, Rewrite

DRIVER = Path(__file__).parent.parent / "crash_driver.py"
LINES = "".join(f"# line {number}\n" for number in range(20))
BUG, FIXED, MINE = TOTAL_BUG["prices.py"] + LINES, TOTAL_FIXED + LINES, "# not staged\n"
TAX_BUG, TAX_FIXED = "def tax(sum):\n    return sums / 5\n" + LINES, "def tax(sum):\n    return sum / 5\n" + LINES
LLM = {".selfheal.yaml": "llm: {model: scripted}\n"}

# How placing comes about, and how many steps of it there are; a test below holds the numbers.
WAYS = {"by hand": 32, "commit": 32, "commit -a": 32, "commit prices.py shop/tax.py": 41}
UNDO_STEPS = 19


def steps(every: int = 1) -> list[Any]:
    return [
        pytest.param(way, step, id=f"{way}, step {step}")
        for way, count in WAYS.items()
        for step in range(1, count + 1, every)
    ]


# -- kill -9 --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory, project_python: Path) -> Path:
    """A repository with a patch of two files that waits for `selfheal apply`, and with a change beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        project = Project.create(tmp_path_factory.mktemp("proved") / "project", project_python)
        project.git("config", "user.name", "Dev Example")
        project.git("config", "user.email", "dev@example.com")
        project.commit({"prices.py": TOTAL_FILES["prices.py"] + LINES, "shop/tax.py": "", "other.py": "x = 1\n"})
    rewrites = (
        Rewrite("prices.py", BUG.encode(), FIXED.encode()),
        Rewrite("shop/tax.py", TAX_BUG.encode(), TAX_FIXED.encode()),
    )
    assert record.save(project.path / ".git" / "selfheal", Patch("search", "Two names.", rewrites), "of the test")
    return project.path


@pytest.fixture
def waiting(proved: Path, project_python: Path, tmp_path: Path) -> Project:
    """A copy of that repository."""
    return Project(Path(shutil.copytree(proved, tmp_path / "project", symlinks=True)), project_python)


def edit(project: Project, way: str, files: dict[str, str]) -> None:
    """The change, staged where the commit takes what is staged, and other work that is not to be committed."""
    project.write(files | {"notes.txt": "untracked\n"})
    if way in ("by hand", "commit"):
        project.git("add", "--", *files)
        project.write({name: text + MINE for name, text in files.items()} | {"other.py": "x = 2\n"})
    elif way != "commit -a":
        project.stage({"other.py": "x = 2\n"})


def driven(project: Project, way: str, step: int, *arguments: str) -> tuple[int, list[str]]:
    """`selfheal ARGUMENTS` killed before that step; its exit status or git's, and the steps that it came to."""
    journal = project.path.parent / "journal"
    driver = [sys.executable, str(DRIVER), str(step), str(journal), *arguments]
    if way == "by hand":
        status = project.run(*driver).returncode
    else:
        hook = project.path / ".git" / "hooks" / "pre-commit"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\nexec {' '.join(driver)}\n")
        hook.chmod(0o755)
        status = project.run("git", *way.split(), "-m", "Change").returncode
    return status, journal.read_text().splitlines()


def records(project: Project, phase: str) -> list[str]:
    """The heals on record that have come to that phase."""
    return [path.parent.name for path in project.path.glob(f".git/selfheal/heals/*/{phase}")]


def assert_undone(project: Project, before: dict[str, Any]) -> None:
    """A heal that was interrupted is told of, undo puts all back, and the repository can be worked with."""
    interrupted, on_record = records(project, "placing"), records(project, "plac*")
    told = " ".join(project.selfheal("run", "--set", "heal.engines=[]").stdout.split())
    assert (f"`selfheal undo {interrupted[0]}` puts all back" if interrupted else "") in told
    assert ("was interrupted" in told) == bool(interrupted)

    done = project.selfheal("undo")

    assert done.returncode == (0 if on_record else 2), done.stdout
    assert everything(project) == before
    assert not list(project.path.glob(".git/*.lock*"))
    assert not records(project, "plac*")
    project.git("add", "notes.txt")


@pytest.mark.parametrize("way", WAYS)
def test_the_steps_of_placing_are_those_that_are_tried(waiting: Project, way: str) -> None:
    edit(waiting, way, {"prices.py": BUG, "shop/tax.py": TAX_BUG})

    status, journal = driven(waiting, way, 0, "apply")

    assert status == 0
    assert len(journal) == WAYS[way], "\n".join(journal)
    assert waiting.staged("prices.py") == FIXED
    assert waiting.staged("shop/tax.py") == TAX_FIXED


@pytest.mark.parametrize(("way", "step"), steps())
def test_placing_that_is_killed_at_any_step_is_undone(waiting: Project, way: str, step: int) -> None:
    edit(waiting, way, {"prices.py": BUG, "shop/tax.py": TAX_BUG})
    before = everything(waiting)

    status, journal = driven(waiting, way, step, "apply")

    assert status != 0
    assert len(journal) == step
    assert_undone(waiting, before)


@pytest.mark.slow
@pytest.mark.parametrize(("way", "step"), [case for case in steps(every=3) if "shop" not in case.id])
def test_a_heal_that_is_killed_at_any_step_of_placing_is_undone(project: Project, way: str, step: int) -> None:
    test = {"tests/test_prices.py": TOTAL_FILES["tests/test_prices.py"]}
    project.commit(test | {"prices.py": TOTAL_FILES["prices.py"] + LINES, "other.py": "x = 1\n"})
    edit(project, way, {"prices.py": BUG})
    before = everything(project)

    status, journal = driven(project, way, step, "run")

    assert (status != 0) == (len(journal) == step)  # with one file instead of two, it has four steps less
    if status != 0:
        assert_undone(project, before)


@pytest.mark.parametrize("step", range(1, UNDO_STEPS + 1))
def test_undo_that_is_killed_at_any_step_is_done_by_another(waiting: Project, step: int) -> None:
    edit(waiting, "by hand", {"prices.py": BUG, "shop/tax.py": TAX_BUG})
    before = everything(waiting)
    assert waiting.selfheal("apply").returncode == 0

    status, journal = driven(waiting, "by hand", step, "undo")

    assert status == -signal.SIGKILL
    assert len(journal) == step
    assert waiting.selfheal("undo").returncode == 0
    assert everything(waiting) == before
    assert not list(waiting.path.glob(".git/*.lock*"))
    waiting.git("add", "notes.txt")


def test_the_steps_of_undo_are_those_that_are_tried(waiting: Project) -> None:
    edit(waiting, "by hand", {"prices.py": BUG, "shop/tax.py": TAX_BUG})
    assert waiting.selfheal("apply").returncode == 0

    status, journal = driven(waiting, "by hand", 0, "undo")

    assert status == 0
    assert len(journal) == UNDO_STEPS, "\n".join(journal)


def test_a_lock_of_gits_own_is_never_deleted_not_even_in_the_place_of_ours(waiting: Project) -> None:
    edit(waiting, "by hand", {"prices.py": BUG, "shop/tax.py": TAX_BUG})
    before = everything(waiting)
    driven(waiting, "by hand", WAYS["by hand"] - 2, "apply")
    lock = waiting.path / ".git" / "index.lock"
    assert waiting.run("git", "add", "notes.txt").returncode != 0
    lock.unlink()  # as git advises
    lock.write_bytes(b"")

    done = waiting.selfheal("undo")

    assert done.returncode == 1
    assert "another git process holds the index" in " ".join(done.stdout.split())
    assert lock.read_bytes() == b""
    lock.unlink()
    assert waiting.selfheal("undo").returncode == 0
    assert everything(waiting) == before


# -- full disks and files that cannot be written --------------------------------------------------------------------

HEALS = ".git/selfheal/heals"
FAULTS = {
    # what is mounted in a namespace of the commit's own, and the reason that is told
    "record": (f"mkdir -p {HEALS} && mount -t tmpfs -o size=4k none {HEALS}", "the recovery record could not be"),
    "worktree": (
        "cp -a shop ../kept && mount -t tmpfs -o size=4k none shop && cp -a ../kept/* shop/",
        "could not be written: No space left on device",
    ),
    # The record of one file takes five pages; the new index, which is written beside it, would be the sixth.
    "index": (f"mkdir -p {HEALS} && mount -t tmpfs -o size=20k none {HEALS}", "No space left on device"),
    "unwritable file": (
        "mount --bind shop/prices.py shop/prices.py && mount -o remount,bind,ro shop/prices.py",
        "could not be written: Device or resource busy",
    ),
}


@pytest.mark.parametrize("args", [[], ["-a"]], ids=["plain", "all"])
@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_written_stops_the_commit_and_nothing_changes(
    project: Project, tmp_path: Path, fault: str, args: Sequence[str]
) -> None:
    namespace = own_mounts()
    test = {"tests/test_prices.py": TOTAL_FILES["tests/test_prices.py"].replace("from prices", "from shop.prices")}
    project.commit(test | {"shop/prices.py": TOTAL_FILES["prices.py"]})
    project.write({"shop/prices.py": TOTAL_BUG["prices.py"]} | {"notes.txt": "untracked\n"})
    if not args:
        project.git("add", "shop/prices.py")
    project.install_hook()
    before = everything(project)
    mount, reason = FAULTS[fault]
    after = f"cp -a shop {HEALS} ../after; rm -rf ../after/heals/lock"
    script = f"mkdir ../after; {mount} && git commit -m Change {' '.join(args)}; status=$?; {after}; exit $status"

    done = project.run(*namespace, "sh", "-c", script)

    assert done.returncode == 1, done.stdout
    assert reason in " ".join(done.stdout.split())
    assert "+    return sum(prices)" in done.stdout
    assert everything(project) == before
    assert (tmp_path / "after" / "shop" / "prices.py").read_text() == TOTAL_BUG["prices.py"]
    assert len(list((tmp_path / "after").glob("shop/*"))) == 1
    assert not list((tmp_path / "after").glob("heals/*"))
    assert not list(project.path.glob(".git/*.lock*"))


# -- signals --------------------------------------------------------------------------------------------------------


def running(token: str) -> list[str]:
    """The command lines that hold the token, of every process there is."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
    return [words for words in found if token in words]


def wait_for(happened: Callable[[], object], seconds: float = 60) -> None:
    """Return once it has happened; fails the test when it has not within the time."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"did not happen within {seconds} s"
        time.sleep(0.02)


@contextlib.contextmanager
def started(project: Project, *argv: str | Path, **env: str) -> Iterator[subprocess.Popen[str]]:
    """A command in a process group of its own, its output as text in a pipe."""
    # One that is started with SIGINT ignored, as by `pytest &` in a script, would go on ignoring it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [str(word) for word in argv],
        cwd=project.path,
        env={**os.environ, **project.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    signal.signal(signal.SIGINT, before)
    with process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


SLEEPS = """import subprocess, sys

from prices import total


def test_total():
    subprocess.run([sys.executable, "-c", "import time; time.sleep(100)", "{token}"])
    assert total([1, 2]) == 3
"""
SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.mark.parametrize(("number", "status"), SIGNALS)
@pytest.mark.parametrize("to_group", [False, True], ids=["to selfheal", "to the process group"])
def test_a_signal_while_the_tests_run_ends_them_and_changes_nothing(
    project: Project, number: signal.Signals, status: int, to_group: bool
) -> None:
    token = uuid.uuid4().hex
    project.commit({"prices.py": TOTAL_FILES["prices.py"], "tests/test_prices.py": SLEEPS.format(token=token)})
    project.stage(TOTAL_BUG)
    before = everything(project)

    with started(project, *SELFHEAL) as process:
        wait_for(lambda: running(token))
        (os.killpg if to_group else os.kill)(process.pid, number)
        output = process.communicate(timeout=30)[0]

    assert process.returncode == status, output
    assert "selfheal: interrupted" in output
    assert "Traceback" not in output
    wait_for(lambda: not running(token), seconds=5)
    assert everything(project) == before
    assert not list(project.path.glob(".git/*.lock*"))


@pytest.mark.parametrize(("number", "status"), SIGNALS)
@pytest.mark.parametrize("to_group", [False, True], ids=["to selfheal", "to the process group"])
def test_a_signal_while_the_model_thinks_ends_the_run_and_changes_nothing(
    project: Project, number: signal.Signals, status: int, to_group: bool
) -> None:
    project.commit(AREA_FILES | LLM)
    project.stage(AREA_BUG)
    before = everything(project)

    with serving(reply(AREA_REPLY, delay=60)) as server:
        asked = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
        with started(project, *SELFHEAL, **asked) as process:
            wait_for(lambda: server.requests)
            (os.killpg if to_group else os.kill)(process.pid, number)
            output = process.communicate(timeout=30)[0]

    assert process.returncode == status, output
    assert "selfheal: interrupted" in output
    assert "Traceback" not in output
    assert everything(project) == before
    assert not list(project.path.glob(".git/*.lock*"))


@pytest.mark.parametrize("number", [number for number, _ in SIGNALS])
@pytest.mark.parametrize("args", [[], ["-a"], ["shapes.py"]], ids=["plain", "all", "path"])
def test_a_signal_to_the_whole_commit_while_the_model_thinks_leaves_no_lock(
    project: Project, number: signal.Signals, args: Sequence[str]
) -> None:
    project.commit(AREA_FILES | LLM)
    project.write(AREA_BUG)
    if not args:
        project.git("add", "shapes.py")
    project.install_hook()
    before = everything(project)

    with serving(reply(AREA_REPLY, delay=60)) as server:
        asked = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
        with started(project, "git", "commit", "-m", "Change", *args, **asked) as process:
            wait_for(lambda: server.requests)
            os.killpg(process.pid, number)
            output = process.communicate(timeout=30)[0]  # to the end of selfheal too, which holds the pipe

    assert process.returncode != 0, output
    assert everything(project) == before
    assert not list(project.path.glob(".git/*.lock*"))


# -- two at once, and a commit that is gone -------------------------------------------------------------------------


def test_a_second_selfheal_only_reports(project: Project) -> None:
    project.commit(AREA_FILES | LLM)
    project.stage(AREA_BUG)
    second: list[dict[str, Any]] = []

    with serving(reply(AREA_REPLY, meanwhile=lambda: second.append(project.judged()))) as server:
        asked = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
        first = project.judged(env=asked)

    assert [found["outcome"] for found in second] == ["NOT_PLACED"]
    assert "another selfheal is at work in this repository" in second[0]["problem"]
    assert (second[0]["exit"], second[0]["patch"], second[0]["attempts"]) == (1, None, [])
    assert first["outcome"] == "HEALED"
    assert len(server.requests) == 1
    assert project.staged("shapes.py") == AREA_FIXED


@pytest.mark.parametrize("command", ["undo", "apply"])
def test_nothing_is_written_while_another_selfheal_heals(project: Project, command: str) -> None:
    project.commit(TOTAL_FILES | AREA_FILES | LLM)
    project.stage(TOTAL_BUG)
    assert project.selfheal("run").returncode == 0
    project.stage(AREA_BUG)
    if command == "apply":
        patch = Patch("search", "", (Rewrite("shapes.py", AREA_BUG["shapes.py"].encode(), AREA_FIXED.encode()),))
        assert record.save(project.path / ".git" / "selfheal", patch, "of the test")
    other: list[subprocess.CompletedProcess[str]] = []

    with serving(reply(AREA_REPLY, meanwhile=lambda: other.append(project.selfheal(command)))) as server:
        asked = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
        healed = project.judged(env=asked)

    assert other[0].returncode == 1
    assert "another selfheal is at work in this repository" in other[0].stdout
    assert healed["outcome"] == "HEALED"
    assert (project.staged("shapes.py"), project.staged("prices.py")) == (AREA_FIXED, TOTAL_FIXED)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("args", [[], ["-a"], ["shapes.py"]], ids=["plain", "all", "path"])
def test_nothing_is_placed_for_a_commit_that_was_killed_meanwhile(
    project: Project, number: signal.Signals, args: Sequence[str]
) -> None:
    project.commit(AREA_FILES | LLM | {"other.py": "x = 1\n"})
    project.write(AREA_BUG)
    if not args:
        project.git("add", "shapes.py")
    project.install_hook()
    before = everything(project)
    commits: list[subprocess.Popen[str]] = []

    with serving(reply(AREA_REPLY, meanwhile=lambda: commits[0].send_signal(number))) as server:
        asked = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
        with started(project, "git", "commit", "-m", "Change", *args, **asked) as process:
            commits.append(process)
            output = process.communicate(timeout=60)[0]  # to the end of selfheal too, which holds the pipe

    assert process.returncode == -number
    assert "the git commit that this was for has ended" in " ".join(output.split())
    assert everything(project) == before
    # git takes its locks away on SIGTERM, and cannot on SIGKILL: those are its own, and not for us to delete.
    left = {"index.lock"} if args and number == signal.SIGKILL else set()
    left |= {f"next-index-{process.pid}.lock"} if args == ["shapes.py"] and left else set()
    assert {path.name for path in project.path.glob(".git/*.lock*")} == left
    assert records(project, "plac*") == []
