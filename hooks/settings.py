"""Where a run's settings come from: the options of the command line, the configuration files, the environment."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from heal_core import config, trust
from heal_core.config import Config
from heal_core.errors import ConfigError, HealError

REPOSITORY_FILE = ".selfheal.yaml"
USER_FILE = Path("selfheal", "selfheal.yaml")


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration, and what the user is to know of how it came about."""

    config: Config
    notes: tuple[str, ...]


class Parser(argparse.ArgumentParser):
    """Options of one command; what cannot be read is worded as every other problem is."""

    def error(self, message: str) -> NoReturn:
        """Raise HealError with the sentence that argparse made."""
        raise HealError(f"{self.prog}: {message}.", f"{self.prog} --help")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that every command has."""
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="override a key of the configuration, by its path",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to print the report")
    parser.add_argument("--quiet", action="store_true", help="print nothing when the commit may go on unchanged")


def read(toplevel: Path, environ: Mapping[str, str], overrides: Sequence[str]) -> Settings:
    """The settings for the repository at `toplevel`. Raises ConfigError."""
    user = _keys(user_file(environ), str(user_file(environ)))
    repository = _keys(toplevel / REPOSITORY_FILE, REPOSITORY_FILE)
    kept, notes = trusted(repository)
    return Settings(config.load(user, kept, overrides), notes)


def trusted(repository: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The repository's keys without those that only the user may set, and a sentence on each that was left out.

    Where the file names its own endpoint or key, its whole `llm` block is left out: source for that endpoint must go
    neither there nor anywhere else.
    """
    refused = trust.untrusted(repository)
    kept = trust.without(repository, refused)
    if any(key.startswith("llm.") for key in refused):
        kept.pop("llm", None)
    notes = tuple(
        f"{REPOSITORY_FILE} sets {key}, which only you may: put it in your own selfheal.yaml, or give --set {key}=..."
        for key in refused
    )
    return kept, notes


def user_file(environ: Mapping[str, str]) -> Path:
    """Where the user's own defaults lie (XDG Base Directory Specification, which has relative paths ignored: one could
    lead into the repository)."""
    base = environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if base.startswith("/") else Path(environ.get("HOME", "/"), ".config")
    return folder / USER_FILE


def _keys(path: Path, where: str) -> Mapping[str, Any]:
    """The keys in the file at `path`, none where there is no file."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where} cannot be read ({_reason(error)}).", f"correct {where}") from None
    return config.parse(text, where)


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
