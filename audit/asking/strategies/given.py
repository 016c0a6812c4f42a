"""What a strategy adds to each narrative: examples chosen from a pool, and knowledge.

Both are fixed before the first call and stored in the run's folder, so that a resumed run shows the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from audit.asking.plan import Plan
from audit.asking.progress import Progress
from audit.configuration.strategy import ExamplesConfig, KnowledgeConfig
from stimuli.examples import ExamplePool, choose_random, choose_similar
from stimuli.hashes import fingerprint
from stimuli.strategies import EXAMPLE_PARTS, KNOWLEDGE, example_name

Row = dict[str, Any]  # columns of `tables.GIVEN`


def give(plan: Plan, *, say: Callable[[str], None]) -> tuple[list[Row], dict[str, Any]]:
    """Choose the examples and get the knowledge for every narrative of a run; return ``GIVEN`` and what to record."""
    rows: list[Row] = []
    facts: dict[str, Any] = {}
    settings = plan.config.strategy
    clock = time.perf_counter()
    if settings.examples is not None and plan.pool is not None:
        chosen, facts["examples"] = _choose(plan, settings.examples, plan.pool, say)
        rows += chosen
    if settings.knowledge is not None:
        known, facts["knowledge"] = _know(plan, settings.knowledge, say)
        rows += known
    if rows:
        facts |= {"given_sha256": given_sha256(rows), "give_s": time.perf_counter() - clock}
    return rows, facts


def given_sha256(rows: Sequence[Row]) -> str:
    """Hash what rows of ``tables.GIVEN`` show the model, with SHA-256."""
    return fingerprint({"rows": [[value for name, value in row.items() if name != "similarity"] for row in rows]})


def preview(plan: Plan) -> list[Row]:
    """Return the rows of :func:`give` without loading a model; what needs a model is named in brackets."""
    rows: list[Row] = []
    settings = plan.config.strategy
    ids = [narrative.narrative_id for narrative in plan.grid.narratives.narratives]
    if settings.examples is not None and plan.pool is not None:
        similar = settings.examples.choice == "similar"
        rows += _unknown(ids, settings.examples) if similar else _random(plan, settings.examples, plan.pool)
    if settings.knowledge is not None:
        for narrative_id in ids:
            texts = (
                plan.knowledge.texts[narrative_id]
                if plan.knowledge is not None
                else {relation: f"[{relation}, as COMET infers it]" for relation in settings.knowledge.relations}
            )
            rows += _relations(narrative_id, settings.knowledge.relations, texts)
    return rows


def values_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Map each narrative to the placeholder values that rows of ``tables.GIVEN`` fill."""
    values: dict[str, dict[str, str]] = {}
    for row in rows:
        own = values.setdefault(row["narrative_id"], {})
        if row["kind"] == "example":
            own |= {example_name(part, row["place"]): row[part] for part in EXAMPLE_PARTS}
        else:
            own[KNOWLEDGE + row["name"]] = row["text"]
    return values


def _choose(
    plan: Plan, settings: ExamplesConfig, pool: ExamplePool, say: Callable[[str], None]
) -> tuple[list[Row], dict[str, Any]]:
    facts = {"pool": pool.source, "pool_sha256": pool.sha256, "n_pool": len(pool.examples)}
    if settings.choice == "random":
        return _random(plan, settings, pool), facts
    from audit.engines.embedding import cosine, embed

    narratives = plan.grid.narratives.narratives
    say(f"choosing examples with {settings.embedder}: narratives {len(narratives):,}, examples {len(pool.examples):,}")
    wording = plan.grid.variant.narrative
    texts = [narrative.wording(wording) for narrative in narratives]
    shown = [each.text for each in pool.examples]
    embedded = embed([*texts, *shown], model=settings.embedder, revision=settings.revision)
    similarity = cosine(embedded.vectors[: len(texts)], embedded.vectors[len(texts) :])
    nearest = choose_similar(similarity, n=settings.n, nearest_first=settings.order == "nearest_first")
    rows = [
        _example(narrative.narrative_id, place, pool, number, float(similarity[at, number]))
        for at, (narrative, chosen) in enumerate(zip(narratives, nearest, strict=True))
        for place, number in enumerate(chosen)
    ]
    return rows, facts | {"embedder": embedded.facts}


def _unknown(ids: Sequence[str], settings: ExamplesConfig) -> Iterator[Row]:
    for narrative_id in ids:
        for place in range(settings.n):
            rank = place + 1 if settings.order == "nearest_first" else settings.n - place
            text, answer, emotion = (f"[{part} of the example {rank}. in similarity]" for part in EXAMPLE_PARTS)
            yield _row(narrative_id, "example", place, "", text=text, answer=answer, emotion=emotion)


def _random(plan: Plan, settings: ExamplesConfig, pool: ExamplePool) -> list[Row]:
    chosen = choose_random(pool, plan.grid.narratives, n=settings.n, seed=plan.config.seed)
    return [
        _example(narrative_id, place, pool, number)
        for narrative_id, numbers in chosen.items()
        for place, number in enumerate(numbers)
    ]


def _know(plan: Plan, settings: KnowledgeConfig, say: Callable[[str], None]) -> tuple[list[Row], dict[str, Any]]:
    narratives = plan.grid.narratives.narratives
    facts: dict[str, Any] = {"source": settings.source, "path": settings.path}
    if plan.knowledge is not None:
        texts: Sequence[Mapping[str, str]] = [plan.knowledge.texts[each.narrative_id] for each in narratives]
        facts["sha256"] = plan.knowledge.sha256
    else:
        from audit.engines.comet import head_of, infer

        assert settings.path is not None
        say(
            f"inferring knowledge with {settings.path}: relations {len(settings.relations)}, narratives "
            f"{len(narratives):,}"
        )
        inferred = infer(
            [head_of(narrative) for narrative in narratives],
            relations=settings.relations,
            model=settings.path,
            revision=settings.revision,
            n=settings.n,
            max_tokens=settings.max_tokens,
            counted=_counted,
        )
        texts = inferred.texts
        facts |= {"model": inferred.facts, "n_empty": sum(not text for each in texts for text in each.values())}
    rows = [
        row
        for narrative, own in zip(narratives, texts, strict=True)
        for row in _relations(narrative.narrative_id, settings.relations, own)
    ]
    return rows, facts


@contextmanager
def _counted(n: int) -> Iterator[Callable[[int], None]]:
    """Show a bar of inferences on stderr."""
    with Progress(n, unit="inferences") as progress:
        yield progress.done


def _relations(narrative_id: str, relations: Sequence[str], texts: Mapping[str, str]) -> Iterator[Row]:
    for place, relation in enumerate(relations):
        yield _row(narrative_id, "knowledge", place, relation, text=texts[relation])


def _example(narrative_id: str, place: int, pool: ExamplePool, number: int, similarity: float | None = None) -> Row:
    each = pool.examples[number]
    return _row(
        narrative_id,
        "example",
        place,
        each.example_id,
        text=each.text,
        answer=each.answer,
        emotion=each.emotion,
        similarity=similarity,
    )


def _row(
    narrative_id: str,
    kind: str,
    place: int,
    name: str,
    *,
    text: str,
    answer: str = "",
    emotion: str = "",
    similarity: float | None = None,
) -> Row:
    return {
        "narrative_id": narrative_id,
        "kind": kind,
        "place": place,
        "name": name,
        "text": text,
        "answer": answer,
        "emotion": emotion,
        "similarity": similarity,
    }
