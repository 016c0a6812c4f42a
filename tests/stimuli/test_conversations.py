"""A user's corpus of conversations: what a prompt shows of it, what is kept beside, and every fault of the file."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.statistics.conversations import conversation_of
from stimuli.conversations import _letters, read_conversations
from stimuli.errors import StimulusError
from stimuli.narratives import WORDINGS, emotion_words, load_narratives

HEADER = ("conversation_id", "turn", "speaker", "text", "emotion", "identity", "cause")
COLUMNS = {name: name for name in HEADER}
# Made up. The turns are not in the file's order.
ROWS = (
    ("k1", "1", "Ana", "They cancelled the ferry.", "", "Greek", ""),
    ("k1", "3", "Ana", "I had packed for a week!", "anger", "", "cancelled the ferry || packed for a week"),
    ("k1", "2", "Bo", "Oh no. Sit\ndown.", "sadness", "Welsh", "They CANCELLED the ferry"),
    ("k2", "1", "Bo", "Soup?", "joy", "", ""),
)


@pytest.fixture
def write(tmp_path):
    """Write a corpus, with changes to rows as {(row from 0, column): cell}, and return the file."""

    def to_file(rows=ROWS, changes=None, header=HEADER):
        cells = [list(row) for row in rows]
        for (row, column), cell in (changes or {}).items():
            cells[row][header.index(column)] = cell
        stream = io.StringIO()
        csv.writer(stream).writerows([header, *cells])
        path = tmp_path / "corpus.csv"
        path.write_text(stream.getvalue(), encoding="utf-8", newline="")
        return path

    return to_file


def read(path, columns=COLUMNS, *, history=None, **options):
    return read_conversations(path, columns, history=history, **options)


def test_an_utterance_with_an_emotion_is_a_narrative_of_what_was_said_up_to_it(write):
    found = read(write())
    texts = {each.narrative_id: each.neutral for each in found.narratives.narratives}
    assert texts == {
        "k1:2": "Person A: They cancelled the ferry.\nPerson B: Oh no. Sit down.\n\n"
        "The last line, said by Person B, is the one asked about.",
        "k1:3": "Person A: They cancelled the ferry.\nPerson B: Oh no. Sit down.\nPerson A: I had packed for a week!\n"
        "\nThe last line, said by Person A, is the one asked about.",
        "k2:1": "Person A: Soup?\n\nThe last line, said by Person A, is the one asked about.",
    }
    assert [each.emotion for each in found.narratives.narratives] == ["sadness", "anger", "joy"]
    for each in found.narratives.narratives:
        assert {each.wording(name) for name in WORDINGS} == {each.neutral}
    assert found.narratives.narratives[1].words == emotion_words()["anger"]
    assert (found.narratives.source, found.narratives.n_available) == ("conversations", 3)


def test_what_is_kept_beside_the_narratives(write):
    found = read(write())
    assert found.labels == ("anger", "joy", "sadness")
    assert found.choice == "anger, joy or sadness"
    # Ana's identity stands on her first line alone; Bo's of k1 says nothing of a Bo in k2.
    assert found.identities == {"k1:2": "Welsh", "k1:3": "Greek", "k2:1": ""}
    assert found.causes == {
        "k1:2": ("They CANCELLED the ferry",),
        "k1:3": ("cancelled the ferry", "packed for a week"),
        "k2:1": (),
    }


def test_a_corpus_without_causes_or_identities_has_none(write):
    found = read(write(), COLUMNS | {"cause": None, "identity": None})
    assert found.causes == {}
    assert set(found.identities.values()) == {""}


def test_synonyms_are_kept_and_make_no_other_run(write):
    found = read(write(), synonyms={"joy": ["happiness", "Joy"]})
    assert found.synonyms == {"joy": ("happiness", "Joy")}
    assert found.sha256 == read(write()).sha256


def test_columns_map_the_file_s_names_to_ours(write):
    theirs = ("dialogue", "nr", "who", "said", "label", "group", "because")
    found = read(write(header=theirs), dict(zip(HEADER, theirs, strict=True)))
    assert found == read(write())


@pytest.mark.parametrize(
    ("history", "lines"),
    [
        (0, ["Person A: I had packed for a week!"]),
        (1, ["Person B: Oh no. Sit down.", "Person A: I had packed for a week!"]),
        (
            9,
            ["Person A: They cancelled the ferry.", "Person B: Oh no. Sit down.", "Person A: I had packed for a week!"],
        ),
    ],
)
def test_history_is_how_many_earlier_utterances_are_shown(write, history, lines):
    path = write(changes={(1, "cause"): "packed", (2, "cause"): ""})
    shown = {each.narrative_id: each.neutral for each in read(path, history=history).narratives.narratives}
    assert shown["k1:3"].split("\n\n")[0].splitlines() == lines


TALK = (
    ("k1", "1", "Bo", "Morning.", "joy", "", ""),
    ("k1", "2", "Ana", "They cancelled it.", "anger", "", ""),
    ("k1", "3", "Bo", "Oh no.", "sadness", "", ""),
    ("k1", "4", "Cy", "Which one?", "", "", ""),
    ("k1", "5", "Ana", "The ferry.", "anger", "", ""),
    ("k1", "6", "Ana", "I had packed.", "anger", "", ""),
    ("k2", "1", "Bo", "Soup?", "joy", "", ""),
)


def test_a_conversation_as_turns_begins_with_the_speaker_and_alternates(write):
    found = read(write(TALK), shown="turns", synonyms={"joy": ["glee"]})
    told = {each.narrative_id: (each.neutral, each.later, each.answered) for each in found.narratives.narratives}
    assert told == {
        "k1:1": ("Morning.", (), ()),
        "k1:2": ("They cancelled it.", (), ()),
        "k1:3": ("Morning.", ("Oh no.",), ("They cancelled it.",)),
        "k1:5": ("They cancelled it.", ("The ferry.",), ("Oh no.\nWhich one?",)),
        "k1:6": ("They cancelled it.", ("The ferry.\nI had packed.",), ("Oh no.\nWhich one?",)),
        "k2:1": ("Soup?", (), ()),
    }
    assert found.synonyms == {"joy": ("glee",)}
    of = {each.narrative_id: each for each in read(write(TALK), shown="turns", history=2).narratives.narratives}
    assert (of["k1:5"].neutral, of["k1:5"].answered) == ("The ferry.", ())


def test_a_speaker_s_turns_alone_are_one_narrative_a_conversation(write):
    found = read(write(TALK), shown="speaker", n_later=1).narratives
    [only] = found.narratives
    assert (only.narrative_id, only.neutral, only.later, only.answered) == ("k1:1", "Morning.", ("Oh no.",), ())
    assert found.n_short == 1
    without = read(write(TALK), shown="speaker").narratives
    assert [each.neutral for each in without.narratives] == ["Morning.", "Soup?"]
    assert all(not each.later for each in without.narratives)
    assert len({found.sha256, without.sha256, read(write(TALK), shown="turns").narratives.sha256}) == 3
    with pytest.raises(StimulusError, match="does the person who begins it write 4 messages"):
        read(write(TALK), shown="speaker", n_later=3)


def test_an_emotion_of_the_conversation_is_that_of_who_begins_it(write):
    found = read(write(TALK), first_speaker=True)
    assert [each.narrative_id for each in found.narratives.narratives] == ["k1:1", "k1:3", "k2:1"]


DIALOGUES = """conv_id,utterance_idx,context,prompt,speaker_idx,utterance,selfeval,tags
c,1,proud,A kite.,7,"Up_comma_ and up.,5|5,
c,2,proud,A kite.,9,Whose?,5|5,,first_comma_ one|second
d,1,sad,A ring.,7,It is lost.,5|5,
"""


def test_a_file_of_empathetic_dialogues_is_read_as_it_is_released_and_as_an_editor_saves_it(tmp_path):
    file = tmp_path / "test.csv"
    columns = {"conversation_id": "conv_id", "turn": "utterance_idx", "speaker": "speaker_idx", "text": "utterance",
               "emotion": "context"}  # fmt: skip
    options = {"shown": "turns", "first_speaker": True}
    file.write_text(DIALOGUES)
    told = [(each.narrative_id, each.neutral) for each in read(file, columns, **options).narratives.narratives]
    assert told == [("c:1", '"Up, and up.'), ("d:1", "It is lost.")]
    file.write_text(
        DIALOGUES.replace('"Up_comma_ and up.', '"Up, up, and up."').replace(",first_comma_ one|second", "")
    )
    told = [each.neutral for each in read(file, columns, **options).narratives.narratives]
    assert told == ["Up, up, and up.", "It is lost."]


@pytest.mark.parametrize(("row", "n"), [("d,1,sad,A ring.,7,It is, I fear, lost.,5|5,", 10), ("d,1,sad,A ring.,7", 5)])
def test_a_damaged_row_of_empathetic_dialogues_is_named(tmp_path, row, n):
    file = tmp_path / "test.csv"
    file.write_text(DIALOGUES.replace("d,1,sad,A ring.,7,It is lost.,5|5,", row))
    columns = {"conversation_id": "conv_id", "turn": "utterance_idx", "speaker": "speaker_idx", "text": "utterance",
               "emotion": "context"}  # fmt: skip
    with pytest.raises(StimulusError) as fault:
        read(file, columns)
    said = f"the row that begins on line 4: it has {n} cells, and a row of EmpatheticDialogues 8 or 9; write each comma"
    assert said in str(fault.value)


def test_names_are_shown_where_that_is_asked_for(write):
    texts = [each.neutral for each in read(write(), keep_names=True).narratives.narratives]
    assert texts[0].splitlines() == [
        "Ana: They cancelled the ferry.",
        "Bo: Oh no. Sit down.",
        "",
        "The last line, said by Bo, is the one asked about.",
    ]


@pytest.mark.parametrize(("number", "letters"), [(1, "A"), (26, "Z"), (27, "AA"), (52, "AZ"), (53, "BA"), (703, "AAA")])
def test_speakers_are_lettered_as_columns_of_a_spreadsheet(number, letters):
    assert _letters(number) == letters


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("\n\r\u2028"), max_size=30))
def test_an_utterance_is_one_line_so_that_it_can_not_speak_for_another(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("corpus") / "own.csv"
    stream = io.StringIO()
    csv.writer(stream).writerows(
        [HEADER, ("c", 1, "x", f"so {text}", "joy", "", ""), ("c", 2, "y", "z", "fear", "", "")]
    )
    path.write_text(stream.getvalue(), encoding="utf-8", newline="")
    last = read(path).narratives.narratives[-1].neutral
    assert [line.split(":")[0] for line in last.splitlines()[:2]] == ["Person A", "Person B"]
    assert len(last.splitlines()) == 4


# --- The hash --------------------------------------------------------------------------------------------------------


def test_the_hash_is_of_what_is_shown_and_of_what_it_is_compared_with(write):
    hashes = [
        read(write()).sha256,
        read(write(changes={(1, "cause"): "packed"})).sha256,
        read(write(changes={(3, "identity"): "Welsh"})).sha256,
        read(write(changes={(3, "text"): "Stew?"})).sha256,
        read(write(changes={(3, "emotion"): "anger"})).sha256,
        read(write(), keep_names=True).sha256,
        read(write(), history=2).sha256,  # shows the same
    ]
    assert len(set(hashes)) == len(hashes) - 1
    assert hashes[0] == hashes[-1]
    assert read(write(ROWS[1:3] + ROWS[:1] + ROWS[3:])).sha256 == hashes[0]


def test_the_narratives_hash_is_made_as_that_of_other_sources(write, tmp_path):
    found = read(write()).narratives
    path = tmp_path / "narratives.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["narrative_id", "emotion", "neutral"])
        writer.writerows([each.narrative_id, each.emotion, each.neutral] for each in found.narratives)
    columns = {"narrative_id": "narrative_id", "emotion": "emotion", **dict.fromkeys(WORDINGS, "neutral")}
    assert load_narratives("csv", path=path, columns=columns).sha256 == found.sha256


def test_marks_alone_are_shown_and_not_asked_about(write):
    rows = (*ROWS, ("k2", "2", "Ana", "!", "surprise", "", ""), ("k2", "3", "Bo", "Yes.", "joy", "", ""))
    found = read(write(rows))
    assert [each.narrative_id for each in found.narratives.narratives] == ["k1:2", "k1:3", "k2:1", "k2:3"]
    assert found.narratives.narratives[-1].neutral.startswith("Person A: Soup?\nPerson B: !\nPerson A: Yes.\n")
    assert found.labels == ("anger", "joy", "sadness")
    assert found.narratives.n_not_asked == 1


def test_several_columns_tell_a_conversation_and_none_is_taken_for_another(write):
    header = ("season", *HEADER)
    rows = [("s:1", *ROWS[0]), ("s:1", *ROWS[1]), ("s:1", *ROWS[2]), ("s", "1:k1", *ROWS[3][1:])]
    found = read(write(rows, header=header), COLUMNS | {"conversation_id": ("season", "conversation_id")})
    assert [each.narrative_id for each in found.narratives.narratives] == [r"s\:1:k1:2", r"s\:1:k1:3", r"s:1\:k1:1"]
    again = [("1", *row) for row in ROWS] + [("2", *row) for row in ROWS]
    with pytest.raises(StimulusError, match=r"line 7: turn 1 of conversation 'k1' occurs twice .*3 more rows: line 8"):
        read(write(again, header=header))
    both = read(write(again, header=header), COLUMNS | {"conversation_id": ("season", "conversation_id")})
    assert len(both.narratives.narratives) == 6


def test_what_the_user_says_stands_for_nothing_is_an_empty_cell_and_is_a_label_else(write):
    path = write(changes={(0, "emotion"): "NA"})
    assert "NA" in read(path).labels
    assert read(path, missing=["NA"]).labels == ("anger", "joy", "sadness")


# --- Faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({(1, "turn"): "1"}, "line 3: turn 1 of conversation 'k1' occurs twice (also line 2)"),
        ({(1, "turn"): "01"}, "turn 1 of conversation 'k1' occurs twice"),
        ({(1, "turn"): "1.5"}, "line 3: the turn '1.5' is not a whole number"),
        ({(1, "turn"): "-1"}, "the turn '-1' is not a whole number"),
        ({(1, "turn"): ""}, "line 3: the cell in column 'turn' is empty"),
        ({(0, "text"): " "}, "line 2: the cell in column 'text' is empty"),
        ({(0, "speaker"): ""}, "line 2: the cell in column 'speaker' is empty"),
        ({(1, "identity"): "Welsh"}, "line 3: the identity of speaker 'Ana' is 'Welsh' here and 'Greek' on line 2"),
        ({(1, "cause"): "the train"}, "line 3: the cause 'the train' is in no shown utterance; copy the words"),
        ({(2, "cause"): "packed for a week"}, "but occurs later (line 3); use words said up to this turn"),
        ({(3, "cause"): "the ferry"}, "'the ferry' is in no shown utterance; copy"),  # another conversation
        ({(1, "cause"): "ferry || "}, "the cause '' has no letter or digit"),
        ({(1, "emotion"): "4"}, "line 3: the emotion '4' is not a word that a model could choose"),
        ({(3, "emotion"): "Anger"}, "line 6: the emotion 'Anger' is 'anger' on line 3; write it in one way"),
        ({(1, "emotion"): "joy", (2, "emotion"): ""}, "the emotion is 'joy' throughout; give utterances of at"),
        ({(1, "emotion"): "", (2, "emotion"): "", (3, "emotion"): ""}, "the emotion is empty throughout"),
    ],
)  # fmt: skip
def test_a_fault_is_one_line_that_names_place_and_remedy(write, changes, said):
    with pytest.raises(StimulusError) as caught:
        read(write(changes=changes))
    assert said in str(caught.value)
    assert "corpus.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_cause_that_history_hides_says_how_much_to_show(write):
    path = write(changes={(2, "cause"): "", (1, "cause"): "the ferry"})
    assert read(path, history=2).causes["k1:3"] == ("the ferry",)
    with pytest.raises(StimulusError, match=r"but earlier \(line 2\); set stimuli.conversations.history=2 or null$"):
        read(path, history=1)


def test_a_cause_of_an_utterance_that_is_not_asked_about_is_not_read(write):
    assert set(read(write(changes={(0, "cause"): "nothing of the kind"})).causes) == {"k1:2", "k1:3", "k2:1"}


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (COLUMNS | {"turn": None}, {}, "stimuli.conversations.turn must name a column of"),
        (COLUMNS | {"speaker": "speakr"}, {}, "no column 'speakr' (for speaker); did you mean 'speaker'?"),
        (COLUMNS, {"history": -1}, "stimuli.conversations.history=-1 must be at least 0"),
        (COLUMNS, {"synonyms": {"Joy": ["glee"]}}, "stimuli.conversations.synonyms.Joy: 'Joy' is not an emotion in"),
        (COLUMNS, {"synonyms": {"hapiness": ["joy"]}}, "there are: anger, joy, sadness"),
        (COLUMNS, {"synonyms": {"joy": ["Anger"]}}, "synonyms.joy: 'Anger' is already a synonym of 'anger'"),
        (COLUMNS, {"synonyms": {"joy": ["glum"], "sadness": [" Glum"]}}, "' Glum' is already a synonym of 'joy'"),
        (COLUMNS, {"synonyms": {"joy": [":)"]}}, "synonyms.joy: ':)' is not a word that a model could write"),
    ],
)
def test_options_that_can_not_be_used(write, columns, options, said):
    with pytest.raises(StimulusError) as caught:
        read(write(), columns, **options)
    assert said in str(caught.value)


# --- Causes as utterances --------------------------------------------------------------------------------------------

# Made up, in the form of RECCON's files. "b" is a cause that nobody said; turn 3 comes after the target.
RECCON = {
    "tr_1": [
        [
            {"turn": 1, "speaker": "A", "utterance": "They took my permit, all of it.", "emotion": "neutral"},
            {
                "turn": 2, "speaker": "B", "utterance": "That is outrageous!", "emotion": "anger",
                "expanded emotion cause evidence": [1, "b", 3],
                "expanded emotion cause span": ["took my permit", "b", "come along"], "type": ["inter-personal"],
            },
            {
                "turn": 3, "speaker": "A", "utterance": "Please come along.", "emotion": "sadness",
                "expanded emotion cause evidence": ["b"], "expanded emotion cause span": ["b"],
            },
        ]
    ],
    "tr_2": [[{
        "turn": 1, "speaker": "A", "utterance": "We won!", "emotion": "happiness",
        "expanded emotion cause evidence": [1], "expanded emotion cause span": ["We won!"],
    }]],
}  # fmt: skip
OF_RECCON = COLUMNS | {
    "identity": None, "text": "utterance", "cause": "expanded emotion cause span",
    "evidence": "expanded emotion cause evidence",
}  # fmt: skip


@pytest.fixture
def reccon(tmp_path):
    path = tmp_path / "dailydialog_test.json"
    path.write_text(json.dumps(RECCON))
    return path


def test_reccon_is_read_as_released(reccon):
    found = read(reccon, OF_RECCON)
    assert found.causes == {"tr_1:2": ("took my permit",), "tr_1:3": (), "tr_2:1": ("We won!",)}
    assert found.labels == ("anger", "happiness", "sadness")  # whose cause nobody marked is not asked about


def test_an_emotion_that_reccon_spells_otherwise_gets_its_usual_name_if_that_is_there(reccon):
    said = json.loads(reccon.read_text())
    [turns], [of_joy] = said["tr_1"], said["tr_2"]
    of_joy[0]["emotion"] = "happines"
    reccon.write_text(json.dumps(said))
    assert read(reccon, OF_RECCON).labels == ("anger", "happines", "sadness")
    turns[0] |= {"emotion": "happiness"} | {name: value for name, value in of_joy[0].items() if name.startswith("exp")}
    turns[0]["expanded emotion cause span"] = ["They took my permit"]
    reccon.write_text(json.dumps(said))
    found = read(reccon, OF_RECCON)
    assert found.labels == ("anger", "happiness", "sadness")
    assert [each.emotion for each in found.narratives.narratives if each.narrative_id == "tr_2:1"] == ["happiness"]


def test_an_utterance_that_nobody_marked_has_an_emotion_still(reccon):
    found = read(reccon, OF_RECCON | {"evidence": None, "cause": None})
    assert [each.narrative_id for each in found.narratives.narratives] == ["tr_1:1", "tr_1:2", "tr_1:3", "tr_2:1"]


def test_each_utterance_up_to_the_target_is_a_possible_cause(reccon):
    found = read(reccon, OF_RECCON | {"cause": None}, pairs=True)
    assert {name: bool(own) for name, own in found.causes.items()} == {
        "tr_1:2.1": True, "tr_1:2.2": False,
        "tr_1:3.1": False, "tr_1:3.2": False, "tr_1:3.3": False,
        "tr_2:1.1": True,
    }  # fmt: skip
    assert [each.narrative_id for each in found.narratives.narratives] == list(found.causes)
    assert found.narratives.narratives[0].neutral == (
        "1. Person A: They took my permit, all of it.\n2. Person B: That is outrageous!\n\n"
        "The last line, said by Person B, is the one asked about. The possible cause is line 1."
    )
    assert found.narratives.narratives[0].emotion == "anger"
    assert {conversation_of(name) for name in found.causes} == {"tr_1", "tr_2"}
    near = read(reccon, OF_RECCON | {"cause": None}, pairs=True, history=1)
    assert [name for name in near.causes if name.startswith("tr_1:3")] == ["tr_1:3.2", "tr_1:3.3"]


def test_evidence_of_a_table_is_turns_none_or_empty(write):
    header = (*HEADER[:-1], "evidence")
    path = write(
        header=header, rows=[(*row[:-1], told) for row, told in zip(ROWS, ("", "1||3", "NONE", ""), strict=True)]
    )
    found = read(path, {name: name for name in header}, pairs=True)
    assert [name for name, own in found.causes.items() if own] == ["k1:3.1", "k1:3.3"]
    assert {name.partition(".")[0] for name in found.causes} == {"k1:2", "k1:3"}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("4", "line 3: the evidence 4 is no turn of this conversation up to this one (3); give turns"),
        ("1 and 2", "line 3: the evidence '1 and 2' is not a turn; write the turns"),
    ],
)
def test_evidence_that_can_not_be_is_refused(write, told, said):
    header = (*HEADER[:-1], "evidence")
    rows = [(*row[:-1], told if place == 1 else "none") for place, row in enumerate(ROWS)]
    with pytest.raises(StimulusError) as fault:
        read(write(header=header, rows=rows), {name: name for name in header}, pairs=True)
    assert said in str(fault.value)
