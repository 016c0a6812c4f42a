"""Asks a server over HTTP: many requests at a time, with retries, within a budget, and without revealing the key.

Faults that may pass (too many requests, server errors, broken connections, answers that are not JSON) are retried after
the wait that the server asks for, or with growing pauses. Lasting faults stop the run, as do a wrong key, a wrong
address and a spent budget: answers so far are kept, and the same command continues.
"""

from __future__ import annotations

import html
import json
import os
import random
import re
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar
from urllib.parse import quote

from audit.configuration.engine import ServerConfig
from audit.engines.base import AnswerStore, Done, unwatched
from audit.engines.refusals import meaning_of
from audit.errors import ModelError
from stimuli.hashes import fingerprint
from stimuli.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx2

Json: TypeAlias = dict[str, Any]
_Read = TypeVar("_Read")

LONGEST_BODY: Final = 64 * 2**20  # bytes; a longer answer cannot be one to our requests
SLOWEST: Final = 100_000  # bytes a second below which a download counts as stuck
SAY_EVERY: Final = 10.0  # seconds between two lines on requests that are tried again
SILENT: Final = 2.0  # seconds without an answer after which such a line is printed
LONGEST_PAUSE: Final = 60.0  # seconds between two tries if the server asks for no wait
ODD_TRIES: Final = 3  # tries for a prompt if the server's response has no answer in it
_SHOWN: Final = 300  # characters of a server's message to show
_PASSING: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
"""HTTP codes of faults that may pass."""
_SLOWED: Final = frozenset({429, 503, 529})  # HTTP codes that ask for fewer requests at a time
_OF_PROMPTS: Final = frozenset({400, 413, 422})  # HTTP codes that may concern a single prompt
_FORGOTTEN: Final[Json] = {"forgotten": True}  # stored in place of an answer that must not be used
_PROBABILITIES: Final = ("logprobs", "top_logprobs")  # payload keys that ask for probabilities
_USED: Final = ("tokens_evaluated", "tokens_predicted")  # llama.cpp's counts of tokens read and written
_DUMMY: Final = 8  # characters; a shorter key is a placeholder such as "none", which answers may have as a word
_MOST_TOKENS: Final = 2**31  # upper bound on a plausible token count: a server may return any number


class Odd(Exception):
    """A server's response has no answer; carries what it has instead, and the remedy if all are so."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.remedy = remedy or (
            "check that it is an OpenAI-compatible server, then run the same command to continue: answers so far "
            "are kept"
        )


class Key:
    """A secret that is sent to the server and never shown."""

    def __init__(self, secret: str, variable: str = "") -> None:
        self._secret, self.variable = secret, variable

    def __repr__(self) -> str:
        return "Key(hidden)"

    def headers(self) -> dict[str, str]:
        """Return the authorization header; empty without a key."""
        return {"Authorization": f"Bearer {self._secret}"} if self._secret else {}

    def hidden(self, text: str) -> str:
        """Replace the key in a text, also as JSON, addresses and pages escape it: servers repeat what they refuse."""
        own = self._secret
        forms = {own, own.replace("/", "\\/"), json.dumps(own)[1:-1], quote(own, safe=""), html.escape(own)}
        for form in sorted(forms - {""}, key=len, reverse=True):
            text = text.replace(form, "[key]")
        return text

    def hidden_in(self, body: Any, *, refused: bool) -> Any:
        """Replace the key in the texts of parsed JSON; a placeholder only in what says why a request was refused.

        The names and constants of JSON are left as they are: a placeholder may be "null" or "token".
        """
        if not self._secret or not (refused or len(self._secret) >= _DUMMY):
            return body
        if isinstance(body, str):
            return self.hidden(body)
        if isinstance(body, list):
            return [self.hidden_in(each, refused=refused) for each in body]
        if isinstance(body, dict):
            return {name: self.hidden_in(each, refused=refused) for name, each in body.items()}
        return body

    @classmethod
    def of(cls, variable: str | None, option: str = "model.api_key_env") -> Key:
        """Read the key from an environment variable; None means no key. An unset or malformed one is a ModelError.

        ``option`` is the one that names the variable.
        """
        if variable is None:
            return cls("")
        secret = os.environ.get(variable, "").strip()
        if not secret:
            raise ModelError(
                f"{option}={variable}: this environment variable is not set or is empty; export {variable}=... "
                f"first, or use {option}=null for a server without keys"
            )
        if not (secret.isascii() and secret.isprintable()) or " " in secret or len(secret) < 4:
            raise ModelError(f"{option}={variable}: the variable's value cannot be a key; set it again")
        return cls(secret, variable)


class _Fault(Exception):
    """A failed try that may succeed later; ``wait`` in seconds if the server asked for a wait."""

    def __init__(self, reason: str, wait: float | None = None, slow: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.wait, self.slow = reason, wait, slow


@dataclass(frozen=True)
class Upload:
    """A file to send in place of JSON, with its form fields."""

    name: str
    content: bytes
    fields: Mapping[str, str]


class NoAnswerError(ModelError):
    """The server gave no answer after all retries."""


class _Stopped(Exception):
    """Another request ended the run."""


@dataclass(frozen=True)
class _Result(Generic[_Read]):
    """A request's outcome: its answer and what was read from it, or the error."""

    place: int
    given: tuple[Json | None, _Read] | Exception


@dataclass
class _Spent:
    """Requests and tokens of this session."""

    n_requests: int = 0
    n_tokens: int = 0


class Pace:
    """Limits concurrent requests: halves the limit when the server asks for fewer, then slowly raises it again."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.limit = float(most)
        self._flying = 0
        self._free_at = 0.0
        self._slowed_at = 0.0
        self._turn = threading.Condition()

    @contextmanager
    def turn(self, stop: threading.Event) -> Iterator[None]:
        """Wait for a turn and give it back; raises ``_Stopped`` once ``stop`` is set."""
        with self._turn:
            while not stop.is_set():
                left = self._free_at - time.monotonic()
                if left <= 0 and self._flying < max(1, int(self.limit)):
                    break
                self._turn.wait(min(max(left, 0.01), 0.2))
            if stop.is_set():
                raise _Stopped
            self._flying += 1
        try:
            yield
        finally:
            with self._turn:
                self._flying -= 1
                self._turn.notify_all()

    def slow(self, wait: float) -> None:
        """Halve the limit, once for all requests under way, and start none for ``wait`` seconds."""
        with self._turn:
            now = time.monotonic()
            if now >= self._slowed_at:
                self.limit = max(1.0, self.limit / 2)
                self._slowed_at = now + max(wait, 0.05)
            self._free_at = max(self._free_at, now + wait)

    def went_well(self) -> None:
        """Raise the limit by 1 / limit, so by one after that many answers."""
        with self._turn:
            self.limit = min(float(self._most), self.limit + 1 / self.limit)


@dataclass
class Server:
    """A server, asked by JSON over HTTP."""

    base_url: str  # the API's root, without credentials
    key: Key
    settings: ServerConfig
    kept: AnswerStore | None = None  # answers of the part being asked
    # Path and payload of a request that the server has answered. If it no longer does, the fault is the server's and
    # not a prompt's.
    control: tuple[str, Json] | None = None
    _spent: _Spent = field(init=False, repr=False, default_factory=_Spent)
    _lock: threading.Lock = field(init=False, repr=False, default_factory=threading.Lock)
    _client: httpx2.Client | None = field(init=False, repr=False, default=None)

    _answered_at: float = field(init=False, repr=False, default=-SILENT)  # the last answer, by time.monotonic
    _said_at: float = field(init=False, repr=False, default=-SAY_EVERY)

    def __post_init__(self) -> None:
        self._pace = Pace(self.settings.concurrency)

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def url(self, path: str) -> str:
        """Return a full URL: ``/chat/completions`` is below the API's root, ``//tokenize`` below the server's."""
        base = self.base_url.rstrip("/")
        return base.removesuffix("/v1") + path[1:] if path.startswith("//") else base + path

    def get(self, path: str) -> Json | None:
        """Return the JSON at a path; None if the server has nothing there."""
        answer = self._patiently("GET", path, None, threading.Event())
        return None if "http_status" in answer else answer

    def ask(self, path: str, payload: Mapping[str, Any]) -> Json:
        """Return the answer to one request; it has ``http_status`` if the server refuses the request."""
        return self._patiently("POST", path, payload, threading.Event())

    def control_request(
        self,
        method: str,
        path: str,
        payload: Mapping[str, Any] | Upload | None = None,
        *,
        tries: int | None = None,  # None: as many as the settings allow
        raw: bool = False,  # return the response text, of any length, as "raw"
    ) -> Json:
        """Return the answer to a request that is no prompt and counts against no budget; as :meth:`ask`."""
        return self._patiently(method, path, payload, threading.Event(), tries=tries, raw=raw, counted=False)

    def has_models_below(self, path: str) -> bool:
        """Whether the server lists models at a path below its address, which then lacks that path."""
        with suppress(ModelError):
            return isinstance(self.control_request("GET", f"{path}/models", tries=1).get("data"), list)
        return False

    def taken(self, status: object, body: object, sent: Mapping[str, Any]) -> Json | None:
        """Return a batch's answer as if it had come by itself; None for a fault that may pass."""
        if not isinstance(status, int) or isinstance(status, bool):
            return None
        try:
            return self._answer(status, {}, json.dumps(body), sent)
        except (_Fault, RecursionError):
            return None

    def allow(self, n: int) -> int:
        """Count requests of a batch and return how many the budget allows; raise BudgetError if none."""
        most = self.settings.max_requests
        with self._lock:
            n_allowed = n if most is None else max(1, min(n, most - self._spent.n_requests))
        self._spend(n_allowed)
        return n_allowed

    def ask_all(
        self,
        path: str,
        payloads: Sequence[Mapping[str, Any]],
        read: Callable[[Json], _Read],  # raises Odd if an answer is unusable
        *,
        # value for an answer that is odd each time, given the reason; None stops the run instead
        missing: Callable[[str], _Read] | None = None,
        done: Done = unwatched,  # called with the number of new answers
        names: Sequence[str] | None = None,  # keys for stored answers; None takes request_names
    ) -> list[_Read]:
        """Send many requests, several at a time; return what ``read`` makes of the answers, in request order."""
        found: dict[int, _Read] = {}
        keys = request_names(path, payloads) if names is None else names
        for place, name in enumerate(keys):
            if (answer := self.stored(name)) is not None:
                found[place] = read(answer)
        if found:
            done(len(found))
        left = [place for place in range(len(payloads)) if place not in found]
        if not left:
            return [found[place] for place in range(len(payloads))]
        stop = threading.Event()
        todo, results = deque(left), SimpleQueue[_Result[_Read] | None]()

        def work() -> None:
            while True:
                try:
                    place = todo.popleft()
                except IndexError:
                    break
                try:
                    results.put(_Result(place, self._read(path, payloads[place], read, missing, stop)))
                except _Stopped:
                    break
                except Exception as error:
                    results.put(_Result(place, error))
            results.put(None)

        # Daemon threads: an interrupt or the run's end must not wait for a slow server.
        workers = [threading.Thread(target=work, daemon=True) for _ in range(min(self.settings.concurrency, len(left)))]
        for worker in workers:
            worker.start()
        failure: Exception | None = None
        n_at_work = len(workers)
        try:
            while n_at_work:
                result = results.get()
                if result is None:
                    n_at_work -= 1
                elif isinstance(result.given, Exception):
                    failure = failure or result.given
                    todo.clear()
                    # If the budget is spent, requests under way are paid for: wait for them and keep them.
                    if not isinstance(failure, BudgetError):
                        stop.set()
                else:
                    answer, found[result.place] = result.given
                    if self.kept is not None and answer is not None:
                        self.kept.put(keys[result.place], answer)
                    done(1)
        except BaseException:
            stop.set()
            todo.clear()
            self.close()
            raise
        if failure is not None:
            raise failure
        return [found[place] for place in range(len(payloads))]

    @property
    def said_of_kept(self) -> str:
        """What messages end in while answers are stored; empty before there is a folder for them."""
        return "" if self.kept is None else "; answers so far are kept"

    def stored(self, name: str) -> Json | None:
        """Return the stored answer to a request; None if there is none, or it must not be used."""
        answer = None if self.kept is None else self.kept.get(name)
        return None if answer == _FORGOTTEN else answer

    def check_counted(self) -> None:
        """Raise ModelError if tokens are budgeted, and answers so far did not say how many they took."""
        if not self._spent.n_tokens:
            self._refuse_uncounted()

    def _refuse_uncounted(self) -> None:
        if self.settings.max_tokens is not None:
            raise BudgetError(
                f"engine.server.max_tokens={self.settings.max_tokens}: {self.base_url} does not report how many tokens "
                "an answer takes (usage.total_tokens), so this budget cannot be kept; use engine.server.max_requests"
                f"{self.said_of_kept}"
            )

    def forget(self, path: str, payloads: Sequence[Mapping[str, Any]]) -> None:
        """Discard stored answers, so that these requests are sent again."""
        if self.kept is not None:
            for name in request_names(path, payloads):
                self.kept.put(name, _FORGOTTEN)

    def _read(
        self,
        path: str,
        payload: Mapping[str, Any],
        read: Callable[[Json], _Read],
        missing: Callable[[str], _Read] | None,
        stop: threading.Event,
    ) -> tuple[Json | None, _Read]:
        """Return an answer and what was read from it; None for the answer if it stays odd."""
        odd = Odd("")
        for _ in range(ODD_TRIES):
            answer = self._patiently("POST", path, payload, stop)
            try:
                value = read(answer)
            except Odd as error:
                odd = error
                continue
            return answer, value
        if missing is None or not self._works(payload, read, stop):
            raise ModelError(
                f"{self.base_url}: its responses contain no answer ({odd}, {ODD_TRIES} times); {odd.remedy}"
            )
        return None, missing(str(odd))

    def _works(self, payload: Mapping[str, Any], read: Callable[[Json], _Read], stop: threading.Event) -> bool:
        """Whether the server still answers its control request; with probabilities if ``payload`` asks for them."""
        if self.control is None:
            return False
        path, control = self.control
        wanted = {name: payload[name] for name in _PROBABILITIES if name in payload}
        for _ in range(ODD_TRIES):
            answer = self._patiently("POST", path, control | wanted, stop)
            if not wanted and answer.get("choices"):
                return True
            if wanted:
                with suppress(Odd):
                    read(answer)
                    return True
        return False

    def _patiently(
        self,
        method: str,
        path: str,
        payload: Mapping[str, Any] | Upload | None,
        stop: threading.Event,
        *,
        tries: int | None = None,
        raw: bool = False,
        counted: bool = True,
    ) -> Json:
        """Return an answer, with retries."""
        fault: _Fault | None = None
        n_tries = self.settings.retries + 1 if tries is None else tries
        for attempt in range(n_tries):
            try:
                with self._pace.turn(stop):
                    if counted:
                        self._spend(1)
                    answer = self._once(method, path, payload, raw=raw)
                if counted and _has_text(answer) and not _tokens_used(answer):
                    self._refuse_uncounted()
                self._pace.went_well()
                self._answered_at = time.monotonic()
                return answer
            except _Fault as now:
                fault = now
            longest = self.settings.max_wait_s
            if fault.wait is not None and fault.wait > longest:
                raise ModelError(
                    f"{self.base_url}: {fault.reason}, and asks to wait {fault.wait:.0f} s, more than "
                    f"engine.server.max_wait_s={longest:g}; run the same command later{self.said_of_kept}"
                )
            pause = self.settings.backoff_s * 2**attempt
            # No wait at all, or a date in the past: by its clock or ours.
            pause = fault.wait or min(pause, LONGEST_PAUSE, longest) * random.uniform(0.5, 1.0)
            if fault.slow:
                self._pace.slow(pause)
            if attempt < n_tries - 1:
                self._say_again(fault, pause, attempt + 2, n_tries)
                if stop.wait(pause):
                    raise _Stopped
        assert fault is not None
        raise NoAnswerError(
            f"{self.base_url}: no answer after {n_tries} {'try' if n_tries == 1 else 'tries'} (last: "
            f"{fault.reason}); check the server, then run the same command again{self.said_of_kept}"
        )

    def _say_again(self, fault: _Fault, pause: float, attempt: int, n_tries: int) -> None:
        """Print that a request is tried again, if no other is answered, and not for each request."""
        with self._lock:
            now = time.monotonic()
            if now - self._answered_at < SILENT or now - self._said_at < SAY_EVERY:
                return
            self._said_at = now
        say(
            f"{self.base_url}: {plain(fault.reason)}; try {attempt} of {n_tries} in {pause:.1f} s (Ctrl-C ends the "
            f"command{self.said_of_kept})"
        )

    def _spend(self, n: int) -> None:
        """Count requests; raise BudgetError if the budget is spent."""
        settings = self.settings
        with self._lock:
            spent = self._spent
            for name, used, most in (
                ("max_requests", spent.n_requests, settings.max_requests),
                ("max_tokens", spent.n_tokens, settings.max_tokens),
            ):
                if most is not None and used >= most:
                    raise BudgetError(
                        f"engine.server.{name}={most} is used up: {spent.n_requests:,} requests and "
                        f"{spent.n_tokens:,} tokens in this session; run the same command again{self.said_of_kept}"
                    )
            spent.n_requests += n

    def _once(self, method: str, path: str, payload: Mapping[str, Any] | Upload | None, *, raw: bool = False) -> Json:
        """Try once; raises ``_Fault`` if another try may help."""
        import httpx2

        began = time.monotonic()
        sent: Json = {"json": payload}
        if isinstance(payload, Upload):
            sent = {"files": {"file": (payload.name, payload.content)}, "data": dict(payload.fields)}
        try:
            with self._connected().stream(method, self.url(path), **sent) as response:
                if isinstance(payload, Upload):  # sending a file takes as long as its size needs
                    began = time.monotonic()
                parts, size = [], 0
                for part in response.iter_bytes():
                    parts.append(part)
                    size += len(part)
                    # The client's limit applies to each part: a server that drips would never hit it.
                    if time.monotonic() - began > self.settings.timeout_s + (size / SLOWEST if raw else 0):
                        raise _Fault(f"slower than engine.server.timeout_s={self.settings.timeout_s:g}")
                    if size > LONGEST_BODY and not raw:
                        raise _Fault(f"an answer of more than {LONGEST_BODY >> 20} MiB")
                status, headers = response.status_code, dict(response.headers)
            text = b"".join(parts).decode("utf-8", "replace")
        except httpx2.TimeoutException as error:
            raise _Fault(f"slower than engine.server.timeout_s={self.settings.timeout_s:g}") from error
        except (httpx2.HTTPError, httpx2.StreamError, RuntimeError, OSError) as error:
            # A library's message about a broken connection may contain what was sent.
            reason = " ".join(self.key.hidden(str(error)).split())[:_SHOWN]
            raise _Fault(f"{type(error).__name__}: {reason}" if reason else type(error).__name__) from None
        if raw and status == 200:
            return {"raw": self.key.hidden(text)}
        return self._answer(status, headers, text, payload if isinstance(payload, Mapping) else {})

    def _answer(self, status: int, headers: Mapping[str, str], text: str, sent: Mapping[str, Any]) -> Json:
        """Return the JSON of an answer, or raise an error that describes what came instead."""
        try:
            body = self.key.hidden_in(parse_json(text, numbers_alone=False), refused=status != 200)
        except (ValueError, RecursionError):
            body = None
        if status == 200:
            status = _status_within(body, sent) or status
        if status in _PASSING or status >= 500:
            raise _Fault(f"HTTP {status}{error_said(body)}", wait_asked(headers), status in _SLOWED)
        means = meaning_of(body, sent) if status in (*_OF_PROMPTS, 403) else ""
        if status == 401 or (status == 403 and means != "declined"):
            if self.key.variable:
                what, remedy = "rejected the key", f"export {self.key.variable}=... with a key for this server"
            else:
                # The options of a model and of a judge have two beginnings, but the same ends.
                what, remedy = "asks for a key", "export one, and name its variable in api_key_env= (beside base_url=)"
            raise ModelError(f"{self.base_url}: {what} (HTTP {status}{error_said(body)}); {remedy}")
        if 300 <= status < 400:
            raise ModelError(
                f"{self.base_url}: redirects elsewhere (HTTP {status}), and keys are not sent there; give the "
                "final address as base_url"
            )
        if status in (404, 405, 501):
            return {"http_status": status, "said": error_said(body)}
        if status in (*_OF_PROMPTS, 403):
            return {"http_status": status, "said": error_said(body), "means": means}
        if status >= 400:
            raise ModelError(f"{self.base_url}: rejected the request (HTTP {status}{error_said(body)})")
        if not isinstance(body, dict):
            begins = " ".join(self.key.hidden(text).split())[:40]
            if begins.lower().startswith(("<!doctype", "<html")):
                raise _Fault("a web page instead of JSON: most addresses of an API end in /v1")
            raise _Fault(f"{f'what begins {begins!r}' if begins else 'nothing'} instead of JSON")
        with self._lock:
            self._spent.n_tokens += _tokens_used(body)
        return body

    def _connected(self) -> httpx2.Client:
        import httpx2

        with self._lock:
            if self._client is None:
                n = self.settings.concurrency
                self._client = httpx2.Client(
                    headers=self.key.headers(),
                    timeout=httpx2.Timeout(self.settings.timeout_s, pool=None),
                    limits=httpx2.Limits(max_connections=n, max_keepalive_connections=n),
                )
            return self._client


class BudgetError(ModelError):
    """The session's budget is spent; answers so far are kept."""


def plain(text: str) -> str:
    """Return a server's text without control characters, which could act on a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def say(line: str) -> None:
    """Print a line on what a server does to standard error."""
    print(line, file=sys.stderr, flush=True)


def wait_asked(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that ``Retry-After`` asks to wait; None if absent or unclear."""
    said = headers.get("retry-after", "").strip()
    try:
        wait = float(said)
    except ValueError:
        try:
            at = parsedate_to_datetime(said)
        except (TypeError, ValueError, IndexError):
            return None
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        wait = (at - datetime.now(UTC)).total_seconds()
    return max(wait, 0.0) if wait == wait and wait < 1e9 else None


def request_names(path: str, payloads: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a name for each request: a hash and a running number among equal requests."""
    seen: Counter[str] = Counter()
    names = []
    for payload in payloads:
        digest = fingerprint([path, payload])
        names.append(f"{digest}-{seen[digest]}")
        seen[digest] += 1
    return names


def token_count(told: object) -> int | None:
    """Return a server's token count; None if the value cannot be one."""
    if not isinstance(told, int) or isinstance(told, bool):
        return None
    return told if 0 <= told < _MOST_TOKENS else None


def _has_text(body: Json) -> bool:
    """Tell whether an answer has a text: what a filter keeps back may cost no tokens."""
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    return isinstance(first, dict) and bool(first.get("text") or (isinstance(message, dict) and message.get("content")))


def _tokens_used(body: Json) -> int:
    """Return how many tokens an answer cost: OpenAI's total, or llama.cpp's two counts; 0 if it does not say."""
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return sum(token_count(n) or 0 for n in map(body.get, _USED))
    total, parts = token_count(usage.get("total_tokens")), map(usage.get, ("prompt_tokens", "completion_tokens"))
    return sum(token_count(n) or 0 for n in parts) if total is None else total


def error_said(body: object) -> str:
    """Return a server's error message as the end of a sentence; for faulty fields their names, not their values."""
    error = body.get("error", body.get("detail", body.get("message"))) if isinstance(body, dict) else None
    said = error.get("message") if isinstance(error, dict) else error
    if isinstance(said, list):
        fields = [each for each in said if isinstance(each, dict)]
        said = "; ".join(f"{_field(each.get('loc'))}{each.get('msg', '')}" for each in fields)
    return f": {' '.join(str(said).split())[:_SHOWN]}" if said else ""


def _status_within(body: object, sent: Mapping[str, Any]) -> int | None:
    """Return the HTTP code of an error that came in place of an answer, but with code 200; None for other answers."""
    error = body.get("error") if isinstance(body, dict) and not body.get("choices") else None
    if not error:
        return None
    code = str(error.get("code")) if isinstance(error, dict) else ""
    if re.fullmatch("[45][0-9][0-9]", code):
        return int(code)
    return 400 if meaning_of(body, sent) else None


def _field(place: object) -> str:
    return f"{'.'.join(map(str, place))}: " if isinstance(place, list) and place else ""
