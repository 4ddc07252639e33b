"""What a model's server says instead of an answer: a status, a code and some words, in the server's own shape."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

USED_UP = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_credits")


@dataclass(frozen=True, slots=True)
class Complaint:
    """An error as the server words it: HTTP status, code and type, message, and the parameter that it names."""

    status: int
    code: str
    message: str
    param: str
    retry_after: float | None = None

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed a little later."""
        return not self.used_up and (self.status in (408, 409, 429) or self.status >= 500)

    @property
    def used_up(self) -> bool:
        """Whether the account has no quota or money left, which waiting does not change."""
        return self.status == 402 or any(word in self.code for word in USED_UP)


def read(response: Any) -> Complaint:
    """The complaint in an answer with an error status, whose body may be anything."""
    try:
        body = json.loads(response.text)
    except ValueError:
        body = None
    error = body.get("error", body) if isinstance(body, dict) else body
    plain = "" if "html" in response.headers.get("content-type", "") else response.text
    return _worded(error if error else plain, response.status_code, _retry_after(response.headers))


def inside(body: Mapping[str, Any]) -> Complaint | None:
    """The complaint in an answer with a good status and no choice; some gateways answer so for a broken upstream."""
    error = body.get("error")
    if not error or body.get("choices"):
        return None
    code = whole_number(error.get("code")) if isinstance(error, dict) else None
    return _worded(error, code if code and 400 <= code < 600 else 502, None)


def _worded(error: object, status: int, retry_after: float | None) -> Complaint:
    if not isinstance(error, dict):
        return Complaint(status, "", str(error or ""), "", retry_after)
    code = " ".join(str(error[name]) for name in ("code", "type") if error.get(name))
    message = error.get("message") or error.get("detail") or ""
    return Complaint(status, code, str(message), str(error.get("param") or ""), retry_after)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait, from a number or a date."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def whole_number(value: object) -> int | None:
    """`value` where it is a number from 0 on without a fraction, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
