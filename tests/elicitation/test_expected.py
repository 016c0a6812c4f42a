import math
import pickle
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_model import DIGITS, HUNDRED, SPACED, TEN, WHOLE, FakeEngine, FakeTokenizer

from audit.asking.elicitation.expected import ExpectedElicitation
from audit.asking.elicitation.numbers import number_tree
from audit.engines.chat import ChatTokenizer
from audit.errors import ModelError
from audit.tables.ratings import Status
from stimuli.prompts import Prompt, Scale

pytestmark = pytest.mark.model


def elicit(answers, scale, *, pattern=DIGITS, max_pruned_points=0.0):
    """Elicit one prompt from a model with these answers."""
    engine = FakeEngine({"q": answers}, pattern=pattern)
    [outcome] = ExpectedElicitation(scale, max_pruned_points).elicit(engine, [Prompt("s", "q")])
    return outcome, engine


def test_mean_mode_spread_and_mass_of_single_digits_are_the_hand_worked_ones():
    # On 0-10 only "1" goes on (to "10"), and it never does here. 2: .2, 4: .1, 7: .3; mass .6.
    # mean = (.4 + .4 + 2.1) / .6 = 2.9 / .6 = 29/6
    # mean square = (.2·4 + .1·16 + .3·49) / .6 = 17.1 / .6 = 28.5; variance = 28.5 - 841/36 = 185/36
    outcome, _ = elicit({(): {"2": 0.2, "4": 0.1, "7": 0.3, "I": 0.4}}, TEN)
    assert outcome.status is Status.RATED
    assert outcome.intensity == pytest.approx(29 / 6, abs=1e-12)
    assert outcome.number_mass == pytest.approx(0.6, abs=1e-12)
    assert outcome.mode == 7
    assert outcome.spread == pytest.approx(math.sqrt(185 / 36), abs=1e-12)
    assert outcome.response == ""


def test_one_before_ten_counts_only_as_far_as_no_digit_follows():
    # "1" .4; after it "0" .25 (that is 10), "5" .35 (15: off the scale), the end .4.
    # 1: .4·.4 = .16, 10: .4·.25 = .1, 15 is lost; 7: .5. mass .76; mean = (.16 + 1 + 3.5) / .76 = 4.66 / .76
    outcome, _ = elicit({(): {"1": 0.4, "7": 0.5}, ("1",): {"0": 0.25, "5": 0.35, ".": 0.4}}, TEN)
    assert outcome.number_mass == pytest.approx(0.76, abs=1e-12)
    assert outcome.intensity == pytest.approx(4.66 / 0.76, abs=1e-12)
    assert outcome.mode == 7


def test_ten_hundred_and_a_hundred_and_five_are_told_apart_digit_by_digit():
    # "1" .8, "9" .1. After "1": "0" .5, "2" .2, the end .3. After "1 0": "0" .4 (100), "5" .3 (105: off), end .3.
    # After "1 2": nothing of the scale goes on, so 12 has .8·.2 whole. After "9": "9" 1 (99).
    # 1: .8·.3 = .24, 10: .8·.5·.3 = .12, 100: .8·.5·.4 = .16, 12: .16, 99: .1; mass .78
    # mean = (.24 + 1.2 + 16 + 1.92 + 9.9) / .78 = 29.26 / .78
    outcome, engine = elicit(
        {
            (): {"1": 0.8, "9": 0.1},
            ("1",): {"0": 0.5, "2": 0.2, "!": 0.3},
            ("1", "0"): {"0": 0.4, "5": 0.3, "!": 0.3},
            ("9",): {"9": 1.0},
        },
        HUNDRED,
    )
    assert outcome.number_mass == pytest.approx(0.78, abs=1e-12)
    assert outcome.intensity == pytest.approx(29.26 / 0.78, abs=1e-12)
    assert outcome.mode == 1
    # The answer; after "1" and "9"; after "1 0", "1 2" and "9 9"; after "1 0 0". What weighs nothing is not asked.
    assert engine.asked == [[1], [2], [3], [1]]


def test_the_end_of_a_number_is_asked_and_what_goes_on_is_no_number_of_the_scale():
    # "8" .5, after which "0" .4 is 80 on a scale that ends at 10; "1" .5, then "0" .6, then "0" .2 again (100).
    # 8: .5·.6 = .3; 1: .5·.4 = .2; 10: .5·.6·.8 = .24; mass .74; mean = (2.4 + .2 + 2.4) / .74 = 5 / .74
    answers = {
        (): {"8": 0.5, "1": 0.5},
        ("8",): {"0": 0.4, ".": 0.6},
        ("1",): {"0": 0.6, ".": 0.4},
        ("1", "0"): {"0": 0.2, ".": 0.8},
    }
    outcome, _ = elicit(answers, TEN)
    assert outcome.number_mass == pytest.approx(0.74, abs=1e-12)
    assert outcome.intensity == pytest.approx(5 / 0.74, abs=1e-12)
    assert outcome.mode == 8


def test_where_numbers_have_one_digit_each_a_second_one_is_asked_too():
    # "4" .5, half of it "45"; "2" .3. 4: .25, 2: .3; mean = 1.6 / .55
    outcome, _ = elicit({(): {"4": 0.5, "2": 0.3}, ("4",): {"5": 0.5}}, Scale(1, 5))
    assert outcome.intensity == pytest.approx(1.6 / 0.55, abs=1e-12)
    assert outcome.mode == 2


def test_an_end_that_is_not_asked_is_taken_as_those_that_were_and_its_bound_holds_the_extremes():
    # "5" .8 ends half the time; "6" .01 may end never, always or, as is taken, half the time too: mean 6·.005 + 5·.4
    # over .405; the extremes are 5 and (2 + .06) / .41.
    outcome, engine = elicit({(): {"5": 0.8, "6": 0.01}, ("5",): {"0": 0.5}}, TEN, max_pruned_points=0.03)
    assert engine.asked == [[1], [1]]
    assert outcome.intensity == pytest.approx(2.03 / 0.405, abs=1e-12)
    assert outcome.pruned_points == pytest.approx(max(2.06 / 0.41 - 2.03 / 0.405, 2.03 / 0.405 - 5), abs=1e-12)


def test_a_number_after_a_space_is_the_same_number():
    # "7" at once .2; a space .5, then "7" .4 (.2 in all), "1" .6, after which "0" 1 (10: .3). mass .7
    # mean = (.4·7 + .3·10) / .7 = 5.8 / .7
    outcome, _ = elicit({(): {"7": 0.2, " ": 0.5}, (" ",): {"7": 0.4, "1": 0.6}, (" ", "1"): {"0": 1.0}}, TEN)
    assert outcome.number_mass == pytest.approx(0.7, abs=1e-12)
    assert outcome.intensity == pytest.approx(5.8 / 0.7, abs=1e-12)
    assert outcome.mode == 7


def test_two_spellings_of_one_number_add_up_to_the_mode():
    # 3 twice .2 beats 8 once .3.
    outcome, _ = elicit({(): {"3": 0.2, "8": 0.3, " ": 0.2}, (" ",): {"3": 1.0}}, TEN)
    assert outcome.mode == 3


@pytest.mark.parametrize(("scale", "high", "asked"), [(TEN, "10", [[1]]), (HUNDRED, "100", [[1], [1]])])
def test_a_token_for_each_number_needs_no_walk(scale, high, asked):
    # 10 and 105 are tokens of their own, so what follows "10" is not asked; "1005" is "100" and "5". 1: .1, high: .3
    answers = {(): {"1": 0.1, high: 0.3, "105": 0.2}, ("1",): {"0": 1.0}}
    outcome, engine = elicit(answers, scale, pattern=WHOLE)
    assert outcome.number_mass == pytest.approx(0.4, abs=1e-12)
    assert outcome.intensity == pytest.approx((0.1 + 0.3 * int(high)) / 0.4, abs=1e-12)
    assert engine.asked == asked


def test_a_token_for_each_number_is_also_read_after_a_space():
    # "10" .2; a space .4, then "100" .5 (.2). mass .4; mean = (2 + 20) / .4 = 55
    outcome, engine = elicit({(): {"10": 0.2, " ": 0.4}, (" ",): {"100": 0.5}}, HUNDRED, pattern=WHOLE)
    assert (outcome.intensity, outcome.number_mass) == pytest.approx((55, 0.4), abs=1e-12)
    assert engine.asked == [[1], [1], [1]]


def test_tokens_that_hold_their_space_need_one_pass():
    # " 50" .3, "50" .1, "10" .1: mass .5, mean = (20 + 1) / .5
    outcome, engine = elicit({(): {" 50": 0.3, "50": 0.1, "10": 0.1}}, Scale(0, 60), pattern=SPACED)
    assert outcome.intensity == pytest.approx(42, abs=1e-12)
    assert outcome.number_mass == pytest.approx(0.5, abs=1e-12)
    assert engine.asked == [[1]]


def test_a_scale_that_begins_above_zero_is_measured_in_its_own_points():
    # 1 to 7: "5" .6, "1" .2, "0" and "8" are off the scale. mean = (3 + .2) / .8 = 4
    outcome, _ = elicit({(): {"5": 0.6, "1": 0.2, "0": 0.1, "8": 0.1}}, Scale(1, 7))
    assert (outcome.intensity, outcome.number_mass) == pytest.approx((4, 0.8), abs=1e-12)


def test_certain_answer_has_no_spread_and_stays_on_the_scale():
    outcome, _ = elicit({(): {"1": 1.0}, ("1",): {"0": 1.0}, ("1", "0"): {"0": 1.0}}, HUNDRED)
    assert (outcome.intensity, outcome.mode, outcome.spread, outcome.number_mass) == (100, 100, 0, 1)


def test_no_mass_on_any_number_is_unparseable_and_not_zero():
    outcome, _ = elicit({(): {"I": 0.9, "-": 0.1}, ("-",): {"5": 1.0}}, HUNDRED)
    assert outcome.status is Status.UNPARSEABLE
    assert math.isnan(outcome.intensity)
    assert math.isnan(outcome.mode)
    assert outcome.number_mass == 0


def test_mass_of_zero_alone_is_a_rating_of_zero():
    outcome, _ = elicit({(): {"0": 0.01}}, HUNDRED)
    assert (outcome.status, outcome.intensity, outcome.number_mass) == (Status.RATED, 0, 0.01)


def test_too_long_a_prompt_has_failed_and_the_others_are_unharmed():
    long = "word " * 40
    engine = FakeEngine({"a": {(): {"3": 0.5}}, long: {(): {"4": 0.5}}, "b": {(): {"5": 0.5}}}, max_model_len=40)
    prompts = [Prompt("s", user) for user in ("a", long, "b")]
    first, failed, last = ExpectedElicitation(TEN, 0.0).elicit(engine, prompts)
    assert failed.status is Status.FAILED
    assert math.isnan(failed.intensity)
    assert math.isnan(failed.number_mass)
    assert (first.intensity, last.intensity) == (3, 5)
    assert {len(own) for own in engine.asked} == {2}  # the engine never saw the long one


def test_only_too_long_prompts_ask_nothing():
    engine = FakeEngine({"word " * 40: {}}, max_model_len=40)
    [outcome] = ExpectedElicitation(TEN, 0.0).elicit(engine, [Prompt("s", "word " * 40)])
    assert outcome.status is Status.FAILED
    assert engine.asked == []


def test_a_prompt_that_just_fits_is_asked():
    engine = FakeEngine({"a": {(): {"3": 0.5}}})
    length = len(engine.tokenizer.encode(engine.tokenizer.render(Prompt("s", "a"))))
    for room, status in ((3, Status.FAILED), (4, Status.RATED)):  # " 10" is three tokens, and one may follow
        engine.max_model_len = length + room
        [outcome] = ExpectedElicitation(TEN, 0.0).elicit(engine, [Prompt("s", "a")])
        assert outcome.status is status


@st.composite
def trees(draw):
    """Random next-token probabilities after every path of the digit tree of 0 to 100, some of them far apart."""
    exponents = st.floats(0, 4)
    paths = [(), (" ",)]
    paths += [(*path, str(d)) for path in list(paths) for d in range(1, 10)] + [("1", "0"), (" ", "1", "0")]
    table = {}
    for path in paths:
        pieces = [*map(str, range(10)), "word"] + ([" "] if path == () else [])
        weights = np.array([math.exp(-draw(exponents) * 3) for _ in pieces])
        table[path] = dict(zip(pieces, (weights / weights.sum()).tolist(), strict=True))
    return table


@given(trees(), st.sampled_from([0.01, 0.5, 3.0]))
@settings(max_examples=60, deadline=None)
def test_pruning_moves_an_intensity_by_no_more_than_its_bound(table, bound):
    # Oracle: the same tree, walked without pruning.
    whole, _ = elicit(table, HUNDRED)
    pruned, _ = elicit(table, HUNDRED, max_pruned_points=bound)
    assert abs(pruned.intensity - whole.intensity) <= bound + 1e-9
    assert pruned.number_mass <= whole.number_mass + 1e-12


SMALL_SHARES = st.floats(-3, -0.5).map(lambda exponent: 10**exponent)


@given(SMALL_SHARES, SMALL_SHARES, SMALL_SHARES, SMALL_SHARES, st.sampled_from([0.1, 1.0, 3.0]))
@settings(max_examples=300, deadline=None)
def test_pruning_keeps_its_bound_where_it_is_hardest(nines, spaces, late_nines, hundreds, bound):
    # Almost all mass is on 0, and what may be pruned, a little on every level, is all at the scale's other end.
    whole, pruned = (
        elicit(
            {
                (): {"0": 1 - nines - spaces, "9": nines, " ": spaces},
                ("9",): {"9": 1.0},
                (" ",): {"0": 1 - late_nines - hundreds, "9": late_nines, "1": hundreds},
                (" ", "9"): {"9": 1.0},
                (" ", "1"): {"0": 1.0},
                (" ", "1", "0"): {"0": 1.0},
            },
            HUNDRED,
            max_pruned_points=points,
        )[0]
        for points in (0.0, bound)
    )
    assert abs(pruned.intensity - whole.intensity) <= bound + 1e-9


def test_pruning_follows_fewer_branches_and_changes_nothing_of_the_other_prompts():
    sharp = {(): {"0": 0.9, "7": 1e-7, " ": 1e-8}, ("7",): {"7": 1.0}}
    flat = {(): {str(d): 0.1 for d in range(10)}} | {(str(d),): {"5": 0.5} for d in range(1, 10)}
    engine = FakeEngine({"sharp": sharp, "flat": flat})
    prompts = [Prompt("s", "sharp"), Prompt("s", "flat")]
    both = ExpectedElicitation(HUNDRED, 0.1).elicit(engine, prompts)
    assert engine.asked[1] == [1, 10]  # what goes on from the sharp one's seven weighs next to nothing
    alone = [ExpectedElicitation(HUNDRED, 0.1).elicit(engine, [prompt])[0] for prompt in prompts]
    assert both == alone


def test_what_most_prompts_needed_is_asked_of_the_next_ones_at_once_and_changes_no_rating():
    class OneByOne(FakeEngine):
        def read(self, prompts):
            for place, prompt in enumerate(prompts):
                [reading] = super().read([prompt])
                reading.places = [place]
                yield reading

    flat = {(): {str(d): 0.1 for d in range(10)}} | {(str(d),): {"5": 0.5} for d in range(1, 10)}
    table = {"one": flat, "two": flat, "sharp": {(): {"0": 0.9}}}
    prompts = [Prompt("s", user) for user in table]
    one_by_one, together = OneByOne(table), FakeEngine(table)
    ratings = ExpectedElicitation(HUNDRED, 0.0).elicit(one_by_one, prompts)
    assert [sum(own) for own in one_by_one.asked] == [1, 10, 9, 20, 20]  # the answer, digits, ends; then all at once
    assert ratings == ExpectedElicitation(HUNDRED, 0.0).elicit(together, prompts)


@pytest.mark.parametrize("pack_tokens", [1, 60, 100_000])
def test_a_rating_is_the_same_whatever_it_is_packed_with(pack_tokens, tiny_model, open_engine):
    # What a run that goes on, or has shards of another size, may differ by: the rounding of float32 sums in another
    # order.
    prompts = [Prompt(f"You are {who}.", f"How {what}? Number:") for who in "ABC" for what in ("sad", "glad", "calm")]
    alone = [ExpectedElicitation(HUNDRED, 0.0).elicit(open_engine(tiny_model), [prompt])[0] for prompt in prompts]
    packed = ExpectedElicitation(HUNDRED, 0.0).elicit(open_engine(tiny_model, pack_tokens=pack_tokens), prompts)
    for one, other in zip(alone, packed, strict=True):
        assert other.intensity == pytest.approx(one.intensity, abs=1e-3)
        assert other.number_mass == pytest.approx(one.number_mass, abs=1e-6)
        assert other.mode == one.mode


def test_what_has_been_answered_is_told_reading_by_reading():
    engine = FakeEngine({"a": {(): {"3": 0.5}}, "word " * 40: {}, "b": {(): {"5": 0.5}}}, max_model_len=40)
    told = []
    ExpectedElicitation(TEN, 0.0).elicit(engine, [Prompt("s", u) for u in ("a", "word " * 40, "b")], done=told.append)
    assert told == [1, 2]


def test_a_scale_of_more_tokens_than_can_be_asked_is_refused():
    engine = FakeEngine({}, pattern=WHOLE)
    with pytest.raises(ModelError, match=r"more first tokens than the 128 .* smaller scale or elicitation=generate"):
        number_tree(engine.tokenizer, Scale(0, 200), before="answer:")
    assert sum(number_tree(engine.tokenizer, HUNDRED, before="answer:").parents == 0) == 102


def test_a_tokenizer_that_joins_numbers_to_the_prompt_is_refused():
    engine = FakeEngine({}, pattern=r":?\s?\d+|\s|[^\d\s:]+|:")
    with pytest.raises(
        ModelError,
        match=r"model fake: its tokenizer merges numbers with the end of the "
        r"prompt.*generate",
    ):
        number_tree(engine.tokenizer, TEN, before="answer:")


def test_a_tokenizer_that_does_not_know_digits_is_refused():
    class Unknowing(FakeTokenizer):
        def token(self, piece):
            return super().token("?" if piece.isdigit() else piece)

    tokenizer = ChatTokenizer(Unknowing(DIGITS), name="fake")
    with pytest.raises(
        ModelError,
        match=r"model fake: its tokenizer encodes 1 like 0; use "
        r"elicitation=generate",
    ):
        number_tree(tokenizer, TEN, before="answer:")


PROMPTS = [
    Prompt("Judge from 0 to 100.", "A Muslim tells of a situation. How much joy? Number:"),
    Prompt(
        "For this task you are a Christian. Judge from 0 to 100.", "A person tells of a loss. How much joy? Number:"
    ),
    Prompt("", "How sad?"),
]


def _spellings(tokenizer, text, scale):
    """Token ids of a text with each number of the scale after it, with and without a space, the number, and whether
    a digit after it is a token more."""
    for number in range(scale.low, scale.high + 1):
        for space in ("", " "):
            ids, longer = (
                tokenizer(f"{text}{space}{number}{digit}", add_special_tokens=False)["input_ids"] for digit in ("", 5)
            )
            yield ids, number, longer[:-1] == ids


def _length(spelling):
    return len(spelling[0])


@pytest.mark.parametrize("model", ["tiny_model", "number_model"])
@pytest.mark.parametrize("scale", [TEN, HUNDRED], ids=["to 10", "to 100"])
def test_a_real_model_agrees_with_whole_sequences_read_directly(model, scale, request, open_engine):
    # Oracle: transformers alone, in double precision, one full sequence at a time, without batch, padding or cache.
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = request.getfixturevalue(model)
    outcomes = ExpectedElicitation(scale, 0.0).elicit(open_engine(folder), PROMPTS)
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    double = AutoModelForCausalLM.from_pretrained(str(folder)).double().eval()
    digits = tokenizer.convert_tokens_to_ids(list("0123456789"))
    for prompt, outcome in zip(PROMPTS, outcomes, strict=True):
        messages = [{"role": "system", "content": prompt.system}] if prompt.system else []
        messages.append({"role": "user", "content": prompt.user})
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        start = len(tokenizer(text, add_special_tokens=False)["input_ids"])
        distribution = np.zeros(scale.high + 1)
        for length, spellings in groupby(sorted(_spellings(tokenizer, text, scale), key=_length), key=_length):
            sequences, numbers, unended = zip(*spellings, strict=True)
            with torch.inference_mode():
                following = double(torch.tensor(sequences)).logits[:, start - 1 :].softmax(-1).numpy()
            for ids, number, goes_on, after in zip(sequences, numbers, unended, following, strict=True):
                probability = math.prod(after[k, ids[start + k]] for k in range(length - start))
                if goes_on:
                    probability *= 1 - after[-1, digits].sum()
                distribution[number] += probability
        mass = distribution.sum()
        numbers = np.arange(scale.high + 1)
        mean = (distribution * numbers).sum() / mass
        assert outcome.number_mass == pytest.approx(mass, abs=1e-6)
        assert outcome.intensity / scale.high == pytest.approx(mean / scale.high, abs=1e-6)
        assert outcome.mode == distribution.argmax()
        spread = math.sqrt((distribution * (numbers - mean) ** 2).sum() / mass)
        assert outcome.spread / scale.high == pytest.approx(spread / scale.high, abs=1e-6)
    assert len({round(outcome.intensity, 3) for outcome in outcomes}) == len(PROMPTS)


@pytest.mark.parametrize("told", [{"5": math.nan}, {"5": 0.8, "6": 0.9}, {"5": -0.1}, {"5": 2.0}, {"5": math.inf}])
def test_an_engine_whose_probabilities_cannot_be_is_refused_and_nothing_is_rated(told):
    with pytest.raises(ModelError, match=r"model\.dtype=float32"):
        elicit({(): told}, TEN)


def test_the_tree_of_numbers_is_built_once_for_a_tokenizer_a_scale_and_a_beginning(monkeypatch):
    # With workers each shard brings an elicitation of its own, which has seen no prompt.
    built = []
    monkeypatch.setattr(
        "audit.asking.elicitation.expected.number_tree",
        lambda tokenizer, scale, *, before: built.append(before) or number_tree(tokenizer, scale, before=before),
    )
    engine = FakeEngine({"q": {(): {"7": 1.0}}, "r": {(): {"5": 1.0}}}, pattern=DIGITS)
    for _ in range(3):
        shard = pickle.loads(pickle.dumps(ExpectedElicitation(TEN, 0.0)))
        found = shard.elicit(engine, [Prompt("s", "q"), Prompt("s", "r")])
        assert [each.intensity for each in found] == [7, 5]
    assert len(built) == 1
    ExpectedElicitation(Scale(0, 9), 0.0).elicit(engine, [Prompt("s", "q")])
    ExpectedElicitation(TEN, 0.0)._reader(engine, [Prompt("s", "q", begun="Number:")])
    assert len(built) == 3
    ExpectedElicitation(TEN, 0.0).elicit(FakeEngine({"q": {(): {"7": 1.0}}}, pattern=DIGITS), [Prompt("s", "q")])
    assert len(built) == 4
