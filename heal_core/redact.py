"""Masking secrets in text that leaves the process: prompt, log, report and record.

A secret is a value that the caller names, or text whose shape tells: a provider's prefix, a JSON web token, a private
key, credentials in an address, a telling value given to a name such as `password`. Each gets a placeholder,
`<secret-1>`, that stays the same for as long as the Redactor lives. Line breaks inside a secret stay, so that line
numbers do not move.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from urllib.parse import quote

SHORTEST = 8  # a named value with fewer letters would also be found in harmless text
CUT_MARKS = ("...", "…")
CUT_LEAST = 6  # letters of a secret left beside a cut mark, from which on they are masked
HALF_LEAST = 12  # letters of a secret's half, from which on it is masked without such a mark

PRIVATE_KEY = re.compile(
    r"-----BEGIN (?P<kind>[A-Z ]*PRIVATE KEY(?: BLOCK)?)-----.*?(?:-----END (?P=kind)-----|\Z)",
    re.DOTALL,
)
SHAPES = re.compile(
    r"""(?<![A-Za-z0-9_-])(?:
      sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,}
    | [sr]k_(?:live|test)_[A-Za-z0-9]{16,}
    | gh[pousr]_[A-Za-z0-9]{20,}
    | github_pat_[A-Za-z0-9_]{20,}
    | glpat-[A-Za-z0-9_-]{16,}
    | xox[abeoprs]-[A-Za-z0-9-]{10,}
    | A(?:KI|SI)A[A-Z0-9]{16}
    | AIza[A-Za-z0-9_-]{30,}
    | hf_[A-Za-z0-9]{20,}
    | npm_[A-Za-z0-9]{30,}
    | pypi-[A-Za-z0-9_-]{30,}
    | SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}
    | eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}
    )""",
    re.VERBOSE,
)
ADDRESS = re.compile(
    r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@'\"<>]{0,200}:(?P<value>[^\s/@'\"<>{}$%]{3,200})@", re.IGNORECASE
)
BEARER = re.compile(r"\bbearer\s+(?P<value>[A-Za-z0-9._~+/=-]{16,})", re.IGNORECASE)
SECRET_NAME = r"(?:pass(?:word|wd|phrase)|secret(?:[_-]?key)?|token|(?:api|access|private|auth)[_-]?key|credentials?)"
QUOTED = re.compile(
    rf"(?<![A-Za-z])(?:[A-Za-z0-9]{{1,40}}[_.-]){{0,6}}(?P<name>{SECRET_NAME})(?:['\"]\]?)?"
    r"(?:\s{0,4}:\s{0,4}[A-Za-z][A-Za-z\[\]|. ]{0,30}?)?\s{0,4}(?:[:=]=?|!=)\s{0,4}[rbu]?"
    r"(?P<quote>['\"])(?P<value>[^\s'\"]{8,400})(?P=quote)",
    re.IGNORECASE,
)
SETTING = re.compile(rf"\b(?:[A-Z0-9]+_){{0,6}}(?P<name>{SECRET_NAME.upper()})=(?P<value>[^\s'\"()<>{{}}$]{{8,400}})")


class Redactor:
    """Masks the secrets in texts; the same secret has the same placeholder in all of them."""

    def __init__(self, values: Sequence[str] = ()) -> None:
        """`values` are secrets known to the caller, of which those with fewer than 8 letters are left out."""
        self._values = sorted({value for value in values if len(value.strip()) >= SHORTEST}, key=len, reverse=True)
        self._placeholders: dict[str, str] = {}

    def mask(self, text: str) -> str:
        """`text` with a placeholder for every secret."""
        for value in self._values:
            text = self._mask_value(text, value)
        for pattern in (PRIVATE_KEY, SHAPES, ADDRESS, BEARER, QUOTED, SETTING):
            text = pattern.sub(self._mask_match, text)
        return text

    def holds_placeholder(self, text: str) -> bool:
        """Whether a placeholder that this redactor has given out stands in `text`."""
        return any(placeholder in text for placeholder in self._placeholders.values())

    def _placeholder(self, secret: str) -> str:
        placeholder = self._placeholders.setdefault(secret, f"<secret-{len(self._placeholders) + 1}>")
        return placeholder + "\n" * secret.count("\n")

    def _mask_value(self, text: str, value: str) -> str:
        for form in dict.fromkeys(
            (value, repr(value)[1:-1], json.dumps(value)[1:-1], quote(value), quote(value, safe=""))
        ):
            if form in text:
                text = text.replace(form, self._placeholder(value))
        for part in _cut_parts(text, value):
            text = text.replace(part, self._placeholder(value))
        return text

    def _mask_match(self, match: re.Match[str]) -> str:
        groups = match.groupdict()
        secret = groups.get("value") or match[0]
        if self.holds_placeholder(secret) or ("name" in groups and _tells_nothing(groups["name"], secret)):
            return match[0]
        start = (match.start("value") if "value" in groups else match.start()) - match.start()
        return match[0][:start] + self._placeholder(secret) + match[0][start + len(secret) :]


def _cut_parts(text: str, value: str) -> list[str]:
    """What is left of `value` in `text` where it was cut: a long half, or less beside a mark of the cut."""
    half = max(HALF_LEAST, (len(value) + 1) // 2)
    found = {_grown(text, value, value[:half]), _grown(text, value, value[-half:])}
    for mark in CUT_MARKS:
        if mark not in text:
            continue
        for size in range(min(half, len(value)) - 1, CUT_LEAST - 1, -1):
            found |= {
                part
                for part, seen in ((value[:size], value[:size] + mark), (value[-size:], mark + value[-size:]))
                if seen in text
            }
    return sorted(filter(None, found), key=len, reverse=True)


def _grown(text: str, value: str, part: str) -> str:
    """The longest stretch at the same end of `value` as `part` that stands in `text`; "" when not even `part` does."""
    if part not in text:
        return ""
    sizes = range(len(value), len(part) - 1, -1)
    ends = (value[:size] if value.startswith(part) else value[-size:] for size in sizes)
    return next(end for end in ends if end in text)


def _tells_nothing(name: str, value: str) -> bool:
    """Whether `value` is too plain to be a secret: a word, a template, or letters only for anything but a password."""
    if re.search(r"[{}<>]|%[(s]|\$\w|^\.|\*{3}|(.)\1{5}", value):
        return True
    if re.search(r"[A-Za-z]", value) and re.search(r"[0-9]", value):
        return False
    named_word = re.search(r"pass|secret|token|key|credential|example|change|dummy", value, re.IGNORECASE)
    return bool(named_word) or not re.match(r"pass|secret", name, re.IGNORECASE)
