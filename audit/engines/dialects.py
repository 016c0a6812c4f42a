"""How models mark the thought that they write before an answer: the marks of each family, and how they are told apart.

A thought stands between two marks, and the answer begins after the second. They are as the families' own chat templates
write them. A text is cut at the marks of all families, whoever wrote it: :func:`without_thoughts`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from audit.configuration.schema import ThinksIn
from audit.errors import ModelError


@dataclass(frozen=True, slots=True)
class Dialect:
    """The marks of a thought.

    Attributes
    ----------
    name
        What ``model.thinks_in`` calls it.
    marks
        Special tokens of its own. Any of them in a chat template tells that a model may think so, and so does the first
        of them as one token of the vocabulary.
    opens, begins
        What stands before a thought, and the white space after that where the template writes none.
    closes
        What the model writes to end it.
    answers
        What stands between that and the answer.
    empty
        What stands in place of a thought that is closed at once.
    told
        How its templates are told to think or not, beside ``enable_thinking`` and ``thinking``: a name, and its value
        without a thought and with one.
    habitual
        Whether the marks in a vocabulary alone tell that the model thinks. Others are in those of models that do not.
    """

    name: str
    marks: tuple[str, ...]
    opens: str
    closes: str
    begins: str = ""
    answers: str = ""
    empty: str = ""
    told: tuple[str, Any, Any] | None = None
    habitual: bool = False

    def opened(self, text: str) -> str:
        """Return a rendered prompt, up to where the thought begins: opened by its template, or else here."""
        return text if self.is_open(text) else text + self.opens + self.begins

    def is_open(self, text: str) -> bool:
        """Say whether a rendered prompt ends within a thought."""
        return text.rstrip().endswith(self.opens)

    def is_closed(self, text: str) -> bool:
        """Say whether a rendered prompt ends behind a thought."""
        return text.rstrip().endswith((self.closes, (self.closes + self.answers).rstrip()))

    def at_once(self, text: str) -> str:
        """Return a rendered prompt with an empty thought at its end, unless its template wrote one."""
        if self.is_closed(text):
            # White space before the answer is the template's own; a mark that begins the answer is not left out.
            begins = self.answers.strip() and text.rstrip().endswith(self.closes)
            return text.rstrip() + self.answers if begins else text
        return f"{self.opened(text)}{self.empty}{self.closes}{self.answers}"

    def after(self, text: str, thought: str) -> str:
        """Return a rendered prompt with a thought, up to where the answer begins."""
        return f"{self.opened(text)}{thought}{self.closes}{self.answers}"

    def holds(self, token: str) -> bool:
        """Say whether a special token is one of its marks, or a part of one."""
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
"""All of them; a model is taken for the first of which it has a mark."""


def dialect_of(asked: ThinksIn, template: str, is_token: Callable[[str], bool]) -> Dialect | None:
    """Return the dialect that a model thinks in; None where nothing tells that it thinks.

    Parameters
    ----------
    asked
        ``model.thinks_in``.
    template
        Its chat template; empty where it cannot be read.
    is_token
        Whether a text is one token of its vocabulary.
    """
    if isinstance(asked, tuple):
        return _tagged("thinking.marks", *asked)
    if asked != "auto":
        return next(each for each in DIALECTS if each.name == asked)
    return in_template(template) or next((each for each in DIALECTS if is_token(each.marks[0])), None)


def in_template(template: str) -> Dialect | None:
    """Return the dialect whose marks a chat template writes; None where it writes none."""
    return next((each for each in DIALECTS if any(mark in template for mark in each.marks)), None)


def no_dialect(name: str) -> ModelError:
    """Return what is raised of a model that is asked to think and has no marks to do it with."""
    known = ", ".join(each.name for each in DIALECTS)
    return ModelError(
        f"model {name}: neither its chat template nor its vocabulary tells how it marks a thought, so that it is taken "
        f"for a model that does not think; use thinking=off, or say which marks it was trained with: "
        f"thinking.marks=[OPENS,CLOSES], or model.thinks_in= one of {known}"
    )


# --- Texts with thoughts in them --------------------------------------------------------------------------------------

_CHANNEL: Final = re.compile(r"<\|channel\|>(?P<name>[^<\n]{0,60})<\|message\|>")
"""Where a message of gpt-oss begins: it thinks in the channel analysis, and answers in final."""
_CHANNELS_BARE: Final = re.compile(r"\A\s*analysis.*?assistantfinal", re.DOTALL)
"""The same where a server has taken the special tokens out and left the words between them."""
_CHANNEL_UNENDED: Final = re.compile(r"\A\s*analysis(?=[A-Z])")
_LABELLED: Final = re.compile(r"\A\s*thought\n(?P<rest>.*)\Z", re.DOTALL)
"""Where a server has taken the special tokens of Gemma's channel out: where the thought ends cannot be told."""
_ENDED: Final = re.compile(r"\[END FINAL RESPONSE\]")


def _alternatives(marks: Iterator[str]) -> str:
    return "|".join(map(re.escape, sorted(set(marks), key=len, reverse=True)))


def _marks() -> re.Pattern[str]:
    """Return what matches the mark of a thought in any dialect, and its variants; ``opens`` where it begins one."""
    # What ends any message ends no thought by itself: the mark is where the answer begins.
    pairs = [
        (each.opens, each.closes + each.answers if each.closes == "<|end|>" else each.closes)
        for each in DIALECTS
        if each is not _CHANNELS
    ]
    # Words, and not tags, are marks where they begin a line.
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
    """Return what a text answers, without thoughts; empty where one does not end, or the marks of one are unknown.

    All before the last thought's end is thought but for what stands before the first one's beginning: chat templates
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
    """Tell whether what comes after a text may be thinking, since the text opens some and does not close it."""
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
"""What looks like a mark, in ASCII brackets: a name in them."""
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
"""A name between rules, or in a bracket that does not close: "=== reasoning ===", "<think"."""
_BEGINS: Final = frozenset({"begin", "start", "open", "prefix"})
_ENDS: Final = frozenset({"end", "stop", "close", "suffix", "finish"})
_HARMLESS: Final = re.compile(
    # Turns and their ends, which are cut elsewhere; marks of an answer, and of its layout.
    r"inst|sys|turn|im|s|text|header|header_id|id|message|role|bos|eos|pad|box|image|user|assistant|system|model"
    r"|answer|final|final_answer|final_response|response|rating|output|result|score|number|value|intensity|reply"
    r"|solution|content|rate|estimate|a|b|i|u|em|strong|small|big|sub|sup|mark|q|p|div|span|br|hr|li|ul|ol|table|t[rdh]"
    r"|tbody|thead|code|pre|tt|kbd|blockquote|center|font|h[1-6]|html|body|head|title|section|article|color|size"
)
_OF_THOUGHT: Final = re.compile(
    r"think|thought|reason|cot\b|scratch|analys|reflect|inner|monolog|deliberat|ponder|plan\b|internal|draft"
    r"|denk|gedank|überleg|begründ|pens[éea]|réfl|raison|razon|ragion|мысл|рассужд|思考|思维|推理|考え|생각|추론",
    re.I,
)


def has_unknown_marks(text: str) -> bool:
    """Say whether a pair of marks that nobody has told of stands around a part of a text, or one begins a thought.

    What stands between them may be a thought, and a number in it no rating.
    """
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
        if _HARMLESS.fullmatch(stem) or (not stem and found["left"]):  # <|start|> and <|end|> are of turns
            continue
        # Special tokens are never an answer's own words: any two of them are a pair, whatever they are called.
        stem = "|" if found["left"] and found["right"] else stem
        if (ends or stem == "|") and stem in begun and text[begun[stem] : found.start()].strip():
            return True
        if not ends and (is_thought or (_begins_a_line(found) and text[found.end() :].strip())):
            return True
        if not ends:
            begun.setdefault(stem, found.end())
    return False


def _begins_a_line(found: re.Match[str]) -> bool:
    """Tell whether a line begins with a mark that is no word in ordinary brackets, nor a key with its value."""
    name = found["name"]
    is_mark = name is not None and not re.search(r":\s|\d", name) and name.count(" ") < _MANY_WORDS
    before = found.string[found.string.rfind("\n", 0, found.start()) + 1 : found.start()]
    return is_mark and not _LAYOUT.sub("", before).strip(" \t*#>_`-")


_MANY_WORDS: Final = 4
_LAYOUT: Final = re.compile(r"</?[a-z]{1,10}>|\\[a-z]{1,12}\{|\$", re.IGNORECASE)


def opens_unknown(text: str) -> str:
    """Return the mark of no dialect that says it begins a thought and with which a rendered prompt ends; else empty."""
    last = next((found for found in _ANY_MARK.finditer(text) if not text[found.end() :].strip()), None)
    if last is None or last["comment"] or _MARK.search(last[0]) or _CHANNEL.search(text):
        return ""
    ends, _, is_thought = _named(last)
    return last[0] if is_thought and not ends else ""


def _named(found: re.Match[str]) -> tuple[bool, str, bool]:
    """Return of what looks like a mark whether it ends something, what that is called, and whether it is a thought."""
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
