"""Whose a failure is: the staged change's own, a flaky test's, or one that stands at HEAD already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heal_core import history
from heal_core.failure import Failure
from heal_core.lab import Lab
from heal_core.suite import Result, Status


@dataclass(frozen=True, slots=True)
class Attribution:
    """The failures of a run by whose they are: the change's `own`, those that did not come `again`, and those that are
    `old`, since the same test, unchanged, fails at HEAD too. `too_slow`: none hangs, but all together took too long."""

    own: tuple[Failure, ...] = ()
    flaky: tuple[Failure, ...] = ()
    old: tuple[Failure, ...] = ()
    too_slow: bool = False


def attribute(lab: Lab, baseline: Result, preexisting: str) -> Attribution:
    """Run what failed again, and at HEAD where the change does not show in its trace.

    `preexisting` is the setting of that name: "auto" and "block" ask HEAD only about failures whose trace runs through
    no staged file, "allow" about all, "heal" about none.
    """
    again = _again(lab, baseline)
    if again is None:
        return Attribution(too_slow=True)
    seen = {failure.nodeid for failure in again}
    flaky = tuple(failure for failure in baseline.failures if failure.nodeid not in seen)
    old = set() if preexisting == "heal" else _failing_at_head(lab, _candidates(lab, again, preexisting))
    return Attribution(
        own=tuple(failure for failure in again if failure.nodeid not in old),
        flaky=flaky if baseline.status is not Status.TIMED_OUT else (),
        old=tuple(failure for failure in again if failure.nodeid in old),
    )


def wording(lab: Lab, failure: Failure) -> str:
    """A sentence on a failure that stands at HEAD, with the commit that its test comes from."""
    change = lab.snapshot.change
    path = failure.nodeid.partition("::")[0]
    last = history.last_change(lab.snapshot.repo.toplevel, change.head, path) if change.head else None
    since = f"; its file was last changed in {last.commit} ({last.summary})" if last else ""
    return f"{failure.nodeid} fails at HEAD too, and its trace runs through no staged file{since}."


def _again(lab: Lab, baseline: Result) -> tuple[Failure, ...] | None:
    """The failures of `baseline` that a second run shows too, in the same selection and order.

    A run that the time limit ended is judged by the test that was running, alone: where that ends well the selection as
    a whole is too slow, and None is returned.
    """
    if baseline.status is Status.TIMED_OUT:
        hanging = [failure for failure in baseline.failures if failure.when == "timeout" and failure.nodeid]
        alone = lab.run(only=[failure.nodeid for failure in hanging]) if hanging else baseline
        return None if alone.status is Status.PASSED else alone.failures
    again = lab.run()
    seen = {failure.nodeid for failure in baseline.failures}
    return tuple(failure for failure in again.failures if failure.nodeid in seen)


def _candidates(lab: Lab, failures: Sequence[Failure], preexisting: str) -> tuple[str, ...]:
    """The ids of failing tests whose file the change leaves alone and, unless all may be allowed, whose trace too."""
    staged = {path for file in lab.snapshot.change.files for path in (file.path, file.old_path)}
    return tuple(
        failure.nodeid
        for failure in failures
        if "::" in failure.nodeid
        and failure.nodeid.partition("::")[0] not in staged
        and (preexisting == "allow" or not any(frame.path in staged for frame in failure.frames()))
    )


def _failing_at_head(lab: Lab, nodeids: Sequence[str]) -> set[str]:
    """Which of `nodeids` fail on HEAD's tree too; none before the first commit."""
    head = lab.snapshot.change.head
    if head is None or not nodeids:
        return set()
    there = lab.run(only=nodeids, tree=history.tree_of(lab.snapshot.repo.toplevel, head))
    return {nodeid for nodeid in nodeids if there.outcomes.get(nodeid) == "failed"}
