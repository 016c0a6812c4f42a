"""Scores from a file of the user's: by prompt, missing where there is none, and never of other replies."""

import numpy as np
import pytest

from audit.errors import ModelError
from audit.tasks.measures.base import Reply
from audit.tasks.reply.given_scores import read_scores_file, wanted_scores
from stimuli.errors import StimulusError

TABLE = "prompt_index,warmth,n_questions,text\n4,2.5,1,Tell me more.\n0,,2,\n1,NA,-3,I hear you.\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text(TABLE)
    return path


def reply(index, text):
    return Reply(text, prompt_index=index)


def test_each_column_is_a_measure_and_what_the_file_lacks_is_missing(file):
    scorer = wanted_scores(file, n_prompts=5).open()
    assert [measure.name for measure in scorer.measures] == ["scores_warmth", "scores_n_questions"]
    replies = [reply(1, "I hear you."), reply(2, "Sad."), reply(4, "Tell me  more.\n"), reply(0, "What now?")]
    expected = [[np.nan, -3], [np.nan, np.nan], [2.5, 1], [np.nan, 2]]
    np.testing.assert_array_equal(scorer.score(replies), expected)
    np.testing.assert_array_equal(scorer.score(replies[::-1]), expected[::-1])


def test_scores_of_other_replies_are_refused(file):
    with pytest.raises(ModelError, match="row of prompt_index 4 is not that reply"):
        wanted_scores(file, n_prompts=5).open().score([reply(4, "Tell me less.")])


def test_another_number_another_text_and_another_column_are_other_scores(file):
    asked = [wanted_scores(file, n_prompts=5).asked]
    for old, new in (("2.5", "2.6"), ("more.", "less."), ("warmth", "coldness")):
        file.write_text(TABLE.replace(old, new))
        asked.append(wanted_scores(file, n_prompts=5).asked)
    assert len({each["sha256"] for each in asked}) == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prompt,warmth\n1,2\n", "no column 'prompt_index'"),
        ("prompt_index,text\n1,x\n", "has no column of scores beside prompt_index"),
        ("prompt_index,Warm th\n1,2\n", "the column 'Warm th' cannot name a measure"),
        ("prompt_index,warmth\n5,2\n", "prompt_index is '5'; it must be that of a prompt of this run, 0 to 4"),
        ("prompt_index,warmth\n-1,2\n", "prompt_index is '-1'"),
        ("prompt_index,warmth\n1,2\n1,3\n", "prompt_index identifier '1' occurs twice"),
        ("prompt_index,warmth\n1,high\n", "warmth is 'high'; write a number, or leave it empty"),
    ],
)
def test_a_faulty_file_is_named_before_the_model_is_asked(text, said, tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text(text)
    with pytest.raises(StimulusError) as raised:
        read_scores_file(path, n_prompts=5)
    [line] = str(raised.value).splitlines()
    assert line.startswith(str(path))
    assert said in line
