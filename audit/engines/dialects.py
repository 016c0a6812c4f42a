"""How models mark the thought that they write before an answer: each family's marks, and how to recognise them.

A thought is between two marks, and the answer begins after the second. The marks are as in the families' own chat
templates. :func:`without_thoughts` cuts a text at the marks of all families, whichever model wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from audit.configuration.model import ThinksIn
from audit.errors import ModelError


@dataclass(frozen=True, slots=True)
class Dialect:
    """The marks of a thought."""

    name: str  # in model.thinks_in
    # Its own special tokens. Any of them in a chat template shows that a model may think so, as does the first of them
    # as a token of the vocabulary.
    marks: tuple[str, ...]
    opens: str
    closes: str
    begins: str = ""  # the white space after the mark, if the template writes none
    answers: str = ""  # text between the thought and the answer
    empty: str = ""  # content of a thought that is closed at once
    # How to tell its templates to think or not, besides enable_thinking and thinking: a variable's name, and its values
    # without and with a thought.
    told: tuple[str, Any, Any] | None = None
    # Whether the marks in a vocabulary suffice to show that the model thinks: others also occur in vocabularies of
    # models that do not.
    habitual: bool = False

    def opened(self, text: str) -> str:
        """Return a rendered prompt up to where the thought begins; opens the thought if the template did not."""
        return text if self.is_open(text) else text + self.opens + self.begins

    def is_open(self, text: str) -> bool:
        """Whether a rendered prompt ends within a thought."""
        return text.rstrip().endswith(self.opens)

    def is_closed(self, text: str) -> bool:
        """Whether a rendered prompt ends after a thought."""
        return text.rstrip().endswith((self.closes, (self.closes + self.answers).rstrip()))

    def at_once(self, text: str) -> str:
        """Return a rendered prompt with an empty thought at its end, unless its template wrote one."""
        if self.is_closed(text):
            # Keep the template's own white space before the answer, but never omit a mark that begins it.
            begins = self.answers.strip() and text.rstrip().endswith(self.closes)
            return text.rstrip() + self.answers if begins else text
        return f"{self.opened(text)}{self.empty}{self.closes}{self.answers}"

    def after(self, text: str, thought: str) -> str:
        """Return a rendered prompt with a thought, up to where the answer begins."""
        return f"{self.opened(text)}{thought}{self.closes}{self.answers}"

    def holds(self, token: str) -> bool:
        """Whether a special token is one of the marks or part of one."""
        return token in self.opens or token in self.closes or token in self.answers or token in self.marks


THINK: Final = Dialect("think", ("<think>", "</think>"), "<think>", "</think>", "\n", "\n\n", empty="\n")
_CHANNELS: Final = Dialect(
    "gpt-oss",
    ("<|channel|>",),
    "<|channel|>analysis<|message|>",
    "<|end|>",
    answers="<|start|>assistant<|channel|>final<|message|>",
    habitual=True,
)


def _tagged(name: str, opens: str, closes: str, **other: Any) -> Dialect:
    return Dialect(name, (opens, closes), opens, closes, **other)


DIALECTS: Final = (
    _CHANNELS,
    _tagged("seed", "<seed:think>", "</seed:think>", answers="\n", habitual=True),
    _tagged("kimi", "◁think▷", "◁/think▷", habitual=True),
    Dialect("gemma", ("<|channel>", "<channel|>"), "<|channel>thought", "<channel|>", "\n"),
    Dialect(
        "cohere-4",
        ("<|START_TEXT|>",),
        "<|START_THINKING|>",
        "<|END_THINKING|>",
        answers="<|START_TEXT|>",
        told=("reasoning", False, True),
    ),
    _tagged(
        "cohere",
        "<|START_THINKING|>",
        "<|END_THINKING|>",
        answers="<|START_RESPONSE|>",
        told=("reasoning", False, True),
    ),
    _tagged("apertus", "<|inner_prefix|>", "<|inner_suffix|>"),
    _tagged("mistral", "[THINK]", "[/THINK]", told=("reasoning_effort", "none", "high")),
    _tagged("apriel", "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", begins="\n", answers="\n", empty="\n"),
    _tagged("granite", "Here is my thought process:", "Here is my response:", begins="\n", answers="\n", empty="\n"),
    Dialect("solar", ("<|think|>",), "<|think|>", "<|end|>", answers="<|begin|>assistant<|content|>", habitual=True),
    _tagged("hunyuan", "<think:opensource>", "</think:opensource>"),
    _tagged("minimax", "<mm:think>", "</mm:think>"),
    _tagged("plamo", "<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
    _tagged("k2", "<ifm|think>", "</ifm|think>"),
    _tagged("kimi-k3", "<|open|>think<|sep|>", "<|close|>think<|sep|>", answers="<|open|>response<|sep|>"),
    _tagged(
        "openthinker",
        "<|begin_of_thought|>",
        "<|end_of_thought|>",
        begins="\n\n",
        answers="\n\n<|begin_of_solution|>\n\n",
    ),
    THINK,
    _tagged("thought", "<thought>", "</thought>", begins="\n", answers="\n\n", empty="\n"),
    _tagged("thinking", "<thinking>", "</thinking>", begins="\n", answers="\n\n", empty="\n"),
)
"""All dialects; the first with a mark in the model is taken."""


def dialect_of(asked: ThinksIn, template: str, is_token: Callable[[str], bool]) -> Dialect | None:
    """Return the dialect that a model thinks in; None if nothing shows that it thinks."""
    if isinstance(asked, tuple):
        return _tagged("thinking.marks", *asked)
    if asked != "auto":
        return next(each for each in DIALECTS if each.name == asked)
    return in_template(template) or next((each for each in DIALECTS if is_token(each.marks[0])), None)


def in_template(template: str) -> Dialect | None:
    """Return the dialect whose marks a chat template writes, or None."""
    return next((each for each in DIALECTS if any(mark in template for mark in each.marks)), None)


def no_dialect(name: str) -> ModelError:
    """Return the error for a model that is asked to think and has no known marks."""
    known = ", ".join(each.name for each in DIALECTS)
    return ModelError(
        f"model {name}: neither its chat template nor its vocabulary shows how it marks a thought, so it is "
        "treated as a model that does not think; use thinking=off, or give the marks it was trained with: "
        f"thinking.marks=[OPENS,CLOSES], or model.thinks_in=, one of {known}"
    )


# --- Texts with thoughts in them --------------------------------------------------------------------------------------

_CHANNEL: Final = re.compile(r"<\|channel\|>(?P<name>[^<\n]{0,60})<\|message\|>")
"""Beginning of a gpt-oss message: it thinks in channel analysis and answers in final."""
_CHANNELS_BARE: Final = re.compile(r"\A\s*analysis.*?assistantfinal", re.DOTALL)
"""The same if a server removed the special tokens and left the words between them."""
_CHANNEL_UNENDED: Final = re.compile(r"\A\s*analysis(?=[A-Z])")
_LABELLED: Final = re.compile(r"\A\s*thought\n(?P<rest>.*)\Z", re.DOTALL)
"""Gemma's channel if a server removed the special tokens: the end of the thought is then unknown."""
_ENDED: Final = re.compile(r"\[END FINAL RESPONSE\]")


def _alternatives(marks: Iterator[str]) -> str:
    return "|".join(map(re.escape, sorted(set(marks), key=len, reverse=True)))


def _marks() -> re.Pattern[str]:
    """Return the pattern of thought marks in all dialects and variants of them; group ``opens`` or ``closes``."""
    # <|end|> ends any message, not only thoughts, so it counts only with the answer's beginning.
    pairs = [
        (each.opens, each.closes + each.answers if each.closes == "<|end|>" else each.closes)
        for each in DIALECTS
        if each is not _CHANNELS
    ]
    # Marks that are words count only at the beginning of a line.
    words = [opens for opens, _ in pairs if " " in opens]
    tag = r"(?:\w{1,12}[:|])?(?:think|thinking|thought|thoughts|reasoning)(?:_fast|_faster|:\w{1,20})?"
    said = r"analysis|scratchpad|reflection|cot|chain_of_thought|inner_monologue|reason|rationale"
    opens = [
        _alternatives(opens for opens, _ in pairs if opens not in words),
        rf"<(?:{tag}|{said})>", rf"\[{tag}\]", rf"◁{tag}▷",
        rf"(?:\A|\n)[ *#]*(?:{_alternatives(iter(words))}|Here's my thought process:)",
    ]  # fmt: skip
    closes = [
        _alternatives(closes for _, closes in pairs),
        rf"</(?:{tag}|{said})>", rf"\[/{tag}\]", rf"◁/{tag}▷", r"Here's my response:",
    ]  # fmt: skip
    answers = _alternatives(each.answers.strip() for each in DIALECTS if each.answers.strip())
    return re.compile(
        rf"(?P<closes>(?:{'|'.join(closes)})(?:\s*(?:{answers}))?)|(?P<opens>{'|'.join(opens)})", re.IGNORECASE
    )


_MARK: Final = _marks()


def without_thoughts(text: str) -> str:
    """Return a text without its thoughts; empty if one does not end, or its marks are unknown.

    Everything before the last thought's end is removed, except the text before the first thought begins: chat templates
    may write a thought's first mark into the prompt.
    """
    if channels := list(_CHANNEL.finditer(text)):
        final = next((each for each in channels if each["name"].strip() == "final"), None)
        text = "" if final is None else text[final.end() :]
    elif bare := _CHANNELS_BARE.match(text):
        text = text[bare.end() :]
    elif _CHANNEL_UNENDED.match(text):
        return ""
    if (labelled := _LABELLED.match(text)) and re.search(r"[^\W\d_]", labelled["rest"]):
        return ""
    marks = list(_MARK.finditer(text))
    if marks and marks[-1]["opens"] is not None:
        return ""
    if marks:
        before = text[: marks[0].start()] + "\n" if marks[0]["opens"] is not None else ""
        text = before + text[marks[-1].end() :]
    text = _ENDED.sub("", text)
    return "" if has_unknown_marks(text) else text


def ends_within_thought(text: str) -> bool:
    """Whether the text after this one may be thinking, because this one opens a thought and leaves it open."""
    if channels := list(_CHANNEL.finditer(text)):
        return bool(channels[-1]["name"].strip() != "final")
    marks = list(_MARK.finditer(text))
    return has_unknown_marks(text[marks[-1].end() :] if marks else text) or (
        bool(marks) and marks[-1]["opens"] is not None
    )


_ANY_MARK: Final = re.compile(
    r"<(?P<slash>/?)(?P<left>\|?)(?P<name>/?[^\W\d][\w:./▁ -]{0,40}?)(?P<right>\|?)(?:\s[^<>]{0,60})?>"
    r"|\[(?P<square>/?[^\W\d][\w:/ -]{0,40})\]"
    r"|\{\{?(?P<braced>/?[^\W\d][\w:/ -]{0,40})\}\}?|\((?P<round>/?[^\W\d][\w:/ -]{0,40})\)|(?P<comment><!--)"
)
"""Anything that looks like a mark: a name in ASCII brackets."""
_AS_ASCII: Final = str.maketrans(
    dict.fromkeys("‹«〈《＜﹤⟨⟪❮❰◁◀◂【〔〖〘〚⟦⟬⦃⌈「『", "<")
    | dict.fromkeys("›»〉》＞﹥⟩⟫❯❱▷▶▸】〕〗〙〛⟧⟭⦄⌉」』", ">")
    | dict(zip("［］｛｝（）｜／", "[]{}()|/", strict=True))
)
_ESCAPED: Final = re.compile(r"&(?:amp;)*(?:(?P<opens>lt|#0*60|#x0*3c)|gt|#0*62|#x0*3e);", re.IGNORECASE)
_ORNATE: Final = re.compile(r"(?<=<)[*$~.#%@^+=_-]{1,3}(?=/?[^\W\d_])|(?<=\w)[*$~.#%@^+=-]{1,3}(?=>)")
"""Signs within the brackets of a mark: "<*think*>"."""
_DECORATION: Final = re.compile(r"[*\"“”„`]+")
_FENCE: Final = re.compile(r"(?:(?<![\w`])`{3,}|(?<![\w~])~{3,})[ \t\"*_`]*(?P<name>[^\W\d_][^\s`~{\"*]*)")
_OF_CODE: Final = re.compile(
    r"te?xt|plain(?:text)?|json[c5l]?|ya?ml|toml|xml|html|markdown|md|python3?|py|latex|tex|math|[ct]sv|bash|sh|shell"
    r"|console|js|javascript|typescript|ts|java|c|cpp|sql|r|diff|output|answer|rating|result|response|number|final",
    re.IGNORECASE,
)
_RULED: Final = re.compile(
    r"(?:[=%~+:-]{2,}[ \t]*(?P<name>[^\W\d][^\n=%~+:]{0,40}?)[ \t]*[=%~+:-]{2,}"
    r"|</?(?P<unclosed>[^\W\d]\w{0,40})(?=[ \t]*$))",
    re.MULTILINE,
)
"""A name between rules, or in a bracket that is not closed: "=== reasoning ===", "<think"."""
_BEGINS: Final = frozenset({"begin", "start", "open", "prefix"})
_ENDS: Final = frozenset({"end", "stop", "close", "suffix", "finish"})
_HARMLESS: Final = re.compile(
    # Turns and their ends, which are cut elsewhere; marks of an answer and of its layout.
    r"inst|sys|turn|im|s|text|header|header_id|id|message|role|bos|eos|pad|box|image|user|assistant|system|model"
    r"|answer|final|final_answer|final_response|response|rating|output|result|score|number|value|intensity|reply"
    r"|solution|content|rate|estimate|a|b|i|u|em|strong|small|big|sub|sup|mark|q|p|div|span|br|hr|li|ul|ol|d[ldt]|table|t[rdh]"
    r"|tbody|thead|code|pre|tt|kbd|blockquote|center|font|h[1-6]|html|body|head|title|section|article|color|size"
)
_OF_THOUGHT: Final = re.compile(
    r"think|thought|reason|cot\b|scratch|analys|reflect|inner|monolog|deliberat|ponder|plan\b|internal|draft"
    r"|denk|gedank|überleg|begründ|pens[éea]|réfl|raison|razon|ragion|мысл|рассужд|思考|思维|推理|考え|생각|추론",
    re.I,
)


def has_unknown_marks(text: str) -> bool:
    """Whether a pair of unknown marks surrounds part of a text, or an unknown mark begins a thought."""
    text = _ESCAPED.sub(lambda each: "<" if each["opens"] else ">", text).translate(_AS_ASCII)
    if any(not _OF_CODE.fullmatch(each["name"]) for each in _FENCE.finditer(text)):
        return True
    text = _ORNATE.sub("", _DECORATION.sub("", text))
    if any(_OF_THOUGHT.search(each["name"] or each["unclosed"]) for each in _RULED.finditer(text)):
        return True
    begun: dict[str, int] = {}
    for found in _ANY_MARK.finditer(text):
        if found["comment"]:
            return True
        ends, stem, is_thought = _named(found)
        if _HARMLESS.fullmatch(stem) or (not stem and found["left"]):  # <|start|> and <|end|> belong to turns
            continue
        # Special tokens are never words of an answer, so any two form a pair, whatever their names.
        stem = "|" if found["left"] and found["right"] else stem
        if (ends or stem == "|") and stem in begun and text[begun[stem] : found.start()].strip():
            return True
        if not ends and (is_thought or (_begins_a_line(found) and text[found.end() :].strip())):
            return True
        if not ends:
            begun.setdefault(stem, found.end())
    return False


def _begins_a_line(found: re.Match[str]) -> bool:
    """Whether a mark begins a line, and is neither a word in ordinary brackets nor a key with its value."""
    name = found["name"]
    is_mark = name is not None and not re.search(r":\s|\d", name) and name.count(" ") < _MANY_WORDS
    before = found.string[found.string.rfind("\n", 0, found.start()) + 1 : found.start()]
    return is_mark and not _LAYOUT.sub("", before).strip(" \t*#>_`-")


_MANY_WORDS: Final = 4
_LAYOUT: Final = re.compile(r"</?[a-z]{1,10}>|\\[a-z]{1,12}\{|\$", re.IGNORECASE)


def opens_unknown(text: str) -> str:
    """Return the unknown mark at a rendered prompt's end that opens a thought; empty if none."""
    last = next((found for found in _ANY_MARK.finditer(text) if not text[found.end() :].strip()), None)
    if last is None or last["comment"] or _MARK.search(last[0]) or _CHANNEL.search(text):
        return ""
    ends, _, is_thought = _named(last)
    return last[0] if is_thought and not ends else ""


def _named(found: re.Match[str]) -> tuple[bool, str, bool]:
    """Return whether a mark ends something, the name without "begin" and "end", and whether it marks a thought."""
    kinds = ("name", "square", "braced", "round")
    kind, name = next((kind, found[kind]) for kind in kinds if found[kind] is not None)
    ends = name.startswith("/") or bool(found["slash"])
    if kind == "name" and bool(found["left"]) != bool(found["right"]):  # <|x> and <x|>
        ends = bool(found["right"])
    parts = [part for part in re.split(r"[\W_▁]+", name.lower()) if part]
    ends = ends or bool(_ENDS & set(parts))
    stem = "_".join(part for part in parts if part not in _BEGINS | _ENDS | {"of"})
    is_mark = kind != "round" and (kind != "square" or name.isupper())  # "[thinking of it]" is a remark
    return ends, stem, is_mark and bool(_OF_THOUGHT.search(stem.replace("_", " ")))
