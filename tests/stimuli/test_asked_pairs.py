"""Which pairs each narrative is asked about; the oracle is least squares on the narrative's own pairs, and counting."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from stimuli.identities import PLACEBO, load_dimensions, load_placebos
from stimuli.pairs import can_be_drawn, drawn_pairs, n_drawn
from stimuli.prompts import PromptGrid, PromptVariant, Scale
from stimuli.reach import reach_remarks

DESIGNS = {
    "the default": ("six-groups", "religion", 1),
    "four groups, all terms": ("geneva", "religion", None),
    "five groups of one term": ("hou2025", "religion", 1),
    "groups of 5, 4, 3 and 6 terms": ("hou2025", "race_ethnicity", None),
    "nine groups": ("wide", "religion", 1),
    "an intersection": ("geneva", "race_ethnicity+religion", None),
}


@pytest.fixture(params=DESIGNS.values(), ids=DESIGNS)
def dimension(request):
    study, name, perceiver_terms = request.param
    [found] = load_dimensions(study, names=[name], perceiver_terms=perceiver_terms, cues=["label"])
    return found


def shared(dimension):
    """Shape (P, E): in how many dimensions a pair shares the group; −1 with a baseline."""
    found = [[dimension.n_shared(p, e) for e in dimension.experiencers] for p in dimension.perceivers]
    return np.array([[-1 if each is None else each for each in row] for row in found])


def information(asked, dimension, *, echo):
    """What is left of in-group in one narrative's pairs, shape (P, E), beside identities, lesser sharing and words."""
    degree = shared(dimension)
    rows = np.argwhere(asked & (degree >= 0))
    of = degree[rows[:, 0], rows[:, 1]]
    same = [dimension.perceivers[p].term == dimension.experiencers[e].term for p, e in rows]
    columns = [np.eye(len(dimension.perceivers))[rows[:, 0]], np.eye(len(dimension.experiencers))[rows[:, 1]]]
    columns += [(of == lesser)[:, None] for lesser in range(1, degree.max())]
    columns += [np.array(same)[:, None]] if echo else []
    beside, own = np.column_stack(columns).astype(float), (of == degree.max()).astype(float)
    rest = own - beside @ np.linalg.lstsq(beside, own, rcond=None)[0]
    return float(rest @ rest)


def test_every_narrative_determines_its_own_gap(dimension):
    """Also free of the echo, where groups have a second term; and each experiencer has a perceiver of another group."""
    asked, degree = drawn_pairs(dimension, 12, seed=3), shared(dimension)
    echo = any(
        p.term != e.term and dimension.in_group(p, e) for p in dimension.perceivers for e in dimension.experiencers
    )
    for n in range(12):
        assert information(asked[:, :, n], dimension, echo=echo) > 0.75 * information(
            degree >= -1, dimension, echo=echo
        )
        out = asked[:, :, n] & (degree == 0)
        real = np.array([not each.is_baseline for each in dimension.experiencers])
        assert out.any(axis=0)[real].all()
    assert asked[degree == degree.max()].all()


def test_pairs_of_other_groups_are_asked_equally_often_whatever_the_number_of_narratives(dimension):
    asked, degree = drawn_pairs(dimension, 45, seed=1), shared(dimension)
    so_far = asked.cumsum(axis=2)
    for lesser in range(degree.max()):
        counts = so_far[degree == lesser]
        assert np.ptp(counts, axis=0).max() <= 1


def test_the_default_asks_each_perceiver_about_three_of_five_other_groups():
    [religion] = load_dimensions("six-groups", names=["religion"], perceiver_terms=1, unspecified=False)
    asked = drawn_pairs(religion, 10, seed=0)
    groups = np.array([each.group for each in religion.experiencers])
    for n in range(10):
        for p, perceiver in enumerate(religion.perceivers):
            told = groups[asked[p, :, n]].tolist()
            assert sorted(set(told)) == sorted(told)[::2] == sorted(told)[1::2]  # both terms of a group, or none
            assert len(set(told) - {perceiver.group}) == 3
    assert asked.sum() == 10 * 48  # of 72: 12 of one's own group, and 6 x 3 x 2
    # s = kG/(k + 1) with k = 3 of 5 others and G = 6: 4.5 of 5
    assert information(asked[:, :, 0], religion, echo=True) == pytest.approx(4.5)


def test_a_seed_draws_again_and_the_same_seed_the_same():
    [religion] = load_dimensions("six-groups", names=["religion"], perceiver_terms=1)
    first, again, other = (drawn_pairs(religion, 12, seed=seed) for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()
    # the first narratives are asked the same, however many follow
    assert (drawn_pairs(religion, 30, seed=0)[:, :, :12] == first).all()


def test_baselines_have_half_of_the_narratives_and_of_each_group():
    [religion] = load_dimensions("six-groups", names=["religion"], perceiver_terms=1, no_persona=True)
    asked = drawn_pairs(religion, 4, seed=0)
    baseline = shared(religion) == -1
    assert (asked[baseline].sum(axis=1) == 2).all()
    person = [each.group for each in religion.perceivers].index("unspecified")
    for n in range(4):
        told = [religion.experiencers[e].group for e in np.flatnonzero(asked[person, :-1, n])]
        assert sorted(told) == ["Buddhist", "Christian", "Hindu", "Jewish", "Muslim", "Sikh"]


def test_of_three_groups_or_fewer_all_pairs_are_asked_and_of_other_relations_too(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text(
        "few:\n  groups: {A: [an A], B: [a B], C: [a C]}\n"
        "near:\n  in_group: same_cluster\n  groups:\n"
        + "".join(f"    {k}: {{terms: [{{term: a {k}, stem: {k}}}], cluster: {k in 'AB'}!s}}\n" for k in "ABCDE")
        .replace("True", "one")
        .replace("False", "two")
        + "sides:\n  in_group: [[A, X]]\n  perceivers: {A: [{term: an A, stem: a}], B: [a B]}\n"
        "  experiencers: {X: [{term: an X, stem: x}], Y: [a Y]}\n"
    )
    for each in load_dimensions("geneva", own=own, names=["few", "near", "sides"]):
        assert not can_be_drawn(each), each.name
    assert [n_drawn(n) for n in range(1, 9)] == [1, 2, 2, 2, 3, 3, 3, 3]


def test_invented_groups_are_drawn_too():
    [invented] = load_placebos(1, n_terms=1, seed=0)
    assert PLACEBO
    assert can_be_drawn(invented)
    asked = drawn_pairs(invented, 6, seed=0)
    assert asked.sum(axis=(0, 1)).tolist() == [12] * 6  # 4 of one's own group, and 4 x 2 of 3 others


# --- The grid --------------------------------------------------------------------------------------------------------

ASKED = PromptVariant(
    name="mine", persona="You are {perceiver}.", system="{persona}", narrative="first_person", scale=Scale(0, 10),
    user="{Experiencer} says: {narrative} How {emotion} were they, from {low} to {high}?",
)  # fmt: skip


def test_a_grid_has_the_prompts_that_are_drawn_in_the_order_of_all_and_no_other():
    from stimuli.narratives import load_narratives

    dimensions = load_dimensions("six-groups", names=["religion", "nationality"], perceiver_terms=1)
    sad = load_narratives("geneva", emotions=["sad"], situations_per_emotion=7)
    mask = drawn_pairs(dimensions[0], 7, seed=0)
    whole = PromptGrid(dimensions, sad, ASKED, [ASKED])
    grid = PromptGrid(dimensions, sad, ASKED, [ASKED], {"religion": mask})
    assert len(grid) == 2 * int(mask.sum()) + len(whole) // 2
    order = {narrative.narrative_id: n for n, narrative in enumerate(whole._by_emotion)}

    def key(cell):
        return (
            cell.dimension.name,
            cell.wording,
            cell.perceiver.term,
            cell.experiencer.term,
            cell.narrative.narrative_id,
        )

    def drawn(cell):
        p, e = cell.dimension.perceivers.index(cell.perceiver), cell.dimension.experiencers.index(cell.experiencer)
        return cell.dimension.name != "religion" or mask[p, e, order[cell.narrative.narrative_id]]

    assert [key(cell) for cell in grid] == [key(cell) for cell in whole if drawn(cell)]
    assert [cell.index for cell in grid] == list(range(len(grid)))
    assert grid[-1].index == len(grid) - 1
    assert all(a.index + 1 == b.index for a, b in pairwise(grid[5:9]))


def test_a_draw_of_other_pairs_is_no_grid():
    from stimuli.narratives import load_narratives

    [religion] = load_dimensions("six-groups", names=["religion"], perceiver_terms=1)
    sad = load_narratives("geneva", emotions=["sad"], situations_per_emotion=3)
    with pytest.raises(ValueError, match="religion"):
        PromptGrid([religion], sad, ASKED, drawn={"religion": drawn_pairs(religion, 4, seed=0)})


# --- What a run can speak of -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("study", "options", "codes"),
    [
        ("six-groups", {"perceiver_terms": 1}, []),
        ("six-groups", {"perceiver_terms": 1, "experiencer_terms": 1}, ["repeats a word"]),
        ("geneva", {}, ["4 groups"]),
        ("geneva", {"perceiver_terms": 1, "experiencer_terms": 1}, ["4 groups", "repeats a word"]),
        ("hou2025", {}, ["repeats a word"]),  # one term a group, of five groups
        ("wide", {}, []),
        ("us-them", {}, ["2 groups"]),
    ],
)
def test_a_run_that_cannot_carry_a_claim_between_groups_says_so(study, options, codes):
    names = None if study == "us-them" else ["religion"]
    said = reach_remarks(load_dimensions(study, names=names, **options))
    assert len(said) == len(codes)
    assert all(code in line for code, line in zip(codes, said, strict=True))


def test_invented_groups_claim_nothing_and_an_intersection_has_its_own_remedy():
    assert reach_remarks(load_placebos(1, n_terms=1, seed=0)) == []
    said = reach_remarks(load_dimensions("six-groups", names=["race_ethnicity+religion"]))
    assert len(said) == 1
    assert "one by one" in said[0]
