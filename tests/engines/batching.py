"""A server of the tests' own that takes batches, as OpenAI's does; and in the ways in which they go wrong."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from email import message_from_bytes
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hostile import KEY, Hostile, half_closed, say, text_of


@dataclass
class Batching(Hostile):
    """``ends(n, lines)`` gives what becomes of the n-th batch: its status, and the lines of its output and errors.

    Attributes
    ----------
    polls
        How often a batch is said to be in progress before it ends.
    created
        Called with the n-th batch once it is made, before the answer is sent; "lost" breaks the connection then.
    batches, files
        What was made and uploaded, by id.
    """

    polls: int = 1
    ends: Any = lambda n, lines: ("completed", lines, [])
    created: Any = lambda n: ""
    lists: bool = True
    page: int = 100
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    asked_by_batch: list[str] = field(default_factory=list)
    n_polls: int = 0
    reading: Any = field(default_factory=threading.Event)

    def post(self, handler):
        if handler.path not in ("/v1/files", "/v1/batches"):
            super().post(handler)
            return
        raw = handler.rfile.read(int(handler.headers["Content-Length"]))
        if handler.headers.get("Authorization") != f"Bearer {KEY}":
            say(handler, {"error": {"message": "Incorrect API key"}}, status=401)
        elif handler.path == "/v1/files":
            head = f"Content-Type: {handler.headers['Content-Type']}\r\n\r\n".encode()
            parts = {
                part.get_param("name", header="Content-Disposition"): part.get_payload(decode=True)
                for part in message_from_bytes(head + raw).get_payload()
            }
            assert parts["purpose"] == b"batch"
            say(handler, self._kept(parts["file"]))
        else:
            self._make(handler, json.loads(raw))

    def _kept(self, content):
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return {"id": name, "object": "file"}

    def _make(self, handler, asked):
        assert asked["endpoint"] == "/v1/chat/completions"
        assert asked["completion_window"] == "24h"
        n = len(self.batches)
        lines = [json.loads(line) for line in self.files[asked["input_file_id"]].splitlines()]
        assert all((line["method"], line["url"]) == ("POST", "/v1/chat/completions") for line in lines)
        assert len({line["custom_id"] for line in lines}) == len(lines)
        answered = []
        for place, line in enumerate(lines):
            self.asked_by_batch.append(text_of(line["body"]))
            body = self.whole(line["body"], text_of(line["body"]))
            response = {"status_code": 200, "request_id": f"r{place}", "body": body}
            answered.append({"id": f"q{place}", "custom_id": line["custom_id"], "response": response, "error": None})
        status, output, errors = self.ends(n, answered)
        batch = {
            "id": f"batch_{n}",
            "metadata": asked["metadata"],
            "ends": status,
            "left": self.polls,
            "request_counts": {"total": len(lines), "completed": 0, "failed": 0},
            "errors": errors if status == "failed" else None,
        }
        for name, content in (("output_file_id", output), ("error_file_id", errors if status != "failed" else [])):
            if content:
                written = b"\n".join(e if isinstance(e, bytes) else json.dumps(e).encode() for e in content)
                batch[name] = self._kept(written + b"\n")["id"]
        self.batches[batch["id"]] = batch
        what = self.created(n)
        (half_closed if what == "lost" else say)(handler, {"id": batch["id"], "status": "validating"})

    def get(self, handler):
        where = urlsplit(handler.path)
        parts = where.path.split("/")[2:]
        if parts[0] == "files":
            self.reading.set()
            say(handler, self.files[parts[1]], content_type="application/octet-stream")
        elif parts == ["batches"] and self.lists:
            query = parse_qs(where.query)
            ids = list(reversed(self.batches))
            start = ids.index(query["after"][0]) + 1 if "after" in query else 0
            shown = ids[start : start + self.page]
            more = start + self.page < len(ids)
            say(handler, {"data": [self._shown(self.batches[each]) for each in shown], "has_more": more})
        elif parts[0] == "batches" and len(parts) == 2 and parts[1] in self.batches:
            batch = self.batches[parts[1]]
            self.n_polls += 1
            if batch["left"] <= 0:
                batch["status"] = batch["ends"]
            else:
                batch["left"] -= 1
                batch["status"] = "in_progress"
                batch["request_counts"]["completed"] = batch["request_counts"]["total"] // 2
            say(handler, self._shown(batch))
        else:
            super().get(handler)

    def _shown(self, batch):
        return {name: value for name, value in batch.items() if name not in ("ends", "left")}
