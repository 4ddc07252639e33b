from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from heal_core.pytest_settings import read_settings
from heal_core.selection import Selection, select

DOCTESTS = {"pytest.ini": "[pytest]\naddopts = --doctest-modules\n"}


def chosen(files: Mapping[str, str], changed: Sequence[str], removed: Sequence[str] = ()) -> Selection:
    content = {path: text.encode() for path, text in files.items()}
    return select(changed, removed, content, read_settings(content))


def reasons(selection: Selection) -> dict[str, tuple[str, ...]]:
    return {test.path: test.reasons for test in selection.tests}


def test_nothing_staged_chooses_nothing() -> None:
    assert chosen({"test_a.py": ""}, []) == Selection((), ())


def test_a_changed_test_runs() -> None:
    assert reasons(chosen({"test_a.py": "", "test_b.py": ""}, ["test_a.py"])) == {"test_a.py": ("changed",)}


def test_tests_that_import_a_changed_module_run_the_closest_first() -> None:
    files = {
        "app/views.py": "",
        "app/urls.py": "import app.views",
        "app/main.py": "from app import urls",
        "tests/test_a_far.py": "import app.main",
        "tests/test_b_near.py": "import app.urls",
        "tests/test_c_direct.py": "import app.views",
        "tests/test_other.py": "import app.nothing",
    }
    selection = chosen(files, ["app/views.py"])
    assert [(test.path, test.reasons) for test in selection.tests] == [
        ("tests/test_c_direct.py", ("imports app/views.py",)),
        ("tests/test_b_near.py", ("imports app/views.py via app/urls.py",)),
        ("tests/test_a_far.py", ("imports app/views.py via app/main.py, app/urls.py",)),
    ]
    assert selection.untested == ()


def test_a_changed_test_comes_first_and_names_the_changed_module_too() -> None:
    files = {"app.py": "", "test_a.py": "import app", "test_z.py": "import app"}
    selection = chosen(files, ["app.py", "test_z.py"])
    assert list(reasons(selection).items()) == [
        ("test_z.py", ("changed", "imports app.py")),
        ("test_a.py", ("imports app.py",)),
    ]


def test_a_changed_module_that_only_other_changed_modules_import_is_tested_through_them() -> None:
    files = {"low.py": "", "high.py": "import low", "test_it.py": "import high"}
    selection = chosen(files, ["low.py", "high.py"])
    assert reasons(selection) == {"test_it.py": ("imports high.py", "imports low.py via high.py")}
    assert selection.untested == ()


def test_the_rootdir_is_that_of_the_tests_own_settings() -> None:
    files = {
        "packages/pricing/pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\n',
        "packages/pricing/src/pricing/__init__.py": "",
        "packages/pricing/src/pricing/rates.py": "",
        "packages/pricing/tests/test_rates.py": "from pricing.rates import rate",
    }
    (test,) = chosen(files, ["packages/pricing/src/pricing/rates.py"]).tests
    assert (test.path, test.rootdir) == ("packages/pricing/tests/test_rates.py", "packages/pricing")


def test_the_projects_own_names_of_test_files_hold() -> None:
    files = {
        "pytest.ini": "[pytest]\npython_files = *_test.py tests.py\n",
        "a/__init__.py": "",
        "a/latest.py": "",
        "a/latest_test.py": "import a.latest",
        "a/test_no.py": "import a.latest",
    }
    selection = chosen(files, ["a/latest.py", "a/test_no.py"])
    assert reasons(selection) == {"a/latest_test.py": ("imports a/latest.py",)}
    assert selection.untested == ("a/test_no.py",)


def test_importers_of_a_removed_module_run_and_removed_tests_do_not() -> None:
    files = {"billing/vat.py": "", "tests/test_tax.py": "from billing.tax import vat"}
    selection = chosen(files, ["billing/vat.py"], ["billing/tax.py", "tests/test_old.py"])
    assert reasons(selection) == {"tests/test_tax.py": ("imports billing/tax.py",)}
    assert selection.untested == ("billing/vat.py",)


def test_a_changed_conftest_runs_every_test_below_it() -> None:
    files = {"tests/conftest.py": "", "tests/a/test_a.py": "", "tests/test_b.py": "", "tools/tests/test_slow.py": ""}
    selection = chosen(files, ["tests/conftest.py"])
    assert reasons(selection) == {
        "tests/a/test_a.py": ("below tests/conftest.py",),
        "tests/test_b.py": ("below tests/conftest.py",),
    }
    assert selection.untested == ()


def test_a_removed_conftest_runs_every_test_that_was_below_it() -> None:
    files = {"tests/test_b.py": "", "tools/test_c.py": ""}
    assert reasons(chosen(files, [], ["tests/conftest.py"])) == {"tests/test_b.py": ("below tests/conftest.py",)}


def test_what_a_conftest_imports_affects_the_tests_below_it() -> None:
    files = {"app.py": "", "tests/conftest.py": "import app", "tests/test_a.py": "", "test_b.py": ""}
    assert reasons(chosen(files, ["app.py"])) == {"tests/test_a.py": ("imports app.py via tests/conftest.py",)}


def test_a_changed_init_affects_who_imports_anything_of_the_package() -> None:
    files = {"app/__init__.py": "x = 1", "app/views.py": "", "test_a.py": "import app.views", "app/test_b.py": ""}
    assert reasons(chosen(files, ["app/__init__.py"])) == {
        "app/test_b.py": ("below app/__init__.py",),
        "test_a.py": ("imports app/__init__.py",),
    }


def test_a_source_that_does_not_parse_is_found_by_its_importers_and_by_its_own_imports() -> None:
    files = {"a.py": "x = {", "b.py": "import c\ndef f(:", "c.py": "", "test_1.py": "import a", "test_2.py": "import b"}
    assert set(reasons(chosen(files, ["a.py"]))) == {"test_1.py"}
    assert set(reasons(chosen(files, ["c.py"]))) == {"test_2.py"}


@pytest.mark.parametrize("name", ["test_report.py", "report_test.py", "test_old_report.py", "test_reports.py"])
def test_a_module_that_no_test_imports_is_tested_by_name(name: str) -> None:
    files = {"tools/report.py": "", f"tests/{name}": "", "tests/test_other.py": ""}
    selection = chosen(files, ["tools/report.py"])
    assert reasons(selection) == {f"tests/{name}": ("named like tools/report.py",)}
    assert selection.untested == ()


def test_names_count_only_where_no_test_imports_the_module() -> None:
    files = {"report.py": "", "test_report.py": "", "test_all.py": "import report"}
    assert set(reasons(chosen(files, ["report.py"]))) == {"test_all.py"}


def test_the_exact_name_goes_before_a_part_of_it_and_the_nearest_before_the_rest() -> None:
    files = {
        "one/utils.py": "",
        "one/tests/test_utils.py": "",
        "one/tests/test_utils_more.py": "",
        "two/tests/test_utils.py": "",
    }
    assert set(reasons(chosen(files, ["one/utils.py"]))) == {"one/tests/test_utils.py"}


def test_of_a_mirrored_tree_the_folder_of_the_same_name_is_nearest() -> None:
    files = {"src/web/io.py": "", "tests/web/test_io.py": "", "tests/cli/test_io.py": "", "tests/test_iota.py": ""}
    assert set(reasons(chosen(files, ["src/web/io.py"]))) == {"tests/web/test_io.py"}


def test_a_name_inside_another_word_is_no_likeness() -> None:
    selection = chosen({"io.py": "", "test_ratio.py": ""}, ["io.py"])
    assert selection == Selection((), ("io.py",))


def test_a_script_that_a_test_names_is_tested_by_it() -> None:
    files = {"büro/naïve calc.py": "", "tests/test_office.py": "PATH = ROOT / 'büro' / 'naïve calc.py'"}
    assert reasons(chosen(files, ["büro/naïve calc.py"])) == {"tests/test_office.py": ("mentions büro/naïve calc.py",)}


def test_sources_without_a_test_are_listed_in_the_order_of_the_change() -> None:
    files = {
        "setup.py": "",
        "docs/conf.py": "",
        "a/__init__.py": "",
        "b/__init__.py": "x = 1",
        "conftest.py": "",
        "a.txt": "",
    }
    changed = ["setup.py", "docs/conf.py", "a/__init__.py", "b/__init__.py", "conftest.py", "a.txt"]
    assert chosen(files, changed) == Selection((), ("setup.py", "docs/conf.py", "b/__init__.py"))


def test_a_data_file_runs_the_tests_that_name_it() -> None:
    files = {
        "data/rates.json": "",
        "app/load.py": "open('data/rates.json')",
        "tests/test_a.py": "import app.load",
        "tests/test_b.py": "# see rates.json.",
        "tests/test_c.py": "open('old_rates.json')",
    }
    assert reasons(chosen(files, ["data/rates.json"])) == {
        "tests/test_b.py": ("mentions data/rates.json",),
        "tests/test_a.py": ("imports app/load.py, which mentions data/rates.json",),
    }
    assert set(reasons(chosen(files, [], ["data/rates.json"]))) == {"tests/test_a.py", "tests/test_b.py"}


def test_a_data_file_that_a_conftest_names_runs_the_tests_below_it() -> None:
    files = {"tests/x y.csv": "", "tests/conftest.py": "open('x y.csv')", "tests/test_a.py": "", "test_b.py": ""}
    words = "below tests/conftest.py, which mentions tests/x y.csv"
    assert reasons(chosen(files, ["tests/x y.csv"])) == {"tests/test_a.py": (words,)}


def test_data_that_nothing_names_chooses_nothing() -> None:
    assert chosen({"README.md": "", "test_a.py": ""}, ["README.md"]) == Selection((), ())


def test_with_doctests_on_a_module_with_examples_is_a_test() -> None:
    files = {
        **DOCTESTS,
        "names.py": "'''\n>>> 1\n1\n'''",
        "user.py": "import names\n# >>> 1",
        "plain.py": "import names",
    }
    selection = chosen(files, ["names.py"])
    assert reasons(selection) == {"names.py": ("changed",), "user.py": ("imports names.py",)}
    assert selection.untested == ()
    assert chosen({"names.py": files["names.py"]}, ["names.py"]) == Selection((), ("names.py",))


def test_a_staged_link_counts_by_its_name_though_it_is_no_file() -> None:
    files = {"rates/__init__.py": "", "rates/v2.py": "", "tests/test_rates.py": "from rates.current import rate"}
    selection = chosen(files, ["rates/current.py", "rates/v2.py"])
    assert reasons(selection) == {"tests/test_rates.py": ("imports rates/current.py",)}
    assert selection.untested == ("rates/v2.py",)


class Unread(Mapping[str, bytes]):
    """Files that nobody may read."""

    def __getitem__(self, path: str) -> bytes:
        raise AssertionError(f"{path} was read")

    def __iter__(self) -> Iterator[str]:
        return iter(["a.py", "test_a.py", "data.json"])

    def __len__(self) -> int:
        return 3


def test_nothing_is_read_when_nothing_is_staged() -> None:
    assert select([], [], Unread(), read_settings(Unread())) == Selection((), ())
