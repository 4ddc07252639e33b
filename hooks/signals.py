"""Signals that ask selfheal to end: it ends as on Ctrl-C, so that the sandbox dies with it and nothing is half done."""

from __future__ import annotations

import signal
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """A signal other than Ctrl-C's asked for the end; `status` is the exit status that tells which (128 + number)."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.status = 128 + number


def end_cleanly() -> None:
    """Turn SIGTERM and SIGHUP into an exception in the main thread, as Python does for SIGINT."""

    def interrupt(number: int, _: FrameType | None) -> None:
        raise Interrupted(number)

    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) is not signal.SIG_IGN:
            signal.signal(getattr(signal, name), interrupt)
