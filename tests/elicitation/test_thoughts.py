"""Thoughts in what models write: cut in every dialect, nothing read where one did not end or its marks are unknown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.asking.elicitation.parsing import parse_response
from audit.asking.elicitation.plain_text import answer_of
from audit.engines.dialects import DIALECTS, dialect_of, ends_within_thought, has_unknown_marks, without_thoughts
from audit.tables.ratings import Status

THOUGHT = "They lost a dog.\nA 90 would be too much."


def read(text):
    reading = parse_response(text, low=0, high=100, quoted=())
    return reading.intensity if reading.status is Status.RATED else reading.status


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.name)
def test_a_dialect_that_is_named_is_taken_whatever_the_model_shows(dialect):
    assert dialect_of(dialect.name, "<think>", lambda text: True) is dialect


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.name)
@pytest.mark.parametrize("before", ["", "Well. "])
def test_a_thought_that_ended_is_cut_and_one_that_did_not_is_no_answer(dialect, before, request):
    if " " in dialect.opens and before:
        before = f"{before}\n"
    whole = f"{before}{dialect.opens}{dialect.begins}{THOUGHT}{dialect.closes}{dialect.answers}"
    assert read(f"{whole}70") == 70
    assert read(f"{whole}I would say 70.") == 70
    unended = f"{dialect.opens}{dialect.begins}{THOUGHT}"
    assert read(unended) is Status.UNPARSEABLE
    assert read(f"{whole}70\n{unended}") is Status.UNPARSEABLE or dialect.name == "gpt-oss"
    assert ends_within_thought(unended)
    assert not ends_within_thought(f"{whole}The number is ")


@pytest.mark.parametrize("dialect", [each for each in DIALECTS if each.name != "gpt-oss"], ids=lambda each: each.name)
def test_a_thought_whose_first_mark_stood_in_the_prompt_is_cut(dialect):
    # Where the end of any message ends a thought, the answer's own mark tells.
    assert read(f"{THOUGHT}{dialect.closes}{dialect.answers}70") == 70
    assert read(f"{THOUGHT}{dialect.closes}{dialect.answers}") is Status.UNPARSEABLE


@pytest.mark.parametrize(
    ("text", "rating"),
    [
        ("<Think>90</Think>70", 70),
        ("<thinking>90</thinking> 70", 70),
        ("[think]90[/think] 70", 70),
        ("<think:abc>90</think:abc>70", 70),
        ("<scratchpad>90</scratchpad>\n70", 70),
        ("<analysis>90</analysis>\n<answer>70</answer>", 70),
        ("Here's my thought process: 90 it is. Here's my response: 70", 70),
        ("[BEGIN FINAL RESPONSE]\n70\n[END FINAL RESPONSE]", 70),
        ("<|START_THINKING|>90<|END_THINKING|><|START_RESPONSE|>70<|END_RESPONSE|>", 70),
        ("<think>90</think><response>70</response>", 70),
        ("analysisThey lost 90.assistantfinal70", 70),
        ("analysisThey lost 90.", Status.UNPARSEABLE),  # a server has taken the special tokens out
        ("thought\nThey lost a dog. 90.70", Status.UNPARSEABLE),
        ("thought\n70", Status.UNPARSEABLE),  # the number may be the thought
        ("<think></think>70", 70),
        ("<think>90", Status.UNPARSEABLE),
    ],
)
def test_variants_of_known_marks(text, rating):
    assert read(text) == rating


UNKNOWN = [
    ("<|begin_cot_x|>", "<|end_cot_x|>"),
    ("<|cot_start|>", "<|cot_end|>"),
    ("<|ponder>", "<ponder|>"),
    ("<musing>", "</musing>"),
    ("<Step n='1'>", "</Step>"),
    ("[REASON]", "[/REASON]"),
    ("[BEGIN PLAN]", "[END PLAN]"),
    ("◁muse▷", "◁/muse▷"),
    ("⟨inner⟩", "⟨/inner⟩"),
    ("{{draft}}", "{{/draft}}"),
    ("<|mind_prefix|>", "<|mind_suffix|>"),
    ("<|open_mind|>", "<|close_mind|>"),
    ("<|r_in|>", "<|r_out|>"),
    ("<｜begin▁of▁muse｜>", "<｜end▁of▁muse｜>"),
    ("{mull}", "{/mull}"),
    ("(aside)", "(/aside)"),
    ("<!--", "-->"),
]


@pytest.mark.parametrize(("opens", "closes"), UNKNOWN)
def test_a_text_with_an_unknown_pair_of_marks_is_not_read(opens, closes):
    for text in (f"{opens}90{closes}70", f"Well. {opens}\nSay 90.\n{closes}\n\n70", f"70 {opens}or 90{closes}"):
        assert has_unknown_marks(text)
        assert read(text) is Status.UNPARSEABLE
        assert answer_of(text) == ""


@pytest.mark.parametrize(
    "opens", ["<|begin_of_reasoning_x|>", "<|cot|>", "<inner-monolog>", "[REFLECTION]", "◁analyse▷"]
)
def test_an_unknown_mark_that_says_it_begins_a_thought_and_does_not_end_is_not_read(opens):
    assert read(f"{opens}I would say 90") is Status.UNPARSEABLE


@pytest.mark.parametrize(
    "text",
    [
        "<b>70</b>", "<rating>70</rating>", "<answer>70</answer> It was sad.", "<p>I would say 70.</p>",
        "<|im_start|>assistant\n70<|im_end|>",
        "70</s>[INST] And now? [/INST] 90", "<start_of_turn>model\n70<end_of_turn>", "70<|eot_id|>", "[70]",
        "<|start|>assistant\n70<|end|>\n<|start|>user\nAnd now?<|end|>", "**[Rating]** 70",
        "[Final answer]: 70", "They lost 90.\n[Rating] 70", "<response>70</response>", "70 <|endoftext|>",
        "The rating is <b>70</b>", "<dl><dt>Rating</dt><dd>70</dd></dl>", "<tr><td>Rating</td><td>70</td></tr>",
        "70</p>",
    ],
)  # fmt: skip
def test_layout_and_turns_are_no_marks_of_thoughts(text):
    assert not has_unknown_marks(text)
    assert read(text) == 70


@pytest.mark.parametrize("text", ["<td>7</td><td>0</td>", "<dl><dt>7</dt><dd>0</dd></dl>", "<th>70</th><td>90</td>"])
def test_numbers_in_two_cells_are_not_one_rating(text):
    assert read(text) is Status.UNPARSEABLE


@pytest.mark.parametrize(
    "text",
    [
        "70 (in [brackets] and <angles>)", "The [thinking of others] aside: 70", "[Thinking] 70", "[Thought] 70.",
        "70 (in <angles>). I would rate it 80.",
    ],
)  # fmt: skip
def test_words_in_brackets_that_name_no_rating_leave_a_number_unread(text):
    assert not has_unknown_marks(text)
    assert read(text) is Status.UNPARSEABLE


def test_what_is_said_to_be_the_final_answer_after_words_in_brackets_is_read():
    assert read("70 (in <angles>). My final answer is 80.") == 80


@given(st.text(max_size=200))
def test_a_text_without_brackets_is_left_as_it_is(text):
    plain = "".join(letter for letter in text if letter not in "<>[]{}◁▷⟨⟩【】")
    words = ("analysis", "thought", "Here")
    assert without_thoughts(plain) == plain or any(word in plain for word in words)


@given(
    st.lists(
        st.sampled_from(["<", "</", "<|", "|>", ">", "[", "]", "{{", "}}", "think", "begin_", "x", " ", "7", "\n"])
    )
)
def test_whatever_is_written_is_cut_to_a_part_of_itself(pieces):
    text = "".join(pieces)
    cut = without_thoughts(text)
    assert not cut.strip() or cut.strip().rsplit("\n", 1)[-1] in text
    assert without_thoughts(cut) == cut or not cut.strip()
