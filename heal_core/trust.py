"""Which keys of its own configuration a repository may not set for the person who works in it.

They would run code outside the sandbox, or send source and a key to an address that the repository names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NEEDS_TRUST = (
    ("sandbox", "backend", "process"),
    ("llm", "base_url", None),
    ("llm", "api_key_env", None),
)


def untrusted(data: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys in a repository's file that need the user's own word, as dotted paths.

    A key whose row in the table names a value needs it only for that value.
    """
    return tuple(
        f"{section}.{key}"
        for section, key, value in NEEDS_TRUST
        if key in (data.get(section) or {}) and (value is None or data[section][key] == value)
    )


def without(data: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """`data` without the `keys` that need trust."""
    return {
        section: {key: value for key, value in (rows or {}).items() if f"{section}.{key}" not in keys}
        for section, rows in data.items()
    }
