"""A little project whose tests are run as selfheal runs them, without git."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heal_core import suite
from heal_core.failure import Failure, Raised
from heal_core.interpreter import Interpreter
from heal_core.sandbox import Limits
from heal_core.sandbox.process import ProcessSandbox
from heal_core.suite import Result
from heal_core.workspace import Workspace


@dataclass
class Bench:
    """A project below `folder`, and the interpreter of its tests."""

    folder: Path
    interpreter: Interpreter

    def has(self, package: str, major: int) -> bool:
        """Whether the interpreter's environment has this package, at this major version or a later one."""
        environment = self.interpreter.program.parent.parent
        (found,) = environment.glob(f"lib/python3*/site-packages/{package}-*.dist-info")
        return int(found.name.removeprefix(f"{package}-").partition(".")[0]) >= major

    def ample_seconds(self) -> float:
        """A short time limit that this machine, as busy as it is now, needs only a part of to reach the tests."""
        return 1 + 4 * self.run({"test_ample.py": "def test_a():\n    pass\n"}).seconds

    def run(
        self,
        files: Mapping[str, str],
        *args: str,
        only: Sequence[str] | None = None,
        seconds: float = 60,
        rootdir: str = "",
    ) -> Result:
        """Write `files` and run those named test_*, with pytest's further arguments `args`."""
        workspace = Workspace(self.folder / "workspace", self.folder / "repository")
        for name, content in files.items():
            path = workspace.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        plan = suite.Run(
            interpreter=self.interpreter,
            rootdir=rootdir,
            files=tuple(name for name in files if Path(name).name.startswith("test_")),
            args=("-p", "no:cacheprovider", *args),
            environ=(),
            roots=(rootdir,),
            limits=Limits(seconds, 4096, 256),
        )
        return suite.run(plan, ProcessSandbox(), workspace, only)


def failure(result: Result, nodeid: str) -> Failure:
    """The one failure of a test."""
    (found,) = [each for each in result.failures if each.nodeid == nodeid]
    return found


def raised(result: Result, nodeid: str) -> Raised:
    """The exception of the one failure of a test."""
    exception = failure(result, nodeid).raised
    assert exception is not None
    return exception
