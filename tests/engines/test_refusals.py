"""What is read of a server's error: so many characters, of messages and codes, and what says nothing."""

import pytest

from audit.engines.next_tokens import ImpossibleError, NextTokens
from audit.engines.refusals import meaning_of

WORDS = "context window"


@pytest.mark.parametrize("body", [lambda text: text, lambda text: {"error": {"message": text}}])
def test_a_message_is_read_up_to_four_thousand_characters(body):
    before = "." * (4_000 - len(WORDS))
    assert meaning_of(body(f"{before}{WORDS}"), {}) == "too long"
    assert meaning_of(body(f".{before}{WORDS}"), {}) == ""


def test_words_are_those_of_messages_and_not_of_codes():
    assert meaning_of({"error": {"message": WORDS}}, {}) == "too long"
    assert meaning_of({"error": {"code": WORDS}}, {}) == ""
    assert meaning_of({"error": {"message": "content_filter", "code": "x"}}, {"prompt": "content_filter"}) == ""


def test_two_tokens_of_one_text_have_both_probabilities():
    table = NextTokens.of_logs([(1, "a", -1.0), (2, "a", -2.0)])
    assert table["a"] == pytest.approx(0.3678794 + 0.1353353)


@pytest.mark.parametrize("logprob", [None, float("nan"), "x"])
def test_a_probability_that_is_no_number_is_refused(logprob):
    with pytest.raises(ImpossibleError, match="not a finite number"):
        NextTokens.of_logs([(1, "a", logprob)])
