from datetime import UTC, datetime, timedelta

import pytest

from audit.configuration.model import DATE, ModelConfig
from audit.engines.base import Generated
from audit.engines.chat import ChatTokenizer
from audit.engines.openai import ServedModel
from audit.engines.served_tokens import RemoteTokenizer, _VllmRemote
from audit.engines.server import BudgetError
from audit.engines.templates import another_day, read_template, shows_day
from audit.errors import ConfigError, ModelError
from stimuli.prompts import Prompt

TURNS = "{% for m in messages %}<|end|>{{ m.role }}\n{{ m.content }}{% endfor %}"
# As those of Llama 3.1, of Llama 3.2 and of gpt-oss go about it, in words of ours.
FIXED = "{% if not date_string is defined %}{% set date_string = '26 Jul 2024' %}{% endif %}Today: {{ date_string }}"
TOLD = (
    "{% if not date_string is defined %}{% if strftime_now is defined %}"
    "{% set date_string = strftime_now('%d %b %Y') %}{% else %}{% set date_string = '26 Jul 2024' %}{% endif %}"
    "{% endif %}Today: {{ date_string }}"
)
ASKS = "{% macro head() %}Current date: {{ strftime_now('%Y-%m-%d') }}{% endmacro %}{{ head() }}"
PROMPTS = [Prompt("Be a Hindu.", "Rate: 1"), Prompt("", "x"), Prompt("Be a Jew.", "y", begun="Number: ")]


@pytest.fixture
def tokenizer_of(tiny_model):
    """Return a function that gives the tiny model's tokenizer with another template, adding a BOS to texts or not."""
    from tokenizers import processors

    def made(own, *, adds=True, **options):
        from transformers import AutoTokenizer

        hf = AutoTokenizer.from_pretrained(tiny_model)
        hf.chat_template = own
        hf.bos_token = "<|start|>"
        if not adds:
            hf.backend_tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
        return ChatTokenizer(hf, name="tiny", **options)

    return made


@pytest.mark.parametrize(
    ("writes", "adds", "said"),
    [
        ("", True, "<|start|> added before each prompt, because the chat template leaves it out"),
        ("<|start|>", True, ""),
        ("\n<|start|>", True, ""),
        ("<|start|><|start|>", True, "<|start|> used once, although the chat template writes it more than once"),
        ("", False, ""),
        ("<|start|>", False, ""),
        ("<|start|><|start|>", False, "<|start|> used once, although the chat template writes it more than once"),
    ],
)
def test_the_token_that_begins_a_text_stands_once(writes, adds, said, tokenizer_of):
    tokenizer = tokenizer_of(writes + TURNS, adds=adds)
    start = tokenizer.hf.bos_token_id
    for prompt, ids in zip(PROMPTS, tokenizer.encode_prompts(PROMPTS), strict=True):
        bare = tokenizer.hf(tokenizer.render(prompt).replace("<|start|>", ""), add_special_tokens=False)["input_ids"]
        assert ids.count(start) == (1 if adds or writes else 0)
        assert [token for token in ids if token != start] == bare
        assert (ids[0] == start) == bool((adds or writes) and not writes.startswith("\n"))
    first = "the chat template writes white space before <|start|>, which must begin a text"
    assert tokenizer.say_chat() == (first if writes.startswith("\n") else said)
    assert tokenizer.chat_identity == ({"template": None, "date": None, "begins": said} if said else {})


def test_words_of_a_user_that_look_like_the_token_are_left_alone(tokenizer_of):
    tokenizer = tokenizer_of("<|start|>{{ messages[0].content }}", adds=True)
    start = tokenizer.hf.bos_token_id
    assert tokenizer.encode_prompts([Prompt("", "<|start|>x")])[0][:2] == [start, start]


def test_special_tokens_that_are_asked_for_are_added_as_ever(tokenizer_of):
    tokenizer = tokenizer_of("<|start|>" + TURNS, add_special_tokens=True)
    start = tokenizer.hf.bos_token_id
    assert all(ids[:2] == [start, start] for ids in tokenizer.encode_prompts(PROMPTS))
    assert tokenizer.chat_identity == {}


@pytest.mark.parametrize(
    ("template", "shown", "in_identity"),
    [
        (FIXED, "Today: 26 Jul 2024", False),
        (TOLD, "Today: 26 Jul 2024", True),
        (ASKS, "Current date: 2024-07-26", True),
    ],
    ids=["Llama 3.1", "Llama 3.2", "gpt-oss"],
)
def test_a_template_that_prints_the_date_prints_the_one_that_is_pinned(template, shown, in_identity, tokenizer_of):
    tokenizer = tokenizer_of("<|start|>" + template + TURNS)
    assert shown in tokenizer.render(Prompt("", "x"))
    assert tokenizer.chat["date"] == DATE
    assert tokenizer.chat_identity.get("date") == (DATE if in_identity else None)
    assert tokenizer.say_chat() == f"the chat template prints a date: model.date={DATE}"
    later = tokenizer_of("<|start|>" + template + TURNS, date="2031-01-09")
    assert later.render(Prompt("", "x")) != tokenizer.render(Prompt("", "x"))
    assert later.chat_identity["date"] == "2031-01-09"


def test_a_template_without_a_date_is_told_apart_by_none(tokenizer_of):
    tokenizer = tokenizer_of("<|start|>" + TURNS, date="2031-01-09")
    assert (tokenizer.chat, tokenizer.chat_identity, tokenizer.say_chat()) == ({}, {}, "")


@pytest.mark.parametrize("date", ["2026-02-30", "26 Jul 2024", "20240726", "", None])
def test_what_is_no_day_is_refused(date, tiny_config):
    with pytest.raises(ConfigError, match=r"^model\.date=.*: is not a date; write it as 2024-07-26$"):
        tiny_config("x", date=date)


def test_settings_at_their_defaults_are_not_named(tiny_config):
    assert not {"date", "chat_template"} & tiny_config("x")[0].model_dump().keys()
    named = tiny_config("x", date="2030-01-01", chat_template="plain")[0].model_dump()
    assert (named["date"], named["chat_template"]) == ("2030-01-01", "plain")
    assert ModelConfig(**named).date == "2030-01-01"


def test_another_day_shares_no_part_with_a_day():
    for date in (DATE, "2011-03-05", "2012-11-19", "2024-03-19", "2011-11-11"):
        assert another_day(date) != date


def test_a_day_is_seen_in_the_forms_that_templates_write():
    day = datetime(2026, 11, 24, tzinfo=UTC)
    assert shows_day("Current date: 2026-11-24", day) == "2026-11-24"
    assert shows_day("Today Date: 24 Nov 2026\n", day) == "24 Nov 2026"
    assert shows_day("Today Date: 26 Jul 2024\n", day) is None


def test_the_plain_form_is_question_and_answer(tokenizer_of):
    tokenizer = tokenizer_of(None, template=read_template("plain"))
    turns = (("user", "How sad?"), ("assistant", "Very."))
    assert tokenizer.render(Prompt("Be a Hindu.", "How much?", turns, "Number: ")) == (
        "Be a Hindu.\n\nQuestion:\nHow sad?\n\nAnswer:\nVery.\n\nQuestion:\nHow much?\n\nAnswer:\nNumber: "
    )
    assert tokenizer.has_system_role
    assert tokenizer.shows_turns
    assert tokenizer.encode_prompts(PROMPTS)[0].count(tokenizer.hf.bos_token_id) == 1
    assert "model.chat_template=plain; <|start|> added before each prompt" in tokenizer.say_chat()
    assert tokenizer.chat_identity["template"] == read_template("plain").sha256


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("70\n\nQuestion:\nAnd now?\n\nAnswer:\n80", "70"),
        ("Answer: 70\n  Question: And", "Answer: 70"),
        ("The Question: is hard", "The Question: is hard"),
        ("Question:\nx", ""),
    ],
)
def test_an_answer_in_plain_text_ends_where_another_question_begins(written, kept, tmp_path):
    assert read_template("plain").cut(written) == kept
    (tmp_path / "own.jinja").write_text("{{ messages[-1].content }}")
    assert read_template(str(tmp_path / "own.jinja")).cut(written) == written


def test_an_engine_keeps_what_stands_before_the_next_question(make_model, open_engine, monkeypatch):
    engine = open_engine(make_model(template=None), chat_template="plain")
    monkeypatch.setattr(
        engine, "generate", lambda prompts, **_: [Generated("70\nQuestion:\nx", 9, True)] * len(prompts)
    )
    [written] = engine.write(PROMPTS[:1], max_tokens=9)
    assert (written.text, written.n_tokens, written.cut) == ("70", 9, False)


def test_a_users_template_goes_before_the_model_s_own(tiny_model, open_engine, tmp_path):
    path = tmp_path / "own.jinja"
    path.write_text("<|start|>{% for m in messages %}[{{ m.role }}] {{ m.content }} {% endfor %}>>")
    tokenizer = open_engine(tiny_model, chat_template=str(path)).tokenizer
    assert tokenizer.render(Prompt("", "How sad?")) == "<|start|>[user] How sad? >>"
    assert f"model.chat_template={path} instead of the model's own" in tokenizer.say_chat()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\nb\n{% if %}x{% endif %}", r", line 3: Expected an expression"),
        ("a\n{{ messages[0].nope.x }}", r", line 2: 'dict object' has no attribute 'nope'"),
        ("a\n{{ messages[0].content }}{{ ''.__class__.__mro__ }}", r", line 2: access to attribute '__class__'"),
        ("{{ messages.append(1) }}", r", line 1: access to attribute 'append' of 'list' object is unsafe"),
        ("{% include '/etc/passwd' %}", r", line 1: no loader"),
        ("{{ raise_exception('not\nso') }}", r", line 1: not so"),
        ("Be kind.", r": leaves out the user's message, both as"),
        (" \n", r": is empty; give a Jinja file, or plain"),
        ("\udcff", r": is not UTF-8 text"),
        (None, r": cannot be read \(No such file or directory\); give a Jinja file, or plain"),
    ],
)
def test_a_template_that_fails_is_one_line_with_its_place(text, said, tiny_model, open_engine, tmp_path):
    path = tmp_path / "bad.jinja"
    if text is not None:
        path.write_text(text, errors="surrogateescape")
    with pytest.raises(ModelError, match=r"^model\.chat_template=.*bad\.jinja" + said) as raised:
        open_engine(tiny_model, chat_template=str(path))
    assert len(str(raised.value).splitlines()) == 1


def test_a_model_without_a_template_names_both_remedies(make_model, open_engine):
    with pytest.raises(ModelError, match=r"instruction-tuned model, or .*model\.chat_template=plain, or a Jinja file"):
        open_engine(make_model(template=None))


class _Server:
    """vLLM's, as far as a tokenizer is asked for: one token a character, and a template of its own."""

    base_url = "http://localhost:8000/v1"

    def __init__(self, render):
        self.render = render
        self.spent = False

    def ask(self, path, payload):
        if self.spent:
            raise BudgetError("engine.server.max_requests=1 are spent")
        if path == "//detokenize":
            return {"prompt": "".join(map(chr, payload["tokens"]))}
        if "messages" in payload:
            text = self.render(payload["messages"], **payload["chat_template_kwargs"])
        else:
            text = payload["prompt"]
        begun = [2] if payload.get("add_special_tokens", False) else []
        return {"tokens": [*begun, *map(ord, text)]}


def _said(messages):
    return "".join(f"[{each['role']}]{each['content']}" for each in messages)


def served(render, **options):
    server = _Server(render)
    tokenizer = RemoteTokenizer(_VllmRemote(server, "m"), name="m", concurrency=2, **{"date": DATE, **options})
    return server, tokenizer, ServedModel(server.base_url, "m", "", ["fp_1"], tokenizer=tokenizer)


@pytest.mark.model
def test_a_server_is_told_the_date_that_its_template_prints():
    _, tokenizer, source = served(
        lambda messages, date_string="24 Nov 2026", **_: f"\x02{date_string}{_said(messages)}"
    )
    assert tokenizer.render(Prompt("", "x")) == "\x0226 Jul 2024[user]x"
    chat = source.identity()["chat"]
    assert {name: chat[name] for name in ("template", "date", "begins")} == {
        "template": None,
        "date": DATE,
        "begins": None,
    }
    assert source.facts()["chat"]["date"] == DATE
    assert source.states() == ["fp_1"]


@pytest.mark.model
def test_a_server_s_own_date_of_today_is_seen_and_told_day_by_day():
    today = datetime.now(UTC)
    shown = [today.strftime("%Y-%m-%d")]
    server, tokenizer, source = served(lambda messages, **_: f"\x02{shown[0]}{_said(messages)}")
    assert tokenizer.today() == shown[0]
    assert source.identity().keys() == {"server", "model_files"}
    assert source.states() == ["fp_1", f"prompts show {shown[0]}"]
    shown[0] = (today + timedelta(days=1)).strftime("%Y-%m-%d")
    assert source.states() == ["fp_1", f"prompts show {shown[0]}"]
    server.spent = True
    assert source.states() == ["fp_1"]


@pytest.mark.model
def test_a_server_s_template_that_leaves_the_token_out_gets_it_once():
    _, tokenizer, source = served(lambda messages, **_: _said(messages))
    assert [ids[:2] for ids in tokenizer.encode_prompts(PROMPTS)] == [[2, ord("[")]] * 3
    assert source.identity()["chat"]["begins"] == (
        "\x02 added before each prompt, because the chat template leaves it out"
    )
    _, tokenizer, source = served(lambda messages, **_: "\x02" + _said(messages))
    assert [ids[:2] for ids in tokenizer.encode_prompts(PROMPTS)] == [[2, ord("[")]] * 3
    assert source.identity()["chat"].keys() == {"rendered"}
