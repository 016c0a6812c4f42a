"""Batches: a server's slow and cheap interface, in the form of OpenAI's ``/v1/batches``.

The requests of a part of a run are uploaded as one file, answered within a day, and fetched. What identifies a batch is
stored in the run's folder before the batch is created and again afterwards. A process that ends at any moment thus
finds its batches again: by id or, if it ended before it got one, by a mark in the server's list of batches. Nothing is
submitted twice if the server lists its batches.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, TypeAlias, TypeVar
from uuid import uuid4

from audit.engines.base import AnswerStore, Done, unwatched
from audit.engines.server import (
    LONGEST_PAUSE,
    BudgetError,
    Json,
    NoAnswerError,
    Odd,
    Server,
    Upload,
    plain,
    request_names,
)
from audit.engines.server import say as print_line
from audit.errors import ModelError

_Read = TypeVar("_Read")
_Take: TypeAlias = Callable[[str, Json], None]  # gets a request's name and the answer to it

MOST_REQUESTS: Final = 50_000  # requests of a batch, at most: OpenAI's limit
MOST_BYTES: Final = 190 * 10**6  # bytes of a batch's file: somewhat below OpenAI's limit of 200 MB
LEAST: Final = 100  # requests that are worth a batch; fewer are asked one by one
ROUNDS: Final = 3  # batches in which a request without an answer is tried
MARK: Final = "empathy_audit"  # key of our mark in a batch's metadata
_ENDED: Final = frozenset({"completed", "failed", "expired", "cancelled"})
_PAGES: Final = 50  # pages of 100 batches to search for ours
_SHOWN: Final = 300  # characters of a server's message to show


class Batches:
    """Sends requests in batches; budget, retries and stored answers are the :class:`Server`'s."""

    def __init__(self, server: Server, *, say: Callable[[str], None] | None = None) -> None:
        self._server = server
        self._say = print_line if say is None else say
        self._of: AnswerStore | None = None
        self._noted: dict[str, Json] = {}
        self._most = MOST_REQUESTS
        self._together = True

    def ask_all(
        self,
        path: str,
        payloads: Sequence[Mapping[str, Any]],
        read: Callable[[Json], _Read],
        *,
        missing: Callable[[str], _Read] | None = None,
        done: Done = unwatched,
    ) -> list[_Read]:
        """Send many requests and wait for the answers. After an error a submitted batch is found again."""
        server = self._server
        if server.kept is not self._of:
            self._of, self._noted = server.kept, {}
        names = request_names(path, payloads)
        places = {_short(name): place for place, name in enumerate(names)}
        found: dict[int, _Read] = {}
        for place, name in enumerate(names):
            if (answer := server.stored(name)) is not None:
                found[place] = read(answer)
        told = _Told(done, len(payloads))
        told.at(len(found))
        odd: dict[int, str] = {}

        def take(name: str, response: Json) -> None:
            place = places.get(name)
            if place is None or place in found:
                return
            answer = server.taken(response.get("status_code"), response.get("body"), payloads[place])
            if answer is None:
                return
            try:
                value = read(answer)
            except Odd as error:
                odd[place] = str(error)
                return
            found[place] = value
            if self._of is not None:
                self._of.put(names[place], answer)

        n_before = len(found)
        for number, noted in self._open():
            self._say(f"waiting for batch {noted['id']}, which was submitted before")
            self._finish(number, noted, take, told)
            told.at(len(found))
        tries: Counter[int] = Counter()
        while True:
            left = [place for place in range(len(payloads)) if place not in found]
            again = [place for place in left if tries[place] < ROUNDS]
            if len(left) < LEAST or not again:
                break
            requests = {_short(names[place]): payloads[place] for place in again}
            tries.update(places[name] for name in self._round(path, requests, take, told))
            told.at(len(found))
        if left and len(left) < LEAST:
            asked = [payloads[place] for place in left]
            own = [names[place] for place in left]
            answers = server.ask_all(path, asked, read, missing=missing, done=told.more, names=own)
            found |= dict(zip(left, answers, strict=True))
        elif left:
            why = next(iter(odd.values()), "no answer to a request")
            said = f"{len(left):,} requests came back without an answer from {ROUNDS} batches ({why})"
            if missing is None or len(found) == n_before:
                raise ModelError(
                    f"{server.base_url}: {said}; check them at the server, or send prompts one by one: "
                    "engine.batch=null; answers so far are kept"
                )
            self._say(f"{said}: they have failed")
            found |= {place: missing(odd.get(place, why)) for place in left}
        told.at(len(payloads))
        return [found[place] for place in range(len(payloads))]

    # --- A round of batches ------------------------------------------------------------------------------------------

    def _round(self, path: str, requests: Mapping[str, Mapping[str, Any]], take: _Take, told: _Told) -> list[str]:
        """Submit requests in batches, wait and read the answers; return the names of the requests asked."""
        submitted: list[tuple[int, Json, list[str]]] = []
        spent: BudgetError | None = None
        for lines in self._files(path, requests):
            try:
                n_allowed = self._server.allow(len(lines))
            except BudgetError as error:
                spent = error
                break
            allowed = dict(list(lines.items())[:n_allowed])
            submitted.append((*self._submit(list(allowed.values())), list(allowed)))
            if n_allowed < len(lines) or not self._together:
                break
        asked: list[str] = []
        # Submitted requests are paid for: wait for them before a spent budget ends the run.
        for number, noted, names in submitted:
            if self._finish(number, noted, take, told):
                asked += names
        if spent is not None:
            raise spent
        return asked

    def _files(self, path: str, requests: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, bytes]]:
        """Yield each batch's lines, by request name."""
        lines: dict[str, bytes] = {}
        size = 0
        for name, payload in requests.items():
            request = {"custom_id": name, "method": "POST", "url": f"/v1{path}", "body": payload}
            line = f"{json.dumps(request)}\n".encode()
            if lines and (len(lines) >= self._most or size + len(line) > MOST_BYTES):
                yield lines
                lines, size = {}, 0
            lines[name] = line
            size += len(line)
        if lines:
            yield lines

    def _submit(self, lines: Sequence[bytes]) -> tuple[int, Json]:
        """Upload a file and create its batch; return its number and note."""
        number = next(number for number in count() if self._note_of(number) is None)
        noted: Json = {"mark": uuid4().hex, "n": len(lines)}
        self._note(number, noted)
        uploaded = self._asked("POST", "/files", Upload("requests.jsonl", b"".join(lines), {"purpose": "batch"}))
        made = self._make(noted["mark"], self._id(uploaded, "a file"))
        noted = noted | {"id": self._id(made, "a batch")}
        self._note(number, noted)
        self._say(
            f"batch {noted['id']} of {len(lines):,} requests is submitted; if this process ends, the same command "
            "picks the batch up again"
        )
        return number, noted

    def _make(self, mark: str, file: str) -> Json:
        """Create a batch; if it is unclear whether that worked, look for it before trying again."""
        server = self._server
        asked = {
            "input_file_id": file,
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {MARK: mark},
        }
        for attempt in range(server.settings.retries + 1):
            try:
                return self._asked("POST", "/batches", asked, tries=1)
            except NoAnswerError:
                if attempt == server.settings.retries:
                    raise
                time.sleep(min(server.settings.backoff_s * 2**attempt, LONGEST_PAUSE))
                if (made := self._marked(mark)) is not None:
                    return made
        raise AssertionError

    def _marked(self, mark: str) -> Json | None:
        """Return the batch with a mark; None if the server lists none."""
        after = ""
        for _ in range(_PAGES):
            listed = self._server.control_request("GET", f"/batches?limit=100{after}")
            batches = listed.get("data")
            if not isinstance(batches, list):
                return None
            for batch in batches:
                if isinstance(batch, dict) and isinstance(own := batch.get("metadata"), dict) and own.get(MARK) == mark:
                    return batch
            if not (batches and listed.get("has_more")):
                return None
            after = f"&after={self._id(batches[-1], 'a list of batches')}"
        return None

    # --- Waiting and reading -----------------------------------------------------------------------------------------

    def _finish(self, number: int, noted: Json, take: _Take, told: _Told) -> bool:
        """Wait for a batch and read its answers; return False if it failed before asking."""
        try:
            batch = self._wait(noted, told)
        except KeyboardInterrupt:
            self._say(f"\nbatch {noted['id']} continues at the server; the same command picks it up again")
            raise
        for field in ("output_file_id", "error_file_id"):
            if batch.get(field):
                self._read(noted, self._id(batch, "a batch", field), take)
        self._note(number, noted | {"read": True})
        state = batch["status"]
        if state == "expired":
            self._say(f"batch {noted['id']} expired before all requests were answered; the rest are sent again")
        if state == "cancelled":
            raise ModelError(
                f"{self._server.base_url}: batch {noted['id']} was cancelled at the server; its answers are kept: "
                "run the same command to ask for the rest"
            )
        if state == "failed":
            self._failed(noted, batch)
        return bool(state != "failed")

    def _read(self, noted: Json, file: str, take: _Take) -> None:
        """Read a batch's output file."""
        n_lines, seen = 0, dict[str, int]()
        for line in self._lines(file):
            n_lines += "custom_id" in line
            name, response = str(line.get("custom_id")), line.get("response")
            if not isinstance(response, dict) or line.get("error"):
                continue
            own = hash(json.dumps(response.get("body"), sort_keys=True))
            if response.get("status_code") == 200 and seen.setdefault(name, own) != own:
                raise ModelError(
                    f"{self._server.base_url}: file {file} of batch {noted['id']} has two different answers to one "
                    "request; send prompts one by one: engine.batch=null"
                )
            take(name, response)
        if not n_lines:  # for example a proxy's page; the answers are still at the server
            raise ModelError(
                f"{self._server.base_url}: file {file} of batch {noted['id']} has no answer; run the same command "
                "to read it again"
            )

    def _wait(self, noted: Json, told: _Told) -> Json:
        """Poll a batch, with growing pauses, until it has ended."""
        settings = self._server.settings
        pause = settings.backoff_s
        there = told.n
        while True:
            batch = self._server.control_request("GET", f"/batches/{noted['id']}")
            if "http_status" in batch:
                raise ModelError(
                    f"{self._server.base_url}: does not know batch {noted['id']} (HTTP "
                    f"{batch['http_status']}{batch.get('said', '')}), which this run submitted; use a key of the "
                    "same account, or send the rest one by one: engine.batch=null"
                )
            if not isinstance(batch.get("status"), str):
                raise ModelError(
                    f"{self._server.base_url}: does not report the state of batch {noted['id']}; run the same "
                    "command to ask again"
                )
            if batch["status"] in _ENDED:
                return batch
            counts = batch.get("request_counts")
            n_answered = counts.get("completed") if isinstance(counts, dict) else None
            if isinstance(n_answered, int):
                told.at(there + min(n_answered, int(noted["n"])))
            time.sleep(pause)
            pause = min(max(pause * 2, 0.01), LONGEST_PAUSE)

    def _lines(self, file: str) -> Iterator[Json]:
        """Yield the JSON lines of a server's file; other lines are skipped."""
        content = self._server.control_request("GET", f"/files/{file}/content", raw=True)
        if "raw" not in content:
            raise ModelError(
                f"{self._server.base_url}: does not return file {file} of a batch (HTTP "
                f"{content.get('http_status')}{content.get('said', '')}); run the same command to try again"
            )
        for text in str(content["raw"]).split("\n"):
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                continue
            if isinstance(line, dict):
                yield line

    def _failed(self, noted: Json, batch: Json) -> None:
        """Halve the batch size if the server's queue limit was exceeded; otherwise raise ModelError."""
        errors = batch.get("errors")
        listed = errors.get("data") if isinstance(errors, dict) else None
        first = next((each for each in listed or () if isinstance(each, dict)), {})
        said = " ".join(self._server.key.hidden(str(first.get("message") or "no reason given")).split())[:_SHOWN]
        if "limit" in f"{first.get('code')} {said}".lower() and int(noted["n"]) > LEAST:
            self._most, self._together = max(LEAST, int(noted["n"]) // 2), False
            self._say(
                f"the server does not accept a batch of {noted['n']:,} requests ({plain(said)}): half as many at a time"
            )
            return
        raise ModelError(
            f"{self._server.base_url}: batch {noted['id']} failed ({said}); fix the cause, then run the same "
            "command to submit it again"
        )

    # --- What is noted -----------------------------------------------------------------------------------------------

    def _open(self) -> list[tuple[int, Json]]:
        """Return batches that an earlier session submitted and did not finish reading."""
        found: list[tuple[int, Json]] = []
        for number in count():
            if (noted := self._note_of(number)) is None:
                return found
            if not noted.get("read"):
                if "id" not in noted:  # the session ended before it got the id
                    made = self._marked(str(noted["mark"]))
                    noted = noted | ({"read": True} if made is None else {"id": self._id(made, "a batch")})
                    self._note(number, noted)
                if not noted.get("read"):
                    found.append((number, noted))
        raise AssertionError

    def _note(self, number: int, noted: Json) -> None:
        self._noted[f"batch {number}"] = noted
        if self._of is not None:
            self._of.put(f"batch {number}", noted)

    def _note_of(self, number: int) -> Json | None:
        name = f"batch {number}"
        return self._noted.get(name) or (None if self._of is None else self._of.get(name))

    def _asked(self, method: str, path: str, payload: Mapping[str, Any] | Upload, *, tries: int | None = None) -> Json:
        answer = self._server.control_request(method, path, payload, tries=tries)
        if "http_status" not in answer:
            return answer
        raise ModelError(
            f"{self._server.base_url}: does not accept batches (HTTP {answer['http_status']} at "
            f"{path}{answer.get('said', '')}); use engine.batch=null to send prompts one by one"
        )

    def _id(self, answer: Json, what: str, field: str = "id") -> str:
        """Return an id that is safe in a URL and in a line; raise ModelError if there is none."""
        found = answer.get(field)
        if isinstance(found, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}", found):
            return found
        raise ModelError(
            f"{self._server.base_url}: returned {what} without an id; check that it supports OpenAI's batches"
        )


class _Told:
    """Number of prompts reported as done; never decreases."""

    def __init__(self, done: Done, total: int) -> None:
        self.n = 0
        self._done = done
        self._total = total

    def at(self, n: int) -> None:
        n = min(n, self._total)
        if n > self.n:
            self._done(n - self.n)
            self.n = n

    def more(self, n: int) -> None:
        self.at(self.n + n)


def _short(name: str) -> str:
    """Return a request's name as an id that servers accept: half of its hash, and its number."""
    digest, _, number = name.rpartition("-")
    return f"{digest[:32]}-{number}"
