from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heal_core.redact import Redactor

KEY = "demo-not-a-real-key-7f3a9c51e2b84d60"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabcdef\n-----END RSA PRIVATE KEY-----"


def test_the_same_secret_has_the_same_placeholder_in_every_text() -> None:
    redactor = Redactor([KEY, "another-one-42"])
    assert redactor.mask(f"a {KEY} b another-one-42 {KEY}") == "a <secret-1> b <secret-2> <secret-1>"
    assert redactor.mask("another-one-42") == "<secret-2>"


@pytest.mark.parametrize("value", ['with"quotes\\and\n7breaks', "p@ss wörd/7%", KEY])
@pytest.mark.parametrize("shown", [str, repr, json.dumps, quote])
def test_a_value_is_found_however_it_is_written(value: str, shown: object) -> None:
    text = shown(value)  # type: ignore[operator]
    masked = Redactor([value]).mask(f"x {text} y")
    assert "<secret-1>" in masked and value[2:8] not in masked


@pytest.mark.parametrize(
    "cut",
    [
        "demo-not-a-real-ke",
        "demo-not-a-real-ke...",
        "{'Authorizati... demo-n...b84d60'}",
        "'demo-not-...9c51e2b84d60'",
        "y-7f3a9c51e2b84d60",
    ],
)
def test_what_a_shortened_value_leaves_is_masked_too(cut: str) -> None:
    masked = Redactor([KEY]).mask(f"Bearer {cut}")
    assert "demo-n" not in masked and "b84d60" not in masked


def test_short_values_and_parts_of_values_in_other_words_stay() -> None:
    text = "the password of the development server is true"
    assert Redactor(["true", "password1", "development-key"]).mask(text) == text


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-" + "a1B2" * 8,
        "sk-ant-api03-" + "a1B2" * 8,
        "sk_" + "live_" + "a1B2" * 6,
        "ghp_" + "a1B2" * 9,
        "github_pat_" + "a1B2" * 9,
        "glpat-" + "a1B2" * 5,
        "xox" + "b-123456789012-abcdefABCDEF",
        "AK" + "IAIOSFODNN7EXAMPLE",
        "AIza" + "a1B2" * 9,
        "hf_" + "a1B2" * 8,
        "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + "a1B2" * 8,
    ],
)
def test_a_providers_key_is_known_by_its_shape(secret: str) -> None:
    assert Redactor().mask(f"client = Client('{secret}')") == "client = Client('<secret-1>')"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ('password = "hunter2-swordfish"', 'password = "<secret-1>"'),
        ("DB_PASSWORD: str = 'swordfish'", "DB_PASSWORD: str = '<secret-1>'"),
        ("{'api_key': 'abc123def456'}", "{'api_key': '<secret-1>'}"),
        ("login(user, access_token='abc123def456')", "login(user, access_token='<secret-1>')"),
        ("os.environ['API_KEY'] = 'abc123def456'", "os.environ['API_KEY'] = '<secret-1>'"),
        ("PAYMENTS_API_KEY=abc123def456 pytest", "PAYMENTS_API_KEY=<secret-1> pytest"),
        ("postgres://app:s3cr3t@db:5432/x", "postgres://app:<secret-1>@db:5432/x"),
        ("https://:abc123@example.com", "https://:<secret-1>@example.com"),
        ("Authorization: Bearer abcdef0123456789abcdef", "Authorization: Bearer <secret-1>"),
    ],
)
def test_a_telling_value_is_masked_where_its_name_or_place_says_so(text: str, masked: str) -> None:
    assert Redactor().mask(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "token = parser.next()",
        'key = "name"',
        'token = "identifier"',
        "tokens = ['abc123def456']",
        'password = "password"',
        'password = ""',
        'PASSWORD_FIELD = "new_password_1"',
        'secret = f"{prefix}-{number}123"',
        "password = '***********1'",
        "password: str = field(default='x')",
        'api_key = os.environ["PAYMENTS_API_KEY"]',
        'primary_key = "customer_id1"',
        "url = f'postgres://{user}:{password}@{host}/x'",
        "https://example.com:8080/@scope/package",
        'return {"Authorization": "Bearer " + token}',
        "sk-estimator-doc-link-text-of-a-page",
        "risk-2024-assessment-of-the-portfolio",
        "skip_if(sys.version_info < (3, 11))",
    ],
)
def test_plain_code_stays_as_it_is(text: str) -> None:
    assert Redactor().mask(text) == text


def test_lines_keep_their_numbers_under_a_masked_key_block() -> None:
    masked = Redactor().mask(f"a = 1\nKEY = '''{PEM}'''\nb = 2\n")
    assert "MIIEow" not in masked
    assert masked.splitlines()[5] == "b = 2"


def test_only_placeholders_that_were_given_out_are_known() -> None:
    redactor = Redactor([KEY])
    assert not redactor.holds_placeholder("x = '<secret-1>'")
    redactor.mask(KEY)
    assert redactor.holds_placeholder("x = '<secret-1>'")
    assert not redactor.holds_placeholder("x = '<secret-2>'")


@given(st.text(max_size=300), st.lists(st.text(min_size=1, max_size=40), max_size=4))
def test_no_named_value_survives_and_masking_twice_changes_nothing(text: str, values: list[str]) -> None:
    redactor = Redactor(values)
    masked = redactor.mask(" ".join([text, *values]))
    assert masked == redactor.mask(masked) or any(value in "<secret-0123456789>" for value in values)
    named = [value for value in values if len(value.strip()) >= 8 and "<secret-" not in value]
    assert not [value for value in named if value in masked.replace("\n", "")]
