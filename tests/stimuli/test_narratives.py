"""Sources of narratives: a user's own file, the study's folder, seeded subsets, and the hash of what is asked."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stimuli.errors import StimulusError
from stimuli.narratives import HOU2025_COUNTS, EmotionWords, load_narratives
from stimuli.words import words_alone

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "crowd-envent"
COLUMNS = {"narrative_id": "id", "emotion": "emotion", "neutral": "text"}
HOU2025_HEADER = ["emotion", "text_id", "generated_text", "first_person_text", "third_person_text"]


@pytest.fixture
def write(tmp_path):
    """Write a table of narratives and return the file."""

    def to_file(content: str | bytes, name: str = "own.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return to_file


def read(path, columns=COLUMNS, **options):
    return load_narratives("csv", path=path, columns=columns, **options)


def table(rows, header=("id", "emotion", "text"), delimiter=","):
    """Write rows as a spreadsheet program would: quotes where they are needed, CRLF."""
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter).writerows([header, *rows])
    return stream.getvalue()


def error_of(path, columns=COLUMNS, **options):
    with pytest.raises(StimulusError) as caught:
        read(path, columns, **options)
    return str(caught.value)


def test_the_valence_of_an_emotion_is_read_of_one_row_and_a_wrong_one_is_refused_in_one_line(write):
    header = ("id", "emotion", "text", "valence")
    told = [("1", "grief", "I lost it."), ("2", "grief", "I missed her."), ("3", "sad", "I left.")]
    read_ = read(write(table([(*told[0], "negative"), (*told[1], ""), (*told[2], "")], header)))
    assert [each.valence for each in read_.narratives] == ["negative", "negative", ""]
    assert read_.valence == {"grief": "negative"}
    # Another valence makes other prompts of the story check, so that it is another source.
    other = read(write(table([(*told[0], "positive"), (*told[1], ""), (*told[2], "")], header)))
    without = read(write(table(told)))
    assert len({read_.sha256, other.sha256, without.sha256}) == 3
    assert without.valence == {}
    misspelt = error_of(write(table([(*told[0], "negativ"), *((*row, "") for row in told[1:])], header)))
    assert "line 2: 'negativ' in column 'valence' is no valence; did you mean 'negative'?" in misspelt
    differing = error_of(write(table([(*told[0], "negative"), (*told[1], "neutral"), (*told[2], "")], header)))
    assert "line 3: the emotion 'grief' is neutral, but negative before; give it one valence" in differing
    mine = read(
        write(table([(*row, "negative") for row in told], (*header[:3], "side"))), COLUMNS | {"valence": "side"}
    )
    assert mine.valence == {"grief": "negative", "sad": "negative"}
    # Scores of a text that merely stand under this name are none, unless somebody says that they are.
    scored = write(table([(*row, f"0.{k}") for k, row in enumerate(told)], header))
    assert read(scored).valence == {}
    assert "'0.0' in column 'valence' is no valence" in error_of(scored, COLUMNS | {"valence": "valence"})


# --- A user's own file -----------------------------------------------------------------------------------------------


def test_columns_map_the_file_s_names_to_ours(write):
    path = write(
        "gefühl,nr,satz,ich,er,wort,eigenschaft,egal\n"
        "joy,7,A day at the lake.,I was at the lake.,The person was there.,delight,delighted,x\n"
    )
    columns = {
        "narrative_id": "nr",
        "emotion": "gefühl",
        "neutral": "satz",
        "first_person": "ich",
        "third_person": "er",
        "emotion_noun": "wort",
        "emotion_adjective": "eigenschaft",
    }
    narratives = read(path, columns)
    (only,) = narratives.narratives
    assert (only.narrative_id, only.emotion, only.words) == ("7", "joy", EmotionWords("delight", "delighted"))
    assert [only.wording(w) for w in ("neutral", "first_person", "third_person")] == [
        "A day at the lake.",
        "I was at the lake.",
        "The person was there.",
    ]
    assert (narratives.source, narratives.n_available, narratives.emotions) == ("csv", 1, ("joy",))


def test_a_wording_without_a_column_is_empty_and_missed_when_it_is_shown(write):
    narratives = read(write("id,emotion,text\n1,joy,A day.\n2,joy,A night.\n"), {**COLUMNS, "first_person": None})
    assert narratives.narratives[0].first_person == ""
    narratives.check_wording("neutral", asked_by="prompt x")
    with pytest.raises(
        StimulusError, match=r"prompt x shows the first_person.*2 of 2.*'1'.*stimuli\.columns\.first_per"
    ):
        narratives.check_wording("first_person", asked_by="prompt x")


def test_emotion_words_come_from_the_package_where_the_file_has_none(write):
    path = write("id,emotion,text\n1,anger,A day.\n2,schadenfreude,A night.\n")
    packaged, unknown = read(path).narratives
    assert packaged.words == EmotionWords("anger", "angry")
    assert unknown.words == EmotionWords("schadenfreude", "schadenfreude")


@pytest.mark.parametrize(
    ("emotion", "noun", "adjective"),
    [
        ("angry", "anger", "angry"),  # a packaged emotion's adjective
        ("Angry", "anger", "angry"),
        ("sadness", "sadness", "sad"),
        ("happiness", "happiness", "happy"),  # a packaged emotion's noun
        ("gratitude", "gratitude", "grateful"),
        ("thankful", "gratitude", "thankful"),
        ("frustrated", "frustration", "frustrated"),
        ("frightened", "fear", "frightened"),
        ("in love", "love", "in love"),
        ("betrayed", "betrayal", "betrayed"),
        ("hatred", "hatred", "full of hatred"),
        ("grieving", "grief", "grieving"),
    ],
)
def test_words_of_a_free_emotion_are_inferred_and_said(emotion, noun, adjective, write):
    narratives = read(write(f"id,emotion,text\n1,{emotion},A day.\n2,joy,B.\n"))
    assert narratives.narratives[0].words == EmotionWords(noun, adjective)
    packaged = emotion in ("sadness",)
    assert narratives.said == (() if packaged else (f"{emotion!r}: noun {noun!r}, adjective {adjective!r}",))
    assert ("columns emotion_noun and emotion_adjective" in narratives.remark) is not packaged


def test_a_name_that_no_list_has_is_said_to_be_taken_as_it_stands(write):
    narratives = read(write("id,emotion,text\n1,saudade,A day.\n2,upset,B.\n"))
    assert narratives.said == (
        "'saudade': noun 'saudade', adjective 'saudade' (its own name, because no list has it)",
        "'upset': noun 'upset', adjective 'upset'",  # listed so: "how much upset", "how upset"
    )


@pytest.mark.parametrize("other", ["Sad", "sad\u200b", "SAD", "sa\u00add"])
def test_two_spellings_of_one_emotion_are_refused(other, write):
    path = write(f"id,emotion,text\n1,sad,A.\n2,{other},B.\n")
    assert error_of(path) == f"{path}: line 3: the emotion {other!r} is 'sad' on line 2; write it one way"


def test_white_space_within_an_emotion_makes_no_other_one(write):
    assert "is 'in love' on line 2" in error_of(write("id,emotion,text\n1,in love,A.\n2,in  love,B.\n"))


@pytest.mark.parametrize("none", ["NA", "n/a", "NaN", "#N/A", "null"])
@pytest.mark.parametrize("column", ["emotion", "text"])
def test_what_programs_write_for_no_value_is_no_emotion_and_no_text(column, none, write):
    row = {"emotion": "joy", "text": "A."} | {column: none}
    message = error_of(write(f"id,emotion,text\n1,{row['emotion']},{row['text']}\n"))
    assert f"line 2: {none!r} in column {column!r} means no value; fill the cell, or leave the row out" in message


@pytest.mark.parametrize("emotion", ["3", "2024-01-01", "-", "?"])
def test_an_emotion_without_a_letter_is_refused(emotion, write):
    message = error_of(write(f"id,emotion,text\n1,{emotion},A.\n"))
    assert f"line 2: {emotion!r} in column 'emotion' has no letter" in message


def test_a_text_without_a_letter_or_digit_is_refused(write):
    assert "line 3: '...' in column 'text' has no letter" in error_of(write("id,emotion,text\n1,joy,7\n2,joy,...\n"))


def test_a_text_that_stands_twice_for_one_emotion_is_refused_and_for_two_emotions_it_is_not(write):
    assert "line 3: narrative '2' has the text and the emotion of '1'; keep one of them" in error_of(
        write("id,emotion,text\n1,joy,A.\n2,joy,A.\n")
    )
    assert len(read(write("id,emotion,text\n1,joy,A.\n2,fear,A.\n")).narratives) == 2


@pytest.mark.parametrize("again", ["i  got married", "I got married!", "I got married ."])
def test_a_text_that_stands_twice_but_for_case_spaces_and_punctuation_is_refused(again, write):
    assert "line 3: narrative '2' has the text and the emotion of '1'" in error_of(
        write(f"id,emotion,text\n1,joy,I got married.\n2,joy,{again}\n")
    )


@pytest.mark.parametrize("header", ["Emotion_Noun", "emotion noun", "Emotion-noun"])
def test_a_column_of_words_that_is_misspelt_is_not_left_out_in_silence(header, write):
    message = error_of(write(f"id,emotion,text,{header}\n1,wut,A.,rage\n"))
    assert f"the column {header!r} is not read; call it 'emotion_noun'" in message


def test_a_column_of_words_that_stands_twice_is_refused(write):
    message = error_of(write("id,emotion,text,emotion_noun,emotion_noun\n1,wut,A.,rage,anger\n"))
    assert "2 columns are called 'emotion_noun'; keep one" in message


def test_a_column_of_another_name_is_told_with_the_option_that_names_it(write):
    message = error_of(write("ID,emotion,text\n1,joy,A.\n"))
    assert (
        "did you mean 'ID'? there are: ID, emotion, text; or say which is which: stimuli.columns.narrative_id=ID"
    ) in (message)
    path = write("number,emotion,text\n1,joy,A.\n")
    assert len(read(path, {**COLUMNS, "narrative_id": "number"}).narratives) == 1  # the remedy, followed


def test_a_file_with_other_delimiters_or_without_a_header_is_told_what_its_first_line_needs(write):
    assert "its first line is one column, 'id|emotion|text'; write the names of all columns there" in error_of(
        write("id|emotion|text\n1|joy|A.\n")
    )
    assert "write the names of the columns in the first line" in error_of(write("1,joy,A.\n2,joy,B.\n"))


def test_a_spreadsheet_that_is_called_csv_and_utf_16_without_its_mark_are_told_for_what_they_are(write):
    assert "packed like .xlsx, .ods and .docx files" in error_of(write(b"PK\x03\x04\x14\x00"))
    assert "line 1 has a NUL character, which no text has; save the file as UTF-8" in error_of(
        write("id,emotion,text\n1,joy,A.\n".encode("utf-16-le"))
    )


def test_a_word_that_a_file_gives_once_is_taken_for_all_rows_of_its_emotion(write):
    path = write("id,emotion,text,emotion_noun\n1,wut,A.,\n2,wut,B.,rage\n3,joy,C.,\n4,wut,D.,\n")
    narratives = read(path)
    assert [n.words for n in narratives.narratives] == [
        EmotionWords("rage", "wut"), EmotionWords("rage", "wut"), EmotionWords("joy", "joyful"),
        EmotionWords("rage", "wut"),
    ]  # fmt: skip
    assert narratives.said == ("'wut': adjective 'wut' (its own name, because no list has it)",)


def test_only_emotions_that_are_asked_about_are_said(write):
    path = write("id,emotion,text\n1,wut,A.\n2,joy,B.\n3,angst,C.\n")
    (said,) = read(path, emotions=["joy", "angst"]).said
    assert said.startswith("'angst': noun 'angst', adjective 'angst'")


def test_rows_without_a_word_are_refused_where_others_of_their_emotion_differ(write):
    path = write("id,emotion,text,emotion_noun\n1,wut,A.,rage\n2,wut,B.,fury\n3,wut,C.,\n")
    with pytest.raises(StimulusError, match=r"'wut' has several nouns, 'rage', 'fury', and rows without one"):
        read(path)


def test_every_row_may_have_a_word_of_its_own(write):
    path = write("id,emotion,text,emotion_noun\n1,wut,A.,rage\n2,wut,B.,fury\n")
    assert [n.words.noun for n in read(path).narratives] == ["rage", "fury"]


def test_quoted_delimiters_quotes_and_newlines_are_text(write):
    text = 'He said "stop",\nand then\r\nwent; 100% {of} it.'
    path = write(table([["1", "joy", text], ["2", "joy", "x\ty"]]))
    assert [n.neutral for n in read(path).narratives] == [text, "x\ty"]


def test_a_tsv_file_is_read_by_tabs(write):
    path = write(table([["1", "joy", "One, two."]], delimiter="\t"), "own.tsv")
    assert read(path).narratives[0].neutral == "One, two."


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_line_end_will_do_and_blank_lines_are_skipped(write, end):
    path = write(end.join(["id,emotion,text", "1,joy,A day.", "", "2,joy,A night."]))
    assert [n.neutral for n in read(path).narratives] == ["A day.", "A night."]


def test_a_byte_order_mark_is_no_part_of_the_first_column(write):
    path = write(b"\xef\xbb\xbfid,emotion,text\n1,joy,A caf\xc3\xa9.\n")
    assert read(path).narratives[0].neutral == "A café."


def test_outer_white_space_is_dropped(write):
    (only,) = read(write("id,emotion,text\n 1 , joy ,  A day. \n")).narratives
    assert (only.narrative_id, only.emotion, only.neutral) == ("1", "joy", "A day.")


def test_narratives_stay_in_the_order_of_the_file(write):
    path = write("id,emotion,text\nb,joy,B.\nc,fear,C.\na,joy,A.\n")
    narratives = read(path)
    assert [n.narrative_id for n in narratives.narratives] == ["b", "c", "a"]
    assert narratives.emotions == ("joy", "fear")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(
            "id,emotion,texts\n1,joy,A.\n", ["'text'", "neutral", "did you mean 'texts'?"], id="missing column"
        ),
        pytest.param("", ["'id'", "the file is empty"], id="empty file"),
        pytest.param("id,emotion,text\n", ["no narratives"], id="header alone"),
        pytest.param("id,emotion,text,text\n1,joy,A.,B.\n", ["2 columns", "'text'"], id="a column twice"),
        pytest.param("id,emotion,text\n1,joy,A.\n2,joy,\n", ["line 3", "'text'", "empty"], id="empty cell"),
        pytest.param("id,emotion,text\n1,,A.\n", ["line 2", "'emotion'", "empty"], id="empty emotion"),
        pytest.param("id,emotion,text\n1,joy,  \n", ["line 2", "'text'", "empty"], id="blank cell"),
        pytest.param(
            'id,emotion,text\n1,joy,"A\nB"\n2,joy,""\n', ["line 4", "'text'"], id="empty cell below a newline"
        ),
        pytest.param("id,emotion,text\n1,joy\n", ["line 2", "'text'", "empty"], id="too few cells"),
        pytest.param("id,emotion,text\n1,joy,One, two.\n", ["line 2", "more cells"], id="too many cells"),
        pytest.param("id,emotion,text\n1,joy,A.\n1,fear,B.\n", ["'1'", "twice"], id="an identifier twice"),
        pytest.param('id,emotion,text\n1,joy,"A.\n2,joy,B.\n', ["line 2", "unexpected end"], id="a quote left open"),
        pytest.param('id,emotion,text\n1,joy,"A" B.\n', ["line 2", "','"], id="text after a quote"),
        pytest.param("id,emotion,text\n1,joy," + "x" * 140_000, ["line 2", "field"], id="a cell beyond all measure"),
        pytest.param(b"id,emotion,text\n1,joy,A.\n2,joy,caf\xe9\n", ["line 3", "UTF-8", "0xe9"], id="Latin-1"),
    ],
)
def test_a_faulty_file_is_named_with_the_place(write, content, words):
    path = write(content)
    message = error_of(path)
    for word in [str(path), *words]:
        assert word in message


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"emotion": "emotion", "neutral": "text"}, "stimuli.columns.narrative_id must name a column"),
        ({"narrative_id": "id", "emotion": None, "neutral": "text"}, "stimuli.columns.emotion must name a column"),
        ({"narrative_id": "id", "emotion": "emotion"}, "at least one of neutral, first_person, third_person"),
    ],
)
def test_columns_that_are_needed_must_be_named(write, columns, words):
    assert words in error_of(write("id,emotion,text\n1,joy,A.\n"), columns)


def test_a_file_that_is_missing_or_a_folder_is_named(tmp_path):
    assert "absent.csv is not a file" in error_of(tmp_path / "absent.csv")
    assert f"{tmp_path} is a folder, not a file" in error_of(tmp_path)


def test_a_csv_needs_a_path():
    assert "stimuli.path" in error_of(None)


def test_the_packaged_narratives_take_no_path(tmp_path):
    with pytest.raises(StimulusError, match="packaged"):
        load_narratives("geneva", path=tmp_path)


def test_an_unknown_source_is_named():
    with pytest.raises(StimulusError, match=r"'genva'.*did you mean 'geneva'\?"):
        load_narratives("genva")


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1).map(
            lambda text: f"{text}ab{text}"
        ),
        min_size=1,
        max_size=5,
        unique_by=words_alone,
    )
)
def test_any_text_survives_the_file(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("any") / "own.csv"
    path.write_bytes(table([[str(i), "joy", text] for i, text in enumerate(texts)]).encode())
    assert [n.neutral for n in read(path).narratives] == [text.strip() for text in texts]


# --- The study's folder ----------------------------------------------------------------------------------------------


@pytest.fixture
def study(tmp_path):
    """Write invented files in the study's form and return their folder."""

    def folder(emotions=tuple(HOU2025_COUNTS), n=3):
        for emotion in emotions:
            start = 100 * list(HOU2025_COUNTS).index(emotion)
            rows = [
                [emotion, start + i, f"{emotion} at stop {i}", f"I was at stop {i}", f"The person was at stop {i}"]
                for i in range(n)
            ]
            path = tmp_path / f"crowd-enVent_{emotion}.tsv"
            path.write_text(table(rows, HOU2025_HEADER, "\t"), encoding="utf-8")
        return tmp_path

    return folder


def test_twelve_emotions_of_550_and_275_are_6050():
    assert sorted(HOU2025_COUNTS.values()) == [275, 275, *[550] * 10]
    assert {e for e, n in HOU2025_COUNTS.items() if n == 275} == {"guilt", "shame"}
    assert sum(HOU2025_COUNTS.values()) == 6_050


def test_hou2025_reads_all_twelve_files(study):
    narratives = load_narratives("hou2025", path=study())
    assert Counter(n.emotion for n in narratives.narratives) == dict.fromkeys(HOU2025_COUNTS, 3)
    assert len(narratives.narratives) == narratives.n_available == 36
    first = narratives.narratives[0]
    assert (first.narrative_id, first.emotion, first.neutral) == ("0", "anger", "anger at stop 0")
    assert (first.first_person, first.third_person) == ("I was at stop 0", "The person was at stop 0")
    assert first.words == EmotionWords("anger", "angry")


def test_hou2025_has_a_noun_and_an_adjective_for_every_emotion(study):
    narratives = load_narratives("hou2025", path=study(n=1)).narratives
    assert all(n.words.noun == n.emotion and n.words.adjective for n in narratives)


def test_hou2025_reads_only_the_files_of_the_emotions_asked_for(study):
    path = study(["joy", "shame"])
    narratives = load_narratives("hou2025", path=path, emotions=["shame", "joy"])
    assert narratives.emotions == ("joy", "shame")
    assert narratives.n_available == 6


def test_hou2025_names_missing_files_and_the_emotions_that_are_there(study):
    path = study(["joy", "anger"])
    with pytest.raises(StimulusError) as caught:
        load_narratives("hou2025", path=path)
    message = str(caught.value)
    for word in [str(path), "10 of 12", "crowd-enVent_fear.tsv", "arXiv:2503.01030", "stimuli.emotions=[anger,joy]"]:
        assert word in message
    assert "crowd-enVent_joy.tsv" not in message
    assert len(load_narratives("hou2025", path=path, emotions=["anger", "joy"]).narratives) == 6


def test_hou2025_offers_no_subset_of_an_empty_folder(tmp_path):
    with pytest.raises(StimulusError, match="12 of 12 files") as caught:
        load_narratives("hou2025", path=tmp_path)
    assert "stimuli.emotions" not in str(caught.value)


def test_hou2025_needs_a_folder(study):
    with pytest.raises(StimulusError, match=r"needs stimuli\.path.*arXiv:2503\.01030"):
        load_narratives("hou2025")
    file = study(["joy"]) / "crowd-enVent_joy.tsv"
    with pytest.raises(StimulusError, match=rf"{file} is not a folder"):
        load_narratives("hou2025", path=file)


def test_hou2025_refuses_a_file_that_holds_another_emotion(study):
    path = study(["joy", "fear"])
    (path / "crowd-enVent_fear.tsv").rename(path / "crowd-enVent_joy.tsv")
    with pytest.raises(StimulusError, match=r"crowd-enVent_joy\.tsv: text_id '200' says emotion 'fear', not 'joy'"):
        load_narratives("hou2025", path=path, emotions=["joy"])


def test_hou2025_refuses_an_identifier_that_two_files_share(study):
    path = study(["joy"])
    rows = [["fear", "500", "A.", "B.", "C."]]
    (path / "crowd-enVent_fear.tsv").write_text(table(rows, HOU2025_HEADER, "\t"), encoding="utf-8")
    assert load_narratives("hou2025", path=path, emotions=["joy"]).narratives[0].narrative_id == "500"
    with pytest.raises(StimulusError, match="'500' occurs twice"):
        load_narratives("hou2025", path=path, emotions=["joy", "fear"])


def test_hou2025_names_the_column_that_a_file_lacks(study):
    path = study(["joy"])
    file = path / "crowd-enVent_joy.tsv"
    file.write_text(file.read_text().replace("first_person_text", "first_text"))
    with pytest.raises(StimulusError, match=r"crowd-enVent_joy\.tsv: no column 'first_person_text'"):
        load_narratives("hou2025", path=path, emotions=["joy"])


def test_hou2025_names_an_unknown_emotion_before_it_looks_for_files(tmp_path):
    with pytest.raises(StimulusError, match=r"hou2025 has no 'angry'; did you mean 'anger'\?"):
        load_narratives("hou2025", path=tmp_path, emotions=["angry"])


@pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"the study's files may not be redistributed, and no copy is in {SHARED}"
)
def test_the_study_s_own_files_have_550_275_and_550_narratives():
    narratives = load_narratives("hou2025", path=SHARED, emotions=["anger", "guilt", "joy"])
    assert Counter(n.emotion for n in narratives.narratives) == {"anger": 550, "guilt": 275, "joy": 550}
    assert all(HOU2025_COUNTS[e] == n for e, n in Counter(n.emotion for n in narratives.narratives).items())
    assert len({n.narrative_id for n in narratives.narratives}) == 1_375
    assert all(n.neutral and n.first_person and n.third_person for n in narratives.narratives)


# --- Emotions and subsets --------------------------------------------------------------------------------------------


def ids(narratives, emotion):
    return [n.narrative_id for n in narratives.narratives if n.emotion == emotion]


def test_emotions_keep_the_order_of_the_source():
    narratives = load_narratives("geneva", emotions=["worried", "amused", "worried"])
    assert narratives.emotions == ("amused", "worried")
    assert narratives.n_available == len(narratives.narratives) == 68


def test_an_emotion_that_the_source_lacks_is_named():
    with pytest.raises(StimulusError, match=r"geneva has no 'hapy'; did you mean 'happy'\?"):
        load_narratives("geneva", emotions=["happy", "hapy"])


@pytest.mark.parametrize("source", ["geneva", "hou2025"])
def test_no_emotion_at_all_is_an_error(source, tmp_path):
    path = tmp_path if source == "hou2025" else None
    with pytest.raises(StimulusError, match=r"stimuli\.emotions is empty"):
        load_narratives(source, path=path, emotions=[])


def test_a_subset_has_as_many_of_each_emotion():
    narratives = load_narratives("geneva", situations_per_emotion=5, seed=1)
    assert set(Counter(n.emotion for n in narratives.narratives).values()) == {5}
    assert len({n.narrative_id for n in narratives.narratives}) == 60
    assert narratives.n_available == 408


def test_a_subset_keeps_the_order_of_the_file():
    everything = [n.narrative_id for n in load_narratives("geneva").narratives]
    drawn = [n.narrative_id for n in load_narratives("geneva", situations_per_emotion=7).narratives]
    assert drawn == sorted(drawn, key=everything.index)


def test_the_seed_makes_the_draw():
    draws = [load_narratives("geneva", situations_per_emotion=5, seed=seed) for seed in (3, 3, 4)]
    assert draws[0] == draws[1]
    assert draws[0].narratives != draws[2].narratives


def test_emotions_are_drawn_independently():
    narratives = load_narratives("geneva", situations_per_emotion=5, seed=0)
    numbers = {emotion: tuple(i[-2:] for i in ids(narratives, emotion)) for emotion in narratives.emotions}
    assert len(set(numbers.values())) > 6


@pytest.mark.parametrize("others", [["amused"], ["worried", "sad", "anxious"], None])
def test_an_emotion_s_draw_does_not_depend_on_the_others(others):
    alone = load_narratives("geneva", emotions=["happy"], situations_per_emotion=4, seed=9)
    emotions = None if others is None else ["happy", *others]
    together = load_narratives("geneva", emotions=emotions, situations_per_emotion=4, seed=9)
    assert ids(together, "happy") == ids(alone, "happy")


def test_a_draw_of_all_is_all():
    assert load_narratives("geneva", situations_per_emotion=34) == load_narratives("geneva")


@pytest.mark.parametrize(
    ("number", "words"),
    [(35, "amused has 34; ask for at most 34"), (0, "must be at least 1"), (-1, "must be at least 1")],
)
def test_a_draw_that_can_not_be_made_is_an_error(number, words):
    with pytest.raises(StimulusError, match=rf"situations_per_emotion={number}.*{words}"):
        load_narratives("geneva", situations_per_emotion=number)


def test_the_most_that_can_be_drawn_is_the_rarest_emotion_s(write):
    path = write(table([["1", "joy", "A."], ["2", "joy", "B."], ["3", "joy", "C."], ["4", "fear", "D."]]))
    told = error_of(path, situations_per_emotion=2)
    assert "=2, but fear has 1; ask for at most 1, or for all (stimuli.situations_per_emotion=all)" in told


# --- The hash --------------------------------------------------------------------------------------------------------

ROWS = [["1", "joy", "A day."], ["2", "fear", "A night."]]


def test_the_hash_is_of_content_not_of_the_file(write):
    plain = read(write(table(ROWS)))
    header = ("note", "text", "id", "emotion")
    moved = read(write(table([["x", text, i, e] for i, e, text in ROWS], header, "\t"), "other.tsv"))
    assert moved.sha256 == plain.sha256
    assert re.fullmatch("[0-9a-f]{64}", plain.sha256)


@pytest.mark.parametrize(
    "rows",
    [
        [["1", "joy", "A day!"], ["2", "fear", "A night."]],
        [["1", "joy", "A day."], ["3", "fear", "A night."]],
        [["1", "joy", "A day."], ["2", "joy", "A night."]],
        [["2", "fear", "A night."], ["1", "joy", "A day."]],
        [["1", "joy", "A day."]],
        [*ROWS, ["3", "joy", "A week."]],
    ],
    ids=["text", "identifier", "emotion", "order", "one less", "one more"],
)
def test_the_hash_changes_with_content(write, rows):
    assert read(write(table(rows))).sha256 != read(write(table(ROWS), "other.csv")).sha256


def test_the_hash_changes_with_the_wording_that_a_text_stands_in(write):
    path = write(table(ROWS))
    first_person = {"narrative_id": "id", "emotion": "emotion", "first_person": "text"}
    assert read(path).sha256 != read(path, first_person).sha256


def test_the_hash_changes_with_the_emotion_s_words(write):
    header = ("id", "emotion", "text", "noun")
    columns = {**COLUMNS, "emotion_noun": "noun"}
    one, other = (
        read(write(table([["1", "joy", "A day.", noun]], header), f"{noun}.csv"), columns) for noun in ("joy", "glee")
    )
    assert one.sha256 != other.sha256


def test_the_hash_of_a_subset_is_its_own():
    hashes = {load_narratives("geneva", situations_per_emotion=k).sha256 for k in (None, 33, 34)}
    assert len(hashes) == 2


CELL = st.text('a\x1e\x1f",\n\\ [', min_size=1, max_size=4).map(lambda text: f"x{text}x")
TABLE = st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=3, unique_by=lambda row: row[0])


@given(TABLE, TABLE)
def test_the_hash_is_the_same_if_and_only_if_the_content_is(tmp_path_factory, rows, others):
    folder = tmp_path_factory.mktemp("hash")
    columns = {"narrative_id": "id", "emotion": "emotion", "neutral": "text", "first_person": "emotion"}
    read_back = []
    for name, content in (("one.csv", rows), ("other.csv", others)):
        (folder / name).write_bytes(table(content).encode())
        try:
            read_back.append(read(folder / name, columns))
        except StimulusError:  # two spellings of an emotion, or a text twice
            assume(False)
    one, other = read_back
    assert (one.sha256 == other.sha256) == (one.narratives == other.narratives)


def test_control_characters_can_not_move_text_between_columns_unseen(write):
    header = ("id", "emotion", "text", "own")
    columns = {**COLUMNS, "first_person": "own"}
    one = read(write(table([["1", "joy", "a\x1fb", "c"]], header)), columns)
    other = read(write(table([["1", "joy", "a", "b\x1fc"]], header), "other.csv"), columns)
    assert one.sha256 != other.sha256
