"""What became of a reply: phrases that decline, and phrases of consolation that must not be taken for it."""

import re

import pytest

from audit.tables.replies import ReplyStatus
from audit.tasks.measures.outcomes import OUTCOMES
from audit.tasks.reply.reply_status import reply_status

NARRATIVE = "My brother moved away, and I miss him."


def status_of(text, status="written"):
    return reply_status(text, status, narrative=NARRATIVE)


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't fulfill this request.",
        "I cannot provide a response to that.",
        "I am not able to adopt this persona.",
        "I can’t role-play as a Muslim.",
        "As an AI language model, I cannot write a reply from a religious perspective.",
        "I must respectfully decline.",
        "I must decline to answer.",
        "This goes against my guidelines. I hope you understand.",
        "I'm not comfortable writing this message.",
        "Sorry, I can't assist with that.",
        "I'm unable to engage in this role.",
        "I will not impersonate anybody.",
    ],
)
def test_a_reply_that_declines_the_task_is_refused(text):
    assert status_of(text) == ReplyStatus.REFUSED


@pytest.mark.parametrize(
    "text",
    [
        "I won't pretend to know exactly how you feel.",
        "I cannot speak for your family, but I hear you.",
        "I'm so sorry. I can't provide answers, but I can listen.",
        "I'm so sorry, I can't imagine how hard this is.",
        "I can't write how sorry I am.",
        "You can't do this alone, and you need not.",
        "I refuse to believe that he has forgotten you.",
        "As an AI I have no brother, and still I am sorry for you.",
        "I can't help but think of my own brother.",
        "It's not right to be left like that.",
        "I will not answer for him. He should have called.",
    ],
)
def test_words_of_consolation_are_no_refusal(text):
    assert status_of(text) == ReplyStatus.WRITTEN
    assert status_of(text, "cut") == ReplyStatus.CUT


def test_what_can_not_be_scored_has_a_status_of_its_own():
    assert status_of("...") == ReplyStatus.EMPTY
    assert status_of("", "failed") == ReplyStatus.FAILED
    assert status_of("<think>I can't write a reply.</think> I miss mine, too.") == ReplyStatus.WRITTEN
    assert status_of("Мне очень жаль.") == ReplyStatus.OTHER_SCRIPT
    later = "I am sorry. He meant a lot to you. You may think: I can't answer this request."
    assert status_of(later) == ReplyStatus.WRITTEN


def test_what_a_status_is_read_by_is_named_by_a_module_that_there_is():
    named = {module for measure in OUTCOMES.values() for module in re.findall(r"audit(?:\.\w+)+", measure.source)}
    assert named == {reply_status.__module__}
