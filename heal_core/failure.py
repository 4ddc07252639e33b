"""A failure of a test: the exception as it was raised, with its causes, its members and its frames."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Control sequences of terminals (ECMA-48 CSI, and OSC as xterm ends it), then every other control character but tab
# and line end.
ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
# The probe reports less deep ones only.
MAX_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame, as the standard library's `FrameSummary`.

    `path` is relative to the repository with forward slashes where the file lies in it, absolute elsewhere; `lineno`
    counts from 1; `line` is the stripped source line, "" where unknown.
    """

    path: str
    lineno: int
    name: str
    line: str

    @property
    def in_project(self) -> bool:
        """Whether the file lies in the repository."""
        return not self.path.startswith(("/", "<"))


@dataclass(frozen=True, slots=True)
class Raised:
    """One exception: `type` is its qualified name (builtins without their module), `frames` the outermost first.

    `cause` is what it was raised `from`, `context` what was being handled meanwhile (None when suppressed or equal to
    the cause), `members` the exceptions of a group.
    """

    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    cause: Raised | None = None
    context: Raised | None = None
    members: tuple[Raised, ...] = ()

    def walk(self) -> Iterator[Raised]:
        """This exception, then its cause or context, then its members, depth first."""
        yield self
        for other in (self.cause, self.context, *self.members):
            if other is not None:
                yield from other.walk()


@dataclass(frozen=True, slots=True)
class Failure:
    """One failing test.

    `nodeid` is pytest's (a file's path when it could not be collected, "" when the run as a whole failed); `when` is
    "collect", "setup", "call", "teardown", "crash" or "timeout"; `raised` is None where only text is known; `text` is
    the runner's own rendering, `output` what the test printed, both bounded.
    """

    nodeid: str
    when: str
    raised: Raised | None
    text: str
    output: str = ""

    def chain(self) -> tuple[Raised, ...]:
        """Every exception of this failure, the one that reached the runner first."""
        return tuple(self.raised.walk()) if self.raised else ()

    def frames(self) -> tuple[Frame, ...]:
        """The frames in the repository of every exception, the innermost of the root cause first."""
        return tuple(
            frame for raised in reversed(self.chain()) for frame in reversed(raised.frames) if frame.in_project
        )

    def headline(self) -> str:
        """`Type: first line of the message`, or the last line of the text where no exception is known."""
        if self.raised is None:
            return self.text.strip().rpartition("\n")[2]
        first = self.raised.message.strip().partition("\n")[0]
        return f"{self.raised.type}: {first}" if first else self.raised.type

    def signature(self) -> tuple[str, str]:
        """What tells this failure from another in the same test: the exception's type and where it was raised."""
        if self.raised is None:
            return self.when, self.headline()
        root = self.chain()[-1]
        return root.type, ":".join(f"{f.path}:{f.name}" for f in root.frames[-1:])


def plain(text: str) -> str:
    """`text` without control sequences, its line ends as LF, what no encoding can hold as an escape."""
    printable = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return ESCAPES.sub("", printable.replace("\r\n", "\n"))


def from_event(nodeid: str, when: str, payload: Mapping[str, Any], to_path: Callable[[str], str]) -> Failure:
    """The failure in an event of the probe (`heal_core/probe/selfheal_probe.py`); `to_path` makes its absolute paths
    relative to the repository.

    Raises KeyError, TypeError, ValueError or OverflowError when the event does not have the probe's shape.
    """
    raised = payload["raised"]
    text = plain(payload["text"])
    subtest = plain(payload.get("subtest", ""))
    if subtest:
        text = f"subtest {subtest}\n{text}"
    exception = None if raised is None else _raised(raised, to_path, 0, subtest)
    return Failure(nodeid, when, exception, text, plain(payload["output"]))


def _raised(row: Mapping[str, Any], to_path: Callable[[str], str], depth: int, subtest: str = "") -> Raised:
    if depth > MAX_DEPTH:
        raise ValueError("an exception has too long a chain")

    def inner(other: Mapping[str, Any] | None) -> Raised | None:
        return None if other is None else _raised(other, to_path, depth + 1)

    message = plain(row["message"])
    return Raised(
        type=plain(row["type"]),
        message=f"{message} [subtest {subtest}]" if subtest else message,
        frames=tuple(
            Frame(to_path(path), int(lineno), plain(name), plain(line)) for path, lineno, name, line in row["frames"]
        ),
        cause=inner(row["cause"]),
        context=inner(row["context"]),
        members=tuple(member for member in map(inner, row["members"]) if member is not None),
    )
