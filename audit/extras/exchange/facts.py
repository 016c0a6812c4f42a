"""Describe a run from its manifest, in words that all forms share. Texts of narratives are never included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from audit.extras.exchange import groups
from audit.tables.formatting import MEANING, in_markdown, plural

if TYPE_CHECKING:
    from audit.extras.exchange.base import Collected
    from audit.runs.manifest import Manifest

NOT_RECORDED: Final = "not recorded"
UNNAMED: Final = "a model that was not named"
NOT_WHAT_IT_SHOWS: Final = (
    "A gap or disparity is a property of one model under one prompt and set of narratives. It does not say which "
    "rating is right, or what the model would do elsewhere.",
    "A gap near zero does not show that a model treats groups alike: a group that is rated lower whoever perceives has "
    "a disparity, and no gap.",
    "Ratings are a model's words about invented pairings of groups and situations. They are no data about people of "
    "these groups, and must not be used as such.",
    "Do not train a model to answer these prompts and then report the result: it would no longer be measured.",
)
"""Limits of what the data may be used for."""
_ASKED: Final = {
    "expected": "probabilities of the scale's numbers; a rating is their mean (expected)",
    "generate": "a text, from which a parser reads the rating (generate)",
    "outside": "another tool collected the ratings",
}


def named(manifest: Manifest) -> str:
    """Return the model's name; empty for ratings of another tool of which only the file has a name."""
    unnamed = manifest.of_another_tool and manifest.model.name == manifest.stimuli.source
    return "" if unnamed else manifest.model.name


def of_run(collected: Collected) -> Iterator[tuple[str, str]]:
    """Yield facts about a run as names and values. Values come from the manifest, and are not escaped."""
    manifest = collected.manifest
    yield "model", _of_model(manifest)
    yield "run by", said_of_engine(manifest)
    yield "task", manifest.task.kind
    if manifest.elicitation.method:
        yield "asked for", _ASKED.get(manifest.elicitation.method, manifest.elicitation.method)
    scale = manifest.scale
    if scale.low < scale.high:
        yield "scale", f"{scale.low:g} ({scale.low_label}) to {scale.high:g} ({scale.high_label})"
    if manifest.prompt.variant:
        yield "prompt", f"{manifest.prompt.variant}, SHA-256 of its wording {manifest.prompt.sha256}"
    if spoken := said_of_language(manifest):
        yield "language of the prompts", spoken
    if manifest.strategy.name:
        yield "strategy", manifest.strategy.name
    if manifest.stimuli.source:
        yield "narratives", said_of_narratives(manifest)
    yield "dimensions", ", ".join(manifest.real_dimensions)
    if manifest.placebo:
        yield "invented groups (a control)", ", ".join(manifest.placebo)
    if check := said_of_check(collected):
        yield question_of_check(collected), check
    yield "seed", str(manifest.seed)
    yield "run", collected.status_said
    yield "collected", _when(manifest)
    yield "collected by", f"empathy-audit {manifest.versions.get('empathy-audit', NOT_RECORDED)}"


def said_of_narratives(manifest: Manifest) -> str:
    """Describe the narratives, without quoting them."""
    stimuli = manifest.stimuli
    of = f" of {stimuli.n_available:,}" if stimuli.n_available is not None else ""
    n = "" if stimuli.n_narratives is None else f"{stimuli.n_narratives:,}{of}, "
    return f"{n}{stimuli.source}; SHA-256 of what they tell {stimuli.sha256 or NOT_RECORDED}; their texts are not here"


def said_of_language(manifest: Manifest) -> str:
    """Name the language of the prompts and its reviewer; empty for English, and if another tool asked."""
    language = manifest.language
    if language.is_english:
        return ""
    reviewed = f"; {language.reviewed}" if language.reviewed else ""
    return f"{language.name} (language pack {language.code}{reviewed})"


def said_of_engine(manifest: Manifest) -> str:
    """Say what ran the model."""
    engine = manifest.engine
    if manifest.of_another_tool:
        return "another tool; nothing of it was checked"
    if manifest.model.elsewhere is not None:
        return f"elsewhere, by {manifest.model.elsewhere.by or 'a stack that was not named'} (as the user says)"
    if not engine.name:
        return NOT_RECORDED
    return f"{engine.said} ({', '.join(filter(None, (engine.device, engine.dtype)))})"


def question_of_check(collected: Collected) -> str:
    """Return the question that the check answers."""
    return "ratings match the story?" if collected.kind == "ratings" else "answers match the story?"


def said_of_check(collected: Collected) -> str:
    """Say whether ratings or replies match the story, as the run's page does; empty of other answers."""
    from audit.report.effect_size import story_check
    from audit.report.results import Results
    from audit.runs.derived import has_table
    from audit.tables.run_of_ratings import TABLES

    there = has_table(collected.path, "verdicts" if collected.kind == "ratings" else "manipulation")
    if collected.kind != "ratings" and not there:
        return ""
    tables = {"manipulation": collected.statistics("manipulation")} if there else {}  # else nobody analysed the run
    return groups.plain(story_check(Results(tables, TABLES, collected.manifest.statistics.confidence)))


def read_with_care(row: Mapping[str, Any]) -> str:
    """Say what limits a gap of ratings, by the titles of the run's page; empty if nothing does."""
    from audit.report.sentences import LIMITS, OF_METHOD

    codes = {*str(row["limits"]).split("; ")} - OF_METHOD
    return "; ".join(title for code, (title, _) in LIMITS.items() if code in codes)


def markdown_table(rows: Iterable[tuple[str, str]]) -> str:
    """Format names and values as a Markdown table, with values escaped."""
    lines = [f"| {name} | {in_markdown(value) or NOT_RECORDED} |" for name, value in rows]
    return "\n".join(["| | |", "|---|---|", *lines])


def about(collected: Collected, *, files: str, more: str = "") -> str:
    """Return ``ABOUT.md``: ``files`` describes the files beside it, in Markdown, and ``more`` precedes the facts."""
    row = f"A row is {collected.table.row}. {plural(len(collected.rows), 'row')}."
    missing = f"\n**{collected.status_in_markdown}.**\n" if collected.is_limited else ""
    limits = "\n".join(f"- {line}" for line in NOT_WHAT_IT_SHOWS)
    return (
        f"# Empathy audit: {in_markdown(named(collected.manifest) or UNNAMED)}\n{missing}\n{files}\n\n"
        f"{row} {SAID_OF_MISSING}\n\n{more}{markdown_table(of_run(collected))}\n\n{_defined(collected)}\n\n{limits}\n"
    )


SAID_OF_MISSING: Final = (
    "A refusal is missing, never 0: the column `status` says beside it why there is no value. Nothing is rounded."
)


def _defined(collected: Collected) -> str:
    """Define what the numbers of a run are: the gap, if it has perceivers, and the disparity of groups."""
    gap = f"The gap δ is {MEANING}." if collected.has_perceivers else groups.NO_GAP
    if collected.disparity.empty:
        return gap
    meant = groups.MEANING if collected.kind == "ratings" else groups.OF_MEASURES
    return f"{gap} The disparity D of a group is {meant}."


def _of_model(manifest: Manifest) -> str:
    name = named(manifest) or NOT_RECORDED
    return f"{name}, revision {manifest.model.revision}" if manifest.model.revision else name


def _when(manifest: Manifest) -> str:
    begun, ended = manifest.started, manifest.content.get("finished")
    if not begun:
        return NOT_RECORDED
    return f"{begun} to {ended}" if isinstance(ended, str) and ended else f"from {begun}, not finished"
