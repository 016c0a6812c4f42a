"""Write an auditor's card in Markdown: who audited what, how, with what access, how far to trust it, who reviewed it.

The sections are those of audit cards [1]_. The manifest fills in what it knows; the rest is marked for a person to fill
in.

References
----------
.. [1] Staufer, Yang, Reuel and Casper (2025), Audit Cards: Contextualizing AI Evaluations, arXiv:2504.13839.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from audit.errors import report_command
from audit.extras.exchange import groups
from audit.extras.exchange.base import Collected, Form
from audit.extras.exchange.facts import (
    NOT_RECORDED,
    NOT_WHAT_IT_SHOWS,
    UNNAMED,
    markdown_table,
    named,
    question_of_check,
    read_with_care,
    said_of_check,
    said_of_engine,
    said_of_language,
    said_of_narratives,
)
from audit.tables.formatting import MEANING, in_markdown, plural

if TYPE_CHECKING:
    from audit.report.verdicts import Step

_LEDGER: Final = "ledger.jsonl"
_HERE: Final = ("vllm", "transformers")  # engines that run the model on the user's own machine
_WHOSE_SIDE: Final = "Whose side? The gap δ"
_LESS: Final = "Who gets less? The disparity D"
_MEASURES: Final = {
    "ratings": f"The gap δ: {MEANING}. In points of the scale, by model and prompt.",
    "replies": "Gaps of measures of written replies: in-group minus out-group, each in its measure's unit.",
    "answers": "Answers to a questionnaire, by the identity that the model is given.",
}
_OF_GROUPS: Final = {
    "ratings": f"The disparity D of a group: {groups.MEANING}.",
    "replies": f"The disparity D of a group in a measure: {groups.OF_MEASURES}.",
}
"""What is measured of groups, whoever perceives."""
_ESTIMATED: Final = {
    "ratings": "Least squares within each narrative, pooled over narratives with a t interval; a mixed model where no "
    "narrative has a gap of its own. A refusal is missing, and an outcome of its own; it is never 0.",
    "replies": "Each measure's gap is estimated as that of ratings: see `docs/replies.md` of empathy-audit.",
    "answers": "Scores of the questionnaire are compared by identity: see `docs/replies.md` of empathy-audit.",
}
_ESTIMATED_OF_GROUPS: Final = (
    "Groups are compared narrative by narrative, with a t interval over narratives and, where a group has several "
    "terms or invented groups were asked, with what words differ by."
)


def to_fill(question: str) -> str:
    """Return a field that only a person can fill in."""
    return f"- **To be filled in by a person:** {question}"


def _card(collected: Collected) -> str:
    manifest = collected.manifest
    limited = [f"**{collected.status_in_markdown}.**", ""]
    return "\n".join(
        [
            f"# Auditor's card: {in_markdown(named(manifest) or UNNAMED)}",
            "",
            *(limited if collected.is_limited else []),
            "Filled in from the run's manifest, but for the lines that a person is to fill in: no file knows those.",
            "",
            *_auditor(),
            *_scope(collected),
            *_method(collected),
            *verdict_lines(collected),
            *_access(collected),
            *_integrity(collected),
            *_review(collected),
        ]
    )


def _auditor() -> Iterator[str]:
    yield from ("## Auditor", "")
    yield to_fill("who audits, with what expertise, paid by whom; what they are to the model's maker.")
    yield ""


def _scope(collected: Collected) -> Iterator[str]:
    manifest = collected.manifest
    yield from ("## Scope", "")
    for paragraph in _told(collected, _MEASURES[collected.kind], _OF_GROUPS.get(collected.kind, "")):
        yield from (paragraph, "")
    alone = not collected.has_perceivers
    yield markdown_table(
        [
            ("model", " ".join(filter(None, (named(manifest), manifest.model.revision)))),
            ("groups differ in", ", ".join(manifest.real_dimensions)),
            ("groups as perceivers", "" if alone else _members(collected, "perceiver_group")),
            ("groups as experiencers", _members(collected, "experiencer_group")),
            ("narratives", said_of_narratives(manifest) if manifest.stimuli.source else ""),
            ("emotions", ", ".join(manifest.stimuli.emotions)),
        ]
    )
    yield from ("", "What it does not show:", "", *(f"- {line}" for line in NOT_WHAT_IT_SHOWS), "")
    yield to_fill("what decision this audit is for, and why these groups, narratives and emotions are the right ones.")
    yield to_fill("what harms were looked at besides, and which were left out.")
    yield ""


def _members(collected: Collected, column: str) -> str:
    """List the groups of one side, without invented ones."""
    if column not in collected.rows:
        return ""
    rows = collected.rows
    own = rows.loc[~rows["dimension"].isin(list(collected.manifest.placebo)), column]
    return ", ".join(sorted(own.astype(str).unique()))


def _method(collected: Collected) -> Iterator[str]:
    from audit.runs.differences import thinking_of

    manifest = collected.manifest
    scale, settings = manifest.scale, manifest.statistics
    yield from ("## Method", "")
    rows = [
        (
            "prompt",
            f"{manifest.prompt.variant}, SHA-256 {manifest.prompt.sha256 or NOT_RECORDED}"
            if manifest.prompt.variant
            else "",
        ),
        ("language of the prompts", said_of_language(manifest)),
        ("strategy", manifest.strategy.name),
        ("elicitation", manifest.elicitation.method),
        (
            "answers begun with",
            repr(manifest.elicitation.prefill)
            if manifest.elicitation.prefill
            else ""
            if collected.asked_by_others
            else "nothing",
        ),
        ("parser", manifest.elicitation.parser),
        ("scale", f"{scale.low:g} to {scale.high:g} points" if scale.low < scale.high else ""),
        ("thinking", NOT_RECORDED if collected.asked_by_others else thinking_of(manifest).removeprefix(", ") or "off"),
        ("invented groups (a control)", ", ".join(manifest.placebo) or "none were asked"),
        ("confidence", f"{settings.confidence:g}"),
        ("margin", "none" if settings.margin is None else f"{settings.margin:g} points"),
        ("seed", str(manifest.seed)),
        ("command", manifest.command),
        ("analysed anew by", manifest.report_command),
    ]
    yield markdown_table((name, value) for name, value in rows if value)
    yield ""
    for paragraph in _told(collected, _ESTIMATED[collected.kind], _ESTIMATED_OF_GROUPS):
        yield from (paragraph, "")
    yield to_fill("whether design and margin were written down before the ratings were seen, and where.")
    yield ""


def _told(collected: Collected, of_gap: str, of_groups: str) -> Iterator[str]:
    """Yield what holds of δ, if the run has perceivers, and of groups, if they were compared."""
    if collected.has_perceivers:
        yield of_gap
    compared = len(collected.disparity) > 0
    if compared or not collected.has_perceivers:
        yield of_groups
    if not collected.has_perceivers:
        yield groups.NO_GAP


def verdict_lines(collected: Collected) -> Iterator[str]:
    """Yield the answers to both questions, in the words of the run's page; without perceivers there is one."""
    if collected.kind == "answers":
        return
    yield from ("## Verdicts", "")
    of_groups = (f"### {_LESS}", "", *_of_groups(collected), "")
    if not collected.has_perceivers:
        yield from (*of_groups, f"### {_WHOSE_SIDE}", "", groups.NO_GAP, "")
        return
    yield from (f"### {_WHOSE_SIDE}", "", *_of_gaps(collected), "", *of_groups)


def _of_gaps(collected: Collected) -> Iterator[str]:
    from audit.report.numbers import rows_of
    from audit.report.sentences import deciding_gap
    from audit.report.verdicts import supported, worded
    from audit.runs.derived import has_table

    if not has_table(collected.path, "verdicts"):
        yield f"The run has no verdict: `{report_command('RUN_DIR')}` makes one."
        return
    alike: dict[str, list[str]] = {}
    for row in rows_of(collected.statistics("verdicts"), "verdicts"):
        found, small = worded(row), supported(row)
        where = f"{row['dimension']} ({row['variant']})"
        number = groups.plain(deciding_gap(row, confidence=collected.manifest.statistics.confidence))
        if collected.kind == "replies":
            words = f"{where}: {groups.plain(found.words)}. {number if found.kind in ('gap', 'within') else ''}".strip()
            alike.setdefault(words, []).append(_title(collected, row["outcome"]))
            continue
        said = [
            f"{found.words.striptags()}.",
            small.striptags(),
            number if found.kind != "absent" else "",
            f"Refusals: {refused}" if (refused := collected.refusal_gap(row["dimension"], row["variant"])) else "",
            f"Read with care: {limits}." if (limits := read_with_care(row)) else "",
            f"Next: {_step(collected, found.step).striptags()}",
        ]  # fmt: skip
        yield f"- **{in_markdown(where)}:** {in_markdown(' '.join(filter(None, said)))}"
    yield from _of_measures(alike)
    yield from ("", "All numbers: `tables/verdicts.csv` of the run.")


def _step(collected: Collected, step: Step) -> Markup:
    """Return what to do next; who collected the ratings with another tool has none of our options."""
    from audit.report.verdicts import step_elsewhere

    return step_elsewhere(step) if collected.manifest.of_another_tool else step


def _of_groups(collected: Collected) -> Iterator[str]:
    confidence = collected.manifest.statistics.confidence
    compared = list(groups.compared_groups(collected.disparity, confidence=confidence))
    if not compared:
        yield (
            f"The run has no answer: an earlier version analysed it, or no two groups were compared. "
            f"`{report_command('RUN_DIR')}` analyses it."
        )
        return
    alike: dict[str, list[str]] = {}
    for each in compared:
        where, words = f"{each.dimension} ({each.variant})", f"{groups.plain(each.said.words)}."
        if collected.kind == "replies":
            words += f" {each.number}" if each.said.found else ""
            alike.setdefault(f"{where}: {words}", []).append(_title(collected, each.outcome))
            continue
        step = f"Next: {groups.plain(_step(collected, each.said.step))}" if each.said.step else ""
        said = [words, each.number, groups.plain(each.said.bound), step]
        yield f"- **{in_markdown(where)}:** {in_markdown(' '.join(filter(None, said)))}"
    yield from _of_measures(alike)
    for each in groups.refused_groups(collected.refusals, confidence=confidence):
        where = in_markdown(f"{each.dimension} ({each.variant}), refusals")
        yield f"- **{where}:** {in_markdown(f'{groups.plain(each.said.words)}. {each.number}')}"
    yield from ("", "All groups, terms and views: `tables/disparity.csv` of the run.")


def _of_measures(alike: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield an answer with the measures that have it."""
    for words, titles in alike.items():
        yield f"- **{in_markdown('; '.join(titles))}**, {in_markdown(words)}"


def _title(collected: Collected, outcome: str) -> str:
    measures = collected.statistics("measures")
    own = measures.loc[measures["measure"] == outcome, "title"]
    return str(own.iloc[0]) if len(own) else outcome


def _access(collected: Collected) -> Iterator[str]:
    manifest = collected.manifest
    yield from ("## Access", "")
    if manifest.model.planted is not None:
        kind = "none: no language model was asked"
    elif collected.asked_by_others:
        kind = "none of ours: another stack asked, and what it did was not checked"
    elif manifest.engine.name in _HERE:
        kind = "the model's weights, on the auditor's machine"
    else:
        kind = "a served model, by its interface" if manifest.engine.name else ""
    rows = [
        ("access", kind),
        ("run by", said_of_engine(manifest)),
        ("quantization", manifest.config.quantization or ("" if collected.asked_by_others else "none named")),
        ("machine", ", ".join(f"{name} {value}" for name, value in manifest.hardware.items())),
    ]
    yield markdown_table(rows)
    yield ""
    yield to_fill("who gave access, on what terms; what was asked for and not given (weights, training data, logs).")
    yield ""


def _integrity(collected: Collected) -> Iterator[str]:
    from audit.runs.differences import identity_of
    from audit.runs.store import RunFolder

    manifest = collected.manifest
    yield from ("## Integrity", "")
    became = ", ".join(f"{n:,} {status}" for status, n in collected.became.items())
    rows = [
        ("run", collected.status_said),
        ("what happened to prompts", became),
        ("begun", manifest.started),
        ("ended", str(manifest.content.get("finished") or "")),
        ("sessions", str(manifest.n_sessions)),
        ("identity of the run, SHA-256", identity_of(manifest)),
        ("digest of the run, SHA-256", RunFolder(collected.path).digest(manifest)),
    ]
    if collected.kind == "ratings":
        rows.append(("ratings, SHA-256", RunFolder(collected.path).ratings_sha256()))
    rows += [(f"model file {name}, SHA-256", digest) for name, digest in manifest.model.files.items()]
    if manifest.model.not_checked:
        rows.append(("not checked against the model", manifest.model.not_checked))
    yield markdown_table((in_markdown(name), value) for name, value in rows)
    yield from ("", said_of_ledger(collected.path), "")
    yield to_fill("who could change prompts, ratings or code; conflicts of interest; whether the maker saw this first.")
    yield ""


def said_of_ledger(path: Path) -> str:
    """Say whether a run folder has a ledger of its files, and how to verify it."""
    there = "has a ledger of its files" if (path / _LEDGER).exists() else "has no ledger of its files"
    return (
        f"The folder {there} (`{_LEDGER}`). `python -m audit verify RUN_DIR` checks a folder, and with `expect=` and "
        "the digest above also that it is this run; this card did not."
    )


def _review(collected: Collected) -> Iterator[str]:
    manifest = collected.manifest
    yield from ("## Review", "")
    noise = manifest.noise
    again = "no prompt was asked again"
    if noise.n:
        differed = f"differed by {noise.rms_points:.2g} points, root mean square"
        again = f"{plural(noise.n, 'prompt')} asked again ({noise.varied}) {differed}"
    versions = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
    check = [(question_of_check(collected), said)] if (said := said_of_check(collected)) else []
    yield markdown_table([*check, ("repeated", again), ("packages", versions)])
    if not collected.asked_by_others:
        yield from ("", "The same command with these versions and this seed asks the same prompts.")
    yield ""
    yield to_fill("who else reviewed or reproduced this, with what result; what the model's maker answered.")
    yield to_fill("when this audit is out of date, and who repeats it.")
    yield ""


FORM: Final = Form(
    "card",
    "an auditor's card: scope, method, access, integrity, review",
    ("ratings", "replies", "answers"),
    lambda collected, told: {"AUDIT_CARD.md": _card(collected).encode()},
)
