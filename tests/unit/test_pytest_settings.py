from __future__ import annotations

import pytest

from heal_core.errors import EnvironmentFault
from heal_core.pytest_settings import FolderSettings, Settings, read_settings


def settings_of(**files: str) -> FolderSettings:
    """The root's settings for files whose names have __ for the dot."""
    return read_settings(tree({name.replace("__", "."): text for name, text in files.items()})).for_path("x.py")


def tree(files: dict[str, str]) -> dict[str, bytes]:
    return {"x.py": b"", **{path: text.encode() for path, text in files.items()}}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.toml", '[pytest]\npython_files = ["check_*.py"]\n'),
        (".pytest.toml", '[pytest]\npython_files = ["check_*.py"]\n'),
        ("pytest.ini", "[pytest]\npython_files = check_*.py\n"),
        (".pytest.ini", "[pytest]\npython_files =\n    check_*.py\n"),
        ("pyproject.toml", '[tool.pytest]\npython_files = ["check_*.py"]\n'),
        ("pyproject.toml", '[tool.pytest.ini_options]\npython_files = "check_*.py"\n'),
        ("tox.ini", "[tox]\nenvlist = py\n[pytest]\npython_files = check_*.py\n"),
        ("setup.cfg", "[metadata]\nname = %(x)s\n[tool:pytest]\npython_files = check_*.py\n"),
    ],
)
def test_every_kind_of_settings_file_is_read(name: str, text: str) -> None:
    settings = read_settings(tree({name: text})).for_path("x.py")
    assert settings.python_files == ("check_*.py",)
    assert settings.source == name


def test_within_one_folder_the_first_file_in_pytests_order_wins() -> None:
    pyproject = '[tool.pytest.ini_options]\npython_files = "p_*.py"\n'
    assert settings_of(pyproject__toml=pyproject, tox__ini="[pytest]\npython_files = t_*.py").python_files == (
        "p_*.py",
    )
    assert settings_of(pyproject__toml=pyproject, pytest__ini="[pytest]\n").source == "pytest.ini"


def test_an_empty_pytest_ini_counts_but_a_pyproject_without_the_table_does_not() -> None:
    assert settings_of(pytest__ini="").source == "pytest.ini"
    found = settings_of(pyproject__toml='[project]\ndependencies = ["pytest"]\n', setup__cfg="[tool:pytest]\n")
    assert found.source == "setup.cfg"


def test_the_nearest_folder_with_settings_decides() -> None:
    settings = read_settings(
        tree(
            {
                "pyproject.toml": '[tool.pytest.ini_options]\npython_files = ["root_*.py"]\n',
                "packages/pricing/pytest.ini": "[pytest]\npythonpath = src ../shared .\n",
                "packages/pricing/tests/test_x.py": "",
                "packages/other/pyproject.toml": "[project]\n",
                "packages/other/x.py": "",
            }
        )
    )
    assert settings.for_path("packages/pricing/tests/test_x.py").rootdir == "packages/pricing"
    assert settings.for_path("packages/pricing/tests/test_x.py").pythonpath == (
        "packages/pricing/src",
        "packages/shared",
        "packages/pricing",
    )
    assert settings.for_path("packages/other/x.py").python_files == ("root_*.py",)
    assert settings.for_path("packages/other/x.py").rootdir == ""


def test_without_settings_the_defaults_hold_at_the_root() -> None:
    assert Settings().for_path("a/b.py") == FolderSettings()
    assert Settings().is_test_file("a/test_b.py")
    assert Settings().is_test_file("a/b_test.py")
    assert not Settings().is_test_file("a/latest.py")
    assert not Settings().is_test_file("a/test_b.txt")


def test_paths_that_leave_the_repository_are_left_out() -> None:
    assert settings_of(pytest__ini="[pytest]\npythonpath = ../up /abs . ..dots lib/\n").pythonpath == (
        "",
        "..dots",
        "lib",
    )


def test_a_pattern_with_a_slash_is_held_against_the_whole_path() -> None:
    settings = settings_of(pytest__ini="[pytest]\npython_files = checks/*.py\n")
    assert settings.is_test_file("app/checks/views.py")
    assert settings.is_test_file("checks/views.py")
    assert not settings.is_test_file("app/views.py")


def test_files_in_folders_that_pytest_does_not_enter_are_no_tests() -> None:
    settings = settings_of(pytest__ini="[pytest]\nnorecursedirs = data tests/samples\n")
    assert not settings.is_test_file("tests/data/test_a.py")
    assert not settings.is_test_file("tests/samples/deep/test_a.py")
    assert settings.is_test_file("tests/test_a.py")
    assert not FolderSettings().is_test_file(".venv/lib/test_a.py")


def test_the_rootdir_and_a_testpath_are_entered_whatever_they_are_called() -> None:
    assert FolderSettings(rootdir="build/pkg").is_test_file("build/pkg/test_a.py")
    assert FolderSettings(testpaths=("build",)).is_test_file("build/test_a.py")


@pytest.mark.parametrize("addopts", ['"-q --doctest-modules"', '["-q", "--doctest-modules"]'])
def test_doctests_are_on_when_addopts_says_so(addopts: str) -> None:
    assert settings_of(pyproject__toml=f"[tool.pytest.ini_options]\naddopts = {addopts}\n").doctest_modules
    assert not settings_of(pyproject__toml='[tool.pytest.ini_options]\naddopts = "-q"\n').doctest_modules


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options\n"),
        ("pyproject.toml", "[tool]\npytest = 3\n"),
        ("pytest.toml", "pytest = 3\n"),
        ("setup.cfg", "no section\n[tool:pytest]\n"),
        ("pytest.ini", "[pytest]\npython_files = 'open\n"),
        ("tox.ini", "[pytest]\n# \udcff\n"),
    ],
)
def test_a_file_that_does_not_parse_is_named(name: str, text: str) -> None:
    files = {"sub/x.py": b"", f"sub/{name}": text.encode("utf-8", "surrogateescape")}
    with pytest.raises(EnvironmentFault, match=f"sub/{name}"):
        read_settings(files)


def test_a_broken_file_that_is_not_about_pytest_or_has_no_python_below_it_is_not_read() -> None:
    files = {"x.py": b"", "pyproject.toml": b"[broken", "data/pyproject.toml": b"[tool.pytest.ini_options"}
    assert read_settings(files) == Settings()
