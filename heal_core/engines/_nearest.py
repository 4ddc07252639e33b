"""Which of some names another one is a slip of the keyboard of."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product


def distance(left: str, right: str) -> int:
    """How many letters were added, left out, replaced or swapped with a neighbour (restricted Damerau-Levenshtein).

    Another spelling of the same words, such as `getTotal` for `get_total`, counts as one.
    """
    if left != right and _letters(left) == _letters(right):
        return 1
    cost = {(i, j): i + j for i, j in product(range(len(left) + 1), range(len(right) + 1)) if not i or not j}
    for i, j in product(range(1, len(left) + 1), range(1, len(right) + 1)):
        same = left[i - 1] == right[j - 1]
        cost[i, j] = min(cost[i - 1, j] + 1, cost[i, j - 1] + 1, cost[i - 1, j - 1] + (not same))
        if i > 1 and j > 1 and left[i - 1] == right[j - 2] and left[i - 2] == right[j - 1]:
            cost[i, j] = min(cost[i, j], cost[i - 2, j - 2] + 1)
    return cost[len(left), len(right)]


def _letters(name: str) -> str:
    return name.replace("_", "").casefold()


def nearest(name: str, others: Iterable[str], most: int = 4) -> list[str]:
    """At most `most` of `others` that are one letter off `name`, or two off where it has five or more; nearest first.

    Between equals the order of `others` decides; a name of one letter is near to none.
    """
    reach = 0 if len(name) < 2 else 1 if len(name) < 5 else 2
    near = {}
    for other in dict.fromkeys(others):
        similar = abs(len(other) - len(name)) <= reach or _letters(other) == _letters(name)
        if similar and other != name and len(name) <= 80 and (steps := distance(name, other)) <= reach:
            near[other] = steps
    return sorted(near, key=lambda other: near[other])[:most]
