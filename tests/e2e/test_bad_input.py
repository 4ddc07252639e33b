"""Whatever the surroundings, the files or the model's server do wrong: one clear sentence, the status, what to do next,
and nothing changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from projects import AREA_BUG, AREA_FILES, SELFHEAL, TOTAL_BUG, TOTAL_FILES, Project, run
from scripted_server import Step, failing, reply, serving
from states import KEY, everything

CHECKOUT = Path(__file__).parent.parent.parent
CONFIG = ".selfheal.yaml"
LLM = {CONFIG: "llm: {model: scripted}\n"}
CORRECT = f"correct {CONFIG}"
NO_TREE = "is not in a git working tree", "cd into the repository"


@dataclass(frozen=True)
class Bad:
    """What is wrong, and what selfheal makes of it.

    `setup` is done on a project with a healable bug staged. `words` must stand in what is printed, `step` is how the
    line after `next: ` begins ("" for no such line).
    """

    setup: Callable[[Project], object]
    status: int
    words: str
    step: str
    args: str = "run"
    env: Mapping[str, str] = field(default_factory=dict)
    folder: str = "."


def nothing(project: Project) -> None:
    """All is well with the project itself."""


def config(content: str | bytes) -> Callable[[Project], object]:
    return lambda project: project.write({CONFIG: content})


def bare(project: Project) -> None:
    run(["git", "init", "-q", "--bare", "bare.git"], project.path)


def outside(project: Project) -> None:
    (project.path.parent / "elsewhere").mkdir()


def nothing_staged(project: Project) -> None:
    project.git("commit", "-q", "--no-verify", "-m", "All of it")


def without_commits(project: Project) -> None:
    shutil.rmtree(project.path / ".git")
    run(["git", "init", "-q"], project.path)


def unmerged(project: Project) -> None:
    project.git("commit", "-q", "--no-verify", "-m", "Here")
    project.git("switch", "-q", "-c", "side", "HEAD~")
    project.commit({"prices.py": "# side\n"})
    project.run("git", "merge", "main")


def user_config(content: str) -> Callable[[Project], object]:
    def write(project: Project) -> None:
        folder = Path(os.environ["HOME"], ".config", "selfheal")
        folder.mkdir(parents=True)
        (folder / "selfheal.yaml").write_text(content)

    return write


BAD = {
    "not a repository": Bad(outside, 2, *NO_TREE, folder="../elsewhere"),
    "a bare repository": Bad(bare, 2, *NO_TREE, folder="bare.git"),
    "the git directory": Bad(nothing, 2, *NO_TREE, folder=".git"),
    "no git": Bad(nothing, 2, "git is not on PATH", "install git", env={"PATH": "/nonexistent"}),
    "nothing staged": Bad(nothing_staged, 0, "nothing is staged", ""),
    "nothing staged before the first commit": Bad(without_commits, 0, "nothing is staged", ""),
    "unmerged paths": Bad(unmerged, 2, "The index has unmerged paths", "resolve them"),
    "a broken index": Bad(
        lambda p: p.write({".git/broken": "x"}), 2, "index", "", env={"GIT_INDEX_FILE": ".git/broken"}
    ),
    "source that is not UTF-8": Bad(
        lambda p: p.stage({"prices.py": b"# caf\xe9\n" + TOTAL_BUG["prices.py"].encode()}),
        1,
        "prices.py is not text in its declared encoding",
        "mend it",
    ),
    "source with a NUL": Bad(
        lambda p: p.stage({"prices.py": b"x = 1\0\n" + TOTAL_BUG["prices.py"].encode()}), 1, "null byte", "mend it"
    ),
    "source beyond healing": Bad(
        lambda p: p.stage({"prices.py": "def total(prices:\n  )) ]] return {{ sum\n" * 9}), 1, "SyntaxError", "mend it"
    ),
    "a configuration that is not YAML": Bad(config("heal: [\n"), 2, f"{CONFIG} is not YAML", CORRECT),
    "a configuration that is a list": Bad(config("- heal\n"), 2, f"{CONFIG} must hold sections", CORRECT),
    "a configuration that is a number": Bad(config("3\n"), 2, f"{CONFIG} must hold sections", CORRECT),
    "a section that is a number": Bad(config("heal: 3\n"), 2, "heal must hold keys, not 3", CORRECT),
    "an unknown key": Bad(config("heal: {max_atempts: 3}\n"), 2, "did you mean heal.max_attempts?", CORRECT),
    "an unknown section": Bad(config("heel: {max_attempts: 3}\n"), 2, "did you mean heal?", CORRECT),
    "a key that is no word": Bad(config("heal: {[1]: 3}\n"), 2, f"{CONFIG} is not YAML", CORRECT),
    "a value of the wrong type": Bad(
        config("heal: {max_attempts: many}\n"), 2, "heal.max_attempts: expected `int`, got `str`", CORRECT
    ),
    "a value that is none of the words": Bad(
        config("heal: {engines: [magic]}\n"), 2, "heal.engines[0]: invalid enum value 'magic'", CORRECT
    ),
    "a configuration that is a folder": Bad(
        lambda p: (p.path / CONFIG).mkdir(), 2, f"{CONFIG} cannot be read", CORRECT
    ),
    "a configuration that is not UTF-8": Bad(config(b"\xff\xfe"), 2, f"{CONFIG} cannot be read", CORRECT),
    "a configuration with a control character": Bad(config("\x00"), 2, f"{CONFIG} is not YAML", CORRECT),
    "a configuration with a list as a key": Bad(config("? [1]\n: 2\n"), 2, CONFIG, CORRECT),
    "the user's configuration": Bad(
        user_config("heal: {max_atempts: 3}\n"),
        2,
        "selfheal/selfheal.yaml: heal.max_atempts is not a key of selfheal; did you mean heal.max_attempts?",
        "correct /",
    ),
    "a value in the user's configuration": Bad(
        user_config("heal: {max_attempts: many}\n"),
        2,
        "selfheal/selfheal.yaml: heal.max_attempts: expected",
        "correct /",
    ),
    "a value given with --set": Bad(
        nothing,
        2,
        "expected `int`, got `str`",
        "correct --set heal.max_attempts=many",
        "run --set heal.max_attempts=many",
    ),
    "--set without a value": Bad(
        nothing, 2, "--set heal.max_attempts has no value", "write", "run --set heal.max_attempts"
    ),
    "--set with an empty value": Bad(
        nothing, 2, "heal.max_attempts: expected `int`", "correct --set", "run --set heal.max_attempts="
    ),
    "--set of nothing": Bad(nothing, 2, "is not a key of selfheal", "correct --set", "run --set =3"),
    "--set of an unknown key": Bad(nothing, 2, "did you mean llm.model?", "correct --set", "run --set llm.modell=x"),
    "--set of a whole section": Bad(nothing, 2, "heal must hold keys, not 3", "correct --set", "run --set heal=3"),
    "--set with nothing behind it": Bad(nothing, 2, "expected one argument", "selfheal run --help", "run --set"),
    "an unknown command": Bad(nothing, 2, "There is no command 'rnu'", "selfheal --help", "rnu"),
    "an unknown option": Bad(nothing, 2, "--no-such-option", "selfheal run --help", "run --no-such-option"),
    "an unknown option without a command": Bad(
        nothing, 2, "--no-such-option", "selfheal run --help", "--no-such-option"
    ),
    "an unknown word": Bad(nothing, 2, "prices.py", "selfheal run --help", "run prices.py"),
    "an unknown format": Bad(nothing, 2, "invalid choice: 'xml'", "selfheal run --help", "run --format xml"),
    "an unknown option of apply": Bad(nothing, 2, "--all", "selfheal apply --help", "apply --all"),
    "tests.python that is none": Bad(
        nothing,
        2,
        "tests.python is nowhere, which is not a program",
        "correct tests.python",
        "run --set tests.python=nowhere",
    ),
}


def assert_clear(done: subprocess.CompletedProcess[str], status: int, words: str, step: str) -> None:
    """The exit status, the sentence, the next step as the last line, and no traceback."""
    assert done.returncode == status, done.stdout
    assert "Traceback" not in done.stdout
    assert done.stdout.startswith("selfheal: "), done.stdout
    assert words in " ".join(done.stdout.split())
    last = done.stdout.rstrip("\n").rpartition("\n")[2]
    assert last.startswith(f"next: {step}") if step else not last.startswith("next:"), done.stdout


@pytest.mark.parametrize("name", BAD)
def test_bad_surroundings_files_and_options_are_named(project: Project, name: str) -> None:
    bad = BAD[name]
    project.commit(TOTAL_FILES)
    project.stage(TOTAL_BUG)
    bad.setup(project)
    before = everything(project)

    done = run([*SELFHEAL, *bad.args.split()], project.path / bad.folder, {**project.environ, **bad.env})

    assert_clear(done, bad.status, bad.words, bad.step)
    assert everything(project) == before


def test_a_project_without_pytest_is_told_where_it_was_looked_for(project: Project, tmp_path: Path) -> None:
    """selfheal in an environment of its own that has no pytest either, as pre-commit makes one."""
    own, programs = tmp_path / "own", tmp_path / "bin"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", own], check=True)
    next(own.glob("lib/python3*/site-packages")).joinpath("selfheal.pth").write_text(f"{CHECKOUT}\n")
    programs.mkdir()
    (programs / "git").symlink_to(str(shutil.which("git")))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", project.path / ".venv"], check=True)
    project.commit(TOTAL_FILES)
    project.stage(TOTAL_BUG)
    before = everything(project)

    done = run([own / "bin" / "python", *SELFHEAL[1:]], project.path, {"PATH": str(programs)})

    assert_clear(done, 2, "No interpreter with pytest was found for this project", "install pytest in the project's")
    words = " ".join(done.stdout.split())
    assert f".venv: no pytest for {project.path}/.venv/bin/python" in words
    assert f"selfheal's own environment: no pytest for {own}/bin/python" in words
    assert everything(project) == before


# -- the model and its server ---------------------------------------------------------------------------------------


def area(project: Project, files: Mapping[str, str]) -> dict[str, object]:
    """A bug that only a model heals, staged; the state of the project."""
    project.commit({**AREA_FILES, **files})
    project.stage(AREA_BUG)
    return everything(project)


def test_without_an_llm_block_the_offline_engine_runs_and_the_report_says_what_to_write(project: Project) -> None:
    before = area(project, {})

    with serving() as server:
        done = project.selfheal(env={"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY})

    assert_clear(done, 1, "write into .selfheal.yaml: llm: {model: NAME}", "mend it")
    assert "search engine" in done.stdout
    assert server.requests == []
    assert everything(project) == before


@pytest.mark.parametrize(
    ("env", "words", "step"),
    [
        ({"OPENAI_BASE_URL": "http://192.0.2.1/v1"}, "OPENAI_API_KEY is not set", "export OPENAI_API_KEY"),
        ({"OPENAI_BASE_URL": ""}, "no key for api.openai.com: OPENAI_API_KEY is not set", "export OPENAI_API_KEY"),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, "127.0.0.1:1 cannot be reached", "start the model's server"),
        ({"OPENAI_BASE_URL": "file:///etc/passwd"}, "llm.base_url is not an http address", "write it as http"),
        ({"OPENAI_BASE_URL": "127.0.0.1:1"}, "llm.base_url is not an http address", "write it as http"),
    ],
)
def test_a_server_that_cannot_be_asked_is_named(
    project: Project, env: Mapping[str, str], words: str, step: str
) -> None:
    before = area(project, LLM)

    done = project.selfheal("run", "--set", "heal.engines=llm", env=env)

    assert_clear(done, 1, words, step)
    assert "tests/test_shapes.py::test_area" in done.stdout
    assert everything(project) == before


QUOTA = {"code": "insufficient_quota", "type": "insufficient_quota"}
BLOCK = "{}\n<<<<<<< SEARCH\n{}\n=======\n{}\n>>>>>>> REPLACE\n"
MEND = "mend it"


@pytest.mark.parametrize(
    ("step", "words", "then"),
    [
        pytest.param(failing(401, "Bad key"), "does not accept the key in OPENAI_API_KEY", "export", id="401"),
        pytest.param(failing(429, "No quota", **QUOTA), "the quota at 127.0.0.1:", "add credit", id="429, no quota"),
        pytest.param(failing(500, "Oh no"), "answered 500: Oh no", "commit again a little later", id="500"),
        pytest.param(failing(404, "No model"), "knows no model scripted", "set llm.model", id="404"),
        pytest.param(
            Step(b"<html>Sign in</html>", headers={"Content-Type": "text/html"}),
            "did not answer with a JSON object",
            "check llm.base_url",
            id="HTML",
        ),
        pytest.param(Step(b"{}"), "answered without a choice", "check llm.base_url", id="an empty object"),
        pytest.param(reply(""), "the reply was empty", MEND, id="an empty reply"),
        pytest.param(reply("CANNOT FIX: it is art."), "the model gives up: it is art.", MEND, id="it gives up"),
        pytest.param(
            reply(BLOCK.format("tests/test_shapes.py", "    assert area(3, 4) == 12", "    assert True")),
            "tests/test_shapes.py",
            MEND,
            id="a test",
        ),
        pytest.param(reply(BLOCK.format("../x.py", "x = 1", "x = 2")), "../x.py", MEND, id="outside"),
        pytest.param(reply(BLOCK.format(".git/hooks/x", "", "x = 2")), ".git/hooks/x", MEND, id="a git hook"),
        pytest.param(reply(BLOCK.format("/tmp/x.py", "", "x = 2")), "/tmp/x.py", MEND, id="an absolute path"),
        pytest.param(reply(BLOCK.format("new.py", "", "x = 2")), "new.py", MEND, id="a new file"),
        pytest.param(reply(BLOCK.format("other.py", "x = 1", "x = 2")), "other.py", MEND, id="a file not staged"),
    ],
)
def test_a_server_or_model_that_answers_badly_is_named(project: Project, step: Step, words: str, then: str) -> None:
    project.write({"../x.py": "x = 1\n"})
    before = area(project, {**LLM, "other.py": "x = 1\n"})

    settings = ["--set", "heal.engines=llm", "--set", "heal.max_attempts=1"]
    with serving(step, repeat_last=True) as server:
        done = project.selfheal("run", *settings, env={"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY})

    assert server.requests
    assert_clear(done, 1, words, then)
    assert KEY not in done.stdout
    assert everything(project) == before
    assert (project.path.parent / "x.py").read_text() == "x = 1\n"
    assert not (project.path / ".git" / "hooks" / "x").exists()


def test_a_problem_is_one_json_object_where_json_was_asked_for(project: Project) -> None:
    project.commit({"a.py": "x = 1\n"})
    project.stage({"a.py": "x = 2\n", ".selfheal.yaml": "heal: {max_atempts: 1}\n"})

    done = project.selfheal("run", "--format", "json")

    assert done.returncode == 2
    judged = json.loads(done.stdout)
    assert (judged["outcome"], judged["exit"]) == ("BROKEN", 2)
    assert "heal.max_attempts" in judged["problem"]
    assert judged["next"]


def test_a_current_directory_that_is_gone_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()

    done = run(["sh", "-c", f"cd gone && rmdir ../gone && {' '.join(SELFHEAL)} run"], tmp_path)

    assert done.returncode == 2
    assert done.stdout == "selfheal: The current directory does not exist any more.\nnext: cd into the repository\n"
