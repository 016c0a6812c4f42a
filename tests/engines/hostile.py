"""A server of the tests' own, which answers as OpenAI's interface does, or in one of the ways in which servers fail."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-test-4f1c9e7b2a"
N_FIRST = 3
"""Requests of a new run before its prompts: a question, and two unlike ones whose answers must differ."""
PAGE = b"<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>"


def rating_of(text):
    """Return the number that the model writes after a text: always the same."""
    return sha256(text.encode()).digest()[0] % 101


def text_of(body):
    return "\n".join(f"{each['role']}: {each['content']}" for each in body["messages"])


@dataclass
class Hostile:
    """``fault(try_, n)`` names what goes wrong with the ``try_``-th try of a prompt, the server's n-th request; or "".

    Attributes
    ----------
    answer
        Gives the text that is written after a conversation.
    asked
        Every conversation that was answered, in order.
    tries
        Requests by conversation, answered or not.
    """

    fault: Any = lambda try_, n: ""
    answer: Any = lambda text: str(rating_of(text))
    logprobs: Any = None
    models: Any = ("tiny",)
    name: str = "tiny-2026-01-01"
    fingerprint: str = "fp_1"
    asked: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    tries: Counter[str] = field(default_factory=Counter)
    n: int = 0
    most_at_once: int = 0
    _at_once: int = 0
    _lock: Any = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def serving(self):
        """Serve on a free port of this machine; yields the base URL."""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                owner.get(self)

            def do_POST(self):
                owner.post(self)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.handle_error = lambda *_: None  # who hangs up is no news here
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
            server.server_close()

    def get(self, handler):
        if handler.path == "/v1/models" and self.models is not None:
            say(handler, {"data": [{"id": name, "owned_by": "tests"} for name in self.models]})
        else:
            say(handler, {"error": {"message": "there is nothing here"}}, status=404)

    def post(self, handler):
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        text = text_of(body)
        with self._lock:
            self.n += 1
            self.tries[text] += 1
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            fault = self.fault(self.tries[text], self.n)
        try:
            if handler.headers.get("Authorization") != f"Bearer {KEY}":
                said = f"Incorrect API key provided: {handler.headers.get('Authorization')}"
                say(handler, {"error": {"message": said}}, status=401)
            elif fault:
                with contextlib.suppress(OSError):
                    FAULTS[fault](handler, self.whole(body, text))
            else:
                answer = self.whole(body, text)
                with self._lock:
                    self.asked.append(text)
                    self.bodies.append(body)
                say(handler, answer)
        finally:
            with self._lock:
                self._at_once -= 1

    def whole(self, body, text):
        """Return a whole answer, or what ``answer`` gives in its place."""
        written = self.answer(text)
        if isinstance(written, dict) and "choices" in written:
            return written
        message = written if isinstance(written, dict) else {"role": "assistant", "content": written}
        choice = {"index": 0, "message": message, "finish_reason": message.pop("finish_reason", "stop")}
        if self.logprobs is not None and body.get("logprobs"):
            choice["logprobs"] = {"content": self.logprobs(text, body["top_logprobs"])}
        usage = {"prompt_tokens": len(text.split()), "completion_tokens": 1, "total_tokens": len(text.split()) + 1}
        return {"model": self.name, "choices": [choice], "usage": usage, "system_fingerprint": self.fingerprint}


def say(handler, answer, *, status=200, content_type="application/json", **headers):
    content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    with contextlib.suppress(OSError):
        handler.send_response(status)
        handler.send_header("Content-Type", content_type)
        handler.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(content)


def half_closed(handler, answer):
    content = json.dumps(answer).encode()
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content[: len(content) // 2])
    handler.wfile.flush()
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def no_answer(handler, answer):
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def slow(handler, answer):
    time.sleep(1.0)
    say(handler, answer)


def drip(handler, answer):
    content = json.dumps(answer).encode()
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    for place in range(20):
        handler.wfile.write(content[place : place + 1])
        handler.wfile.flush()
        time.sleep(0.1)
    handler.close_connection = True


FAULTS = {
    "429": lambda h, a: say(h, {"error": {"message": "slow down"}}, status=429, Retry_After="0.05"),
    "429, long": lambda h, a: say(h, {"error": {"message": "come back"}}, status=429, Retry_After="7200"),
    "429, at once": lambda h, a: say(h, {"error": {"message": "slow down"}}, status=429, Retry_After="0"),
    "429 within": lambda h, a: say(h, {"error": {"message": "slow down upstream", "code": 429}}),
    "402 within": lambda h, a: say(h, {"error": {"message": "no credits", "code": "402"}, "choices": None}),
    "error within": lambda h, a: say(h, {"error": {"message": "it is down", "code": "server_error"}}),
    "500": lambda h, a: say(h, {"error": "internal"}, status=500),
    "503": lambda h, a: say(h, b"overloaded", status=503, content_type="text/plain"),
    "garbage": lambda h, a: say(h, b"\x00\xff{]"),
    "HTML": lambda h, a: say(h, PAGE, content_type="text/html"),
    "half-closed": half_closed,
    "no answer": no_answer,
    "slow": slow,
    "drip": drip,
    "empty choices": lambda h, a: say(h, {**a, "choices": []}),
    "no message": lambda h, a: say(h, {**a, "choices": [None]}),
    "wrong model": lambda h, a: say(h, {**a, "model": "another"}),
    "401": lambda h, a: say(h, {"error": {"message": f"bad key {KEY}"}}, status=401),
    "400": lambda h, a: say(h, {"error": {"message": f"what is this? key {KEY}"}}, status=400),
    "redirect": lambda h, a: say(h, b"", status=307, Location="http://example.invalid/"),
}
