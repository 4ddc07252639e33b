"""What selfheal cannot do, worded for the person who committed."""

from __future__ import annotations


class HealError(Exception):
    """A problem of the user's world, never a bug of selfheal's.

    `problem` says what and where in one sentence, `advice` is the command or the line to write next ("" for none).
    `exit_status` is what selfheal ends with: 2, it could not judge; 1, the commit must not go on.
    """

    exit_status = 2

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


class IncompleteCommit(HealError):
    """The staged files need one that is not part of the commit."""

    exit_status = 1


class NotPlaced(HealError):
    """A proved fix was not written, because writing it would touch something of the user's; nothing was changed."""

    exit_status = 1
