"""The common part of all tasks' analyses: counts, remarks on what was not asked, and files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from audit.runs.ledger import GENERATION
from audit.runs.manifest import Manifest
from audit.runs.store import RunFolder
from audit.tables.base import Table, dictionary
from audit.tables.formatting import either, plural, printable
from audit.tables.ratings import Status
from stimuli.identities import NO_PERSONA, UNSPECIFIED
from stimuli.strategies import THOUGHT
from stimuli.words import capital

if TYPE_CHECKING:
    from audit.statistics.remarks import Remark


PAGE: Final = "report.html"


def count_of(status: pd.Series) -> dict[str, int]:
    """Count stored answers by status for the manifest; ``inexact`` only if there are any."""
    counts = status.value_counts()
    n_of = {name: int(counts.get(name, 0)) for name in map(str, Status)}
    return {name: n for name, n in n_of.items() if n or name != Status.INEXACT}


def write_all(
    folder: RunFolder,
    manifest: Manifest,
    tables: Mapping[str, pd.DataFrame],
    drawn: Mapping[str, Any],
    svg: Mapping[str, bytes],
    html: str,
    *,
    known: Sequence[Table],
) -> Path:
    """Write an analysis in place of an earlier one; ``dictionary.csv`` describes all ``known`` tables."""
    from audit.report.figures.style import figure_files

    described = {table.name: table for table in known}
    files = {f"tables/{name}.csv": described[name].csv(table) for name, table in tables.items() if len(table)}
    files["tables/dictionary.csv"] = dictionary(known)
    files[GENERATION] = f"{manifest.generation}\n".encode()
    for name, figure in drawn.items():
        files |= figure_files(name, figure, svg[name])
    files[PAGE] = html.encode()
    folder.publish(manifest, files)
    return folder.path / PAGE


def not_checked(manifest: Manifest) -> Iterator[Remark]:
    """Remark on answers that may not be the model's or not about the prompts, and on files that have changed."""
    if (planted := manifest.model.planted) is not None:
        yield on_run("planted", planted.note)
    if n := len(manifest.accepted):
        names = ", ".join(map(printable, manifest.accepted))
        yield on_run(
            "accepted",
            f"{plural(n, 'file')} of the run had changed since {either(n, 'it was', 'they were')} stored, and "
            f"{either(n, 'was accepted as it is', 'were accepted as they are')}: {names}. "
            "These may not be the model's own answers.",
        )
    if same := manifest.model.same_answer_said:
        yield on_run("same_answer", capital(same))
    if manifest.model.not_checked:
        yield on_run(
            "not_checked",
            "All answers were already there when the command was given again. They were not checked against the model "
            f"({manifest.model.not_checked}), which may have changed since.",
        )


def unfinished(manifest: Manifest, answers: pd.DataFrame) -> Iterator[Remark]:
    """Remark on prompts not asked yet or asked elsewhere, and on knowledge that the strategy lacked."""
    if (other := manifest.model.elsewhere) is not None:
        n_without = other.n_without_text + other.n_without_line
        yield on_run(
            "elsewhere",
            f"The answers were collected elsewhere{f' by {other.by}' if other.by else ''} and read from a file. Nobody "
            "checked what the model is, how it was asked, and whether it was shown the exact prompts."
            + (
                f" {plural(n_without, 'prompt')} of {manifest.n_prompts:,} "
                f"{either(n_without, 'has', 'have')} no answer."
                if n_without
                else ""
            )
            + (
                f" For {plural(other.n_unsigned, 'answer')} it is not known whether "
                f"{either(other.n_unsigned, 'it is', 'they are')} complete or cut: add a column `finish_reason` to "
                f"tell."
                if other.n_unsigned
                else ""
            ),
        )
    yield from not_checked(manifest)
    n_missing = manifest.n_prompts - len(answers)
    if n_missing:
        begun = set(map(str, answers["dimension"].unique()))
        untouched = [name for name in manifest.dimensions if name not in begun]
        nothing = f", and none of {', '.join(untouched)}" if untouched else ""
        yield on_run(
            "unfinished",
            f"{len(answers):,} of {plural(manifest.n_prompts, 'prompt')} {either(len(answers), 'has', 'have')} "
            f"been asked{nothing}. Give the same command again to ask the others.",
        )
    elif manifest.status == "running":
        yield on_run(
            "unfinished",
            "All prompts have been asked, but the run ended before its checks or scores were done. Give the same "
            "command again to continue.",
        )
    n_empty = manifest.strategy.knowledge.n_empty
    if n_empty:
        yield on_run(
            "knowledge_empty",
            f"COMET inferred nothing for {plural(n_empty, 'relation')} of narratives. Prompts have a blank there.",
        )


def on_thoughts(stages: pd.DataFrame, answers: pd.DataFrame, manifest: Manifest) -> Iterator[Remark]:
    """Remark on how long the model thought before its answers, and how many thoughts were cut."""
    thinking = manifest.config.thinking
    whom = answers[["prompt_index", "in_group", "perceiver_group", "experiencer_group"]]
    thoughts = stages.loc[stages["stage"] == THOUGHT].merge(whom, on="prompt_index")
    thoughts = thoughts.loc[thoughts["status"] != "failed"]
    if not (thinking.is_on and len(thoughts)):
        return
    n, cut = len(thoughts), thoughts["status"] == "cut"
    lengths = thoughts["n_tokens"]
    median = f"{lengths.median():,.1f}".removesuffix(".0")
    aside = " (invented groups aside)" if manifest.placebo else ""
    text = (
        f"The model thought before it answered{aside}: {plural(n, 'thought')} with a median of {median} "
        f"{either(lengths.median(), 'token', 'tokens')} and at most {lengths.max():,}; "
        f"{thinking.max_tokens:,} {either(thinking.max_tokens, 'was', 'were')} allowed."
    )
    if n_cut := int(cut.sum()):
        between = ~thoughts[["perceiver_group", "experiencer_group"]].isin([NO_PERSONA, UNSPECIFIED]).any(axis=1)
        own = thoughts["in_group"].fillna(False).astype(bool)  # unknown for baselines
        of_own, of_others = (cut[between & pairs] for pairs in (own, ~own))
        where = (
            f" ({_part_of(of_own)} about the perceiver's own group, {_part_of(of_others)} about another)"
            if len(of_own) and len(of_others)
            else ""
        )
        became = (
            "the answer is missing" if thinking.mode == "on" else "it was closed for the model, which then answered"
        )
        which = "it" if n == 1 else f"{n_cut:,} of them"
        text += f" The model did not end {which} itself{where}: in that case {became}."
    yield on_run("thoughts", text)


def _part_of(found: pd.Series[bool]) -> str:
    """Write a count of a total, with its percentage."""
    return f"{found.sum():,} of {len(found):,}, {100 * found.mean():.1f}%,"


def on_run(code: str, text: str) -> Remark:
    """Return a remark on a whole run."""
    from audit.statistics.remarks import Remark

    return Remark(dimension="", variant="", code=code, text=text)
