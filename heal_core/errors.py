"""What selfheal cannot do, worded for the person who committed."""

from __future__ import annotations


class HealError(Exception):
    """A problem of the user's world, never a bug of selfheal's.

    `problem` says what and where in one sentence, `advice` is the command or the line to write next ("" for none).
    """

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.advice = advice


class ConfigError(HealError):
    """A configuration file or a `--set` option that cannot be used; `problem` names the key."""


class GitError(HealError):
    """git answered with an error, or not in time."""


class EnvironmentFault(HealError):
    """The project's tests cannot be judged here: no interpreter, a missing plugin, a broken settings file."""


class SandboxError(HealError):
    """A sandbox could not be started."""


class ProviderError(HealError):
    """The model's server cannot be used: refused, unauthorised, out of quota, or not speaking the protocol."""


class NotPlaced(HealError):
    """A proved fix was not written, because writing it would touch something of the user's; nothing was changed."""
