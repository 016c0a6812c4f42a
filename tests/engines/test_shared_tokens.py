"""Prompts encoded message by message have the tokens of their whole text, whatever they and the template say."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.engines.chat import ChatTokenizer
from audit.engines.shared import SharedTokens, cut_pattern
from stimuli.prompts import Prompt

CHAT = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
TEMPLATES = {
    "plain": CHAT,
    "trims": CHAT.replace("m.content }}", "m.content | trim }}"),
    "default system": "{% if messages[0].role != 'system' %}<|start|>system\nBe kind.<|end|>\n{% endif %}" + CHAT,
    "no system role": "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + CHAT,
    "system in the user's turn": "<|start|>{% for m in messages %}{{ m.content }}\n{% endfor %}<|end|>",
    "looks into the user's text": CHAT.replace("m.content }}", "m.content.split('</think>')[-1] }}"),
    "shows the user first": CHAT.replace("in messages", "in messages | reverse"),
    "answers to the system's wish": CHAT + "{% if '/no' in messages[0].content %}<think>\n\n</think>\n\n{% endif %}",
    "counts the system's letters": CHAT + "{{ messages[0].content | length }}",
    "opens a thinking block": CHAT + "<think>\n",
}
SPECIAL = ("<|start|>", "<|end|>", "<|pad|>", "<think>", "</think>", "<|sta", "rt|>", "|>", "<|")
PIECES = st.sampled_from(
    [*SPECIAL, "a Muslim", "Fear", "7 5", " ", "\n", "\t", "é", "e\u0301", "🙂", "\u200b", "/no", "{x}"]
)
TEXTS = st.one_of(st.lists(PIECES, max_size=6).map("".join), st.text(max_size=20))


@pytest.fixture(scope="module")
def tokenizer_of(make_model):
    """Return a function that gives the tokenizer of a template; a new one each time."""
    from transformers import AutoTokenizer

    loaded = {}

    def tokenizer(name):
        if name not in loaded:
            loaded[name] = AutoTokenizer.from_pretrained(make_model())
        hf = loaded[name]
        hf.chat_template = TEMPLATES[name]
        chat = ChatTokenizer(hf, name="tiny")
        chat.check_shown = lambda prompts: None  # some of these templates would be refused: they are to be hard to part
        return chat

    return tokenizer


def whole(tokenizer, prompts):
    return [tokenizer.encode(tokenizer.render(prompt)) for prompt in prompts]


@pytest.mark.parametrize("name", TEMPLATES)
def test_tokens_are_those_of_the_whole_text(tokenizer_of, name):
    systems = ("You are a Muslim.", "", "  You are a Hindu./no\n", "You <|end|>\n<|start|>user\nare")
    users = ("How much?", "", " 7 ", "I felt <|start|> it", "<|end|>", "</think>5", "é🙂", "How much?\n")
    prompts = [Prompt(system, user) for system in systems for user in users]
    tokenizer = tokenizer_of(name)
    if tokenizer.shows_turns:
        prompts.append(Prompt("You are a Muslim.", "And now?", turns=(("user", "How much?"), ("assistant", "5"))))
    asked = whole(tokenizer, prompts)
    assert tokenizer.encode_prompts(prompts) == asked
    assert tokenizer.encode_prompts(prompts[::-1]) == asked[::-1]


def test_a_template_that_looks_into_the_first_message_finds_the_users_where_there_is_no_other(tokenizer_of):
    tokenizer = tokenizer_of("answers to the system's wish")
    prompts = [Prompt(system, user) for system in ("", "You are a Muslim.") for user in ("", "/no")]
    assert tokenizer.encode_prompts(prompts) == whole(tokenizer, prompts)


@given(st.data())
@settings(max_examples=150)
def test_hostile_texts_have_the_tokens_of_the_whole_text(tokenizer_of, data):
    tokenizer = tokenizer_of(data.draw(st.sampled_from(sorted(TEMPLATES))))
    systems = data.draw(st.lists(TEXTS, min_size=1, max_size=3))
    users = data.draw(st.lists(TEXTS, min_size=1, max_size=4))
    prompts = [Prompt(system, user) for system in systems for user in users]
    assert tokenizer.encode_prompts(prompts) == whole(tokenizer, prompts)


class Counting:
    """Passes on to a tokenizer, and counts the characters that it tokenises and the prompts that it renders."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.has_system_role = tokenizer.has_system_role
        self.n_characters = self.n_rendered = 0

    def render(self, prompt):
        self.n_rendered += 1
        return self.tokenizer.render(prompt)

    def encode_all(self, texts):
        self.n_characters += sum(map(len, texts))
        return self.tokenizer.encode_all(texts)


def crossed(n_systems, n_users):
    return [Prompt(f"You are {s}.", f"How much was it on day {u}?") for s in range(n_systems) for u in range(n_users)]


def shared(tokenizer, **options):
    counting = Counting(tokenizer)
    return counting, SharedTokens(counting, cut_pattern(tokenizer.hf), **options)


def test_a_message_is_rendered_and_tokenised_once(tokenizer_of):
    counting, tokens = shared(tokenizer_of("plain"))
    prompts = crossed(20, 30)
    assert tokens.encode(prompts) == whole(tokenizer_of("plain"), prompts)
    assert counting.n_rendered < 150  # not 600: two checks and a message for each of 20, a message for each of 30
    known = counting.n_characters
    tokens.encode(prompts)
    assert counting.n_characters == known


def test_without_room_nothing_is_kept_and_tokens_are_the_same(tokenizer_of):
    prompts = crossed(6, 9)
    for room in (0, 1000, 3000):
        _, tokens = shared(tokenizer_of("plain"), room=room)
        for _ in range(2):
            assert tokens.encode(prompts) == whole(tokenizer_of("plain"), prompts)
        assert len(tokens._tails) + len(tokens._heads) <= room / 250


def test_where_the_first_prompts_differ_whole_texts_are_tokenised_from_then_on(tokenizer_of):
    tokenizer = tokenizer_of("plain")
    counting = Counting(tokenizer)
    tokens = SharedTokens(counting, re.compile(r"start\|>user"))  # within a special token
    prompts = crossed(3, 3)
    for _ in range(2):
        assert tokens.encode(prompts) == whole(tokenizer, prompts)
    assert tokens.differs


def added(content, **options):
    return SimpleNamespace(**({"content": content, "special": True, "normalized": False, "lstrip": False} | options))


@pytest.mark.parametrize(
    ("tokens", "cuts"),
    [
        ([added("<a>"), added("<b>")], {"<a>", "<b>"}),
        ([added("<a>", lstrip=True), added("<b>", single_word=True), added("<c>", normalized=True)], set()),
        ([added("<a>", special=False)], set()),
        ([added("a"), added(" <b>"), added("_c")], set()),
        ([added("<a>"), added("x<a>")], set()),  # a match of the second hides one of the first
        ([added("<a>"), added("<a>b")], {"<a>", "<a>b"}),
        ([added("<a>"), added("x<")], set()),  # "x<a>" holds the second alone
        ([added("<<")], set()),
    ],
)
def test_a_text_is_cut_only_where_a_token_can_not_be_hidden(tokens, cuts):
    for token in tokens:
        token.__dict__.setdefault("single_word", False)
    hf = SimpleNamespace(is_fast=True, added_tokens_decoder=dict(enumerate(tokens)))
    pattern = cut_pattern(hf)
    assert {content for content in ("<a>", "<b>", "<c>", "<a>b") if pattern and pattern.fullmatch(content)} == cuts


def test_a_tokenizer_in_python_is_not_cut():
    assert cut_pattern(SimpleNamespace(is_fast=False)) is None
