import pytest

from audit.errors import ConfigError
from audit.people.questions import load_questions
from stimuli.errors import StimulusError

GOOD = "{text: How warm, low: 1, high: 5, low_label: cold, high_label: warm}"


def test_the_packaged_questions_are_the_three_qualities_on_five_points():
    questions = load_questions()
    assert questions.names == ("empathy", "coherence", "informativeness")
    assert {(question.low, question.high) for question in questions.questions} == {(1, 5)}
    assert questions.introduction


def test_written_questions_are_read_back_as_they_were(tmp_path):
    questions = load_questions()
    (tmp_path / "q.yaml").write_text(questions.to_yaml(), "utf-8")
    assert load_questions(tmp_path / "q.yaml") == questions


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("introduction: Hello", "questions: none given"),
        ("questions: [warm]", "questions: none given"),
        (f"questions: {{reply: {GOOD}}}", "'reply' is the name of a column in the raters' files"),
        (f"questions: {{Warm!: {GOOD}}}", "questions.Warm!: name: "),
        (f"questions: {{yes: {GOOD}}}", "questions.True: name: "),
        ("questions: {warm: }", "questions.warm: text: is missing"),
        (f"questions: {{warm: {GOOD.replace('low: 1', 'low: 5')}}}", "low=5 must be below high=5"),
        (f"questions: {{warm: {GOOD.replace('low: 1', 'low: 1.5')}}}", "questions.warm: low: "),
        (f"questions: {{warm: {GOOD.replace('high: 5', 'high: 100')}}}", "questions.warm: high: "),
        (
            f"questions: {{warm: {GOOD.replace('low_label', 'lowest')}}}",
            "questions.warm: lowest: unknown name",
        ),
        (f"colour: red\nquestions: {{warm: {GOOD}}}", "colour: "),
        ("questions: {" + ", ".join(f"q{k}: {GOOD}" for k in range(13)) + "}", "questions: "),
    ],
)
def test_questions_that_can_not_be_asked_are_named_with_their_file(tmp_path, content, said):
    path = tmp_path / "q.yaml"
    path.write_text(content, "utf-8")
    with pytest.raises(ConfigError) as caught:
        load_questions(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)


def test_a_question_given_twice_is_refused(tmp_path):
    path = tmp_path / "q.yaml"
    path.write_text(f"questions:\n  warm: {GOOD}\n  warm: {GOOD}\n", "utf-8")
    with pytest.raises(StimulusError, match="'warm' occurs twice"):
        load_questions(path)
