import pytest

from stimuli.errors import StimulusError
from stimuli.stereotypes import STEREOTYPES_FILE, load_stereotypes


def lexicon_of(tmp_path, text):
    path = tmp_path / "own.yaml"
    path.write_text(text, encoding="utf-8")
    return load_stereotypes(path)


def test_the_packaged_lexicon_has_eight_to_ten_themes_of_ten_to_twenty_odd_stems_and_says_whose_it_is():
    lexicon = load_stereotypes()
    assert lexicon.source == "packaged"
    assert 8 <= len(lexicon.themes) <= 10
    assert {theme: len(stems) for theme, stems in lexicon.themes.items() if not 10 <= len(stems) <= 24} == {}
    head = STEREOTYPES_FILE.read_text("utf-8").split("hardship:")[0]
    assert "OURS" in head
    assert "not normed" in head


@pytest.mark.parametrize(
    ("word", "themes"),
    [
        ("struggling", {"hardship"}),
        ("prayers", {"piety"}),
        ("strong", {"hardship"}),
        ("strongly", set()),  # no * after strong
        ("customer", set()),
        ("ganges", set()),
        ("monkey", set()),
        ("extremely", set()),
        ("accentuate", set()),
        ("thread", set()),
        ("excellent", set()),
    ],
)
def test_a_stem_takes_in_its_words_and_not_those_that_begin_so_by_accident(word, themes):
    assert load_stereotypes().themes_of(word) == themes


def test_a_file_of_one_s_own_takes_the_packaged_one_s_place(tmp_path):
    lexicon = lexicon_of(tmp_path, "colours: [red*, blue, naïve]\nshades: [redd*]\n")
    assert lexicon.source.endswith("own.yaml")
    assert lexicon.themes_of("reddish") == {"colours", "shades"}
    assert lexicon.themes_of("blues") == set()
    assert lexicon.themes_of("naïve") == {"colours"}
    assert lexicon.themes_of("re") == set()


def test_the_hash_is_of_the_words_and_not_of_the_file(tmp_path):
    first = lexicon_of(tmp_path, "a_theme: [one, two]\n").sha256
    assert lexicon_of(tmp_path, "# said otherwise\na_theme:\n- two\n- one\n").sha256 == first
    assert lexicon_of(tmp_path, "a_theme: [one, three]\n").sha256 != first


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("- one\n", "has no NAME: VALUE pairs"),
        ("danger: [Crime]\n", "danger: 'Crime' has capitals, but texts are compared in lower case; write 'crime'"),
        ("danger: [crime, crime]\n", "danger: 'crime' is given twice; keep one"),
        ("danger: []\n", "danger has no list of words; write danger: [word, stem*]"),
        ("danger: crime\n", "danger has no list of words"),
        ("danger: [a crime]\n", "'a crime' is not one word"),
        ("danger: ['cri*me']\n", "'cri*me' is not one word"),
        ("danger: ['cr*']\n", "'cr*' is too short a stem; write at least 3 letters before *"),
        ("danger: [no]\n", "danger: False is not a word; put it in quotes"),
        ("danger: [3]\n", "danger: 3 is not a word"),
        ("Danger: [crime]\n", "theme 'Danger': a name has lower-case letters"),
        ("no: [crime]\n", "theme False: a name has lower-case letters"),
        ("danger: [crime]\ndanger: [gun]\n", "'danger' occurs twice"),
    ],
)
def test_a_lexicon_that_can_not_be_used_is_refused_in_one_line(tmp_path, text, said):
    with pytest.raises(StimulusError) as caught:
        lexicon_of(tmp_path, text)
    assert said in str(caught.value)
    assert "own.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StimulusError, match=r"none\.yaml: cannot be read"):
        load_stereotypes(tmp_path / "none.yaml")
