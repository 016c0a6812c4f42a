"""Readers of what a run's folder holds: it may come from another machine, another version, or a bad disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import mutations
import pandas as pd
from reading import Case, Reader, Tried, WrongValueError

from audit.comparing.preference.pairs import PAIR_SIDES, read_sides
from audit.configuration.schema import load_statistics
from audit.runs.ledger import Ledger
from audit.runs.manifest import ChoicesManifest, ComparisonManifest, JudgementManifest, Manifest
from audit.runs.parquet import parquet
from audit.runs.parts import Parts
from audit.runs.prompts import FILE as PROMPTS_FILE
from audit.runs.prompts import PromptsAsked
from audit.runs.store import PartBegun, RunFolder
from audit.tables.answers import ANSWERS
from audit.tables.preference import JUDGED_PAIRS
from audit.tables.ratings import RATINGS
from audit.tables.replies import REPLIES, SCORES
from audit.tables.stages import GIVEN, STAGES
from audit.tasks.people import _read_study
from audit.tasks.recognition.corpus import FILE as CORPUS_FILE
from audit.tasks.recognition.corpus import read_corpus
from audit.tasks.registry import task_of
from audit.tasks.reply.scoring import read_scorer, score_counts
from stimuli.identities import load_dimensions
from stimuli.narratives import load_narratives
from stimuli.prompts import PromptGrid, PromptVariant, Scale
from stimuli.strategies import Examples, Stage, Strategy

ROOT = Path(__file__).parents[2]
N_ROWS = 40


def rating(index: int, **changes: Any) -> dict[str, Any]:
    """Return one row of ratings, as the pipeline hands it over."""
    return {
        "prompt_index": index,
        "dimension": "religion",
        "variant": "origin",
        "narrative_id": f"sad-{index % 7:02}",
        "emotion": ("sad", "happy", "proud")[index % 3],
        "perceiver": f"a {'Muslim' if index % 2 else 'Jew'}",
        "experiencer": "a Hindu",
        "perceiver_group": "Muslim",
        "experiencer_group": "Hindu",
        "in_group": index % 4 == 0,
        "n_shared": index % 2,
        "status": "refused" if index % 9 == 8 else "rated",
        "intensity": None if index % 9 == 8 else 50.5 + index / 3,
        "response": f"{index * 7919} é",
        "number_mass": 0.25,
        "mode": 50.0,
        "spread": 1.5,
        "n_prompt_tokens": 120,
        "n_dropped": 0,
        "pruned_points": 0.04,
        "wording": 0,
        "cut": False,
        "ends_points": 0.2,
    } | changes


def _of_any(table: Any, index: int) -> dict[str, Any]:
    """Return a row of a table with values of its columns' types."""
    given = {"WORD": f"w{index % 3}", "TEXT": f"text {index} é", "FLAG": bool(index % 2), "FLOAT": index / 3}
    known = rating(index)
    return {name: known.get(name, given.get(column.type.name, index % 100)) for name, column in table.items()}


# --- Manifests -------------------------------------------------------------------------------------------------------


def _manifests(folder: Path) -> Tried:
    seeds = [path.read_bytes() for path in sorted(ROOT.glob("reports/example*/manifest.json"))]

    def read(case: Case) -> object:
        (folder / "manifest.json").write_bytes(case.content)
        manifest = Manifest.read(folder, check=False)
        # What a report asks of it before anything else.
        load_statistics(manifest.config.recorded)
        return task_of(manifest), manifest.config.quantization, manifest.to_bytes()

    return Tried(lambda rng: Case(mutations.of_json(rng, rng.choice(seeds))), read, [*map(Case, seeds)])


def _of_runs(folder: Path) -> Tried:
    made = {
        ComparisonManifest: {"command": "report", "runs": [{"run": "a"}, {"run": "b"}], "confidence": 0.95},
        JudgementManifest: {
            "command": "judge",
            "runs": [{"run": "a"}],
            "identity": {"asked": {"model": "m"}, "n": 3},
            "asked": {"model": "m", "method": "expected"},
            "judge": {"revision": "r", "engine": {"name": "vllm"}},
        },
        ChoicesManifest: {"runs": [{"run": "a"}, {"run": "b"}], "identity": {"drawn": {"seed": 3, "n": 10}}},
    }
    seeds = {kind: kind.of(content).to_bytes() for kind, content in made.items()}

    def make(rng: Random) -> Case:
        kind = rng.choice(list(seeds))
        return Case(mutations.of_json(rng, seeds[kind]), which=kind.__name__)

    def read(case: Case) -> object:
        (folder / "manifest.json").write_bytes(case.content)
        found = [kind.read_if_there(folder) for kind in seeds]
        assert not case.which.endswith("whole") or sum(each is not None for each in found) == 1
        return found

    return Tried(make, read, [Case(content, which="whole") for content in seeds.values()])


# --- Parts and consolidated files ------------------------------------------------------------------------------------


def _damaged_or_made(rng: Random, content: bytes) -> Case:
    """Return a Parquet file that a disk has spoilt, or one that another tool has written anew."""
    if rng.random() < 0.7:
        return Case(mutations.of_bytes(rng, content), damaged=True)
    return Case(mutations.of_parquet(rng, content))


def _same(read: pd.DataFrame, written: pd.DataFrame) -> pd.DataFrame:
    if not read.equals(written):
        raise WrongValueError(f"{len(read)} rows were read that were never written so")
    return read


def _part(folder: Path) -> Tried:
    content = parquet(RATINGS, [rating(index) for index in range(N_ROWS)])
    (folder / "ratings").mkdir()
    path = folder / "ratings" / "part-000000.parquet"
    path.write_bytes(content)
    written = RunFolder(folder).read_ratings(n_prompts=N_ROWS)

    def read(case: Case) -> object:
        path.write_bytes(case.content)
        rows = RunFolder(folder).read_ratings(n_prompts=N_ROWS)
        return _same(rows, written) if case.damaged else rows

    return Tried(lambda rng: _damaged_or_made(rng, content), read, [Case(content, damaged=True)])


def _consolidated(folder: Path) -> Tried:
    with RunFolder(folder) as run:
        for number in range(4):
            run.write_shard(number, [rating(index) for index in range(number * 10, number * 10 + 10)])
        run.consolidate()
    path = folder / "ratings.parquet"
    content = path.read_bytes()
    written = RunFolder(folder).read_ratings(n_prompts=N_ROWS)
    sha256 = RunFolder(folder).ratings_sha256()

    def read(case: Case) -> object:
        path.write_bytes(case.content)
        run = RunFolder(folder)
        rows = run.read_ratings(n_prompts=N_ROWS)
        run.shards()
        told = run.ratings_sha256()
        if case.damaged and told == sha256:
            return _same(rows, written)  # it says by its hash that it is what was written
        return rows

    return Tried(lambda rng: _damaged_or_made(rng, content), read, [Case(content, damaged=True)])


def _other_tables(folder: Path) -> Tried:
    places = {
        "replies": (REPLIES, "replies"),
        "answers": (ANSWERS, "answers"),
        "stages": (STAGES, "stages"),
        "scores": (SCORES, "scores/lexical"),
        "pairs": (JUDGED_PAIRS, "parts"),
    }
    contents = {name: parquet(table, [_of_any(table, k) for k in range(12)]) for name, (table, _) in places.items()}
    given = parquet(GIVEN, [_of_any(GIVEN, k) for k in range(6)])
    counts = b'{"length": {"n_words": 12, "n_long": 0.5}, "advice": {"n": 3}}'
    for _, place in places.values():
        (folder / place).mkdir(parents=True, exist_ok=True)

    def make(rng: Random) -> Case:
        which = rng.choice([*contents, "given", "counts", "scorer"])
        if which in ("counts", "scorer"):
            return Case(mutations.of_json(rng, counts), which=which)
        return Case(_damaged_or_made(rng, contents.get(which, given)).content, which=which)

    def read(case: Case) -> object:
        run = RunFolder(folder)
        if case.which == "given":
            (folder / "given.parquet").write_bytes(case.content)
            return run.table(GIVEN).rows()
        if case.which == "scorer":
            (folder / "scores/lexical/scorer.json").write_bytes(case.content)
            return read_scorer(run, "lexical")
        if case.which == "counts":
            (folder / "scores/lexical/part-000000.parquet").write_bytes(contents["scores"])
            (folder / "scores/lexical/part-000000.json").write_bytes(case.content)
            return score_counts(run, "lexical")
        table, place = places[case.which]
        (folder / place / "part-000000.parquet").write_bytes(case.content)
        parts = Parts(folder, place, f"{place}.parquet", table, Ledger(folder))
        return parts.read().to_pandas(), parts.read_part("part-000000"), parts.sha256()

    whole = [Case(content, which=name) for name, content in {**contents, "given": given, "counts": counts}.items()]
    return Tried(make, read, whole)


# --- What was asked, and what is under way ---------------------------------------------------------------------------


def prompts_asked() -> PromptsAsked:
    """Return the prompts of a small run with all that a strategy may have."""
    variant = PromptVariant(
        "mine",
        "You are {perceiver}.",
        "{persona} Judge.",
        "{Experiencer}: {narrative} How {emotion}, {low} to {high}?",
        "first_person",
        Scale(0, 100, "not", "very"),
    )
    narratives = load_narratives("geneva", emotions=["sad", "happy"], situations_per_emotion=2)
    dimensions = load_dimensions("geneva", names=["religion"], perceiver_terms=1, experiencer_terms=1)
    strategy = Strategy(
        name="mine",
        source="",
        deviates="",
        stages=(Stage("first", "Feel: {narrative}", 20, 0.0, 1.0),),
        stage_system="{persona}",
        system="{system}",
        question="{stage_first} {question}",
        history="all",
        overrun="oldest",
        examples=Examples(n=1, choice="random", user="{example_text}", assistant="{example_answer}"),
        relations=(),
        reply=None,
    )
    return PromptsAsked(PromptGrid(dimensions, narratives, variant), strategy)


def _prompts(folder: Path) -> Tried:
    asked = prompts_asked()
    content = asked.to_bytes()

    def make(rng: Random) -> Case:
        if rng.random() < 0.3:
            return Case(mutations.of_bytes(rng, content), damaged=True)
        return Case(mutations.of_gzip(rng, content, mutations.of_json))

    def read(case: Case) -> object:
        (folder / PROMPTS_FILE).write_bytes(case.content)
        found = PromptsAsked.read(folder)
        if case.damaged and (found is None or found.content() != asked.content()):
            raise WrongValueError("prompts that were never asked")
        return found and found.grid[0]

    return Tried(make, read, [Case(content, damaged=True)])


def _begun(folder: Path) -> Tried:
    path = folder / "part-begun.jsonl"
    kept = PartBegun(path, "ratings-000003")
    for number in range(4):
        kept.put(f"{number:064x}-0", {"choices": [{"message": {"content": f"{number}"}}], "usage": {"total_tokens": 7}})
    content = path.read_bytes()
    again = PartBegun(path, "ratings-000003")
    answers = [again.get(f"{number:064x}-0") for number in range(4)]

    def make(rng: Random) -> Case:
        if rng.random() < 0.4:
            return Case(mutations.of_bytes(rng, content), damaged=True)
        return Case(mutations.of_lines(rng, content))

    def read(case: Case) -> object:
        path.write_bytes(case.content)
        begun = PartBegun(path, "ratings-000003")
        for number in range(4):
            answer = begun.get(f"{number:064x}-0")
            assert answer is None or isinstance(answer, dict), f"an answer that is {type(answer).__name__}"
            if case.damaged and answer not in (None, answers[number]):
                raise WrongValueError("an answer that nobody gave")
        begun.put("new", {"choices": []})
        return PartBegun(path, "ratings-000003").get("new")

    return Tried(make, read, [Case(content)])


def _beside(folder: Path) -> Tried:
    sides = pd.DataFrame(
        {name: [k if name in ("pair", "prompt_index", "n_shared") else "x" for k in range(4)] for name in PAIR_SIDES}
    )
    sides["first"] = [1, 2, 1, 2]
    sides["item_id"] = [f"i{k}" for k in range(4)]
    study = json.dumps({"seed": 3, "about": {"q": "religion"}, "emotions": ["sad"], "list": 2}).encode()
    corpus = json.dumps(
        {
            "labels": ["joy", "anger"],
            "synonyms": {"joy": ["glee"]},
            "identities": {"k1:2": "Greek"},
            "marked": {"k1:2": ["x"]},
        }
    ).encode()
    csv = sides.to_csv(index=False).encode()

    def make(rng: Random) -> Case:
        which = rng.choice(("sides", "study", "corpus"))
        if which == "sides":
            return Case(mutations.of_table(rng, csv), which=which)
        return Case(mutations.of_json(rng, study if which == "study" else corpus), which=which)

    def read(case: Case) -> object:
        path = folder / {"sides": "sides.csv", "study": "study.json", "corpus": CORPUS_FILE}[case.which]
        path.write_bytes(case.content)
        if case.which == "corpus":
            return read_corpus(RunFolder(folder))
        return read_sides(path) if case.which == "sides" else _read_study(path)

    return Tried(make, read, [Case(csv, which="sides"), Case(study, which="study"), Case(corpus, which="corpus")])


_PREPARED: Sequence[tuple[str, int, Callable[[Path], Tried]]] = (
    ("manifest.json", 11_000, _manifests),
    ("manifest.json of comparisons, judgements, choices", 3_000, _of_runs),
    ("a part of ratings (Parquet)", 8_000, _part),
    ("ratings.parquet, consolidated", 5_000, _consolidated),
    ("parts of replies, answers, stages, scores, pairs; given", 4_000, _other_tables),
    ("prompts.json.gz", 6_000, _prompts),
    ("part-begun.jsonl", 7_000, _begun),
    ("sides.csv, study.json, corpus.json", 3_000, _beside),
)
READERS = tuple(Reader(*each) for each in _PREPARED)
