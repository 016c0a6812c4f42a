"""Inputs that no reader asked for: valid ones with a fault in them, of bytes, texts, JSON, YAML, tables and Parquet.

Everything is drawn from the ``random.Random`` that is handed in, so that a seed gives the same inputs again.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

HUGE = (
    "9" * 5000,
    "1e400",
    "-1e400",
    "1e308",
    "NaN",
    "-Infinity",
    "Infinity",
    "1" + "0" * 40,
    "0x10",
    "1_000",
    "-0",
    "٣",
)
"""Numbers that are too large, or none to everybody."""
ODD = (
    "",
    " ",
    "\x00",
    "\ufeff",
    "\u202e",
    "\u2028",
    "\x85",
    "\x1b[31m",
    "é",
    "e\u0301",
    "🙂",
    "Ａ",
    "ﬁ",
    "ſ",
    "İ",
    "ß",
    "\ud800",
    "{",
    "}",
    "{0}",
    "{perceiver}",
    "{{",
    "%s",
    "${oc.env:HOME}",
    "${",
    "null",
    "~",
    "true",
    "=1+1",
    "'",
    '"',
    "\\",
    "\r",
    "\n",
    "\t",
    ",",
    ";",
    "a" * 3000,
    "(" * 200,
    "[" * 200,
    "../../etc/passwd",
    "-1",
    "0",
    "NA",
    "nan",
    "None",
)
"""Texts that act somewhere, or look like something else."""
BYTES = (
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\r",
    b"\n",
    b'"',
    b"\x80" * 9,
    b"\xff" * 8,
    b"\x7f\xff\xff\xff",
)
MOST = 200_000
"""Bytes of an input, at most: a flood is another fault than these."""


def of_bytes(rng: Random, content: bytes) -> bytes:
    """Return bytes with one to four faults: flipped bits, a cut, something put in, taken out, doubled or moved."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(content) + 1)
        to = min(len(content), at + rng.choice((1, 1, 2, 4, 8, 64, 512)))
        match rng.randrange(8):
            case 0 | 1 if content:
                place = min(at, len(content) - 1)
                content = content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]
            case 2:
                content = content[:at]
            case 3:
                content = content[:at] + rng.choice(BYTES) + content[at:]
            case 4:
                content = content[:at] + content[to:]
            case 5:
                content = content[:to] + content[at:]
            case 6:
                content = content[:at] + rng.randbytes(to - at) + content[to:]
            case _:
                other = rng.randrange(len(content) + 1)
                content = content[:at] + content[other : other + to - at] + content[to:]
    return content[:MOST]


def of_text(rng: Random, text: str) -> bytes:
    """Return a text with an odd text put in, a word or line changed for another, or in another encoding."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(text) + 1)
        lines = text.split("\n")
        match rng.randrange(6):
            case 0:
                text = text[:at] + rng.choice(ODD) + text[at:]
            case 1:
                words = text.split(" ")
                words[rng.randrange(len(words))] = rng.choice((*ODD, *HUGE))
                text = " ".join(words)
            case 2:
                one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
                lines[one], lines[other] = lines[other], lines[one]
                text = "\n".join(lines)
            case 3:
                one = rng.randrange(len(lines))
                text = "\n".join([*lines[:one], *lines[one : one + 1] * rng.choice((0, 2, 50)), *lines[one + 1 :]])
            case 4:
                digits = [place for place, letter in enumerate(text) if letter.isdecimal()]
                if digits:
                    at = rng.choice(digits)
                    text = text[:at] + rng.choice(HUGE) + text[at + 1 :]
            case _:
                text = text.replace("\n", rng.choice(("\r\n", "\r", "\n\n")))
    encoding = rng.choice(("utf-8",) * 8 + ("utf-16", "latin-1", "utf-8-sig", "utf-32-le"))
    return text.encode(encoding, "surrogatepass" if encoding.startswith("utf") else "replace")[:MOST]


def any_value(rng: Random, depth: int = 2) -> Any:
    """Return a value of JSON of any type, odd ones above all."""
    match rng.randrange(10 if depth else 7):
        case 0:
            return rng.choice((None, True, False))
        case 1 | 2:
            return rng.choice((0, -1, 1, 2**31, -(2**63), 2**63, 2**200, 10**30))
        case 3:
            return rng.choice((0.5, -0.0, 1e308, float("nan"), float("inf"), float("-inf"), 1e-320))
        case 4 | 5:
            return rng.choice(ODD)
        case 6:
            return rng.choice(([], {}, [[]], [{}], {"": None}))
        case 7:
            return [any_value(rng, depth - 1) for _ in range(rng.randrange(4))]
        case _:
            return {rng.choice(ODD): any_value(rng, depth - 1) for _ in range(rng.randrange(4))}


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in a value, itself first."""
    found = [path]
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        found += _places(each, (*path, key))
    return found


def _changed(value: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    """Return a value with what stands at a path changed."""
    if not path:
        return change(value)
    copied = value.copy()
    copied[path[0]] = _changed(value[path[0]], path[1:], change)
    return copied


def of_value(rng: Random, value: Any) -> Any:
    """Return a value of JSON or YAML with one to three of the values in it of another type, absent, more or swapped."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = _places(value)
        path = rng.choice(places)

        def change(there: Any) -> Any:
            match rng.randrange(7):
                case 0 if isinstance(there, dict) and there:
                    gone = rng.choice(list(there))
                    return {key: each for key, each in there.items() if key != gone}
                case 1 if isinstance(there, dict):
                    return {**there, rng.choice((*ODD, "name", "kind", "path")): any_value(rng)}
                case 2 if isinstance(there, (dict, list)) and len(there) > 1:
                    keys = list(there) if isinstance(there, dict) else list(range(len(there)))
                    one, other = rng.sample(keys, 2)
                    swapped = there.copy()
                    swapped[one], swapped[other] = there[other], there[one]
                    return swapped
                case 3 if isinstance(there, list):
                    return there * rng.choice((0, 2, 20))
                case 4 if isinstance(there, str):
                    return there + rng.choice(ODD)
                case 5 if isinstance(there, (int, float)):
                    return rng.choice((-there, there * 10**9, str(there), float(there), [there], there + 0.5))
                case _:
                    return any_value(rng)

        value = _changed(value, path, change)
    return value


def of_json(rng: Random, content: bytes) -> bytes:
    """Return JSON with a fault of its values, of its text or of its bytes; or nested deeper than anything is."""
    match rng.randrange(10):
        case 0:
            return of_bytes(rng, content)
        case 1:
            return of_text(rng, content.decode())
        case 2:
            return deep(rng, content)
        case _:
            value = of_value(rng, json.loads(content))
            return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")[:MOST]


def deep(rng: Random, content: bytes) -> bytes:
    """Return JSON in which one value is a nest of lists or mappings, whole or broken off."""
    n = rng.choice((100, 1_000, 20_000))
    opens, closes = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
    nest = opens * n + b"1" + closes * (n if rng.random() < 0.7 else n - 1)
    colon = content.find(b":", rng.randrange(len(content) + 1))
    if colon < 0 or rng.random() < 0.3:
        return nest
    end = min((place for place in (content.find(mark, colon) for mark in (b",", b"\n", b"}")) if place > 0), default=-1)
    return content[: colon + 1] + nest + content[end:]


def of_lines(rng: Random, content: bytes) -> bytes:
    """Return lines of JSON with a fault in one of them, or of the file as it is."""
    if rng.random() < 0.3:
        return of_bytes(rng, content) if rng.random() < 0.5 else of_text(rng, content.decode())
    lines = content.split(b"\n")
    filled = [place for place, line in enumerate(lines) if line.strip()]
    place = rng.choice(filled)
    lines[place] = rng.choice((of_json(rng, lines[place]), lines[rng.choice(filled)], b"", b"null", b"[]", b"1" * 5000))
    return b"\n".join(lines)[:MOST]


_YAML = (
    "&a [*a]",
    "!!python/object/apply:os.system ['true']",
    "!!binary //8=",
    "!!timestamp 2020-13-01",
    "2020-13-01",
    "!!set {a, b}",
    "!!omap [a: 1]",
    "? [a, b]\n: 1",
    "<<: {a: 1}",
    "<<: 1",
    "*nobody",
    "!!float x",
    "!!int '1_0__'",
    "0o8",
    ".inf",
    ".nan",
    "~",
    "1:30:00",
    "yes",
    "'",
    '"\\ud800"',
    "|\n x",
    "- - - - -",
    "{a: {b: {c: [",
    "%YAML 9.9",
    "--- a\n--- b",
    "!<tag:x> y",
    "=",
    "0b1",
    "-0",
    "1e9999",
    "9" * 5000,
    "!!null x",
    "!!bool maybe",
    "!!pairs [a]",
    "'\\x00'",
    "? ",
    ": ",
)
"""What YAML makes something else of."""


def laughs(rng: Random, key: str) -> bytes:
    """Return YAML whose few lines stand for more values than any machine holds."""
    n = rng.randrange(6, 30)
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, n)]
    return "\n".join([*lines, f"{key}: *a{n - 1}"]).encode()


def of_yaml(rng: Random, content: bytes) -> bytes:
    """Return YAML with a fault of its values, of its text, of its bytes, or of what only YAML has."""
    match rng.randrange(12):
        case 0:
            return of_bytes(rng, content)
        case 1 | 2:
            return of_text(rng, content.decode())
        case 3:
            return (
                laughs(rng, rng.choice(content.decode().split(":")).strip().splitlines()[-1:][0] or "a")
                if rng.random() < 0.3
                else deep(rng, content)
            )
        case 4 | 5:
            lines = content.decode().split("\n")
            place = rng.randrange(len(lines))
            key, colon, _ = lines[place].partition(":")
            lines[place] = f"{key}: {rng.choice(_YAML)}" if colon and rng.random() < 0.8 else rng.choice(_YAML)
            return "\n".join(lines).encode("utf-8", "surrogatepass")
        case _:
            value = of_value(rng, yaml.safe_load(content))
            dumped = yaml.safe_dump(
                value,
                allow_unicode=rng.random() < 0.5,
                sort_keys=False,
                default_flow_style=rng.choice((None, True, False)),
            )
            return dumped.encode("utf-8", "surrogatepass")[:MOST]


def of_table(rng: Random, content: bytes, *, delimiter: str = ",", more: Sequence[str] = ()) -> bytes:
    """Return a delimited file with a fault of a cell, a column, a row or the file; ``more`` are cells to put in."""
    match rng.randrange(8):
        case 0:
            return of_bytes(rng, content)
        case 1:
            return of_text(rng, content.decode("utf-8-sig"))
        case _:
            rows = [
                row for row in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), delimiter=delimiter)
            ]
            for _ in range(rng.choice((1, 1, 2, 3))):
                row = rng.choice(rows)
                column = rng.randrange(len(rows[0])) if rows[0] else 0
                match rng.randrange(8):
                    case 0 | 1 | 2:
                        row[column : column + 1] = [
                            rng.choice((*ODD, *HUGE, *more, rng.choice(rng.choice(rows) or [""])))
                        ]
                    case 3:
                        for each in rows:
                            del each[column : column + 1]
                    case 4:
                        for each in rows:
                            each.insert(column, each[column] if column < len(each) else "")
                    case 5:
                        rows.insert(rng.randrange(len(rows) + 1), list(row))
                    case 6:
                        row += [rng.choice(ODD)]
                    case _:
                        rows = rows[: rng.randrange(1, len(rows) + 1)]
                if not rows[0]:
                    break
            out = io.StringIO(newline="")
            writer = csv.writer(
                out,
                delimiter=delimiter if rng.random() < 0.9 else rng.choice(",;\t|"),
                quoting=rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL)),
                lineterminator=rng.choice(("\n", "\r\n", "\r")),
            )
            writer.writerows(rows)
            return out.getvalue().encode(rng.choice(("utf-8",) * 6 + ("utf-8-sig",)), "surrogatepass")[:MOST]


_TYPES = (
    pa.int8(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.bool_(),
    pa.large_string(),
    pa.date32(),
)


def of_parquet(rng: Random, content: bytes) -> bytes:
    """Return a Parquet file whose table or what it says of itself is another; whole, as a tool would write it."""
    table = pq.read_table(pa.BufferReader(content))
    said = dict(table.schema.metadata or {})
    for _ in range(rng.choice((1, 1, 2))):
        place = rng.randrange(table.num_columns) if table.num_columns else 0
        match rng.randrange(10) if table.num_columns else 9:
            case 0:
                table = table.remove_column(place)
            case 1:
                table = table.append_column(rng.choice(("mood", table.column_names[place], "")), table.column(place))
            case 2 | 3:
                kind = rng.choice(_TYPES)
                try:
                    column = table.column(place).cast(kind)
                except pa.ArrowException:
                    column = pa.nulls(len(table), kind)
                table = table.set_column(place, table.column_names[place], column)
            case 4:
                table = table.set_column(
                    place, table.column_names[place], pa.nulls(len(table), table.schema.types[place])
                )
            case 5:
                table = table.slice(rng.randrange(len(table) + 1))
            case 6:
                table = pa.concat_tables([table, table.slice(0, rng.randrange(3))])
            case 7 if said:
                said[rng.choice(list(said))] = rng.choice(
                    (
                        b"",
                        b"[]",
                        b"{}",
                        b"null",
                        b"99",
                        b"-1",
                        b"x",
                        b"\xff",
                        b"9" * 5000,
                        b"[[1,2,3]]",
                        b"[" * 5000,
                        b'[["part-000000", 1e400, "x"]]',
                    )
                )
            case 8 if said:
                del said[rng.choice(list(said))]
            case _:
                names = list(table.column_names)
                rng.shuffle(names)
                table = table.rename_columns(names)
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(said), sink, write_page_checksum=True)
    return bytes(sink.getvalue().to_pybytes())


def of_gzip(rng: Random, content: bytes, inside: Callable[[Random, bytes], bytes]) -> bytes:
    """Return a gzip file with a fault of what is in it, or of itself."""
    if rng.random() < 0.3:
        return of_bytes(rng, content)
    return gzip.compress(inside(rng, gzip.decompress(content)), mtime=0, compresslevel=1)


def of_gguf(rng: Random, content: bytes, head: int) -> bytes:
    """Return a GGUF file with a fault in its header, its first ``head`` bytes: often in a length or a count."""
    if rng.random() < 0.5:
        return of_bytes(rng, content[:head]) + content[head:]
    at = rng.randrange(4, head - 8)
    number = rng.choice((0, 1, 2**16, 2**31, 2**32 - 1, 2**63, 2**64 - 1, rng.randrange(2**64)))
    form = rng.choice(("<I", "<Q"))
    packed = struct.pack(form, number % 2 ** (8 * struct.calcsize(form)))
    return content[:at] + packed + content[at + len(packed) :]
