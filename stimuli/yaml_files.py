"""Reads a YAML file strictly: a key given twice is an error, where PyYAML silently keeps the last."""

from __future__ import annotations

import codecs
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from stimuli.errors import StimulusError, in_one_line
from stimuli.files import LARGEST_TEXT, read_file

_DEEPEST: Final = 100
"""Brackets, or levels of indentation, that may stand within each other: PyYAML takes minutes over some thousands."""
_REMEDIES: Final[Mapping[str, str]] = {
    "<stream end>": "a bracket or a quote is not closed",
    "'\\t'": "a tab comes before a name; use spaces",
    "mapping values are not allowed": "text with a colon must be in quotes, and a name's colon needs a space after it",
    "expected ',' or": "a bracket is not closed, or a comma is missing",
    "another document": "a line --- starts another document; leave it out",
    "undefined alias": "a text that begins with * must be in quotes",
    "2002:merge": "<< cannot be read; write the values out",
    "a constructor for the tag": "a text that begins with ! must be in quotes",
    "could not find expected ':'": "a colon is missing after a name",
    "expected <block end>": "names of one level must start in the same column",
    "cannot start any token": "a text that begins with this character must be in quotes",
}
"""What is likeliest meant, by what PyYAML says."""
_MOST: Final = 1_000_000
"""Values that a file may stand for, once aliases are written out: a few lines of them can stand for any number."""


class _StrictLoader(yaml.SafeLoader):
    """A safe loader that refuses a mapping with a key given twice, and what is nested too deeply."""

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:
        if self.flow_level >= _DEEPEST:
            raise self._too_deep()
        super().fetch_flow_collection_start(TokenClass)

    def add_indent(self, column: int) -> bool:
        if len(self.indents) >= _DEEPEST:
            raise self._too_deep()
        return bool(super().add_indent(column))

    def _too_deep(self) -> StimulusError:
        return StimulusError(f"line {self.line + 1}: is nested more than {_DEEPEST} levels deep; use fewer levels")


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        line = key_node.start_mark.line + 1
        if not isinstance(key, Hashable):
            raise StimulusError(f"line {line}: a key must be a word, not a {type(key).__name__}")
        if key in seen:
            raise StimulusError(f"line {line}: {key!r} occurs twice, first on line {seen[key]}; keep one")
        seen[key] = line
    return dict(loader.construct_mapping(node, deep=True))


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def may_be_file(path: Path) -> bool:
    """Say whether a path is a file, or one that may not be looked at: whoever reads that says why it cannot be read."""
    try:
        return path.is_file()
    except OSError:
        return True


def read_text(path: Path, *, at_most: int = LARGEST_TEXT) -> str:
    """Return a file's text, which must be UTF-8, or UTF-16 that says so by the mark that it begins with."""
    return decoded(path, _bytes_of(path, at_most))


def read_verbatim(path: Path) -> str:
    """Return a file's text as it is, marks and line ends included; it must be UTF-8."""
    return decoded(path, _bytes_of(path, LARGEST_TEXT), encoding="utf-8")


def _bytes_of(path: Path, at_most: int) -> bytes:
    try:
        return read_file(path, at_most=at_most)
    except (OSError, ValueError) as error:  # a name may hold what no name of a file can
        raise StimulusError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error


def decoded(path: Path, raw: bytes, *, encoding: str | None = None) -> str:
    """Return the text that a file's bytes are, see :func:`read_text`."""
    if raw.startswith(b"PK\x03\x04"):
        raise StimulusError(
            f"{path}: is not text, but packed like .xlsx, .ods and .docx files; give a spreadsheet its own file "
            "ending, or save it as UTF-8 text"
        )
    try:
        text = raw.decode(encoding or _encoding(raw))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        excel = ' (in Excel: "CSV UTF-8")' if path.suffix.lower() == ".csv" else ""
        raise StimulusError(
            f"{path}: line {line} is not UTF-8 (byte 0x{raw[error.start]:02x}); save the file as UTF-8{excel}"
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise StimulusError(f"{path}: line {line} has a NUL character, which no text has; save the file as UTF-8")
    return text


def _encoding(raw: bytes) -> str:
    """Return how a text is written, by the mark that it begins with."""
    if raw.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return "utf-8-sig"


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file."""
    text = read_text(path)
    try:
        content = _loaded(text)
    except StimulusError as error:
        raise StimulusError(f"{path}: {error}") from error
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        # PyYAML's own constructors let the bare ones escape, e.g. for the date 2020-13-01.
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise StimulusError(
            f"{path}: {where}is not YAML ({_in_words(getattr(error, 'problem', None) or error)})"
        ) from error
    if not isinstance(content, dict) or not content:
        raise StimulusError(f"{path}: is empty, or has no NAME: VALUE pairs; write lines such as NAME: VALUE")
    return content


def _in_words(problem: object) -> str:
    """Return what PyYAML says of a file, with the remedy for the likeliest mistakes."""
    said = in_one_line(problem)
    for part, remedy in _REMEDIES.items():
        if part in said:
            return f"{said}; {remedy}"
    return said


def check_size(path: Path) -> None:
    """Refuse a YAML file that is none, is nested too deeply, or whose aliases stand for more than can be held.

    For files that another library loads, which would not end; what else is wrong with one is left to that library.
    """
    if not may_be_file(path) and not path.exists():
        return
    raw = _bytes_of(path, LARGEST_TEXT)
    try:
        text = decoded(path, raw)
    except StimulusError:
        return
    try:
        _checked_node(_StrictLoader(text))
    except StimulusError as error:
        raise StimulusError(f"{path}: {error}") from error
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError):
        return


def _loaded(text: str) -> Any:
    loader = _StrictLoader(text)
    try:
        node = _checked_node(loader)
        return None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()


def _checked_node(loader: _StrictLoader) -> yaml.Node | None:
    node: yaml.Node | None = loader.get_single_node()
    if node is not None:
        _size(node, {})
    return node


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Return how many values a node stands for, aliases written out; StimulusError if they are too many or endless."""
    place = id(node)
    if place not in known:
        known[place] = _MOST + 1  # as long as it is within itself
        inside = node.value if isinstance(node, yaml.CollectionNode) else ()
        parts = [part for each in inside for part in (each if isinstance(each, tuple) else (each,))]
        known[place] = 1 + sum(_size(part, known) for part in parts)
    if known[place] > _MOST:
        raise StimulusError(
            f"line {node.start_mark.line + 1}: an alias (*name) stands for itself, or for more than {_MOST:,} values; "
            "write out what is meant"
        )
    return known[place]


def line_of(path: Path, keys: Sequence[str | int]) -> int | None:
    """Return the line of a YAML file on which a value stands, by the keys that lead to it; or of the last key there.

    If the file cannot be read again, or its top level has no such key, the answer is None.
    """
    try:
        node = _StrictLoader(read_text(path)).get_single_node()
    except (StimulusError, yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError):
        return None
    line = None
    for key in keys:
        if isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == str(key)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
            line = node.start_mark.line + 1
        else:
            break
    return line


def at_line(path: Path, *keys: str | int) -> str:
    """Return ``path: line N``, or the path where the line is not known."""
    line = line_of(path, keys)
    return f"{path}: line {line}" if line is not None else str(path)
