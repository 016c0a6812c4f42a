"""Normalises a model's raw text to plain words and ASCII digits, so that one grammar reads every response."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from audit.engines.dialects import without_thoughts
from stimuli.languages import MARKS

_SPECIAL_TOKEN = re.compile(
    r"<\|[^|<>\n]{1,40}\|>|</?s>|\[/?inst\]|</?(?:start|end)_of_turn>|<(?:eos|bos|pad)>", re.IGNORECASE
)
_KNOWN_TOKEN = re.compile(
    r"<\|(?:im_(?:start|end)|end|eot_id|eom_id|end_?of_?text|begin_of_text|return|start|message|channel|call"
    r"|(?:start|end)_header_id|(?:start|end)_of_role|assistant|user|system|end_of_turn|eos|bos|pad)\|>|</?s>|\[/?inst\]"
    r"|</?(?:start|end)_of_turn>|<(?:eos|bos|pad)>",
    re.IGNORECASE,
)
_OWN_TURN = re.compile(  # how a template opens the model's own turn
    r"\A\s*+(?:<s>|<bos>|<\|begin_of_text\|>)?\s*+(?:<\|(?:im_start|start|start_header_id|start_of_role)\|>|<start_of_turn>)\s*"
    r"(?:assistant|model)\s*(?:<\|(?:message|end_header_id|end_of_role)\|>)?"
)
_TURN = re.compile(  # base models continue with turns of their own, and rate in them
    r"^[ #*]{0,6}(?:user|human|system|assistant|model|question|instruction)[* ]{0,3}:\**", re.IGNORECASE | re.MULTILINE
)
_MARKUP: Final = (
    (re.compile(r"[^\S\n]+"), " "),
    (re.compile(r"\\[dt]?frac ?\{([0-9.]{1,9})\}\{([0-9.]{1,9})\}"), r"\1/\2"),
    (re.compile(r"\\(?:text|textbf|mathbf|mathrm) ?\{([^{}\n]{0,60})\}"), r"\1"),
    (re.compile(r"\$ ?([0-9.]{1,9}(?: ?/ ?[0-9]{1,5}| ?\\?%)?) ?\$(?![0-9])"), r"\1"),  # "$85$" is maths, "$50" money
    (re.compile(r"\\?\bboxed ?\{([^{}\n]{0,60})\}"), r"\nfinal answer: \1\n"),
    (re.compile(r"\\[(\[\])]"), " "),
    (re.compile(r"</?[a-z][a-z_]{0,30}>"), "\n"),
    (re.compile(r"~~[^~\n]{1,60}~~"), ""),
    (re.compile(r"[-=]{1,2}>|[→⇒]"), ":"),
)
_NUMBERING = re.compile(r"^[ *#>-]{0,6}\(?([0-9]{1,2})[.):]\)?\*{0,2} +(?=\S)", re.MULTILINE)
_PLAIN = str.maketrans(
    {"’": "'", "‘": "'", "“": '"', "”": '"', "−": "-", "–": "-", "‐": "-", "‑": "-", "—": " - ", "٫": ".", "٬": "'"}
    | {"٪": "%", "。": ". ", "\u200b": "", "\ufeff": "", "\u2060": "", "\ufe0f": ""}
    | {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}  # full-width forms of ASCII
)

_UNITS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS: Final = (
    "ten",
    "eleven",
    "twelve",
    *(f"{stem}teen" for stem in ("thir", "four", "fif", "six", "seven", "eigh", "nine")),
)
_TENS: Final = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_WORD_VALUES: Final = {"zero": 0} | {
    word: start + step * place
    for words, start, step in ((_UNITS, 1, 1), (_TEENS, 10, 1), (_TENS, 20, 10))
    for place, word in enumerate(words)
}
_SMALL: Final = rf"(?:(?:{'|'.join(_TENS)})(?:[- ](?:{'|'.join(_UNITS)}))?|{'|'.join([*_TEENS, *_UNITS, 'zero'])})"
_NUMBER_WORDS = re.compile(
    rf"\b(?:(?P<hundreds>{'|'.join(_UNITS)}|an?) )?hundred(?: (?:and )?(?P<rest>{_SMALL}))?\b"
    rf"|\b(?!one\b(?! to | out of |/))(?P<small>{_SMALL})\b"  # "one" is mostly a pronoun
)
_FORMATS: Final = (
    r"b|strong|i|em|u|s|p|br|hr|div|span|sup|sub|small|big|mark|code|pre|center|font|h[1-6]|[uod]l|li|d[td]"
    r"|t(?:able|r|d|h|head|body)|blockquote|body|html"
)
_OWN_LINES: Final = r"p|br|div|li|t[rdh]|d[td]|pre|h.*"  # of these formats: numbers in two cells are not one number
_TAG = re.compile(r"<(?P<close>/?)(?P<name>[a-z][\w:-]{0,40})(?P<attributes> [^<>\n]{0,80})?/?>", re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(
    r"[\"'*`_]*([a-z][\w:-]{0,40}?)[\"'*`_]* ?= ?(?:[\"'*`]+([^\"'*`\n]*)[\"'*`]+|([^\s\"'*`/]+))", re.IGNORECASE
)
_ANSWERS: Final = re.compile(
    r"(?:final[-_ ]?)?(?:answer|rating|response|output|result|number|score|intensity)", re.IGNORECASE
)
_IN_BRACKETS: Final = re.compile(rf"^[ \t]*\[({_ANSWERS.pattern})\][ \t]*:?(?=[ \t])", re.IGNORECASE | re.MULTILINE)
"""A label in brackets before its number: "[Rating] 70"."""
_BRACKETS: Final = re.compile(r"<\|[^|<>\n]{1,40}\|>|◁/?[^◁▷\n]{1,40}▷|\[(?:/[A-Za-z_]{2,20}|[A-Z_]{3,20})\](?!\()")
_FENCE: Final = re.compile(r"^[ \t]*(?:```|~~~)[^\n`]{0,20}$", re.MULTILINE)
_TEX_MARKS: Final = re.compile(r"\\[()\[\]]")
_GLUED: Final = re.compile(r"(?<=[0-9])[*_`\"$]+(?=[0-9])")
_BOX: Final = re.compile(r"\\?\b(?:boxed|fbox|framebox) ?\{ ?")
_TEX: Final = re.compile(
    r"\\(?:text|textbf|textit|mathbf|mathrm|mathit|emph|bm|displaystyle|large|huge) ?\{([^{}\n]{0,80})\}", re.IGNORECASE
)
_RULE: Final = re.compile(r"^[ \t]*\|?(?: ?:?-{2,}:? ?\|?)+[ \t]*$|^[ \t]*(?:[-*_] ?){3,}$", re.MULTILINE)
_EMPHASIS: Final = re.compile(
    r"(?<![0-9])\*+(?=\S)|(?<=[^\s0-9])\*+|(?<=[0-9])\*+(?=[^\w*]|\Z)|(?<![^\W_])_+(?=\S)|(?<=\S)_+(?![^\W_])"
    r"|(?<![0-9])[`\"]+|[`\"]+(?![0-9])"
)
_WORD_GAP: Final = re.compile(r"(?<=[A-Za-z])_+(?=[A-Za-z])")
_LINE_MARKS: Final = re.compile(
    r"^(?:[ \t]*(?:#{1,6}(?= )|>(?![\s>*_\"'`$(\\{~\ue004\ue007]{0,12}[=0-9.])|[-+•·▪◦‣*](?= )))+", re.MULTILINE
)
_QUOTED_NUMBER: Final = re.compile(r"(:[*_ \t]*\n\s*)>[ \t]+(?=[*_]+[0-9.])")
"""A bold number in a block quote under its label; elsewhere "> 70" is a bound."""
_ITEM_END: Final = "\ue008"
_LISTED: Final = re.compile(r"^[ \t>*_]*(?:[-+•·▪◦‣*]|\(?[0-9][.)]\)?) [^\n]*[^\n:=;.!?…]$", re.MULTILINE)
_HEADING: Final = re.compile(r"^([ \t>]*#{1,6} [^\n]*[^\W0-9][*_ \t]*)$", re.MULTILINE)
_SINGLE_QUOTED: Final = re.compile(r"(?<!\w)'([^'\n]{1,60})'(?!\w)")
_IN_DOLLARS: Final = re.compile(r"\$([^$\n0-9][^$\n]{0,60})\$(?![0-9])")
BOX: Final = MARKS["box"]
ANSWER: Final = MARKS["answer"]
_MARKED_WORDS: Final = re.compile(rf"[{BOX}{ANSWER}](?![~≈$( ]*[-+]?[0-9.])")  # before words a mark means nothing
_BOX_WITHIN: Final = re.compile(rf"{BOX}(?=[^\n]*[0-9][^\n0-9.,/%-]+[0-9])|(?<=[0-9] ){BOX}|(?<=[0-9]/){BOX}")
UNKNOWN: Final = "\ue005"  # stands for unknown marks: the text between them may not be part of the answer
_CAPITAL: Final = "\ue006"
_LONG_NUMBER: Final = re.compile(r"(\d{41})\d+")
_BLANKS: Final = re.compile(r"[^\S\n]{2,}")
_SPACES: Final = re.compile(r" {2,}")
_SPACE_BEFORE: Final = re.compile(r" +(?=[.,;!?](?:\s|\Z))")
_COMPARED: Final = re.compile(rf"(?<![-=])[<>≥≤]+\s*=?\s*(?=[-+~$(\\{BOX} ]*[0-9.])")
_ITEM: Final = re.compile(r"\(?[0-9]{1,2}[.):]\)? +\S")
_NUMERIC: Final = re.compile(rf"[~≈$(\[ {BOX}]*[-+]?(?:[0-9]|\.[0-9])")
_LONE_NUMBER: Final = re.compile(r"[^\w\n]*[0-9][0-9.,]*(?: ?(?:%|(?:[/–-]|to|out of) ?[0-9][0-9.,]*))*[^\w\n]*")
_BEGINNING: Final = re.compile(r"(?:the|this|that|these|i|it|they|my|because|die|der|das|ich|es|sie)\b")
"""How a sentence may begin, but a unit may not."""
_ABBREVIATED: Final = re.compile(r"(?<![^\W\d_])[^\W\d_]{1,2}\.\Z")
_KEYED: Final = re.compile(r"[a-z][a-z' _-]{0,40} ?[:=]")
_LONE_ONE = re.compile(r"[\W_]*one[\W_]*")
_WORD = re.compile(r"\w+")
_HALF = re.compile(r"\b([0-9]{1,3})(?: and a half\b|½)")
_SPOKEN_POINT = re.compile(r"\b([0-9]{1,3}) point ([0-9])\b")


def answer_of(response: str) -> str:
    """Extract the model's answer: without thoughts and invented turns. Empty if a thought may not have ended."""
    response = _OWN_TURN.sub("", without_thoughts(response))
    response = next((part for part in _SPECIAL_TOKEN.split(response) if part.strip()), "").strip()
    own = _TURN.match(response)
    response = response[own.end() :] if own else response
    invented = _TURN.search(response)
    return response[: invented.start()] if invented else response


def follows_unknown_token(response: str) -> bool:
    """Tell whether text follows an unknown special token, so that the text before or after it may be a thought."""
    text = _OWN_TURN.sub("", without_thoughts(response))
    for mark in _SPECIAL_TOKEN.finditer(text):
        if _KNOWN_TOKEN.fullmatch(mark.group()):
            if text[: mark.start()].strip():
                return False
        elif text[mark.end() :].strip():
            return True
    return False


def normalise_text(text: str) -> str:
    """Normalise a text to lower case, single spaces and ASCII digits, without markup and list numbers."""
    text = text.lower().translate(_PLAIN)
    if not text.isascii():
        text = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in text)
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    if _LONE_ONE.fullmatch(text):
        text = text.replace("one", "1")
    text = _NUMBER_WORDS.sub(_in_digits, text)
    text = _SPOKEN_POINT.sub(r"\1.\2", _HALF.sub(r"\1.5", text))
    expected = 1

    def without_numbering(match: re.Match[str]) -> str:
        nonlocal expected
        if int(match[1]) not in {1, expected}:  # "1. I think" numbers a list, "85. I think" is a rating
            return match.group()
        expected = int(match[1]) + 1
        return ""

    return _NUMBERING.sub(without_numbering, text)


def bare(answer: str) -> str:
    """Remove all decoration from an answer, and join lines where a sentence continues.

    Bold, quotes, boxes, code, table cells and separate lines do not change what a text says. :data:`BOX` marks the
    content of a box or of an element called answer.
    """
    text = _BRACKETS.sub(UNKNOWN, _BLANKS.sub(" ", _of_json(_LONG_NUMBER.sub(r"\1", answer))).translate(_QUOTES))
    text = "".join(" " if _is_picture(c) else c for c in text) if not text.isascii() else text
    # A number must not form from digits that only decoration keeps apart.
    text = _TEX_MARKS.sub("", _GLUED.sub("\u2041", text))
    for _ in range(2):
        text = _TEX.sub(r"\1", text)
    text = _unboxed(text).replace("\\%", "%").replace("$$", "").replace("\u00ad", "")
    text = _TAG.sub(_of_tag, text)
    text = _cells(_RULE.sub("", _FENCE.sub("\n", text)))
    text = _LISTED.sub(rf"\g<0>{_ITEM_END}", text)
    text = _LINE_MARKS.sub("", _HEADING.sub(r"\1:", _QUOTED_NUMBER.sub(r"\1", text)))
    text = _SINGLE_QUOTED.sub(r"\1", _IN_DOLLARS.sub(r"\1", text))
    text = _IN_BRACKETS.sub(r"\1:", _WORD_GAP.sub(" ", _EMPHASIS.sub("", text)))
    text = _COMPARED.sub("≶", text)  # a bound is not a rating
    text = _BOX_WITHIN.sub("", _MARKED_WORDS.sub("", text))
    initials = re.findall(r"(?<![^\W\d_])[^\W\d_]", text)
    # In a text of capitals, a capital does not show where a sentence begins.
    shouts = len(initials) > 1 and all(map(str.isupper, initials))
    lines = [line.strip() for line in text.split("\n")]
    marked = "\n".join(_CAPITAL + line if line[:1].isupper() and not shouts else line for line in lines)
    return _joined(normalise_text(marked))


_QUOTES: Final = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "″": '"', "\u200b": "", "\ufeff": "", "\u2060": ""}
)


def _is_picture(c: str) -> bool:
    is_high = c >= "\U0001f000" or "\u2600" <= c <= "\u27bf" or c in "\u2b50\N{REPLACEMENT CHARACTER}"
    return is_high and unicodedata.category(c) in {"So", "Sk"}


def _of_json(answer: str) -> str:
    """Replace each JSON object in an answer by lines of key and value."""
    read, done = [], 0
    start = answer.find("{")
    for _ in range(_MAX_OBJECTS):
        if start < 0:
            break
        try:
            content, end = _OBJECTS.raw_decode(answer, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            read.append(answer[done:start] + "\n" + "\n".join(_leaves(content, "")) + "\n")
            done = end
        start = answer.find("{", end)
    return "".join(read) + answer[done:]


class _Pairs(list[tuple[str, object]]):
    """A JSON object with all its keys, including repeated ones."""


def _leaves(content: object, key: str) -> Iterator[str]:
    if isinstance(content, _Pairs):
        for name, value in content:
            yield from _leaves(value, f"{key}: {name}" if key else name)
    elif isinstance(content, list):
        for value in content:
            yield from _leaves(value, key)
    elif content is not None:
        text = " ".join(str(content).split())
        if key and not _ANSWERS.fullmatch(key) and len(_LETTERS.findall(text)) > _FEW_WORDS:
            text = re.sub(r"\d+(?:[.,]\d+)*", MARKS["other"], text)  # a number in prose beside the rating
        yield f"{key}: {text}" if key else text


_OBJECTS: Final = json.JSONDecoder(object_pairs_hook=_Pairs, parse_int=str, parse_float=str)
_MAX_OBJECTS: Final = 20
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_FEW_WORDS: Final = 3  # a value of up to this many words may be a number: "85 out of 100"
_AROUND_ROWS: Final = " \t*_`\"'>#$•+-" + MARKS["box"] + MARKS["answer"]


def _cells(text: str) -> str:
    """Turn each table row into a line: the heading of its number's column, its other cells, then the number."""
    if "|" not in text:
        return text
    lines: list[str] = []
    head: list[str] = []
    rows = text.split("\n")
    for line in rows:
        line = line.strip(_AROUND_ROWS) if "|" in line else line
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        is_row = len(cells) > 1 or bool(head) or _LONE_NUMBER.fullmatch(_EMPHASIS.sub("", cells[0])) is not None
        is_row = is_row and line.count("|") > 1
        if line.strip().startswith("|") and not is_row:
            is_row, line = len(lines) + 1 < len(rows) and "|" in rows[len(lines) + 1], cells[0]
        if not is_row:
            head = [] if line.strip() else head
            lines.append(line)
            continue
        numbers = [k for k, cell in enumerate(cells) if _LONE_NUMBER.fullmatch(_EMPHASIS.sub("", cell))]
        if not head and len(numbers) != 1:
            head = cells
            lines.append("")
        elif len(numbers) == 1:
            [place] = numbers
            above = head[place] if len(head) == len(cells) else ""
            beside = [cell for k, cell in enumerate(cells) if k != place]
            lines.append(": ".join(filter(None, [above, *beside, cells[place]])))
        else:
            lines.append(": ".join(filter(None, cells)))
    return "\n".join(lines)


def _unboxed(text: str) -> str:
    for _ in range(_MAX_OBJECTS):
        if not (box := _BOX.search(text)):
            break
        depth, end = 1, box.end()
        while end < len(text) and depth and end - box.end() < 200:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        inner = text[box.end() : end - (depth == 0)]
        before, after = text[: box.start()], text[end:]
        if before.endswith("$") and after.startswith("$"):
            before, after = before.rstrip("$"), after.lstrip("$")
        text = before + BOX + inner + after
    return text


def _of_tag(tag: re.Match[str]) -> str:
    name = tag["name"].lower()
    if _ANSWERS.fullmatch(name):
        attributes = tag["attributes"] or ""
        if _ATTRIBUTE.sub("", attributes).strip(" /") or BOX in attributes:
            return f"\n{UNKNOWN}\n"
        said = [f"{each[1]}: {each[2] or each[3]}" for each in _ATTRIBUTE.finditer(attributes)]
        return "\n" if tag["close"] else "\n".join(["", *said, ANSWER])
    if re.fullmatch(_FORMATS, name):
        return "\n" if re.fullmatch(_OWN_LINES, name) else ""
    return f"\n{UNKNOWN}\n"


def _joined(text: str) -> str:
    """Join lines if the second continues the sentence of the first or is the number that the first labels."""
    done: list[str] = []
    is_apart = False
    for line in text.split("\n"):
        own = line.strip()
        if not own:
            is_apart = True
            continue
        last = done[-1] if done else ""
        begins = own.removeprefix(_CAPITAL)
        is_capital = own is not begins and own != begins
        if last and _goes_on(last, begins, is_capital, is_apart):
            done[-1] = f"{last} {begins}"
        else:
            done.append(begins)
        is_apart = False
    text = re.sub(f"[{_CAPITAL}{_ITEM_END}]", "", "\n".join(done))
    return _SPACES.sub(" ", _SPACE_BEFORE.sub("", text))


_ENDED: Final = tuple(".!?…;)]}|。" + UNKNOWN)


def _goes_on(last: str, begins: str, is_capital: bool, is_apart: bool) -> bool:
    is_item, last = last.endswith(_ITEM_END), last.rstrip(_ITEM_END)
    begins = begins.rstrip(_ITEM_END)
    if not (last and begins):
        return False
    if last.endswith(",") and _BEGINNING.match(begins):
        return True
    if begins[0] in "/%=≈:" or (begins[0] == "(" and last[-1].isdigit()):
        return True
    if not any(map(str.isalnum, begins)):
        return True
    is_said = _KEYED.match(begins) or (is_capital and _BEGINNING.match(begins))
    if begins[0].isalpha() and not is_said:  # may be the number's unit
        if _LONE_NUMBER.fullmatch(last):
            if begins.count(" ") < 2:
                return True
        elif last[-1].isdigit() and not is_apart and not _KEYED.match(last):
            return True
    if _NUMERIC.match(begins):
        is_labelled = last.endswith((":", "=")) or not last.endswith(_ENDED) or _ABBREVIATED.search(last) is not None
        return (
            is_labelled
            and not last[-1].isdigit()
            and not last.endswith("%")
            and not _LONE_NUMBER.fullmatch(last)
            and not (_ITEM.match(begins) and not last.endswith(":"))
        )
    if last.endswith((":", "=")):
        return len(begins) < 40 and not is_capital
    is_open = not is_capital and not is_item and not last.endswith(tuple(".!?…;|。" + UNKNOWN))
    is_entry = _KEYED.match(begins) and (_KEYED.match(last) or _LONE_NUMBER.fullmatch(last))
    return begins[0].isalpha() and is_open and not is_entry


def split_words(text: str) -> list[str]:
    """Split a text into words and digits, without punctuation, to compare texts."""
    return _WORD.findall(text)


def _in_digits(words: re.Match[str]) -> str:
    small = words["small"] or words["rest"]
    value = sum(_WORD_VALUES[word] for word in re.split("[- ]", small)) if small else 0
    return str(value if words["small"] else value + 100 * _WORD_VALUES.get(words["hundreds"] or "a", 1))
