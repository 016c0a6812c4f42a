"""The marks of a thought: what a model is given before it, after it, and where none is asked for."""

import re
from types import SimpleNamespace

import pytest

from audit.asking.elicitation.parsing import parse_response
from audit.asking.elicitation.plain_text import answer_of
from audit.engines.base import Generated
from audit.engines.chat import ChatTokenizer
from audit.engines.dialects import DIALECTS
from audit.engines.local import TokenEngine
from audit.engines.served_tokens import RemoteTokenizer
from audit.engines.templates import read_template
from audit.errors import ModelError
from stimuli.prompts import Prompt

MESSAGES = "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
# In words of ours, what the generation prompts of the families come to.
TEMPLATES = {
    "R1": MESSAGES + "{{ '<|start|>assistant\n<think>\n' }}",
    "V3.1": MESSAGES + "<|start|>assistant\n{% if thinking %}<think>{% else %}</think>{% endif %}",
    "Qwen3": MESSAGES + "<|start|>assistant\n{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}",
    "Seed": "{% set mark = '<seed:think>' %}" + MESSAGES + "{{ '<|start|>assistant\n' }}",
    "Kimi": MESSAGES + "{{ '<|start|>assistant\n' }}",
    "gpt-oss": "{# writes <|channel|> of earlier turns #}" + MESSAGES + "<|start|>assistant",
}
HARMONY = "<|channel|>final<|message|>"
# By template: where a thought begins, what closes it up to the answer, and what an answer without one comes after.
MARKS = {
    "R1": ("assistant\n<think>\n", "</think>\n\n", "assistant\n<think>\n\n</think>\n\n"),
    "V3.1": ("assistant\n<think>", "</think>\n\n", "assistant\n</think>"),
    "Qwen3": ("assistant\n<think>\n", "</think>\n\n", "assistant\n<think>\n\n</think>\n\n"),
    "Seed": ("assistant\n<seed:think>", "</seed:think>\n", "assistant\n<seed:think></seed:think>\n"),
    "Kimi": ("assistant\n◁think▷", "◁/think▷", "assistant\n◁think▷◁/think▷"),
    "gpt-oss": (
        "assistant<|channel|>analysis<|message|>",
        f"<|end|><|start|>assistant{HARMONY}",
        f"assistant<|channel|>analysis<|message|><|end|><|start|>assistant{HARMONY}",
    ),
}
ASKED = Prompt("Be a Hindu.", "How much?")
THOUGHT = "They lost a dog, so 7.\n"


@pytest.fixture
def tokenizer_of(tiny_model):
    """Return a function that gives the tiny model's tokenizer, which has a token for <think>, with a template."""

    def made(name, *, think_tokens=True, **options):
        from transformers import AutoTokenizer

        hf = AutoTokenizer.from_pretrained(tiny_model)
        hf.chat_template = TEMPLATES[name]
        tokenizer = ChatTokenizer(hf, name="tiny", **options)
        if not think_tokens:
            tokenizer._is_token = lambda mark: False
        return tokenizer

    return made


def thinker(name, tokenizer_of):
    return tokenizer_of(name, **({"thinks_in": "kimi"} if name == "Kimi" else {}))


# --- What the model is given -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MARKS)
def test_a_thought_begins_after_its_first_mark_and_the_answer_after_its_second(name, tokenizer_of):
    tokenizer = thinker(name, tokenizer_of)
    opens, closes, without = MARKS[name]
    shown = "<|start|>system\nBe a Hindu.<|end|>\n<|start|>user\nHow much?<|end|>\n<|start|>"
    assert tokenizer.render(Prompt(ASKED.system, ASKED.user, thinks=True)) == shown + opens
    thought = Prompt(ASKED.system, ASKED.user, thought=THOUGHT)
    assert tokenizer.render(thought) == shown + opens + THOUGHT + closes
    begun = Prompt(ASKED.system, ASKED.user, thought=THOUGHT, begun="Number:")
    assert tokenizer.render(begun) == shown + opens + THOUGHT + closes + "Number:"
    assert tokenizer.render(ASKED) == shown + without
    nothing = Prompt(ASKED.system, ASKED.user, thought="")
    assert tokenizer.render(nothing) == shown + opens + closes


@pytest.mark.parametrize("name", MARKS)
def test_prompts_with_a_thought_have_the_tokens_of_their_whole_text(name, tokenizer_of):
    tokenizer = thinker(name, tokenizer_of)
    prompts = [
        Prompt("Be a Hindu.", user, thinks=thinks, thought=thought, begun=begun)
        for user in ("How much?", "<|end|>")
        for thinks, thought, begun in [
            (False, None, ""), (True, None, ""), (False, THOUGHT, ""), (False, "", ""), (False, "<|start|>", "Number:"),
        ]
    ]  # fmt: skip
    for _ in range(3):  # what is shared is remembered
        assert tokenizer.encode_prompts(prompts) == [tokenizer.encode(tokenizer.render(p)) for p in prompts]


@pytest.mark.parametrize(
    ("name", "dialect", "closes"),
    [("R1", "think", ""), ("V3.1", "think", ""), ("Qwen3", "think", ""), ("Seed", "seed", "seed"),
     ("gpt-oss", "gpt-oss", "gpt-oss")],
)  # fmt: skip
def test_the_template_tells_the_marks_and_a_manifest_those_that_are_closed_for_it(name, dialect, closes, tokenizer_of):
    tokenizer = tokenizer_of(name, think_tokens=False)
    assert tokenizer.thinking.name == dialect
    assert tokenizer.chat.get("closes", "") == tokenizer.chat_identity.get("closes", "") == closes
    said = f"thoughts are closed at once with the marks of {closes}, unless they are asked for"
    assert tokenizer.say_chat() == (said if closes else "")


def test_the_vocabulary_tells_the_marks_where_the_template_does_not(tokenizer_of):
    assert tokenizer_of("Kimi").thinking.name == "think"  # the tiny tokenizer has a token for it
    tokenizer = tokenizer_of("Kimi", think_tokens=False)
    assert tokenizer.dialect is None
    assert tokenizer.render(ASKED).endswith("assistant\n")
    with pytest.raises(ModelError) as raised:
        tokenizer.render(Prompt("", "x", thinks=True))
    assert str(raised.value) == (
        "model tiny: neither its chat template nor its vocabulary shows how it marks a thought, so it "
        "is treated as a model that does not think; use thinking=off, or give the marks it was "
        "trained with: thinking.marks=[OPENS,CLOSES], or model.thinks_in=, one of "
        + ", ".join(each.name for each in DIALECTS)
    )
    for dialect in DIALECTS:
        assert tokenizer_of("Kimi", think_tokens=False, thinks_in=dialect.name).thinking is dialect


def test_marks_that_the_card_names_close_thoughts_that_the_template_leaves_open(tokenizer_of):
    tokenizer = tokenizer_of("Kimi", think_tokens=False, thinks_in="think")
    assert tokenizer.render(ASKED).endswith("assistant\n<think>\n\n</think>\n\n")
    assert tokenizer.chat_identity["closes"] == "think"


def test_a_template_of_the_users_own_tells_the_marks(tokenizer_of, tmp_path):
    (tmp_path / "own.jinja").write_text(TEMPLATES["Seed"], encoding="utf-8")
    tokenizer = tokenizer_of("R1", template=read_template(str(tmp_path / "own.jinja")))
    assert tokenizer.thinking.name == "seed"


def test_of_several_templates_any_tells_the_marks(tokenizer_of):
    tokenizer = tokenizer_of("Kimi", think_tokens=False)
    tokenizer.hf.chat_template = {"default": TEMPLATES["Kimi"], "thinks": TEMPLATES["R1"]}
    assert tokenizer.thinking.name == "think"


def test_vllms_server_is_told_what_its_template_is_told_here(tiny_model):
    asked = []

    class Remote:
        chat_template, bos_token_id = "the server's", None

        def __call__(self, text, *, add_special_tokens):
            return {"input_ids": [ord(letter) for letter in text]}

        def apply_chat_template(self, messages, **told):
            asked.append({name: told[name] for name in ("enable_thinking", "thinking")})
            return f"{messages[-1]['content']}assistant\n"

    tokenizer = RemoteTokenizer(Remote(), name="x", date="2024-07-26", concurrency=1, thinks_in="seed")
    assert tokenizer.render(Prompt("", "x")) == "xassistant\n<seed:think></seed:think>\n"
    assert tokenizer.render(Prompt("", "x", thinks=True)) == "xassistant\n<seed:think>"
    assert {"enable_thinking": False, "thinking": False} in asked
    assert asked[-1] == {"enable_thinking": True, "thinking": True}


# --- What the model writes -------------------------------------------------------------------------------------------


class Writes(TokenEngine):
    """Writes what it is told, up to where it is told to."""

    max_model_len = 10_000

    def __init__(self, tokenizer, *texts):
        self.tokenizer, self.texts = tokenizer, iter(texts)

    def generate(self, prompts, *, max_tokens, temperature=0.0, top_p=1.0, seeds=None, until="", done=None):
        self.until = until
        written = []
        for _ in prompts:
            text = next(self.texts)
            written.append(Generated(text.partition(until)[0] if until else text, 9, bool(until) and until not in text))
        return written


def test_a_thought_ends_at_its_mark_or_where_the_model_left_it(tokenizer_of):
    texts = ["So 7.\n</think>\n\n99", "So 7<|end|>\n", "So 7", "So <|start|>x</think>", "</think>5"]
    engine = Writes(tokenizer_of("R1"), *texts)
    thoughts = engine.write([Prompt("", "x", thinks=True)] * len(texts), max_tokens=9)
    assert engine.until == "</think>"
    assert [(thought.text, thought.cut) for thought in thoughts] == [
        ("So 7.\n", False), ("So 7", True), ("So 7", True), ("So ", True), ("", False),
    ]  # fmt: skip
    assert all(thought.n_prompt_tokens for thought in thoughts)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.name)
def test_in_every_dialect_a_thought_is_opened_ended_and_closed(dialect, tokenizer_of):
    tokenizer = tokenizer_of("Kimi", think_tokens=False, thinks_in=dialect.name)
    engine = Writes(tokenizer, f"So 7.{dialect.closes}{dialect.answers}99", "So 7", "So 7<|end|>")
    thoughts = engine.write([Prompt("", "x", thinks=True)] * 3, max_tokens=9)
    left = dialect.closes != "<|end|>"  # the third one leaves its turn, which in some dialects ends the thought
    assert [(each.text, each.cut) for each in thoughts] == [("So 7.", False), ("So 7", True), ("So 7", left)]
    assert engine.until == dialect.closes
    after = tokenizer.render(Prompt("", "x", thought="So 7."))
    assert after.endswith(f"{dialect.opens}{dialect.begins}So 7.{dialect.closes}{dialect.answers}")
    off = tokenizer.render(Prompt("", "x"))
    assert off.endswith(f"{dialect.opens}{dialect.begins}{dialect.empty}{dialect.closes}{dialect.answers}")
    assert tokenizer.chat_identity["closes"] == dialect.name


def test_transformers_writes_up_to_a_mark_and_counts_the_tokens_up_to_it(tiny_model, open_engine):
    engine = open_engine(tiny_model)
    prompts = engine.tokenizer.encode_prompts([Prompt("Be a Hindu.", f"How much {n}?") for n in range(5)])
    free = [written.text for written in engine.generate(prompts, max_tokens=24, until="\0never")]
    assert all(written.cut for written in engine.generate(prompts, max_tokens=24, until="\0never"))
    tried = 0
    for place, text in enumerate(free):
        for mark in {text[3:5], text[7:8]} - {""}:
            [alone] = engine.generate([prompts[place]], max_tokens=24, until=mark)
            together = engine.generate(prompts, max_tokens=24, until=mark)
            assert alone.text == together[place].text == text[: text.index(mark)]
            assert (alone.cut, together[place].cut) == (False, False)
            [shorter] = engine.generate([prompts[place]], max_tokens=alone.n_tokens, until=mark)
            assert (shorter.text, shorter.cut, shorter.n_tokens) == (alone.text, False, alone.n_tokens)
            if alone.n_tokens > 1:
                assert engine.generate([prompts[place]], max_tokens=alone.n_tokens - 1, until=mark)[0].cut
            tried += 1
    assert tried > 5


# --- A thought that nobody asked for ---------------------------------------------------------------------------------


@pytest.fixture
def tokenizer_with(tiny_model):
    """Return a function that gives the tiny model's tokenizer with special tokens more."""

    def made(*tokens, template=MESSAGES + "<|start|>assistant:", **options):
        from transformers import AutoTokenizer

        hf = AutoTokenizer.from_pretrained(tiny_model)
        hf.add_tokens(list(tokens), special_tokens=True)
        hf.chat_template = template
        return ChatTokenizer(hf, name="tiny", **options)

    return made


SPECIAL = re.compile(r"<\|[^|]+\|>|<\|\w+>|<\w+\|>|</?[\w:|]+>|\[/?THINK\]|◁/?think▷")


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.name)
def test_the_marks_of_a_thought_outlive_decoding(dialect, tokenizer_with):
    whole = f"{dialect.opens}{dialect.begins}Say 90.{dialect.closes}{dialect.answers}70"
    tokens = [token for token in SPECIAL.findall(whole) if " " not in token]
    tokenizer = tokenizer_with(*tokens, thinks_in=dialect.name)
    for text, answer in [(whole, "70"), (f"{dialect.opens}{dialect.begins}Say 90", ""), ("70", "70")]:
        ids = tokenizer.encode(f"{text}<|end|>")
        assert answer_of(tokenizer.written(ids)).strip() == answer
        assert answer_of(tokenizer.written(ids, tokenizer.decode(ids))).strip() == answer
    assert tokenizer.written(tokenizer.encode("70<|end|>")) == "70"
    closes = tokenizer.encode(f"Say 90.{dialect.closes}{dialect.answers}70<|end|>")
    assert answer_of(tokenizer.written(closes)).strip() == "70" or dialect.closes == "<|end|>"
    cut = tokenizer.encode(f"Say 90.{dialect.closes}")
    assert answer_of(tokenizer.written(cut)).strip() == "" or dialect.closes == "<|end|>"


@pytest.mark.parametrize(("opens", "closes"), [("<|cot_begin|>", "<|cot_end|>"), ("<|mind>", "<mind|>")])
def test_unknown_special_tokens_around_a_text_are_not_stripped_from_it(opens, closes, tokenizer_with):
    tokenizer = tokenizer_with(opens, closes)
    tokenizer.dialect = None
    ids = tokenizer.encode(f"{opens}90{closes}70<|end|>")
    assert tokenizer.decode(ids) == "9070"
    assert parse_response(tokenizer.written(ids), low=0, high=100, quoted=()).status == "unparseable"
    ids = tokenizer.encode("70<|end|>\n<|start|>")  # a turn's end, after which it went on
    assert tokenizer.written(ids) == tokenizer.decode(ids)


@pytest.mark.parametrize("special", [True, False])
def test_marks_of_the_users_own_are_cut_opened_and_closed(special, tokenizer_with):
    marks = ("((muse", "muse))")
    tokenizer = tokenizer_with(*(marks if special else ()), thinks_in=marks)
    assert tokenizer.render(ASKED).endswith("assistant:((musemuse))")
    assert tokenizer.chat_identity["closes"] == "thinking.marks"
    assert tokenizer.render(Prompt("", "x", thinks=True)).endswith("assistant:((muse")
    assert tokenizer.render(Prompt("", "x", thought="7")).endswith("assistant:((muse7muse))")
    assert answer_of(tokenizer.written(tokenizer.encode("((muse90muse))70<|end|>"))).strip() == "70"
    assert answer_of(tokenizer.written(tokenizer.encode("((muse90<|end|>"))) == ""
    engine = Writes(tokenizer, "So 7.muse))99")
    assert engine.write([Prompt("", "x", thinks=True)], max_tokens=9)[0].text == "So 7."


def test_engines_hand_on_the_marks_of_a_thought(tokenizer_with):
    from audit.engines.served_tokens import VllmServerEngine
    from audit.engines.vllm import _generated

    tokenizer = tokenizer_with("[THINK]", "[/THINK]", template=MESSAGES + "{# [THINK] #}<|start|>assistant:")
    ids = tokenizer.encode("[THINK]Say 90.[/THINK]70<|end|>")
    output = SimpleNamespace(text="Say 90.70", token_ids=ids, finish_reason="stop", stop_reason=None)
    written = [_generated(SimpleNamespace(outputs=[output]), "", tokenizer)]
    server = VllmServerEngine.__new__(VllmServerEngine)
    server.tokenizer, server._chat = tokenizer, SimpleNamespace(note=lambda answer: None)
    choice = {"text": "Say 90.70", "token_ids": ids, "finish_reason": "stop"}
    written.append(server._generated({"choices": [choice]}, until=""))
    assert [each.text for each in written] == ["[THINK]Say 90.[/THINK]70"] * 2
    assert answer_of(written[0].text).strip() == "70"


@pytest.mark.parametrize(
    ("template", "closed"),
    [
        (MESSAGES + "{# <think> of earlier turns #}<|start|>assistant:", "<think>\n\n</think>\n\n"),
        (MESSAGES + "<|start|>assistant:", ""),  # the vocabulary alone, which models have that do not think
        (MESSAGES + "<|start|>{{ '/think' if enable_thinking else '/no' }}{# <think> #} assistant:", ""),
        (MESSAGES + "{# [THINK] #}<|start|>assistant:", "[THINK][/THINK]"),
        (MESSAGES + "{# [THINK] #}<|start|>assistant {{ reasoning_effort }}:", ""),
        (MESSAGES + "<|start|>assistant:{{ '<|inner_prefix|>' }}", "<|inner_prefix|><|inner_suffix|>"),
    ],
)
def test_a_template_that_makes_the_same_of_both_has_its_thoughts_closed(template, closed, tokenizer_with):
    tokenizer = tokenizer_with(template=template)
    text = tokenizer.render(ASKED)
    assert text.endswith(f":{closed}")
    assert ("closes" in tokenizer.chat_identity) == bool(closed)
    assert tokenizer.render(Prompt("", "x", thinks=True)).rstrip().endswith(tokenizer.thinking.opens)
