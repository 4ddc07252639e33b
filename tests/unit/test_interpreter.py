"""Finding the project's interpreter among real environments, from inside a hook's own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from heal_core.errors import EnvironmentFault
from heal_core.interpreter import Interpreter, find

BASE = Path(sys.base_prefix)


@pytest.fixture(scope="session")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real environment, from which others are copied."""
    folder = tmp_path_factory.mktemp("pattern") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder


class Machine:
    """A user's home, a repository in it, and environments wherever a test puts them."""

    def __init__(self, folder: Path, pattern: Path) -> None:
        self.home, self.pattern = folder / "home", pattern
        self.repository = self.home / "repository"
        self.own = self.environment(folder / "hook", pytest=False)
        self.repository.mkdir(parents=True)
        self.environ = {"HOME": str(self.home), "PATH": ""}
        self.tracked: Collection[str] = ()

    def environment(self, folder: Path, *, pytest: bool = True) -> Path:
        """An environment as `python -m venv --without-pip` makes it, with a folder in the place of pytest."""
        (folder / "bin").mkdir(parents=True)
        for link in sorted((self.pattern / "bin").glob("python*")):
            (folder / "bin" / link.name).symlink_to(os.readlink(link))
        (folder / "pyvenv.cfg").write_bytes((self.pattern / "pyvenv.cfg").read_bytes())
        (site := self.site(folder)).mkdir(parents=True)
        if pytest:
            (site / "pytest").mkdir()
        return folder

    def site(self, environment: Path) -> Path:
        """Its folder of installed packages."""
        return environment / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"

    def path(self, *environments: Path) -> None:
        """Put their programs on PATH."""
        self.environ["PATH"] = ":".join(f"{folder}/bin" for folder in environments)

    def find(self, configured: str | None = None) -> Interpreter:
        """What selfheal finds there."""
        return find(configured, self.environ, self.repository, self.own, lambda path: path in self.tracked)

    def found(self) -> tuple[Path, str]:
        """The environment of what it finds, and how it was found."""
        interpreter = self.find()
        return interpreter.program.parent.parent, interpreter.found_by

    def tried(self) -> str:
        """The message where it finds nothing."""
        with pytest.raises(EnvironmentFault) as error:
            self.find()
        return error.value.problem


@pytest.fixture
def machine(tmp_path: Path, pattern: Path) -> Machine:
    return Machine(tmp_path, pattern)


# -- the order -----------------------------------------------------------------------------------------------------


def test_what_the_user_activated_comes_before_what_lies_in_the_repository(machine: Machine) -> None:
    active = machine.environment(machine.home / "active")
    machine.environment(machine.repository / ".venv")
    machine.environ["VIRTUAL_ENV"] = str(active)

    assert machine.found() == (active, "VIRTUAL_ENV")


def test_uvs_own_variable_comes_first_and_is_relative_to_the_repository(machine: Machine) -> None:
    machine.environ |= {
        "UV_PROJECT_ENVIRONMENT": "build/env",
        "VIRTUAL_ENV": str(machine.environment(machine.home / "a")),
    }
    environment = machine.environment(machine.repository / "build" / "env")

    assert machine.found() == (environment, "UV_PROJECT_ENVIRONMENT")


@pytest.mark.parametrize("as_link", [False, True])
def test_selfheals_own_environment_which_pre_commit_activates_is_passed_over(machine: Machine, as_link: bool) -> None:
    """pre-commit overwrites VIRTUAL_ENV and puts its own folder first on PATH; the user's is a later entry."""
    own = machine.own
    if as_link:
        own = machine.home / "link"
        own.symlink_to(machine.own)
    active = machine.environment(machine.home / "active")
    machine.environ["VIRTUAL_ENV"] = str(own)
    machine.path(own, Path("/usr/lib/git-core"), active)

    assert machine.found() == (active, "an environment on PATH")


def test_an_environment_in_the_repository_is_found_with_nothing_activated(machine: Machine) -> None:
    machine.environment(machine.repository / "venv")
    environment = machine.environment(machine.repository / ".venv")

    assert machine.found() == (environment, ".venv")


def test_condas_environment_counts_but_not_its_base(machine: Machine) -> None:
    conda = machine.environment(machine.home / "conda")
    (conda / "pyvenv.cfg").unlink()
    machine.environ["CONDA_PREFIX"] = str(conda)

    assert machine.found() == (conda, "CONDA_PREFIX")
    machine.environ["CONDA_DEFAULT_ENV"] = "base"
    assert "CONDA_PREFIX" not in machine.tried()


def test_a_python_on_path_that_is_no_environment_is_found_after_those(machine: Machine) -> None:
    installation = machine.environment(machine.home / "opt")
    (installation / "pyvenv.cfg").unlink()
    machine.path(installation)

    assert machine.found() == (installation, "PATH")
    environment = machine.environment(machine.repository / "env")
    assert machine.found() == (environment, "env")


def test_selfheals_own_environment_is_the_last_resort_and_before_path_where_it_is_active(machine: Machine) -> None:
    """As when the user installed selfheal into the project's environment, or pre-commit pytest beside selfheal."""
    (machine.site(machine.own) / "pytest").mkdir()
    assert machine.found() == (machine.own, "selfheal's own environment")

    installation = machine.environment(machine.home / "opt")
    (installation / "pyvenv.cfg").unlink()
    machine.path(machine.own, installation)
    assert machine.found() == (installation, "PATH")

    machine.environ["VIRTUAL_ENV"] = str(machine.own)
    assert machine.found() == (machine.own, "selfheal's own environment")


def test_relative_and_empty_entries_of_path_are_passed_over(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.environment(machine.repository / "tools")
    monkeypatch.chdir(machine.repository)
    machine.environ["PATH"] = "tools/bin::."

    assert "tools" not in machine.tried()


# -- what is passed over -------------------------------------------------------------------------------------------


def test_an_environment_without_pytest_is_passed_over(machine: Machine) -> None:
    machine.environ["VIRTUAL_ENV"] = str(machine.environment(machine.home / "active", pytest=False))
    environment = machine.environment(machine.repository / ".venv")

    assert machine.found() == (environment, ".venv")


def test_the_pytest_of_the_base_counts_where_the_environment_shows_it(machine: Machine) -> None:
    base = machine.environment(machine.home / "base")
    (base / "pyvenv.cfg").unlink()
    environment = machine.environment(machine.repository / ".venv", pytest=False)
    settings = environment / "pyvenv.cfg"
    settings.write_text(f"home = {base}/bin\ninclude-system-site-packages = false\n")
    assert f"no pytest for {environment}/bin/python" in machine.tried()

    settings.write_text(f"home = {base}/bin\nInclude-System-Site-Packages = true\n")
    assert machine.found() == (environment, ".venv")


def test_a_pytest_that_a_pth_file_leads_to_counts(machine: Machine) -> None:
    environment = machine.environment(machine.repository / ".venv", pytest=False)
    (machine.home / "lib" / "pytest").mkdir(parents=True)
    (machine.site(environment) / "more.pth").write_text(f"# comment\nimport os\n{machine.home}/lib\n/no/such/folder\n")

    assert machine.found() == (environment, ".venv")


def test_a_version_managers_shim_is_passed_over(machine: Machine) -> None:
    shims = machine.environment(machine.home / ".pyenv" / "shims-of")
    for name in ("python", "python3"):
        (shims / "bin" / name).unlink()
        (shims / "bin" / name).write_text("#!/usr/bin/env bash\nexec pyenv exec python\n")
        (shims / "bin" / name).chmod(0o755)
    (shims / "pyvenv.cfg").unlink()
    machine.path(shims)

    assert f"PATH: no python in {shims}/bin" in machine.tried()


@pytest.mark.parametrize("what", ["a dangling link", "a folder", "not executable"])
def test_what_cannot_be_run_is_passed_over(machine: Machine, what: str) -> None:
    program = machine.environment(machine.repository / ".venv") / "bin" / "python"
    program.unlink()
    if what == "a dangling link":
        program.symlink_to("/no/such/python")
    elif what == "a folder":
        program.mkdir()
    else:
        program.write_bytes(b"\x7fELF")

    assert f".venv: no python in {program.parent}" in machine.tried()


# -- what git tracks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tracked", [".venv", "backend/.venv"])
def test_an_environment_that_git_tracks_is_refused(machine: Machine, tracked: str) -> None:
    environment = machine.environment(machine.repository / tracked)
    machine.environ["VIRTUAL_ENV"] = str(environment)
    assert machine.found()[0] == environment

    machine.tracked = [tracked]
    assert f"VIRTUAL_ENV: {tracked} is tracked by git, so it is not run" in machine.tried()


def test_an_environment_in_a_folder_with_tracked_files_beside_it_is_used(machine: Machine) -> None:
    machine.environ["VIRTUAL_ENV"] = str(machine.environment(machine.repository / "backend" / ".venv"))
    machine.tracked = ["backend", "backend/setup.py"]

    assert machine.find().found_by == "VIRTUAL_ENV"


def test_an_environment_that_a_link_outside_leads_to_is_refused_where_git_tracks_it(machine: Machine) -> None:
    machine.environment(machine.repository / "tools")
    link = machine.home / "link"
    link.symlink_to(machine.repository / "tools")
    machine.environ["VIRTUAL_ENV"] = str(link)
    machine.tracked = ["tools"]

    assert "VIRTUAL_ENV: tools is tracked" in machine.tried()


def test_an_environment_that_is_the_repository_itself_is_judged_by_its_own_files(machine: Machine) -> None:
    machine.repository.rmdir()
    machine.environment(machine.repository)
    machine.path(machine.repository)
    machine.tracked = ["", "."]
    assert machine.found() == (machine.repository, "an environment on PATH")

    for path in ("bin", "pyvenv.cfg"):
        machine.tracked = [path]
        assert f"{path} is tracked by git" in machine.tried()


def test_a_link_or_file_of_the_name_that_git_tracks_is_refused_wherever_it_leads(machine: Machine) -> None:
    elsewhere = machine.environment(machine.home / "elsewhere")
    machine.tracked = [".venv"]
    venv = machine.repository / ".venv"

    venv.symlink_to(elsewhere)
    assert ".venv is tracked by git" in machine.tried()
    venv.unlink()
    venv.write_text(str(elsewhere))
    assert ".venv is tracked by git" in machine.tried()


def test_the_program_that_a_committed_path_names_is_never_run_to_find_out(machine: Machine) -> None:
    program = machine.environment(machine.repository / ".venv") / "bin" / "python"
    program.unlink()
    program.write_bytes(b"\x7fELF" + b"\0" * 100)
    program.chmod(0o755)

    assert machine.find().program == program


# -- PEP 832 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["{}", "{}\n", "  {}  \n", "../elsewhere\n"])
def test_a_file_named_venv_may_name_the_environment(machine: Machine, line: str) -> None:
    elsewhere = machine.environment(machine.home / "elsewhere")
    (machine.repository / ".venv").write_text(line.format(elsewhere))

    found, by = machine.found()
    assert (found.resolve(), by) == (elsewhere, ".venv")


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"/no/such/folder", b"KEY=1\nOTHER=2\n", b"x" * 300, b"x" * 9000, b"\0\xff", b"/" * 5000],
    ids=["empty", "blank", "nowhere", "variables", "too long a name", "too long a path", "bytes", "slashes"],
)
@pytest.mark.parametrize("name", [".venv", "env"])
def test_a_file_of_that_name_with_anything_else_in_it_is_passed_over(
    machine: Machine, name: str, content: bytes
) -> None:
    (machine.repository / name).write_bytes(content)

    assert "No interpreter with pytest was found" in machine.tried()


# -- tests.python --------------------------------------------------------------------------------------------------


def test_what_the_configuration_names_is_used_whatever_else_there_is(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(machine.home))
    machine.environ["VIRTUAL_ENV"] = str(machine.environment(machine.home / "active"))
    named = machine.environment(machine.home / "named", pytest=False)
    machine.environment(machine.repository / "inside")

    for configured in (f"{named}/bin/python", "~/named/bin/python"):
        assert (machine.find(configured).program, machine.find(configured).found_by) == (
            named / "bin" / "python",
            "tests.python",
        )
    assert machine.find("inside/bin/python").program == machine.repository / "inside" / "bin" / "python"


@pytest.mark.parametrize("configured", ["no/such/python", ".venv", "notes.txt"])
def test_what_the_configuration_names_must_be_a_program(machine: Machine, configured: str) -> None:
    machine.environment(machine.repository / ".venv")
    (machine.repository / "notes.txt").write_text("notes")

    with pytest.raises(EnvironmentFault) as error:
        machine.find(configured)
    assert error.value.problem == f"tests.python is {configured}, which is not a program."


# -- what must be readable -----------------------------------------------------------------------------------------


def test_the_environment_and_the_installation_that_it_was_made_from_are_readable(machine: Machine) -> None:
    environment = machine.environment(machine.repository / ".venv")
    readable = machine.find().readable

    assert environment in readable
    program = Path(os.path.realpath(environment / "bin" / "python"))
    assert any(program.is_relative_to(folder) for folder in (*readable, Path("/usr")))
    assert any(Path(os.__file__).is_relative_to(folder) for folder in (*readable, Path("/usr")))


def test_what_pth_files_and_editable_installs_name_is_readable_but_not_the_repository(machine: Machine) -> None:
    environment = machine.environment(machine.home / "env")
    other, package, mapped = (
        machine.home / "other" / "src",
        machine.home / "third" / "src" / "third",
        machine.repository / "src",
    )
    for folder in (other, package, mapped):
        folder.mkdir(parents=True)
    alias = machine.home / "alias"
    alias.symlink_to(machine.repository)
    (machine.site(environment) / "__editable__.other.pth").write_text(f"{other}\n")
    (machine.site(environment) / "repository.pth").write_text(f"{mapped}\n{machine.repository}\n{alias}/src\n")
    finder = f"MAPPING: dict[str, str] = {{'third': '{package}', 'gone': '/no/such', 'mine': '{mapped}'}}\n"
    (machine.site(environment) / "__editable___third_1_0_finder.py").write_text(finder)
    machine.environ["VIRTUAL_ENV"] = str(environment)
    readable = machine.find().readable

    assert {other, package} <= set(readable)
    assert not any(folder.resolve().is_relative_to(machine.repository) for folder in readable)


def test_a_link_in_a_folder_of_many_things_makes_the_link_readable_and_not_the_folder(machine: Machine) -> None:
    local = machine.home / ".local"
    (local / "bin").mkdir(parents=True)
    (local / "bin" / "python").symlink_to(machine.pattern / "bin" / "python")
    readable = machine.find(str(local / "bin" / "python")).readable

    assert local / "bin" / "python" in readable
    assert local not in readable


BROAD: dict[str, Callable[[Machine], object]] = {
    "a program in ~/bin": lambda m: _link(m.home / "bin" / "python", m.pattern),
    "a .pth that names the home": lambda m: (m.site(m.environment(m.repository / ".venv")) / "x.pth").write_text(
        f"{m.home}\n{m.home.parent}\n/\n"
    ),
    "a base in ~/bin": lambda m: (m.environment(m.repository / ".venv") / "pyvenv.cfg").write_text(
        f"home = {m.home}/bin\n"
    ),
    "an environment that is the home": lambda m: m.environment(m.home),
    "a link to the home": lambda m: _link_home(m, _link(m.home / "bin" / "python", m.pattern)),
    "a base at the root": lambda m: (m.environment(m.repository / ".venv") / "pyvenv.cfg").write_text("home = /bin\n"),
}


def _link(program: Path, pattern: Path) -> Path:
    program.parent.mkdir(parents=True, exist_ok=True)
    program.symlink_to(os.path.realpath(pattern / "bin" / "python"))
    return program


def _link_home(machine: Machine, program: Path) -> None:
    assert program.exists()
    (machine.home / "self").symlink_to(machine.home)


@pytest.mark.parametrize("make", BROAD.values(), ids=BROAD)
def test_nothing_that_holds_the_home_folder_is_ever_readable(
    machine: Machine, make: Callable[[Machine], object]
) -> None:
    make(machine)
    places = [machine.home, machine.home / "self", machine.repository / ".venv", machine.own]
    programs = [place / "bin" / "python" for place in places if (place / "bin" / "python").exists()]
    for program in programs:
        readable = machine.find(str(program)).readable
        assert not any(machine.home.is_relative_to(folder.resolve()) for folder in readable), readable
        assert all(folder.exists() for folder in readable)


@pytest.mark.parametrize("folder", ["/bin", "/usr/bin"])
def test_of_the_systems_own_python_nothing_more_need_be_readable(machine: Machine, folder: str) -> None:
    program = Path(folder, "python3")
    if not program.exists():
        pytest.skip(f"there is no {program} on this machine")

    assert all(not path.is_relative_to("/usr") and path != Path("/") for path in machine.find(str(program)).readable)
    assert machine.find(str(program)).readable == ()


# -- what is said --------------------------------------------------------------------------------------------------


def test_where_nothing_fits_the_message_lists_every_place_that_was_tried(machine: Machine) -> None:
    active = machine.environment(machine.home / "active", pytest=False)
    on_path = machine.environment(machine.home / "on-path", pytest=False)
    machine.environment(machine.repository / ".venv")
    machine.environment(machine.repository / "venv", pytest=False)
    machine.environ |= {"VIRTUAL_ENV": str(active), "CONDA_PREFIX": "/no/such/conda", "UV_PROJECT_ENVIRONMENT": "uv"}
    machine.path(on_path)
    machine.tracked = [".venv"]

    assert re.findall(r"[(;] ?(.*?)(?=[;)])", machine.tried()) == [
        f"UV_PROJECT_ENVIRONMENT: no python in {machine.repository}/uv/bin",
        f"VIRTUAL_ENV: no pytest for {active}/bin/python",
        f"an environment on PATH: no pytest for {on_path}/bin/python",
        ".venv: .venv is tracked by git, so it is not run",
        f"venv: no pytest for {machine.repository}/venv/bin/python",
        "CONDA_PREFIX: no python in /no/such/conda/bin",
        f"PATH: no pytest for {on_path}/bin/python3",
        f"PATH: no pytest for {on_path}/bin/python",
        f"selfheal's own environment: no pytest for {machine.own}/bin/python",
    ]
    with pytest.raises(EnvironmentFault) as error:
        machine.find()
    assert "tests.python=" in error.value.advice
