"""Identities: the packaged studies, a user's own dimensions, intersections, and every way to get them wrong."""

from __future__ import annotations

from itertools import product
from textwrap import dedent

import pytest

from audit.runs.manifest import ComparedWords
from audit.statistics.echo import Overlap
from stimuli.errors import StimulusError
from stimuli.identities import NO_PERSONA, UNSPECIFIED, load_dimensions, load_placebos

AGES = """
    age:
      groups:
        young: [{term: a young person, stem: young}, {term: a youth, stem: young}]
        old: [an old person]
"""
TEAMS = """
    football:
      in_group: [[fans of A, players of A], [fans of B, players of B]]
      perceivers:
        fans of A: [{term: a fan of A, stem: a}, {term: an A supporter, stem: a}]
        fans of B: [{term: a fan of B, stem: b}]
      experiencers:
        players of A: [{term: a player of A, stem: a}]
        players of B: [{term: a player of B, stem: b}, {term: a B striker, stem: b}]
"""


@pytest.fixture
def write(tmp_path):
    """Write a user's own identities and return the file."""

    def to_file(content: str | bytes):
        path = tmp_path / "own.yaml"
        path.write_bytes(content if isinstance(content, bytes) else dedent(content).encode())
        return path

    return to_file


def only(study="geneva", *, name, own=None, **options):
    (dimension,) = load_dimensions(study, own=own, names=[name], **options)
    return dimension


def terms(identities):
    """Map each group to its terms, in order, the baselines left out."""
    grouped: dict[str, list[str]] = {}
    for identity in identities:
        if not identity.is_baseline:
            grouped.setdefault(identity.group, []).append(identity.term)
    return grouped


def in_group_terms(dimension):
    return {(p.term, e.term) for p, e in dimension.pairs() if dimension.in_group(p, e)}


def by_term(identities, term):
    (identity,) = [i for i in identities if i.term == term]
    return identity


# --- The packaged studies, as protocols.md gives them ----------------------------------------------------------------


@pytest.mark.parametrize("study", ["six-groups", "geneva", "hou2025", "wide"])
def test_a_study_has_three_dimensions(study):
    assert {d.name for d in load_dimensions(study)} == {"race_ethnicity", "nationality", "religion"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "race_ethnicity",
            {
                "Asian": ["an Asian person", "a person of Korean descent"],
                "Black": ["a Black person", "a person of African descent"],
                "Hispanic": ["a Hispanic person", "a person of Latin American descent"],
                "White": ["a White person", "a person of European descent"],
            },
        ),
        (
            "nationality",
            {
                "American": ["an American person", "a person from Chicago"],
                "Chinese": ["a Chinese person", "a person from Shanghai"],
                "English": ["an English person", "a person from Manchester"],
                "Indian": ["an Indian person", "a person from Mumbai"],
            },
        ),
        (
            "religion",
            {
                "Buddhist": ["a Buddhist", "a follower of the Noble Eightfold Path"],
                "Christian": ["a Christian", "a follower of Jesus"],
                "Hindu": ["a Hindu", "a follower of the Bhagavad Gita"],
                "Muslim": ["a Muslim", "a follower of Islam"],
            },
        ),
    ],
)
def test_geneva_identities(name, expected):
    dimension = only(name=name)
    assert terms(dimension.perceivers) == terms(dimension.experiencers) == expected


def test_the_default_identities_are_six_groups_of_two_terms_of_two_forms():
    """So many that a gap may be claimed between groups; oracle of forms: the first words and the second ones."""
    for dimension in load_dimensions("six-groups", unspecified=False):
        own = terms(dimension.experiencers)
        assert [len(each) for each in own.values()] == [2] * 6
        shown = [each.term for each in dimension.perceivers]
        overlap = Overlap.of(shown, shown, dimension.stems)
        firsts = [not place % 2 for place in range(12)]
        assert overlap.same_form.tolist() == [[one == other for other in firsts] for one in firsts]
        assert dimension.states_stems
    assert list(own) == ["Buddhist", "Christian", "Hindu", "Jewish", "Muslim", "Sikh"]


def test_hou2025_religions():
    dimension = only("hou2025", name="religion")
    assert terms(dimension.perceivers) == {
        "Christian": ["a Christian"],
        "Muslim": ["a Muslim"],
        "Jewish": ["a Jew"],
        "Buddhist": ["a Buddhist"],
        "Hindu": ["a Hindu"],
    }
    assert dimension.experiencers == dimension.perceivers


def test_hou2025_has_18_ethnicity_terms_in_groups_of_5_4_3_and_6():
    dimension = only("hou2025", name="race_ethnicity")
    assert terms(dimension.perceivers) == {
        "White": ["a white person", "a White person", "a Caucasian", "a White American", "a European American"],
        "Black": ["a black person", "a Black person", "an African American", "a Black American"],
        "Asian": ["an Asian person", "an Asian American", "an Asian"],
        "Hispanic/Latino": [
            "a Hispanic person",
            "a Hispanic American",
            "a Latino American",
            "a Latino",
            "a Latina",
            "a Latinx",
        ],
    }
    assert dimension.experiencers == dimension.perceivers


def test_hou2025_has_21_nationalities_in_eight_clusters():
    dimension = only("hou2025", name="nationality")
    countries = [
        "China", "Japan", "India", "Pakistan", "Myanmar", "the Philippines", "Iran", "Israel", "Palestine", "Russia",
        "Ukraine", "Germany", "France", "the United Kingdom", "Nigeria", "Egypt", "the United States", "Canada",
        "Mexico", "Brazil", "Argentina",
    ]  # fmt: skip
    assert len(countries) == 21
    shown = [i.term for i in dimension.perceivers if not i.is_baseline]
    assert shown == [f"a person from {country}" for country in countries]
    assert dimension.experiencers == dimension.perceivers
    members: dict[str, set[str]] = {}
    for group, cluster in dimension.clusters.items():
        members.setdefault(cluster, set()).add(group)
    assert members == {
        "English-speaking": {"United States", "Canada", "United Kingdom"},
        "Protestant Europe": {"Germany"},
        "Catholic Europe": {"France"},
        "Confucian": {"China", "Japan"},
        "West & South Asia": {"India", "Myanmar", "Israel"},
        "Orthodox Europe": {"Russia", "Ukraine"},
        "Latin America": {"Philippines", "Argentina", "Brazil", "Mexico"},
        "African-Islamic": {"Iran", "Palestine", "Nigeria", "Egypt", "Pakistan"},
    }


@pytest.mark.parametrize(
    ("study", "name", "n_in_group", "n_out_group"),
    [
        # 4 groups of 2 terms: 4 x 2² = 16 of 8² = 64
        ("geneva", "race_ethnicity", 16, 48),
        ("geneva", "nationality", 16, 48),
        ("geneva", "religion", 16, 48),
        ("hou2025", "religion", 5, 20),
        ("hou2025", "nationality", 21, 420),
        # 5² + 4² + 3² + 6² = 86 of 18² = 324
        ("hou2025", "race_ethnicity", 86, 238),
    ],
)
def test_in_group_is_the_same_group(study, name, n_in_group, n_out_group):
    dimension = only(study, name=name, unspecified=False)
    verdicts = [dimension.in_group(p, e) for p, e in dimension.pairs()]
    assert (verdicts.count(True), verdicts.count(False)) == (n_in_group, n_out_group)
    assert all(dimension.in_group(p, e) == (p.group == e.group) for p, e in dimension.pairs())


def test_names_give_the_dimensions_and_their_order():
    names = ["religion", "nationality"]
    assert [d.name for d in load_dimensions("geneva", names=names)] == names
    assert [d.name for d in load_dimensions("geneva", names=names[::-1])] == names[::-1]


# --- Baselines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("study", ["six-groups", "geneva", "hou2025", "wide"])
def test_unspecified_is_a_person_and_stands_last_on_both_sides(study):
    for dimension in load_dimensions(study):
        for side in (dimension.perceivers, dimension.experiencers):
            assert (side[-1].term, side[-1].group, side[-1].groups) == ("a person", UNSPECIFIED, ())
            assert not any(i.is_baseline for i in side[:-1])


def test_unspecified_can_be_left_out():
    dimension = only(name="religion", unspecified=False)
    assert len(dimension.perceivers) == len(dimension.experiencers) == 8


@pytest.mark.parametrize("unspecified", [True, False])
def test_no_persona_is_a_perceiver_only_and_stands_last(unspecified):
    dimension = only(name="religion", unspecified=unspecified, no_persona=True)
    assert dimension.perceivers[-1].group == NO_PERSONA
    assert [i.group for i in dimension.perceivers].count(NO_PERSONA) == 1
    assert NO_PERSONA not in [i.group for i in dimension.experiencers]


def test_a_pair_with_a_baseline_is_neither_in_group_nor_out_group():
    dimension = only(name="religion", no_persona=True)
    for p, e in dimension.pairs():
        outside = p.is_baseline or e.is_baseline
        assert (dimension.n_shared(p, e) is None) == outside
        assert (dimension.in_group(p, e) is None) == outside
    assert sum(p.is_baseline or e.is_baseline for p, e in dimension.pairs()) == 10 * 9 - 8 * 8


def test_pairs_run_over_experiencers_fastest():
    dimension = only(name="religion")
    pairs = list(dimension.pairs())
    assert len(pairs) == 9 * 9
    assert [e for _, e in pairs[:9]] == list(dimension.experiencers)
    assert {p for p, _ in pairs[:9]} == {dimension.perceivers[0]}


# --- A user's own dimensions -----------------------------------------------------------------------------------------


def test_own_dimensions_follow_the_study_s(write):
    own = write(AGES)
    dimensions = load_dimensions("geneva", own=own)
    assert [d.name for d in dimensions] == ["race_ethnicity", "nationality", "religion", "age"]
    assert terms(dimensions[-1].perceivers) == {"young": ["a young person", "a youth"], "old": ["an old person"]}


def test_terms_of_one_group_are_in_group_to_each_other(write):
    own = write(AGES)
    assert in_group_terms(only(name="age", own=own)) == {
        ("a young person", "a young person"),
        ("a young person", "a youth"),
        ("a youth", "a young person"),
        ("a youth", "a youth"),
        ("an old person", "an old person"),
    }


def test_perceivers_and_experiencers_may_differ_with_listed_in_group_pairs(write):
    dimension = only(name="football", own=write(TEAMS), no_persona=True)
    assert [i.term for i in dimension.perceivers] == [
        "a fan of A",
        "an A supporter",
        "a fan of B",
        "a person",
        NO_PERSONA,
    ]
    assert [i.term for i in dimension.experiencers] == ["a player of A", "a player of B", "a B striker", "a person"]
    assert in_group_terms(dimension) == {
        ("a fan of A", "a player of A"),
        ("an A supporter", "a player of A"),
        ("a fan of B", "a player of B"),
        ("a fan of B", "a B striker"),
    }


def test_listed_pairs_have_a_direction(write):
    own = write("""
        rank:
          in_group: [[low, high]]
          groups: {low: [{term: a clerk, stem: clerk}], high: [{term: a director, stem: director}]}
    """)
    assert in_group_terms(only(name="rank", own=own)) == {("a clerk", "a director")}


def test_same_cluster_makes_neighbours_in_group(write):
    own = write("""
        country:
          in_group: same_cluster
          groups:
            Norway: {terms: [{term: a Norwegian, stem: norway}], cluster: north}
            Sweden: {terms: [{term: a Swede, stem: sweden}], cluster: north}
            Greece: {terms: [{term: a Greek, stem: greece}], cluster: south}
    """)
    dimension = only(name="country", own=own)
    north = {"a Norwegian", "a Swede"}
    assert in_group_terms(dimension) == {*product(north, north), ("a Greek", "a Greek")}
    assert dimension.clusters == {"Norway": "north", "Sweden": "north", "Greece": "south"}


def test_own_wording_of_the_unspecified_identity(write):
    own = write("age:\n  unspecified: somebody\n  groups: {young: [a youth], old: [an old person]}\n")
    dimension = only(name="age", own=own)
    assert dimension.perceivers[-1].term == dimension.experiencers[-1].term == "somebody"


def test_a_term_is_freed_of_outer_white_space(write):
    own = write("age:\n  groups: {young: ['  a youth '], old: [an old person]}\n")
    assert terms(only(name="age", own=own).perceivers)["young"] == ["a youth"]


def test_own_file_may_begin_with_a_byte_order_mark(write):
    own = write(b"\xef\xbb\xbfage:\n  groups: {young: [a youth], old: [an old person]}\n")
    assert only(name="age", own=own).name == "age"


def test_terms_that_differ_in_case_alone_are_two_identities():
    dimension = only("hou2025", name="race_ethnicity")
    assert by_term(dimension.perceivers, "a white person") != by_term(dimension.perceivers, "a White person")


# --- Intersections ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("study", "name", "n", "expected"),
    [
        ("geneva", "race_ethnicity+religion", 16, ["a Black Muslim", "an Asian Muslim", "a Hispanic Christian"]),
        ("geneva", "religion+race_ethnicity", 16, ["a Black Muslim", "an Asian Muslim", "a Hispanic Christian"]),
        ("geneva", "nationality+religion", 16, ["a Hindu from India", "a Muslim from the United States"]),
        ("geneva", "religion+nationality", 16, ["a Hindu from India", "a Muslim from the United States"]),
        ("geneva", "race_ethnicity+nationality", 16, ["an Asian person from England", "a Black person from India"]),
        (
            "geneva",
            "race_ethnicity+nationality+religion",
            64,
            ["an Asian Muslim from China", "a White Hindu from India"],
        ),
        ("hou2025", "race_ethnicity+religion", 20, ["a Hispanic Jew", "an Asian Buddhist", "a White Christian"]),
        ("hou2025", "nationality+religion", 105, ["a Jew from Israel", "a Christian from the Philippines"]),
    ],
)
def test_an_intersection_is_good_english(study, name, n, expected):
    dimension = only(study, name=name)
    shown = [i.term for i in dimension.perceivers if not i.is_baseline]
    assert len(shown) == len(set(shown)) == n
    assert set(expected) <= set(shown)
    assert dimension.experiencers == dimension.perceivers
    assert dimension.perceivers[-1].term == "a person"
    for term in shown:
        article, first = term.split()[:2]
        assert article == ("an" if first[0] in "AEIOU" else "a"), term


@pytest.mark.parametrize(
    ("adjective", "term"),
    [
        ("honest", "an honest Muslim"),
        ("European", "a European Muslim"),
        ("Ukrainian", "a Ukrainian Muslim"),
        ("Uighur", "a Uighur Muslim"),
        ("Inuit", "an Inuit Muslim"),
        ("university-educated", "a university-educated Muslim"),
        ("LGBT", "an LGBT Muslim"),
        ("US", "a US Muslim"),
        ("one-armed", "a one-armed Muslim"),
        ("18-year-old", "an 18-year-old Muslim"),
        ("28-year-old", "a 28-year-old Muslim"),
        ("80-year-old", "an 80-year-old Muslim"),
        ("118-year-old", "a 118-year-old Muslim"),
    ],
)
def test_the_article_follows_the_sound(write, adjective, term):
    own = write(f"""
        kind:
          groups:
            one: {{terms: [a one], adjective: {adjective}}}
            two: {{terms: [a two], adjective: young}}
    """)
    assert term in [i.term for i in only(name="kind+religion", own=own).perceivers]


def test_the_last_dimension_with_nouns_gives_the_noun(write):
    own = write("""
        trade:
          groups:
            medicine: {terms: [a doctor], noun: doctor}
            law: {terms: [an attorney], noun: attorney}
    """)
    shown = {i.term for i in only(name="nationality+religion+trade", own=own).perceivers}
    assert {"a Hindu doctor from India", "a Muslim attorney from China"} <= shown


def test_an_intersection_counts_the_dimensions_that_two_identities_share():
    dimension = only(name="race_ethnicity+religion", unspecified=False)
    muslim = by_term(dimension.perceivers, "a Black Muslim")
    shared = {e.term: dimension.n_shared(muslim, e) for e in dimension.experiencers}
    assert (shared["a Black Muslim"], shared["a Black Hindu"], shared["an Asian Muslim"]) == (2, 1, 1)
    assert shared["a White Hindu"] == 0
    # Of 16: itself; 3 with the other religions and 3 with the other groups; 3 x 3 with neither.
    assert [list(shared.values()).count(degree) for degree in (2, 1, 0)] == [1, 6, 9]


def test_an_intersection_is_in_group_only_where_every_dimension_is_shared():
    dimension = only(name="race_ethnicity+nationality+religion", unspecified=False)
    for p, e in dimension.pairs():
        n_shared = sum(a == b for a, b in zip(p.groups, e.groups, strict=True))
        assert dimension.n_shared(p, e) == n_shared
        assert dimension.in_group(p, e) == (n_shared == 3)


def test_an_intersection_keeps_each_dimension_s_own_rule(write):
    own = write("""
        team:
          in_group: [[reds, blues]]
          groups:
            reds: {terms: [{term: a red, stem: red}], adjective: red}
            blues: {terms: [{term: a blue, stem: blue}], adjective: blue}
    """)
    dimension = only(name="team+religion", own=own)
    p, e = by_term(dimension.perceivers, "a red Hindu"), by_term(dimension.experiencers, "a blue Hindu")
    assert (dimension.n_shared(p, e), dimension.in_group(p, e)) == (2, True)
    assert (dimension.n_shared(p, p), dimension.in_group(p, p)) == (1, False)
    assert (p.groups, p.group) == (("reds", "Hindu"), "reds + Hindu")


def test_an_intersection_is_only_made_when_named():
    assert all("+" not in d.name for d in load_dimensions("geneva"))


# --- Terms without a common word, and how they tell their group ------------------------------------------------------

ECHO_FREE = [
    pytest.param(d, id=f"{study}-{d.name}")
    for study in ("six-groups", "geneva", "wide")
    for d in load_dimensions(study, unspecified=False, cues=["label"])
]


@pytest.mark.parametrize("dimension", ECHO_FREE)
def test_every_packaged_group_has_two_labels_without_a_common_word(dimension):
    for group, labels in terms(dimension.perceivers).items():
        overlap = Overlap.of(labels, labels, dimension.stems)
        assert not (overlap.same_words | overlap.same_stem).all(), f"{group}: {labels}"


@pytest.mark.parametrize("study", ["six-groups", "geneva", "wide"])
def test_no_two_groups_of_a_dimension_have_a_word_in_common(study):
    for dimension in load_dimensions(study, unspecified=False):
        shown = [identity.term for identity in dimension.perceivers]
        overlap = Overlap.of(shown, shown, dimension.stems)
        assert [
            (one.term, other.term)
            for i, one in enumerate(dimension.perceivers)
            for j, other in enumerate(dimension.perceivers)
            if one.group != other.group and (overlap.same_words | overlap.same_stem)[i, j]
        ] == []


def test_every_packaged_name_and_context_has_a_stem_of_its_own_in_its_dimension():
    for dimension in load_dimensions("wide", unspecified=False):
        told = [i for i in dimension.perceivers if i.cue != "label"]
        assert all(i.stem for i in told)
        owners: dict[str, set[str]] = {}
        for identity in told:
            owners.setdefault(identity.stem, set()).add(identity.group)
        assert {stem: groups for stem, groups in owners.items() if len(groups) > 1} == {}


def test_wide_nations_have_three_labels_two_names_and_two_contexts_each():
    dimension = only("wide", name="nationality", unspecified=False)
    cues = {
        group: [by_term(dimension.perceivers, t).cue for t in own] for group, own in terms(dimension.perceivers).items()
    }
    assert cues == dict.fromkeys(cues, ["label"] * 3 + ["name"] * 2 + ["context"] * 2)
    assert len(cues) == 16
    n_countries: dict[str, int] = {}
    for cluster in dimension.clusters.values():
        n_countries[cluster] = n_countries.get(cluster, 0) + 1
    assert n_countries == dict.fromkeys(n_countries, 2)


CUED = """
    age:
      groups:
        young:
          - {term: a youth, stem: youth}
          - {term: a person named Kim, cue: name, stem: kim}
          - {term: someone of few years, stem: years}
        old:
          terms: [{term: an old person, stem: old}, {term: a person named Ada, cue: name, stem: ada}]
"""


def test_a_term_says_its_stem_and_its_cue_or_is_a_label_without_one(write):
    dimension = only(name="age", own=write(CUED))
    assert [(i.term, i.stem, i.cue) for i in dimension.perceivers] == [
        ("a youth", "youth", "label"),
        ("a person named Kim", "kim", "name"),
        ("someone of few years", "years", "label"),
        ("an old person", "old", "label"),
        ("a person named Ada", "ada", "name"),
        ("a person", None, "label"),
    ]
    assert dimension.stems == {each.term: each.stem for each in dimension.perceivers if not each.is_baseline}
    assert dimension.cues == {
        "a youth": "label",
        "a person named Kim": "name",
        "someone of few years": "label",
        "an old person": "label",
        "a person named Ada": "name",
    }


def test_cues_keep_the_terms_of_both_sides_that_tell_their_group_so(write):
    own = write(CUED)
    named = only(name="age", own=own, cues=["name"])
    assert terms(named.perceivers) == terms(named.experiencers)
    assert terms(named.perceivers) == {"young": ["a person named Kim"], "old": ["a person named Ada"]}
    assert named.perceivers[-1].term == "a person"  # a baseline has no cue
    both = only(name="age", own=own, cues=["name", "label"])
    assert both == only(name="age", own=own)


def test_perceivers_may_have_the_first_terms_alone_and_experiencers_have_all(write):
    own = write(CUED)
    first = only(name="age", own=own, perceiver_terms=1, unspecified=False)
    assert terms(first.perceivers) == {"young": ["a youth"], "old": ["an old person"]}
    assert terms(first.experiencers) == terms(only(name="age", own=own).experiencers)
    two = only(name="age", own=own, perceiver_terms=2, cues=["label"])
    assert terms(two.perceivers) == {"young": ["a youth", "someone of few years"], "old": ["an old person"]}
    assert only(name="age", own=own, perceiver_terms=9) == only(name="age", own=own)


def test_the_first_terms_are_of_perceivers_where_the_sides_differ(write):
    dimension = only(name="football", own=write(TEAMS), perceiver_terms=1)
    assert terms(dimension.perceivers) == {"fans of A": ["a fan of A"], "fans of B": ["a fan of B"]}
    assert terms(dimension.experiencers)["players of B"] == ["a player of B", "a B striker"]
    assert in_group_terms(dimension) == {
        ("a fan of A", "a player of A"),
        ("a fan of B", "a player of B"),
        ("a fan of B", "a B striker"),
    }


def test_an_intersection_is_the_same_whatever_terms_its_groups_have():
    crossed = "race_ethnicity+religion"
    assert only(name=crossed, cues=["label"], perceiver_terms=1) == only(name=crossed)
    assert {i.cue for i in only("wide", name=crossed).perceivers} == {"label"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cues": ["nmae"]}, ["stimuli.cues", "'nmae'", "did you mean 'name'?"]),
        ({"cues": ["context"]}, ["stimuli.cues=['context']", "'young'", "['label', 'name']"]),
        ({"cues": []}, ["stimuli.cues=[]", "'young'"]),
        ({"perceiver_terms": 0}, ["stimuli.perceiver_terms=0", "at least 1"]),
        ({"perceiver_terms": -2}, ["stimuli.perceiver_terms=-2", "at least 1"]),
    ],
)
def test_a_faulty_choice_of_terms_is_named(write, options, words):
    own = write(CUED)
    with pytest.raises(StimulusError) as caught:
        load_dimensions("geneva", own=own, names=["age"], **options)
    for word in [str(own), "'age'", *words]:
        assert word in str(caught.value)


# --- Invented groups -------------------------------------------------------------------------------------------------

INVENTED = ["invented_1", "invented_2", "invented_3"]


def test_sets_of_invented_groups_are_drawn_by_the_seed_without_replacement():
    def drawn(n, seed):
        return [d.name for d in load_placebos(n, n_terms=1, seed=seed)]

    assert drawn(3, seed=0) == INVENTED
    assert drawn(0, seed=0) == []
    assert drawn(1, seed=5) == drawn(1, seed=5)
    ones = [drawn(1, seed)[0] for seed in range(60)]
    # Each set has a chance of 1/3: fewer than 8 of 60 have one of 1 in 1,000.
    assert {name: ones.count(name) >= 8 for name in INVENTED} == dict.fromkeys(INVENTED, True)
    for seed in range(10):
        two = drawn(2, seed)
        assert two == sorted(set(two))
        assert len(two) == 2


def test_the_trivial_groups_are_asked_only_by_name_and_names_give_the_order():
    names = ["trivial", "invented_3"]
    assert [d.name for d in load_placebos(names, n_terms=1, seed=0)] == names
    assert all("trivial" not in [d.name for d in load_placebos(3, n_terms=1, seed=seed)] for seed in range(20))


@pytest.mark.parametrize("n_terms", [1, 2, 4])
def test_invented_groups_have_the_first_terms_and_no_baseline(n_terms):
    for dimension in load_placebos(INVENTED, n_terms=n_terms, seed=0):
        assert dimension.placebo
        assert dimension.perceivers == dimension.experiencers
        assert not any(i.is_baseline for i in dimension.perceivers)
        assert [len(own) for own in terms(dimension.perceivers).values()] == [n_terms] * 4
        assert all(dimension.in_group(p, e) == (p.group == e.group) for p, e in dimension.pairs())
    assert not any(d.placebo for d in load_dimensions("geneva"))


def test_invented_names_are_of_one_stem_a_group_and_share_none_with_another_or_with_a_real_one():
    made = [i for d in load_placebos(INVENTED, n_terms=4, seed=0) for i in d.perceivers]
    assert all(
        {i.stem for i in made if i.group == group} == {stem} for group, stem in {i.group: i.stem for i in made}.items()
    )
    assert len({i.stem for i in made}) == len({i.group for i in made}) == 12
    real = [
        i
        for study in ("six-groups", "geneva", "hou2025", "wide")
        for d in load_dimensions(study, unspecified=False)
        for i in d.perceivers
    ]
    # By their words, whatever stem is told.
    overlap = Overlap.of([i.term for i in made], [i.term for i in real], ComparedWords())
    assert not (overlap.same_words | overlap.same_stem).any()


@pytest.mark.parametrize(
    ("wanted", "n_terms", "words"),
    [
        (4, 1, ["stimuli.placebo=4", "3 sets"]),
        (-1, 1, ["stimuli.placebo=-1", "3 sets"]),
        (["invented_7"], 1, ["'invented_7'", "did you mean 'invented_"]),
        (["invented_1", "invented_1"], 1, ["'invented_1' twice"]),
        (1, 5, ["stimuli.placebo_terms=5", "4"]),
        (["trivial"], 3, ["stimuli.placebo_terms=3", "trivial", "2"]),
        (1, 0, ["stimuli.placebo_terms=0"]),
    ],
)
def test_a_faulty_choice_of_invented_groups_is_named(wanted, n_terms, words):
    with pytest.raises(StimulusError) as caught:
        load_placebos(wanted, n_terms=n_terms, seed=0)
    for word in words:
        assert word in str(caught.value)


def test_the_invented_groups_are_no_study():
    with pytest.raises(StimulusError, match=r"stimuli\.identities='placebo'"):
        load_dimensions("placebo")


def test_an_own_dimension_can_not_be_called_like_a_set_of_invented_groups(write):
    own = write("invented_2:\n  groups: {young: [a youth], old: [an old person]}\n")
    with pytest.raises(StimulusError, match=r"own\.yaml: 'invented_2' is a packaged set of invented groups"):
        load_dimensions("geneva", own=own)


# --- Errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(
            "age:\n  groups: {young: [a youth], old: [an old person, a youth]}",
            ["age", "'a youth'", "'young'", "'old'"],
            id="a term in two groups",
        ),
        pytest.param(
            "age:\n  groups: {young: [a youth, a youth], old: [x]}", ["'a youth'", "again"], id="a term twice"
        ),
        pytest.param(
            "age:\n  groups: {young: [a youth, ' a youth'], old: [x]}", ["'a youth'"], id="a term twice but for a space"
        ),
        pytest.param(
            "age:\n  groups: {young: [a person], old: [x]}",
            ["'a person'", UNSPECIFIED],
            id="a term that is the baseline",
        ),
        pytest.param(
            "age:\n  groups: {young: [], old: [x]}", ["young", "at least one term"], id="a group without terms"
        ),
        pytest.param("age:\n  groups: {young: , old: [x]}", ["young", "at least one term"], id="a group left empty"),
        pytest.param(
            "age:\n  groups: {young: {terms: []}, old: [x]}", ["young", "one term"], id="an empty list of terms"
        ),
        pytest.param(
            "age:\n  groups: {young: {adjective: y}, old: [x]}", ["groups.young.terms: is missing"], id="terms missing"
        ),
        pytest.param("age:\n  groups: {young: ['  '], old: [x]}", ["young item 1", "'  '"], id="a blank term"),
        pytest.param(
            "age:\n  groups: {young: [18], old: [x]}",
            ["young item 1: a wording must be text", "18"],
            id="a number as term",
        ),
        pytest.param(
            "age:\n  groups: {young: [{term: 18}], old: [x]}",
            ["young item 1.term", "must be text (given: 18); put it in quotes"],
            id="a number as a mapping's term",
        ),
        pytest.param(
            "age:\n  groups: {young: [{stem: y}], old: [x]}", ["young item 1.term: is missing"], id="a stem alone"
        ),
        pytest.param(
            "age:\n  groups: {young: [{term: y, stem: ' '}], old: [x]}",
            ["young item 1.stem", "' '"],
            id="a blank stem",
        ),
        pytest.param(
            "age:\n  groups: {young: [{term: y, cue: nmae}], old: [x]}",
            ["young item 1.cue", "must be label or name or context; did you mean 'name'? (given: 'nmae')"],
            id="an unknown cue",
        ),
        pytest.param(
            "age:\n  groups: {young: [{term: y, steam: y}], old: [x]}",
            ["young item 1.steam: unknown name; did you mean 'stem'?"],
            id="an unknown key of a term",
        ),
        pytest.param(
            "age:\n  groups: {young: [no], old: [x]}", ["young item 1", "given: false"], id="a YAML truth value as term"
        ),
        pytest.param("age:\n  groups: {young: [[a b]], old: [x]}", ["young item 1", "['a b']"], id="a list as term"),
        pytest.param(
            "age:\n  groups: {young: a youth, old: [x]}",
            ["line 2: age: groups.young: the wordings of a group must be a list; write [a youth] even"],
            id="terms not in a list",
        ),
        pytest.param(
            "age:\n  groups: {1: [a youth], old: [x]}",
            ["groups.1: must be text (given: 1); put it in quotes"],
            id="a number as group",
        ),
        pytest.param(
            "age:\n  groups: {unspecified: [y], old: [x]}", ["'unspecified'"], id="a group named like a baseline"
        ),
        pytest.param("age:\n  groups: {no persona: [y], old: [x]}", ["'no persona'"], id="a group named no persona"),
        pytest.param(
            "age:\n  group: {young: [y]}",
            ["line 2: age: group: unknown name; did you mean 'groups'?"],
            id="an unknown key",
        ),
        pytest.param("age: {}", ["age", "`groups`"], id="a dimension without groups"),
        pytest.param(
            "age:", ["line 1: 'age' is not a dimension; write a dimension's name "], id="a dimension left empty"
        ),
        pytest.param(
            "age: [y, x]",
            ["line 1: 'age' is not a dimension; write a dimension's name "],
            id="a dimension that is a list",
        ),
        pytest.param("age:\n  groups: {}", ["age", "groups"], id="no groups"),
        pytest.param("age:\n  perceivers: {young: [y], old: [x]}", ["age", "`experiencers`"], id="only one side"),
        pytest.param(
            "age:\n  groups: {a: [y], b: [x]}\n  perceivers: {a: [y], b: [x]}",
            ["age", "`groups`"],
            id="groups and a side",
        ),
        pytest.param(
            "age:\n  in_group: same\n  groups: {a: [y], b: [x]}", ["in_group", "'same'"], id="an unknown in-group rule"
        ),
        pytest.param(
            "age:\n  in_group: [[young, odl]]\n  groups: {young: [y], old: [x]}",
            ["'odl'", "did you mean 'old'?"],
            id="an in-group pair of an unknown group",
        ),
        pytest.param(
            "age:\n  in_group: [[young]]\n  groups: {young: [y], old: [x]}",
            ["in_group", "a list of", "[['young']]"],
            id="an in-group pair of one",
        ),
        pytest.param(
            "age:\n  in_group: same_cluster\n  groups: {young: {terms: [y], cluster: a}, old: [x]}",
            ["same_cluster", "'old'", "no cluster"],
            id="same_cluster without a cluster",
        ),
        pytest.param(
            "age:\n  perceivers: {a: [y], b: [x]}\n  experiencers: {c: [y], d: [x]}",
            ["no pair is in-group", "in_group"],
            id="no pair in-group",
        ),
        pytest.param(
            "age:\n  groups: {a: [{term: y, stem: y}, {term: x, stem: x}]}",
            ["every pair is in-group"],
            id="every pair in-group",
        ),
        pytest.param("my age:\n  groups: {a: [y], b: [x]}", ["'my age'"], id="a dimension's name with a space"),
        pytest.param("a/b:\n  groups: {a: [y], b: [x]}", ["'a/b'"], id="a dimension's name with a slash"),
        pytest.param("a+b:\n  groups: {a: [y], b: [x]}", ["'a+b'"], id="a dimension's name like a crossing"),
        pytest.param("1:\n  groups: {a: [y], b: [x]}", ["dimension name 1"], id="a dimension's name that is a number"),
        pytest.param("religion:\n  groups: {a: [y], b: [x]}", ["'religion'", "geneva"], id="a dimension of the study"),
        pytest.param(
            "age:\n  groups: {a: [y]}\nage:\n  groups: {b: [x]}", ["line 3", "'age'", "line 1"], id="a dimension twice"
        ),
        pytest.param("age:\n  groups:\n    a: [y]\n    a: [x]", ["line 4", "'a'", "line 3"], id="a group twice"),
        pytest.param("? [a, b]\n: 1", ["line 1", "list"], id="a list as key"),
        pytest.param("age:\n  groups: {a: [y", ["not YAML"], id="a bracket left open"),
        pytest.param("age:\n\tgroups: 1", ["line 2", "not YAML"], id="a tab"),
        pytest.param("age: !!python/object/apply:os.getcwd []", ["line 1", "not YAML"], id="an object of Python"),
        pytest.param("age: 2020-13-01", ["month"], id="a date that there is not"),
        pytest.param("age: !!bool perhaps", ["not YAML"], id="a truth value that there is not"),
        pytest.param(f"age: {'[' * 3000}", ["line 1: is nested more than 100 levels deep"], id="brackets without end"),
        pytest.param("", ["empty"], id="an empty file"),
        pytest.param("# nothing\n", ["empty"], id="a comment alone"),
        pytest.param("[age]", ["has no NAME: VALUE pairs"], id="a list"),
        pytest.param("age", ["has no NAME: VALUE pairs"], id="a word"),
        pytest.param(b"age:\n  groups: {a: [an \xe9migr\xe9], b: [x]}", ["line 2", "UTF-8", "0xe9"], id="Latin-1"),
        pytest.param("age: 1".encode("utf-16"), ["line 1: 'age' is not a dimension"], id="UTF-16 is read"),
    ],
)
def test_a_faulty_own_file_is_named_with_the_value(write, content, words):
    own = write(content)
    with pytest.raises(StimulusError) as caught:
        load_dimensions("geneva", own=own)
    for word in [str(own), *words]:
        assert word in str(caught.value)


def test_a_cluster_on_one_side_only_is_an_error_of_the_other(write):
    own = write("""
        country:
          in_group: same_cluster
          perceivers: {Norway: [a Norwegian], Greece: {terms: [{term: a Greek, stem: greece}], cluster: south}}
          experiencers:
            Norway: {terms: [{term: a Norwegian, stem: norway}], cluster: north}
            Greece: {terms: [{term: a Greek, stem: greece}], cluster: south}
    """)
    with pytest.raises(StimulusError, match=r"own\.yaml.*'Norway' has no cluster"):
        load_dimensions("geneva", own=own)


def test_an_own_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(StimulusError, match=r"absent\.yaml: cannot be read \(No such file"):
        load_dimensions("geneva", own=tmp_path / "absent.yaml")


def test_an_own_file_that_is_a_folder_is_named(tmp_path):
    with pytest.raises(StimulusError, match=r"cannot be read \(Is a directory"):
        load_dimensions("geneva", own=tmp_path)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["religon"], ["'religon'", "did you mean 'religion'?", "nationality"]),
        (["religion+race"], ["'race'", "race_ethnicity"]),
        (["religion+"], ["''"]),
        (["religion", "nationality", "religion"], ["'religion' twice"]),
        (["religion+religion"], ["'religion+religion'", "with itself"]),
        ([], ["empty", "religion"]),
    ],
)
def test_a_faulty_choice_of_dimensions_is_named(names, words):
    with pytest.raises(StimulusError) as caught:
        load_dimensions("geneva", names=names)
    for word in ["dimension", *words]:
        assert word in str(caught.value)


def test_an_unknown_study_is_named():
    with pytest.raises(StimulusError, match=r"'hou2024'.*did you mean 'hou2025'\?"):
        load_dimensions("hou2024")


def test_groups_without_an_adjective_can_not_be_crossed(write):
    own = write("age:\n  groups: {young: [a youth], old: [an old person]}\n")
    with pytest.raises(StimulusError, match=r"own\.yaml.*'age\+religion'.*'young' of age has no `adjective`"):
        load_dimensions("geneva", own=own, names=["age+religion"])


def test_dimensions_that_word_the_unspecified_identity_differently_can_not_be_crossed(write):
    own = write("""
        age:
          unspecified: somebody
          groups: {young: {terms: [y], adjective: young}, old: {terms: [x], adjective: old}}
    """)
    with pytest.raises(StimulusError, match=r"'age\+religion'.*\['a person', 'somebody'\]"):
        load_dimensions("geneva", own=own, names=["age+religion"])
    assert only(name="age+religion", own=own, unspecified=False).perceivers[0].term == "a young Buddhist"


def test_an_intersection_that_words_two_identities_alike_is_an_error(write):
    own = write("""
        age:
          groups: {young: {terms: [a youth], adjective: young}, adolescent: {terms: [a teen], adjective: young}}
    """)
    with pytest.raises(
        StimulusError, match=r"own\.yaml.*'young \+ Buddhist' and 'adolescent \+ Buddhist'.*'a young Budd"
    ):
        load_dimensions("geneva", own=own, names=["age+religion"])


def test_a_term_that_is_the_name_of_no_persona_is_an_error_where_that_is_asked_for(write):
    own = write("age:\n  groups: {young: [no persona], old: [x]}\n")
    with pytest.raises(StimulusError, match="both worded 'no persona'"):
        load_dimensions("geneva", own=own, no_persona=True)


# --- A first file, as people write them -------------------------------------------------------------------------------


def fault(write, content):
    with pytest.raises(StimulusError) as caught:
        load_dimensions("geneva", own=write(content), names=["f"])
    return str(caught.value).partition("own.yaml: ")[2]


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("f:\n  groups:\n    Jewish: [a Jew, a Jewish person]\n    Muslim: [a Muslim]\n",
         "line 3: f: the term 'a Jew' needs a stem, because 'Jewish' has other wordings too; write "
        "{term: a Jew, stem: WORD}, with the same WORD for terms that share a word in any form (Jew, "
        "Jewish), and another WORD for the others"),
        ("f:\n  groups:\n    Muslim: [a Muslim]\n    Danish:\n      - {term: a Dane, stem: dane}\n"
         "      - 'a Dane, say'\n",
         'line 4: f: the term \'a Dane, say\' needs a stem, because \'Danish\' has other wordings too; '
        'write {term: "a Dane, say", stem: WORD}'),
        ("f:\n  in_group: [[Reds, Team]]\n  perceivers: {Reds: [a Red], Blues: [a Blue]}\n"
         "  experiencers: {Team: [a player of the Reds], Other: [a player]}\n",
         "line 3: f: the term 'a Red' needs a stem"),  # a pair of other words may repeat one, too
    ],
)  # fmt: skip
def test_a_stem_that_is_needed_is_asked_for(planted, said, write):
    assert said in fault(write, planted)


def test_the_mapping_that_the_message_shows_is_read(write):
    """Oracle: the message's own remedy, followed."""
    own = (
        "f:\n  groups:\n    Jewish: [{term: a Jew, stem: jew}, {term: a Jewish person, stem: jew}]\n    M: [a Muslim]\n"
    )
    [dimension] = load_dimensions("geneva", own=write(own), names=["f"])
    assert dimension.stems == {"a Jew": "jew", "a Jewish person": "jew"}
    assert dimension.states_stems


TWO = "f:\n  groups:\n    Reds: [a Red]\n    Blues: [a Blue]\n"


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("f:\n  groups:\n    'Reds ': [a Red]\n    Reds: [a Crimson]\n    Blues: [a Blue]\n",
         "line 1: f: the name 'Reds ' begins or ends with a space; remove the space"),  # else a group would be lost
        ("f:\n  groups:\n    Reds: [a Red]\n    reds: [a Crimson]\n",
         "line 1: f: the group 'reds' is also written 'Reds'; write it one way"),
        ("f:\n  perceivers: {Reds: [a Red], Blues: [a Blue]}\n  experiencers: {reds: [a Red], Blues: [a Blue]}\n",
         "line 1: f: the group 'reds' is also written 'Reds'; write it one way"),  # else a pair would be out-group
        ("f:\n  groups:\n    Reds: [a  Red]\n    Blues: [a Red]\n",
         "line 1: f: the term 'a Red' is in 'Reds' and again in 'Blues'; keep one"),
        ("f:\n  groups:\n    Reds: [a person]\n    Blues: [a Blue]\n",
         "line 1: f: 'a person' in 'Reds' is the wording for a person of no group; reword it, or give "
        "the dimension another text under `unspecified`"),
        ("f:\n  groups:\n    Reds: [a Red]\n",
         "line 1: dimension 'f': every pair is in-group, so no gap can be computed; add a second group"),
        ("f:\n  groups:\n    Reds: [a Red: or so]\n    Blues: [a Blue]\n",
         "line 3: f: groups.Reds item 1: a wording with a colon must be in quotes: 'a Red: or so'"),
        ("f:\n  groups:\n    Reds: ['a\n\n      Red']\n    Blues: [a Blue]\n",
         "line 3: f: groups.Reds item 1: a wording must be one line; remove the line breaks (given: "
        "'a\\nRed')"),
        ("f:\n  in_group: [[1, 1], [2, 2]]\n  groups:\n    1: [a one]\n    2: [a two]\n",
         "line 2: f: in_group: names of groups must be text; put numbers, true and false in quotes "
        "(given: [[1, 1], [2, 2]])"),
        ("f:\n  groups:\n    2024-01-01: [a one]\n    Blues: [a Blue]\n",
         "line 2: f: groups: must be text (given: 2024-01-01); put it in quotes"),
        ("f:\n  groups:\n    yes: [a yes]\n    no: [a no]\n",
         "line 2: f: groups: must be text (given: true); put it in quotes (YAML reads yes, no, on and "
        "off as true and false)"),
        ("yes:\n  groups:\n    Reds: [a Red]\n    Blues: [a Blue]\n",
         "the dimension name true is not text; put it in quotes (YAML reads yes, no, on and off as "
        "true and false)"),
        ("Reds: [a Red]\nBlues: [a Blue]\n",
         "line 1: 'Reds' is not a dimension; write a dimension's name at the left edge, below it "
        "`groups:`, and below that the groups"),
        ("groups:\n  Reds: [a Red]\n  Blues: [a Blue]\n",
         "line 1: 'groups' is not a dimension; write a dimension's name at the left edge, below it "
        "`groups:`, and below that the groups"),
        ("f:\n  groups:\n    Reds:[a Red]\n    Blues: [a Blue]\n", "a name's colon needs a space"),
        ("f:\n  groups:\n    Reds: [a Red\n    Blues: [a Blue]\n", "a bracket is not closed, or a comma is missing"),
        (TWO + "---\n" + TWO, "a line --- starts another document; leave it out"),
        ("f:\n  groups:\n    Reds: *red\n", "a text that begins with * must be in quotes"),
        ("f:\n  groups:\n    Reds: [!a Red]\n", "a text that begins with ! must be in quotes"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_first_file_is_said_with_its_remedy(planted, said, write):
    assert said in fault(write, planted)


def test_the_first_file_itself_is_read(write):
    [dimension] = load_dimensions("geneva", own=write(TWO), names=["f"])
    assert [each.group for each in dimension.perceivers] == ["Reds", "Blues", UNSPECIFIED]
