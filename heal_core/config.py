"""The configuration: its keys, their defaults, and clear words for whatever does not fit.

Files are `.selfheal.yaml` at the repository's root and `selfheal.yaml` in the user's configuration folder; the
repository's file goes over the user's, command-line `KEY=VALUE` settings over both. PyYAML and msgspec are imported
only when there is something to read.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_type_hints

from heal_core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TestsConfig:
    """How the project's tests are run."""

    __test__ = False  # the key in the file is `tests`; pytest must not collect the class

    python: str | None = None
    args: tuple[str, ...] = ()
    timeout_seconds: float = 300
    env: tuple[str, ...] = ()
    on_none: Literal["allow", "block"] = "allow"


@dataclass(frozen=True, slots=True)
class HealConfig:
    """How far healing may go."""

    engines: tuple[Literal["search", "llm"], ...] = ("search", "llm")
    max_attempts: int = 3
    max_seconds: float = 180
    search_seconds: float = 20
    max_changed_lines: int = 40
    on_heal: Literal["stage", "review", "propose"] = "stage"
    preexisting: Literal["auto", "heal", "allow", "block"] = "auto"
    trailer: bool = False


@dataclass(frozen=True, slots=True)
class LlmConfig:
    """The model and its server. That the block is there at all is the consent to ask it."""

    model: str = "gpt-5-mini"
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    timeout_seconds: float = 60
    context_tokens: int = 24000
    max_total_tokens: int = 60000
    temperature: float | None = None
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """Where tests run, and with how much."""

    backend: Literal["auto", "bubblewrap", "process"] = "auto"
    memory_mb: int = 4096
    processes: int = 256


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration; `llm` is None where neither a file nor the command line has an `llm` block."""

    tests: TestsConfig = field(default_factory=TestsConfig)
    heal: HealConfig = field(default_factory=HealConfig)
    llm: LlmConfig | None = None
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)


def load(user: Mapping[str, Any], repository: Mapping[str, Any], settings: Sequence[str]) -> Config:
    """The configuration from the keys of the user's file, those of the repository's over them (both from `parse`), and
    the command line's `KEY=VALUE` settings over both.

    Raises ConfigError for an unknown key (with the nearest right one) or a value that does not fit.
    """
    layers = [(user, "the user's selfheal.yaml"), (repository, ".selfheal.yaml")]
    layers += [(_from_setting(setting), f"--set {setting}") for setting in settings]
    merged: dict[str, Any] = {}
    config = Config()
    for data, where in layers:
        _merge(merged, data, where)
        config = _converted(merged, where)
    return config


def parse(text: str, where: str) -> Mapping[str, Any]:
    """The keys of one configuration file, checked by themselves; `where` names the file. Raises ConfigError."""
    merged: dict[str, Any] = {}
    _merge(merged, _parsed(text, where), where)
    _converted(merged, where)
    return merged


def schema() -> Mapping[str, Any]:
    """A JSON Schema of the file, for editors."""
    import msgspec

    return msgspec.json.schema(Config)


def _parsed(text: str, where: str) -> Any:
    import yaml

    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where} is not YAML: {_one_line(error)}", f"correct {where}") from None
    return {} if data is None else data


def _from_setting(setting: str) -> Any:
    """`heal.max_attempts=2` as the nested mapping that a file would hold; the value is read as YAML."""
    key, equals, value = setting.partition("=")
    if not equals:
        raise ConfigError(f"--set {setting} has no value.", "write --set KEY=VALUE")
    data: Any = _parsed(value, f"--set {setting}") if value.strip() else None
    # `--set heal.engines=search` is a list of one.
    section, _, name = key.partition(".")
    if name and isinstance(data, str) and _is_list(section, name):
        data = [part.strip() for part in data.split(",")]
    for part in reversed(key.split(".")):
        data = {part: data}
    return data


def _merge(merged: dict[str, Any], data: Any, where: str) -> None:
    """Lay the sections of `data` over `merged`, key by key."""
    if not isinstance(data, dict):
        raise ConfigError(f"{where} must hold sections with keys, not {type(data).__name__}.", f"correct {where}")
    _check_names(data, Config, "", where)
    for section, keys in data.items():
        if keys is not None and not isinstance(keys, dict):
            raise ConfigError(f"{where}: {section} must hold keys, not {keys!r}.", f"correct {where}")
        if keys:
            _check_names(keys, _section_type(section), f"{section}.", where)
        merged[section] = {**merged.get(section, {}), **(keys or {})}


def _check_names(data: Mapping[Any, Any], kind: type[Any], prefix: str, where: str) -> None:
    """Raise for a key that `kind` does not have."""
    names = [field.name for field in dataclasses.fields(kind)]
    for key in data:
        if key not in names:
            near = difflib.get_close_matches(str(key), names, 1, 0.5)
            hint = f"; did you mean {prefix}{near[0]}?" if near else f"; it has {', '.join(names)}."
            raise ConfigError(f"{where}: {prefix}{key} is not a key of selfheal{hint}", f"correct {where}")


def _section_type(section: str) -> type[Any]:
    kind = get_type_hints(Config)[section]
    members: Iterator[Any] = (member for member in get_args(kind) if member is not type(None))
    return next(members, kind)  # type: ignore[no-any-return]


def _is_list(section: str, name: str) -> bool:
    if section not in get_type_hints(Config):
        return False
    return getattr(get_type_hints(_section_type(section)).get(name), "__origin__", None) is tuple


def _converted(merged: Mapping[str, Any], where: str) -> Config:
    """The configuration in `merged`, to which `where` was added last."""
    if not merged:
        return Config()
    import msgspec

    try:
        return msgspec.convert(merged, Config)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        key = place.rstrip("`") or "the configuration"
        raise ConfigError(f"{where}: {key}: {problem[0].lower()}{problem[1:]}.", f"correct {where}") from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
