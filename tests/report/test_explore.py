import base64
import gzip
import json
import math
import re
from html.parser import HTMLParser
from importlib import resources

import numpy as np
import pandas as pd
import pytest
from jinja2 import Environment, FunctionLoader, StrictUndefined
from planted import CASES
from test_first_screen import headline, page_of

from audit.report.cell_matrix import interaction
from audit.report.explorer import INK, explore
from audit.runs.prompts import CallShown, ConversationPrompt
from audit.tables.cells import CELL_EMOTIONS, CELLS, NARRATIVES, PUBLISHED_CELLS
from audit.tables.formatting import fixed, rate
from audit.tables.gap import FAMILIES
from audit.tables.ratings import RATINGS, Status

FOLDER = resources.files("audit.report")
KEYS = ["dimension", "variant", "perceiver", "experiencer"]
TERMS = {"a Hindu": "Hindu", "a Muslim": "Muslim", "a Muslim person": "Muslim", "a person": "unspecified"}
ATTACK = "</script><img src=x onerror=\"document.title='owned'\"><!--\u2028&\u202e\x07\N{PILE OF POO}"


def text_of(file):
    return FOLDER.joinpath(file).read_text("utf-8")


def make_ratings(n_narratives=6, *, emotions=("joy", "fear"), terms=TERMS, dimensions=("religion",), seed=1, **columns):
    """Cross everything in a run's order: dimension, perceiver, experiencer, narrative."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            "dimension": dimension,
            "variant": "origin",
            "narrative_id": f"t{number}",
            "emotion": emotions[number % len(emotions)],
            "perceiver": perceiver,
            "experiencer": experiencer,
            "perceiver_group": terms[perceiver],
            "experiencer_group": terms[experiencer],
        }
        for dimension in dimensions
        for perceiver in terms
        for experiencer in terms
        for number in range(n_narratives)
    ]
    ratings = pd.DataFrame(rows)
    baseline = ratings[["perceiver_group", "experiencer_group"]].eq("unspecified").any(axis=1)
    same = ratings["perceiver_group"] == ratings["experiencer_group"]
    n = len(ratings)
    ratings = ratings.assign(
        prompt_index=range(n),
        in_group=same.astype("boolean").mask(baseline),
        n_shared=same.astype("Int8").mask(baseline),
        status="rated",
        intensity=rng.uniform(0, 100, n),
        response="",
        number_mass=rng.uniform(0, 1, n),
        mode=rng.integers(0, 101, n).astype(float),
        spread=1.0,
        n_prompt_tokens=90,
        n_dropped=0,
        pruned_points=0.5,
        ends_points=np.nan,
        wording=0,
        cut=pd.array([pd.NA] * n, "boolean"),
    ).assign(**columns)
    return ratings[list(RATINGS)]


def make_tables(ratings, **others):
    """Describe ratings as the words of the schema have it, by pandas alone."""
    flags = {f"n_{status}": ratings["status"] == status.value for status in Status}
    flagged = ratings.assign(n_prompts=1, mean=ratings["intensity"], sd=ratings["intensity"], **flags)
    how = {"mean": "mean", "sd": "std", "n_prompts": "sum", **dict.fromkeys(flags, "sum")}

    def grouped(*keys, **more):
        return flagged.groupby(list(keys), sort=False, observed=True).agg(how | more).reset_index()

    cells = grouped(*KEYS, **dict.fromkeys(("perceiver_group", "experiencer_group", "in_group", "n_shared"), "first"))
    cells = cells.assign(
        refusal_rate=cells["n_refused"] / cells["n_prompts"],
        unparseable_rate=cells["n_unparseable"] / cells["n_prompts"],
    )
    narratives = grouped("dimension", "variant", "narrative_id", "emotion").assign(contrast_points=math.nan)
    narratives["contrast_points"] = np.linspace(-3, 3, len(narratives))
    published = cells[KEYS].assign(z=(cells["mean"] - 50) / 10, p_perceiver=0.03, p_experiencer=0.0001)
    published["shown"] = np.arange(len(cells)) % 2 == 0
    published["n_narratives"] = 12
    pair = dict.fromkeys(FAMILIES, math.nan) | {
        "dimension": "religion", "variant": "origin", "family": "pair", "member": "Muslim", "partner": "Hindu",
        "delta": -1.25, "ci_low": -2.0, "ci_high": -0.5, "p": 0.01, "p_adjusted": 0.06, "method": "Holm",
        "family_size": 6, "note": "",
    }  # fmt: skip
    tables = {
        "cells": cells.assign(outcome="intensity", unit="points")[list(CELLS)],
        "cell_emotions": grouped(*KEYS, "emotion")[list(CELL_EMOTIONS)],
        "narratives": narratives[list(NARRATIVES)],
        "published_cells": published[list(PUBLISHED_CELLS)],
        "families": pd.DataFrame([pair]),
    }
    return tables | others


def make_asked(ratings, text=lambda name: f"Story of {name}: the road was closed."):
    """Ask as a template would: the narrative stands in the user message, identities around it."""
    rows = ratings.set_index("prompt_index")

    def asked(index):
        row = rows.loc[index]
        story = text(row["narrative_id"])
        user = f'{row["experiencer"]} says: "{story}" How much {row["emotion"]}?'
        return ConversationPrompt(f"You are {row['perceiver']}.", user, story)

    return asked


def make_led(ratings, *, asked=None, examples=1, text=lambda index: f"Thought {index} of it. " * 9):
    """Lead every prompt by examples, two calls, and a question that shows again what the second one wrote."""
    asked = asked or make_asked(ratings)

    def led(index):
        was = asked(index)
        shown = [CallShown(f"example {n}", f"Somebody says {n}.", "Oh dear.", example=True) for n in range(examples)]
        thought = text(index)
        calls = [
            *shown,
            CallShown("imagine", "Imagine a day of theirs.", "They rise early.", "cut at 9 tokens", system="Be kind."),
            CallShown("think", f"They rise early.\nThink about: {was.narrative}", thought),
        ]
        user = f"As you thought: {thought}\n{was.user}"
        return ConversationPrompt(
            was.system, user, was.narrative, tuple(calls), "1 example left out" if index % 2 else ""
        )

    return led


def make_explorer(ratings, *, asked=None, **options):
    tables = options.pop("tables", None) or make_tables(ratings)
    return explore(ratings, tables, **({"low": 0, "high": 100, "seed": 0, "asked": asked} | options))


def render(explorer):
    environment = Environment(
        loader=FunctionLoader(text_of), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return str(environment.get_template("explore.html.j2").module.explore(explorer))


def unpacked(payload):
    """Return the JSON text that a payload holds."""
    return gzip.decompress(base64.b64decode(payload, validate=True)).decode()


def content_of(explorer):
    return json.loads(unpacked(explorer.payload))


def unpack(payload, name):
    """Read a packed table back, group by group, as lists of rows."""
    groups, start = [], 0
    for n in payload[name]["n"]:
        rows = [{} for _ in range(n)]
        for column, packed in payload[name]["columns"].items():
            codes = packed["codes"] or [0] * sum(payload[name]["n"])
            for place, row in enumerate(rows):
                code = codes[start + place]
                row[column] = code if packed["of"] is None else packed["of"][code]
        groups.append(rows)
        start += n
    return groups


def joined(frame, narrative, written):
    """Put a message together again, as the script does."""
    said = frame[0]
    for text, what in zip(frame[1::2], frame[2::2], strict=True):
        said += narrative.encode("utf-16-le")[2 * what :].decode("utf-16-le") if what >= 0 else ""
        said += (written[-2 - what] if what < -1 else "") + text
    return said


def held_ratings(explorer):
    """Yield what the file says of each rating: (prompt_index, everything it was, its prompt or None)."""
    payload = content_of(explorer)
    (cells,) = unpack(payload, "cells")
    conversations = unpack(payload, "calls") if "calls" in payload else []
    for place, rows in enumerate(unpack(payload, "ratings")):
        for row in rows:
            narrative_id, emotion, text = payload["narratives"][row["narrative"]]
            cell = cells[place]
            dimension, variant = payload["parts"][cell["part"]][1:]
            says = [dimension, variant, narrative_id, emotion, cell["perceiver"], cell["experiencer"], row["status"]]
            prompt = None
            if "frame" in row:
                calls = conversations[row["calls"]] if "calls" in row else []
                texts = [call["written"] for call in calls]
                shown = tuple(
                    CallShown(
                        call["name"], joined(call["frame"], text, texts), call["written"], call["note"], call["system"],
                        bool(call["example"]),
                    )
                    for call in calls
                )  # fmt: skip
                prompt = ConversationPrompt(
                    row["system"], joined(row["frame"], text, texts), text, shown, row.get("note", "")
                )
            numbers = [row["intensity"], row["number_mass"], row["mode"], row["response"]]
            yield payload["first"][place] + row["offset"], [*says, *numbers], prompt


def expected_rows(ratings):
    names = ["dimension", "variant", "narrative_id", "emotion", "perceiver", "experiencer", "status"]
    return {
        row["prompt_index"]: [
            *(str(row[name]) for name in names),
            fixed(row["intensity"], decimals=2),
            rate(row["number_mass"]),
            "–" if math.isnan(row["mode"]) else f"{row['mode']:g}",
            row["response"],
        ]
        for row in ratings.to_dict("records")
    }


class Numbers(HTMLParser):
    """Collects what each <data> says: its place, its value and its text."""

    def __init__(self, page):
        super().__init__()
        self.found, self._open = {}, None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self._open = dict(attrs) if tag == "data" else None

    def handle_data(self, data):
        if self._open is not None:
            self.found[self._open["data-at"]] = (self._open["value"], data)
            self._open = None


# --- The heatmaps ----------------------------------------------------------------------------------------------------


def test_every_mean_is_on_the_page_unrounded_under_its_place_in_the_table():
    ratings = make_ratings(dimensions=("religion", "nationality"))
    explorer = make_explorer(ratings)
    means = make_tables(ratings)["cells"]["mean"]
    assert Numbers(render(explorer)).found == {
        f"cells:{row}:mean": (repr(float(mean)), f"{mean:.1f}") for row, mean in enumerate(means)
    }


def test_a_pair_without_a_rating_has_no_number_and_no_colour():
    ratings = make_ratings()
    silent = (ratings["perceiver"] == "a Hindu") & (ratings["experiencer"] == "a Muslim")
    ratings = ratings.assign(
        status=ratings["status"].mask(silent, "refused"), intensity=ratings["intensity"].mask(silent)
    )
    explorer = make_explorer(ratings)
    page = render(explorer)
    assert "cells:1:mean" not in Numbers(page).found
    assert re.findall(r'data-cell="(\d+)" class="unrated"', page) == ["1"]
    (cells,) = unpack(content_of(explorer), "cells")
    assert [cells[1][name] for name in ("mean", "missing", "refused", "n_refused")] == ["–", "100%", "100%", "6"]
    # Without a mean for every pair, no main effect can be taken out of any.
    assert {cell["interaction"] for cell in cells} == {"–"}


def test_the_interaction_is_what_is_left_without_row_and_column_means():
    terms = {"a": "A", "b": "B"}
    ratings = make_ratings(1, terms=terms, intensity=[10.0, 20.0, 30.0, 60.0])
    (cells,) = unpack(content_of(make_explorer(ratings)), "cells")
    # Rows 15, 45; columns 20, 40; grand mean 30: 10 - 15 - 20 + 30 = 5, and by symmetry ±5.
    assert [cell["interaction"] for cell in cells] == ["+5.0", "−5.0", "−5.0", "+5.0"]


def test_terms_of_a_group_and_groups_of_a_cluster_stand_under_a_bracket():
    page = render(make_explorer(make_ratings(), clusters={"religion": {"Hindu": "East", "Muslim": "West"}}))
    spans = re.findall(r'scope="(\w+)" class="bracket" (\w+)="(\d)"><bdi>(\w+)', page)
    assert spans[:4] == [
        ("colgroup", "colspan", "1", "East"),
        ("colgroup", "colspan", "2", "West"),
        ("colgroup", "colspan", "1", "Hindu"),
        ("colgroup", "colspan", "2", "Muslim"),
    ]
    assert {span[1:] for span in spans if span[0] == "rowgroup"} == {
        ("rowspan", "1", "East"), ("rowspan", "2", "West"), ("rowspan", "1", "Hindu"), ("rowspan", "2", "Muslim"),
    }  # fmt: skip


def test_a_cluster_s_groups_are_placed_together_and_keep_their_rows():
    terms = {"a": "A", "b": "B", "c": "C"}
    ratings = make_ratings(2, terms=terms)
    explorer = make_explorer(ratings, clusters={"religion": {"A": "x", "B": "y", "C": "x"}})
    (heatmap,) = explorer.heatmaps
    assert [label for label, _ in heatmap.columns] == ["a", "c", "b"]
    assert [[cell.row for cell in row.cells] for body in heatmap.bodies for row in body] == [
        [0, 2, 1],
        [6, 8, 7],
        [3, 5, 4],
    ]


def luminance(colour):
    # WCAG 2.2, relative luminance.
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["sequential", "diverging"])
def test_numbers_stand_out_from_every_colour_by_4_5_to_1(name, mode):
    colours = content_of(make_explorer(make_ratings()))["palettes"][name][mode]
    ink = luminance(INK[mode])
    ratios = [(max(ink, luminance(c)) + 0.05) / (min(ink, luminance(c)) + 0.05) for c in colours]
    assert len(ratios) == 41
    assert min(ratios) >= 4.5


def test_the_style_sheet_writes_the_numbers_in_that_ink():
    assert re.findall(r"--cell-ink: (#\w+)", text_of("explore.css")) == [INK[0], INK[1], INK[0]]


def test_the_gap_of_two_groups_is_said_in_either_order():
    (cells,) = unpack(content_of(make_explorer(make_ratings())), "cells")
    said = {(cell["perceiver"], cell["experiencer"]): cell["gap"] for cell in cells}
    assert said["a Hindu", "a Muslim"] == said["a Muslim", "a Hindu"]
    assert said["a Hindu", "a Muslim"] == [
        "Muslim",
        "Hindu",
        "−1.25 points; 95% interval −2.00 to −0.50; p = .010; p = .060 when corrected for 6 tests (Holm)",
    ]
    assert said["a Hindu", "a Hindu"] is None


def test_emotions_of_every_pair_are_there():
    ratings = make_ratings()
    emotions = unpack(content_of(make_explorer(ratings)), "emotions")
    first = ratings.loc[(ratings["perceiver"] == "a Hindu") & (ratings["experiencer"] == "a Hindu")]
    means = first.groupby("emotion")["intensity"].mean()
    assert [(row["emotion"], row["mean"], row["n_rated"], row["n_prompts"]) for row in emotions[0]] == [
        (emotion, f"{mean:.2f}", "3", "3") for emotion, mean in means.items()
    ]
    assert len(emotions) == 16


# --- The ratings -----------------------------------------------------------------------------------------------------


def irregular(ratings):
    """Drop rows, shuffle the rest and number them anew, as a table of another tool may be."""
    kept = ratings.sample(frac=0.7, random_state=3).reset_index(drop=True)
    return kept.assign(prompt_index=range(len(kept)))


@pytest.mark.parametrize("change", [lambda r: r, irregular], ids=["crossed", "irregular"])
@pytest.mark.parametrize("categorical", [False, True])
def test_the_file_says_of_each_rating_what_the_table_says(change, categorical):
    ratings = make_ratings(30, dimensions=("religion", "nationality"))
    declined = np.arange(len(ratings)) % 7 == 3
    ratings = change(
        ratings.assign(
            status=np.where(declined, "refused", "rated"),
            intensity=ratings["intensity"].mask(declined),
            mode=ratings["mode"].mask(declined),
            response=np.where(declined, "I would rather not.", ""),
        )
    )
    asked = make_asked(ratings)
    if categorical:
        words = ["dimension", "variant", "narrative_id", "emotion", "perceiver", "experiencer", "status"]
        ratings = ratings.astype(dict.fromkeys(words, "category"))
    tables = make_tables(ratings)
    before = {name: table.copy() for name, table in {"ratings": ratings, **tables}.items()}
    explorer = make_explorer(ratings, tables=tables, asked=asked)
    found = {index: (says, prompt) for index, says, prompt in held_ratings(explorer)}
    assert {index: says for index, (says, _) in found.items()} == expected_rows(ratings)
    assert all(prompt == asked(index) for index, (_, prompt) in found.items())
    for name, table in {"ratings": ratings, **tables}.items():
        pd.testing.assert_frame_equal(table, before[name])
    assert make_explorer(ratings, tables=tables, asked=asked) == explorer


@pytest.mark.parametrize(
    ("user", "narrative"),
    [
        ("Tell. I saw it. Now.", "I saw it."),
        ("A Muslim \U0001f600 saw it. How?", "The person \U0001f600 saw it."),
        ("something else", "I saw it."),
        ("no narrative", ""),
        ("aaaa", "a"),
        ("\U0001f600 x\ny", "\U0001f600 x\ny"),
    ],
    ids=["in it", "begins otherwise", "not in it", "empty", "many times", "all of it"],
)
def test_a_prompt_is_rebuilt_to_the_letter_however_it_holds_the_narrative(user, narrative):
    explorer = make_explorer(make_ratings(2), asked=lambda index: ConversationPrompt("", user, narrative))
    assert {prompt for _, _, prompt in held_ratings(explorer)} == {ConversationPrompt("", user, narrative)}


def test_a_sample_is_of_whole_narratives_evenly_over_emotions():
    emotions = ("joy", "fear", "fear", "fear")
    ratings = make_ratings(40, emotions=emotions)
    explorer = make_explorer(ratings, max_ratings=11 * 16)
    held = pd.DataFrame([says for _, says, _ in held_ratings(explorer)])
    per_narrative = held.groupby([2, 3]).size()
    assert set(per_narrative) == {16}
    assert per_narrative.groupby(level=1).size().to_dict() in ({"joy": 6, "fear": 5}, {"joy": 5, "fear": 6})
    assert explorer.sample == (
        "This file contains the prompts of 11 of 40 narratives (176 of 640), drawn at random, evenly over "
        "emotions (seed 0). The run folder's ratings contain all"
    )
    payload = content_of(explorer)
    # What is aggregated is of all of them, and the narratives' own contrasts are of those in the file.
    assert {cell["n_prompts"] for cell in unpack(payload, "cells")[0]} == {"40"}
    (contrasts,) = unpack(payload, "contrasts")
    assert {payload["narratives"][row["narrative"]][0] for row in contrasts} == set(held[2])


def test_the_draw_is_the_seed_s_whatever_the_order_of_the_rows():
    ratings = make_ratings(40)
    tables = make_tables(ratings)

    def drawn(rows, seed):
        return {says[2] for _, says, _ in held_ratings(make_explorer(rows, tables=tables, seed=seed, max_ratings=96))}

    assert drawn(ratings, 0) == drawn(ratings.sample(frac=1, random_state=1), 0)
    assert drawn(ratings, 0) != drawn(ratings, 1)


@pytest.mark.parametrize(
    "text",
    [
        lambda index: f"Thought {index} of it. " * 9,
        lambda index: "",
        lambda index: "many many many many many many",
        lambda index: f"Story of t{index % 30}: the road was closed.",
    ],
    ids=["its own", "nothing", "one of all", "the narrative"],
)
def test_what_led_to_a_question_is_rebuilt_to_the_letter(text):
    ratings = make_ratings(30)
    led = make_led(ratings, examples=2, text=text)
    explorer = make_explorer(ratings, asked=led)
    assert {index: prompt for index, _, prompt in held_ratings(explorer)} == {
        index: led(index) for index in ratings["prompt_index"]
    }


def test_each_text_of_a_call_is_there_once():
    ratings = make_ratings(4)
    explorer = make_explorer(ratings, asked=make_led(ratings, examples=3))
    words = [
        "Thought 7 of it. ",
        "Story of t3",
        "They rise early.",
        "Imagine a day",
        "Be kind.",
        "Somebody says 2.",
        "Oh d",
    ]
    # A thought is nine times the same; the narrative and the thought are asked about again, in the question.
    assert [unpacked(explorer.payload).count(word) for word in words] == [9, 1, 2, 1, 1, 1, 1]


def test_a_run_that_nothing_led_says_nothing_of_calls():
    ratings = make_ratings(4)
    payload = content_of(make_explorer(ratings, asked=make_asked(ratings)))
    assert "calls" not in payload
    assert not {"calls", "note"} & set(payload["ratings"]["columns"])


def test_few_more_prompts_are_put_together_than_fit():
    ratings = make_ratings(2_000)
    led = make_led(ratings)
    looked_up = set()
    explorer = make_explorer(ratings, asked=lambda index: looked_up.add(index) or led(index), max_bytes=300_000)
    held = {index for index, _, _ in held_ratings(explorer)}
    assert 0.8 * 300_000 < len(explorer.payload) <= 300_000
    assert held <= looked_up
    assert len(held) < len(ratings)
    assert len(looked_up) < 1.5 * len(held)


def test_of_calls_too_long_for_one_narrative_the_beginnings_are_shown():
    ratings = make_ratings(10)
    explorer = make_explorer(
        ratings, asked=make_led(ratings, text=lambda index: f"{index}:" + "x" * 9_000), max_bytes=60_000
    )
    payload = content_of(explorer)
    thoughts = [text for text in payload["calls"]["columns"]["written"]["of"] if isinstance(text, list)]
    assert len(thoughts) == sum(payload["ratings"]["n"]) >= 16
    assert {note for _, note in thoughts} <= {f"cut here: {n:,} characters" for n in (9_002, 9_003, 9_004)}
    assert min(len(text) for text, _ in thoughts) > 500


@pytest.mark.parametrize("asked", [make_asked, make_led], ids=["asked", "led"])
@pytest.mark.parametrize("max_bytes", [60_000, 30_000, 1])
def test_the_text_stays_within_its_bytes(max_bytes, asked):
    ratings = make_ratings(60)
    rng = np.random.default_rng(0)  # what gzip can make little of
    ratings = ratings.assign(response=[f"{rng.bytes(90).hex()} \N{PILE OF POO}" for _ in range(len(ratings))])
    explorer = make_explorer(ratings, asked=asked(ratings, text=lambda name: f"{name}" * 99), max_bytes=max_bytes)
    n_held = len(list(held_ratings(explorer)))
    assert n_held % 16 == 0
    assert n_held < len(ratings)
    # Cells and emotions are never left out, however little room there is.
    assert len(explorer.payload) <= max_bytes or n_held == 0


def test_all_ratings_are_in_the_file_if_they_fit():
    assert make_explorer(make_ratings()).sample == "This file contains all 96 prompts of 6 narratives"


def test_a_rating_takes_few_bytes():
    ratings = make_ratings(400)
    explorer = make_explorer(ratings.assign(intensity=ratings["intensity"].round()), asked=make_asked(ratings))
    # Two letters each for intensity, number mass and mode, whatever they are; all else repeats itself.
    assert len(explorer.payload) < 15 * len(ratings)


def test_a_long_text_is_cut_and_says_so():
    ratings = make_ratings(1, response="x" * 100_000)
    payload = content_of(make_explorer(ratings))
    assert payload["ratings"]["columns"]["response"]["of"] == [["x" * 20_000, "cut here: 100,000 characters"]]


@pytest.mark.parametrize("text", [ATTACK, "\ud800 alone", "\x00\x1b[31m"])
def test_no_text_can_end_the_script_element(text):
    ratings = make_ratings(2)
    was = ConversationPrompt(text, text, text, (CallShown("think", text, f"{text}.", text, text),), text)
    page = render(make_explorer(ratings, asked=lambda index: was))
    payload = re.search(r'<script type="text/plain" id="explore-data">(.*?)</script>', page, re.DOTALL)[1]
    assert re.fullmatch("[A-Za-z0-9+/]+=*", payload)
    shown = text.replace("\ud800", "\N{REPLACEMENT CHARACTER}")
    held = json.loads(unpacked(payload))
    assert [narrative[2] for narrative in held["narratives"]] == [shown, shown]
    assert [held["calls"]["columns"][name]["of"] for name in ("written", "note", "system")] == [
        [f"{shown}."],
        *[[shown]] * 2,
    ]


def test_without_prompts_the_page_says_why():
    page = render(make_explorer(make_ratings(), no_prompts="another tool collected the ratings"))
    assert page.count("does not contain prompts and narratives: another tool collected the ratings.") == 2
    assert "system" not in content_of(make_explorer(make_ratings()))["ratings"]["columns"]


def test_names_are_escaped_and_kept_apart_from_the_text_around_them():
    terms = {ATTACK: "A", "b": "B"}
    page = render(make_explorer(make_ratings(1, terms=terms)))
    assert "<img" not in page
    assert page.count("<bdi>&lt;/script&gt;&lt;img") == 2


def test_a_rating_of_an_unknown_pair_is_refused():
    ratings = make_ratings()
    tables = make_tables(ratings.loc[ratings["perceiver"] != "a Hindu"])
    with pytest.raises(ValueError, match=r"a Hindu.*is not among the cells"):
        make_explorer(ratings, tables=tables)


def test_the_script_is_small_and_makes_no_markup_from_text():
    script = text_of("explore.js")
    assert len(script.encode()) < 22_000
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(|fetch\(|localStorage", script
    )


def test_delta_of_complete_ratings_is_made_of_the_numbers_that_the_heatmaps_open_on():
    """Of groups of one term, plain: in-group numbers less out-group ones, whatever main effects there are."""
    analysis = page_of(CASES["b1-group"]())[1]
    cells = analysis.tables["cells"]
    made_of = interaction(cells)
    groups = cells.drop_duplicates("perceiver").set_index("perceiver")["perceiver_group"]
    own = np.array([[groups[one] == groups[other] for other in made_of.columns] for one in made_of.index])
    numbers = made_of.to_numpy()
    assert numbers[own].mean() - numbers[~own].mean() == pytest.approx(headline(analysis)["delta"], rel=1e-9)
