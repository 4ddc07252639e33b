"""A chat-completions server on loopback whose answers are written beforehand.

    with serving(failing(503, "busy"), reply("the text")) as server:
        ...                     # server.url is the base URL, server.requests what was asked

A request beyond the last step gets a 418, which no client takes for a passing failure.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Step:
    """One answer; `drop` closes the connection instead, `trickle` sends each byte so many seconds after the other,
    `meanwhile` is called before anything is sent."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0
    drop: bool = False
    trickle: float = 0
    meanwhile: Callable[[], object] | None = None


@dataclass(frozen=True)
class Request:
    """One request as it came in; header names in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    def text(self) -> str:
        """The contents of all its messages."""
        return "\n".join(message["content"] for message in self.body["messages"])


def raw(data: Any, status: int = 200, headers: Mapping[str, str] | None = None, **more: Any) -> Step:
    """An answer with `data` as JSON."""
    return Step(json.dumps(data).encode(), status, {"Content-Type": "application/json", **(headers or {})}, **more)


def reply(
    text: Any,
    finish_reason: str = "stop",
    usage: Any = (900, 120),
    message: Mapping[str, Any] | None = None,
    **more: Any,
) -> Step:
    """A completion with `text`; `usage` is (prompt, completion) tokens, None for a server that does not count."""
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, **(message or {})},
                "finish_reason": finish_reason,
            }
        ],
    }
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return raw(body, **more)


def failing(status: int, message: str, headers: Mapping[str, str] | None = None, **error: Any) -> Step:
    """An error answer in OpenAI's shape; `error` may hold code, type and param."""
    return raw({"error": {"message": message, **error}}, status, headers)


class ScriptedServer:
    """Serves steps in turn; `reject` answers, before them, each request that carries the parameter of that name."""

    def __init__(self, steps: tuple[Step, ...], reject: Mapping[str, Step], repeat_last: bool) -> None:
        self.requests: list[Request] = []
        self._steps = list(steps)
        self._reject = reject
        self._repeat_last = repeat_last
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops serving and frees the port."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _next(self, request: Request) -> Step:
        for name, step in self._reject.items():
            if name in request.body:
                return step
        if not self._steps:
            return failing(418, "the script has run dry")
        return self._steps[0] if self._repeat_last and len(self._steps) == 1 else self._steps.pop(0)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                """Keeps standard error clean."""

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.path, headers, json.loads(data))
                server.requests.append(request)
                self.answer(server._next(request))

            def answer(self, step: Step) -> None:
                time.sleep(step.delay)
                if step.meanwhile is not None:
                    step.meanwhile()
                if step.drop:
                    linger = struct.pack("ii", 1, 0)  # a reset, not an orderly end
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    self.connection.close()
                    self.close_connection = True
                    return
                self.send_response(step.status)
                for name, value in {"Content-Length": str(len(step.body)), **step.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.write(step)

            def write(self, step: Step) -> None:
                pieces = [step.body[at : at + 1] for at in range(len(step.body))] if step.trickle else [step.body]
                try:
                    for piece in pieces:
                        self.wfile.write(piece)
                        self.wfile.flush()
                        time.sleep(step.trickle)
                except OSError:
                    self.close_connection = True  # the client had enough

        return Handler


@contextmanager
def serving(
    *steps: Step, reject: Mapping[str, Step] | None = None, repeat_last: bool = False
) -> Iterator[ScriptedServer]:
    """A running server, stopped at the end."""
    server = ScriptedServer(steps, reject or {}, repeat_last)
    try:
        yield server
    finally:
        server.close()
