"""Readers of the files that users hand in: tables, stimuli, rubrics, lexicons, ratings and answers of other tools."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import mutations
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from reading import Case, Reader, Tried, WrongValueError
from stored import ROOT, prompts_asked

from audit.asking.prompt_export import Export, file_beside
from audit.comparing.preference.pairs import PAIRS_FILE, load_pair_questions
from audit.engines.answered import read_answers_file
from audit.extras.replication.released_results import _read as read_result_file
from audit.extras.replication.released_results import parse_name
from audit.people.items import KEY
from audit.people.lists import LIST_KEY
from audit.people.questions import QUESTIONS_FILE, OptionQuestion, Questions, ScaleQuestion, load_questions
from audit.people.ratings import read_human_ratings, read_key
from audit.runs.outside import describe_outside, read_outside
from audit.tasks.measures.bertscore import read_references
from audit.tasks.measures.lexicon import load_lexicon
from stimuli.conversations import read_conversations
from stimuli.examples import EXAMPLES_FILE, load_pool
from stimuli.human import read_human
from stimuli.identities import load_dimensions
from stimuli.inventories import read_inventory
from stimuli.knowledge import RELATIONS, read_knowledge
from stimuli.narratives import EmotionWords, Narrative, Narratives, load_narratives
from stimuli.prompts import PUBLISHED_VARIANTS, read_published_variant
from stimuli.rubrics import RUBRICS_FILE, load_rubrics
from stimuli.stereotypes import STEREOTYPES_FILE, load_stereotypes
from stimuli.strategy_labels import read_levels

NARRATIVES = ("n1", "n2", "n3")
N_PROMPTS = 24


def rows_of(header: Sequence[str], rows: Sequence[Sequence[object]], delimiter: str = ",") -> bytes:
    """Return a delimited file."""
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows([header, *rows])
    return out.getvalue().encode()


# --- Ratings and answers of other tools ------------------------------------------------------------------------------


def _outside(folder: Path) -> Tried:
    terms = {"a Muslim": "Muslim", "a Jew": "Jew", "a Hindu": "Hindu", "a person": "unspecified"}
    header = ("perceiver", "experiencer", "narrative_id", "emotion", "rating", "status", "dimension")
    rows = [
        (
            p,
            e,
            n,
            {"n1": "joy", "n2": "anger"}[n],
            "" if k % 7 == 6 else k % 101,
            "refused" if k % 7 == 6 else "rated",
            "religion",
        )
        for k, (p, e, n) in enumerate(itertools.product(terms, terms, ("n1", "n2")))
    ]
    groups = rows_of(("term", "group", "dimension", "stem"), [(t, g, "religion", t[2:4]) for t, g in terms.items()])
    ratings = rows_of(header, rows)
    numbers = [
        dict(zip(header, row, strict=True)) | {"rating": float(row[4]) if row[4] != "" else None} for row in rows
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(numbers), sink)
    parquet = bytes(sink.getvalue().to_pybytes())

    def make(rng: Random) -> Case:
        which = rng.choice(("ratings.csv", "ratings.csv", "groups.csv", "ratings.parquet"))
        if which == "ratings.parquet":
            content = mutations.of_bytes(rng, parquet) if rng.random() < 0.5 else mutations.of_parquet(rng, parquet)
        else:
            content = mutations.of_table(
                rng, ratings if which == "ratings.csv" else groups, more=("-99", "1e309", "5,5")
            )
        return Case(content, which=which)

    def read(case: Case) -> object:
        for name, content in (("ratings.csv", ratings), ("groups.csv", groups)):
            (folder / name).write_bytes(content)
        (folder / case.which).write_bytes(case.content)
        asked = folder / ("ratings.parquet" if case.which == "ratings.parquet" else "ratings.csv")
        found = read_outside(asked, folder / "groups.csv", low=0, high=100)
        rated = found.ratings["intensity"].dropna()
        if not rated.between(0, 100).all():
            raise WrongValueError("a rating outside the scale")
        return describe_outside(found, command="report").to_bytes()

    whole = {"ratings.csv": ratings, "groups.csv": groups, "ratings.parquet": parquet}
    return Tried(make, read, [Case(content, which=name) for name, content in whole.items()])


def _answers(folder: Path) -> Tried:
    plain = "\n".join(
        json.dumps({"id": f"abc-{k}", "text": f"{k * 4} é"}, ensure_ascii=False) for k in range(N_PROMPTS)
    )
    body = {"choices": [{"message": {"content": "72"}, "finish_reason": "stop"}], "usage": {"total_tokens": 9}}
    batch = "\n".join(
        json.dumps({"custom_id": f"abc-{k}", "response": {"status_code": 200, "body": body}, "error": None})
        for k in range(N_PROMPTS)
    )
    path = folder / "answers.jsonl"

    def read(case: Case) -> object:
        path.write_bytes(case.content)
        found = read_answers_file(path, export="abc", n_prompts=N_PROMPTS)
        assert all(isinstance(each.text, str) for each in found.texts.values())
        json.dumps([each.text for each in found.texts.values()]).encode()
        pa.array([each.text for each in found.texts.values()])  # what is kept must be storable
        return found

    return Tried(
        lambda rng: Case(mutations.of_lines(rng, rng.choice((plain, batch)).encode())),
        read,
        [Case(plain.encode()), Case(batch.encode())],
    )


def _exports(folder: Path) -> Tried:
    from words import composed

    prompts = folder / "prompts.jsonl"
    content = "\n".join(json.dumps({"id": f"abc-{k}", "system": "s", "user": "u"}) for k in range(4)).encode()
    prompts.write_bytes(content)
    Export("abc", hashlib.sha256(content).hexdigest(), "defaults", composed([]), prompts_asked()).write(prompts)
    beside = file_beside(prompts).read_bytes()

    def make(rng: Random) -> Case:
        if rng.random() < 0.2:
            return Case(mutations.of_lines(rng, content), which="prompts")
        return Case(mutations.of_json(rng, beside), which="beside")

    def read(case: Case) -> object:
        prompts.write_bytes(case.content if case.which == "prompts" else content)
        file_beside(prompts).write_bytes(case.content if case.which == "beside" else beside)
        found = Export.read(prompts)
        if case.which == "prompts" and case.content != content:
            raise WrongValueError("prompts that are not those that were written")
        return found.plan(model="m")

    return Tried(make, read, [Case(content, which="prompts"), Case(beside, which="beside")])


# --- People ----------------------------------------------------------------------------------------------------------


def _raters(folder: Path) -> Tried:
    scale = {"low": 1, "high": 5, "low_label": "not", "high_label": "very"}
    questions = Questions(
        questions=(
            ScaleQuestion(name="warm", text="How warm?", **scale),
            OptionQuestion(name="felt", text="Which?", options=("joy", "fear")),
        ),
        about=(OptionQuestion(name="own", text="You are", options=("Muslim", "Jew", "none")),),
    )
    items = [f"i{k}" for k in range(6)]
    key = pd.DataFrame({"item_id": items, "list": ["list-1"] * 3 + ["list-2"] * 3})
    header = ("item_id", "rater", "reply", "warm", "felt", "own")
    own = rows_of(header, [(item, "anna", "x; y", k % 5 + 1, "joy", "Jew") for k, item in enumerate(items[:3])])
    other = rows_of(header, [(item, "bo", "é", "", "fear", "") for item in items[3:]])
    of_key = rows_of(list(LIST_KEY), [[f"i{k}", *["x"] * (len(LIST_KEY) - 1)] for k in range(3)])
    of_items = rows_of(
        list(KEY),
        [
            [
                "7"
                if n == "prompt_index"
                else "True"
                if n in ("in_group", "names_perceiver", "names_experiencer")
                else f"i{k}"
                for n in KEY
            ]
            for k in range(3)
        ],
    )

    def make(rng: Random) -> Case:
        which = rng.choice(("raters", "raters", "raters", "lists", "items"))
        content = {"raters": own, "lists": of_key, "items": of_items}[which]
        return Case(mutations.of_table(rng, content, delimiter=","), which=which)

    def read(case: Case) -> object:
        (folder / "b.csv").write_bytes(other)
        path = folder / "a.csv"
        path.write_bytes(case.content)
        if case.which == "raters":
            found = read_human_ratings([path, folder / "b.csv"], key=key, questions=questions)
            scores = found.table.loc[found.table["question"] == "warm", "score"].dropna()
            if not scores.between(1, 5).all():
                raise WrongValueError("a score beyond its scale")
            return found.remarks
        return read_key(path, tuple(LIST_KEY) if case.which == "lists" else tuple(KEY))

    return Tried(make, read, [Case(own, which="raters"), Case(of_key, which="lists"), Case(of_items, which="items")])


def _questions(folder: Path) -> Tried:
    forms = {"questions": (QUESTIONS_FILE, load_questions), "pairs": (PAIRS_FILE, load_pair_questions)}
    path = folder / "own.yaml"

    def make(rng: Random) -> Case:
        which = rng.choice(list(forms))
        return Case(mutations.of_yaml(rng, forms[which][0].read_bytes()), which=which)

    def read(case: Case) -> object:
        path.write_bytes(case.content)
        return forms[case.which][1](path).to_yaml()

    return Tried(make, read, [Case(file.read_bytes(), which=name) for name, (file, _) in forms.items()])


# --- Stimuli ---------------------------------------------------------------------------------------------------------


def _yaml_of(content: bytes, load: Callable[[Path], object]) -> Callable[[Path], Tried]:
    def prepare(folder: Path) -> Tried:
        path = folder / "own.yaml"

        def read(case: Case) -> object:
            path.write_bytes(case.content)
            return load(path)

        return Tried(lambda rng: Case(mutations.of_yaml(rng, content)), read, [Case(content)])

    return prepare


def _own_identities(path: Path) -> object:
    found = load_dimensions("geneva", own=path, perceiver_terms=2)
    return [list(itertools.islice(each.pairs(), 50)) for each in found]


def _few(name: str, most: int) -> bytes:
    """Return the first entries of a packaged YAML file."""
    content = yaml.safe_load((ROOT / "stimuli" / "data" / name).read_bytes())
    return yaml.safe_dump(dict(itertools.islice(content.items(), most)), sort_keys=False, allow_unicode=True).encode()


_INVENTORY = {
    "name": "tea test",
    "source": "made up",
    "scale": {"low": 0, "high": 4, "low_label": "never", "high_label": "always"},
    "instruction": "How often is this so?",
    "total": True,
    "items": [
        {"id": 1, "text": "I warm the pot.", "subscale": "care"},
        {"id": "b", "text": "I let it go {cold}.", "subscale": "care", "reverse": True},
        {"id": "c1", "text": "I pour a second cup.", "subscale": "thirst"},
        {"id": "c2", "text": "A third cup.", "subscale": "thirst"},
    ],
}


def _narratives_of(ids: Sequence[str]) -> Narratives:
    made = (Narrative(each, "joy", EmotionWords("", ""), "A day.", "", "") for each in ids)
    return Narratives("csv", tuple(made), len(ids), "")


def _tables(files: Mapping[str, tuple[bytes, str, Callable[[Path], object]]]) -> Callable[[Path], Tried]:
    """Return how readers of delimited files are tried: by name, a whole file, its name on the disk, and its reader."""

    def prepare(folder: Path) -> Tried:
        def make(rng: Random) -> Case:
            which = rng.choice(list(files))
            content, name, _ = files[which]
            tabs = "\t" if name.endswith((".tsv", ".txt")) else ","
            return Case(mutations.of_table(rng, content, delimiter=tabs, more=("n1", "joy", "a  b")), which=which)

        def read(case: Case) -> object:
            _, name, load = files[case.which]
            (folder / name).write_bytes(case.content)
            return load(folder / name)

        return Tried(make, read, [Case(content, which=name) for name, (content, *_) in files.items()])

    return prepare


_NARRATED = rows_of(
    ("narrative_id", "emotion", "text", "first", "noun"),
    [(n, ("joy", "fear")[k % 2], f"A day, {k}.", f"I had a day {k}.", "glee") for k, n in enumerate(NARRATIVES)],
)
_COLUMNS = {
    "narrative_id": "narrative_id",
    "emotion": "emotion",
    "neutral": "text",
    "first_person": "first",
    "emotion_noun": "noun",
}
_TALK = ("conversation_id", "turn", "speaker", "text", "emotion", "identity", "cause")
_TALKED = rows_of(
    _TALK,
    [
        ("k1", 1, "Ana", "They cancelled the ferry.", "", "Greek", ""),
        ("k1", 2, "Bo", "Oh no. Sit\ndown.", "sadness", "Welsh", "They CANCELLED the ferry"),
        ("k1", 3, "Ana", "I had packed for a week!", "anger", "", "cancelled the ferry || packed for a week"),
        ("k2", 1, "Bo", "Soup?", "joy", "", ""),
    ],
)
_KNOWN = rows_of(("narrative_id", *RELATIONS), [(n, *(f"{n} {r}" for r in RELATIONS)) for n in NARRATIVES])
_LEVELS = ("emotional_reactions", "interpretations", "explorations")


def _pool(path: Path) -> object:
    return load_pool(path, {"example_id": "example_id", "text": "text", "answer": "answer", "emotion": "emotion"})


_STIMULI: Mapping[str, tuple[bytes, str, Callable[[Path], object]]] = {
    "narratives": (_NARRATED, "own.csv", lambda path: load_narratives("csv", path=path, columns=_COLUMNS)),
    "narratives, tabs": (
        _NARRATED.replace(b"A day, ", b"A day ").replace(b",", b"\t"),
        "own.tsv",
        lambda path: load_narratives("csv", path=path, columns=_COLUMNS),
    ),
    "conversations": (
        _TALKED,
        "talk.csv",
        lambda path: read_conversations(path, {n: n for n in _TALK}, history=2, synonyms={"joy": ["glee"]}),
    ),
}
_BESIDE: Mapping[str, tuple[bytes, str, Callable[[Path], object]]] = {
    "examples": (b"".join(EXAMPLES_FILE.read_bytes().splitlines(keepends=True)[:8]), "pool.csv", _pool),
    "knowledge": (_KNOWN, "known.csv", lambda path: read_knowledge(path, _narratives_of(NARRATIVES), RELATIONS)),
    "human": (
        rows_of(("narrative_id", "intensity"), [("n1", 50), ("n1", ""), ("n2", "7.5")]),
        "human.csv",
        lambda path: read_human(path, NARRATIVES, id_column="narrative_id", rating_column="intensity"),
    ),
    "levels": (
        rows_of(("narrative_id", *_LEVELS), [("n1", 0, 1, 2), ("n2", 2, 2, 2)]),
        "levels.csv",
        lambda path: read_levels(path, NARRATIVES, _LEVELS),
    ),
    "references": (
        rows_of(("narrative_id", "reference"), [("n1", "I am sorry."), ("n2", "Oh, no!")]),
        "references.csv",
        lambda path: read_references(path, NARRATIVES),
    ),
    "lexicon": (
        rows_of(
            ("word", "emotion", "association"), [("gloom", "sadness", 1), ("feast", "joy", 1), ("feast", "fear", 0)]
        ),
        "lexicon.csv",
        load_lexicon,
    ),
    "lexicon, tabs": (
        rows_of(("gloom", "sadness", "1"), [("feast", "joy", 1), ("a feast", "joy", 1)], "\t"),
        "lexicon.txt",
        load_lexicon,
    ),
}

_CONST = '''
"""Stands in for the study's file: its names, our words."""
import os
persona_prompt_0 = "Be {persona}."
persona_prompt_1 = "Think as {persona} thinks, " + "and know what " "{persona} knows."
persona_prompt_2 = ("Stay {persona} " + "to the end" + ".")
persona_prompt_3: str = "Play {persona}, {{always}}."
system_prompt_0 = """{persona_prompt}
Grade 0 to 100.
"""
system_prompt_1 = "{persona_prompt}\\nGrade 0 to 10."
crowd_enVent_user_input = "{experiencer} told us of {emotion}: <{sent}> Grade: "
crowd_enVent_user_input_1_person = crowd_other = "{experiencer} in their own words of {emotion}: <{sent}>"
crowd_enVent_user_input_3_person = "{experiencer}, as others tell it, of {emotion}: <{sent}>"
'''


def _study(folder: Path) -> Tried:
    """The study's file of prompts, its result files and their names."""
    results = rows_of(
        ("text_id", "intensity", "emotion", "response"), [(f"t{k}", k * 9, "joy", "x") for k in range(9)], "\t"
    )
    named = "religion_origin_llama3-8b_a Muslim_a Hindu.tsv"

    def make(rng: Random) -> Case:
        which = rng.choice(("const", "const", "results", "name"))
        if which == "const":
            text = _CONST
            if rng.random() < 0.2:
                nest = rng.choice(("(" * 3000, "+".join(["x"] * 9000), "-" * 5000 + "1", "9" * 5000, "[" * 150))
                text += f"persona_prompt_0 = {nest}"
            return Case(mutations.of_text(rng, text), which=which)
        if which == "name":
            return Case(mutations.of_text(rng, named).decode("utf-8", "surrogateescape"), which=which)
        return Case(mutations.of_table(rng, results, delimiter="\t", more=("-1", "100")), which=which)

    def read(case: Case) -> object:
        if case.which == "name":
            return parse_name(Path(case.content))
        path = folder / ("const.py" if case.which == "const" else named)
        path.write_bytes(case.content)
        if case.which == "const":
            return [read_published_variant(variant, path) for variant in PUBLISHED_VARIANTS]
        return read_result_file(path, hashlib.sha256())

    whole = {"const": _CONST.encode(), "results": results, "name": named}
    return Tried(make, read, [Case(content, which=name) for name, content in whole.items()])


def _lexical(path: Path) -> Any:
    found = load_stereotypes(path)
    return found.sha256, found.themes_of("criminals")


_PREPARED: Sequence[tuple[str, int, Callable[[Path], Tried]]] = (
    ("ratings= and groups= (CSV, Parquet)", 3_500, _outside),
    ("answers= (JSON lines)", 6_000, _answers),
    ("prompts= and FILE.run.json", 3_000, _exports),
    ("raters' CSV files, keys", 4_000, _raters),
    ("questions (YAML)", 2_000, _questions),
    (
        "own identities (YAML)",
        3_000,
        _yaml_of((ROOT / "tests" / "small_identities.yaml").read_bytes(), _own_identities),
    ),
    ("own narratives, conversations (CSV, TSV)", 4_000, _tables(_STIMULI)),
    ("examples, knowledge, people's intensities, levels, references, lexicons", 5_000, _tables(_BESIDE)),
    ("rubrics (YAML)", 1_500, _yaml_of(RUBRICS_FILE.read_bytes(), load_rubrics)),
    ("inventories (YAML)", 2_500, _yaml_of(yaml.safe_dump(_INVENTORY, sort_keys=False).encode(), read_inventory)),
    ("stereotype words (YAML)", 1_500, _yaml_of(STEREOTYPES_FILE.read_bytes(), _lexical)),
    ("the study's prompts and result files", 2_000, _study),
)
READERS = tuple(Reader(*each) for each in _PREPARED)
