"""Sentences on what a run asked, and of whom: the first half of the section on methods."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import pandas as pd

from audit.extras.exchange.facts import UNNAMED, named
from audit.extras.exchange.paper.base import CONVERSATIONS, SERVED, Study
from audit.extras.exchange.paper.references import HOU, LIBRARIES, TITLES, TROIANO, Reference, arxiv_works, software
from audit.extras.exchange.paper.text import Cite, Line, PlainText, Symbol, join_lines, line, told_names
from audit.report.cell_matrix import BASELINES
from audit.runs.manifest import Manifest
from audit.tables.formatting import dimension_title, either, listed, plural, scale_end

_OURS: Final = ("geneva", "geneva20")
_DELTA: Final = Symbol("δ")


def model_sentences(study: Study) -> Iterator[Line]:
    """Yield which model answered, where, and when."""
    manifest = study.manifest
    model, engine = manifest.model, manifest.engine
    name = PlainText(named(manifest) or UNNAMED)
    if manifest.of_another_tool:
        what = "ratings" if study.is_rated else "texts"
        whose = line("the model ", name) if named(manifest) else name
        yield line(
            f"The {what} were not collected by us: another tool did so, and we read its table. It is said to be of ",
            whose, ". How the model was asked is not known to the run.",
        )  # fmt: skip
        return
    if model.elsewhere is not None:
        by = line(" by ", PlainText(model.elsewhere.by)) if model.elsewhere.by else ()
        yield line(
            "The model is said to be ", name, ". It was asked elsewhere", by, ", and its answers were read from a "
            "file. What the model is and how it was asked was not checked.",
        )  # fmt: skip
        return
    if model.planted is not None:
        yield line(PlainText(model.planted.note))
        return
    path = line(" (", PlainText(model.path), ")") if model.path and model.path not in model.name else ()
    if engine.name == SERVED:
        yield line(
            "The model was ", name, path, ", asked at a server. A server does not tell which revision of the weights "
            "answers.",
        )  # fmt: skip
    else:
        files = "; the run's manifest has the SHA-256 of its files" if model.files else ""
        revision = (
            line(", revision ", PlainText(model.revision)) if model.revision else line(", of no recorded revision")
        )
        yield line("The model was ", name, path, revision, files, ".")
        if engine.name:
            ran = " ".join(filter(None, (TITLES.get(engine.name, engine.name), engine.version)))
            dtype = line(" in ", PlainText(engine.dtype)) if engine.dtype else ()
            device = line(" on ", PlainText(engine.device)) if engine.device else ()
            work = LIBRARIES.get(engine.name)
            yield line("It was run by ", PlainText(ran), line(" ", Cite((work,))) if work else (), device, dtype, ".")
    if manifest.config.quantization:
        yield line("Its weights were quantized (", PlainText(manifest.config.quantization), ").")
    if when := _when(manifest):
        yield when


def _when(manifest: Manifest) -> Line:
    begun, ended = _day(manifest.started), _day(str(manifest.content.get("finished") or ""))
    if not begun:
        return ()
    if manifest.status == "running" or not ended:
        return line("Asking began on ", PlainText(begun), ".")
    return line("It was asked ", *(("on ", PlainText(begun)) if begun == ended else ("from ", PlainText(begun), " to ",
                                                                                 PlainText(ended))), ".")  # fmt: skip


def _day(time: str) -> str:
    try:
        return datetime.fromisoformat(time).date().isoformat()
    except ValueError:
        return ""


def prompt_sentences(study: Study) -> Iterator[Line]:
    """Yield what was asked, of which perceivers about which experiencers, by which strategy and elicitation."""
    manifest = study.manifest
    yield _task(study)
    yield from _narratives(study)
    dimensions = manifest.real_dimensions
    crossed = [text for name in dimensions if (text := _identities(study.rows, name))]
    if crossed:
        asked = "asked" if not manifest.of_another_tool else "rated" if study.is_rated else "answered"
        so_far = " so far" if study.n_missing else ""
        yield line(f"The identities that were {asked}{so_far}: ", join_lines(crossed, "; "), ".")
    if baselines := _baselines(study):
        what = "baselines" if len(baselines) > 1 else "a baseline"
        outside = line(", outside of ", _DELTA) if study.has_perceivers else ()
        yield line(f"Beside these, {listed(baselines)} stood as {what}", outside, ".")
    if drawn := [name for name in manifest.pairs_drawn if name not in manifest.placebo]:
        yield line(
            f"In {listed(drawn)}, each narrative was asked about all in-group pairs and a balanced draw of the others, "
            "by turns, so that the other pairs of a narrative are missing by design."
        )
    for name, n in manifest.left_out.items():
        yield line(
            f"In {dimension_title(name)}, {plural(n, 'narrative')} {either(n, 'was', 'were')} left out for all groups, "
            f"because {either(n, 'it contradicts', 'they contradict')} one of them."
        )
    if manifest.placebo:
        n = len(manifest.placebo)
        yield line(
            f"As a control, {plural(n, 'set')} of invented groups {either(n, 'was', 'were')} asked in the same way."
        )
    if manifest.prompt.variant and not manifest.of_another_tool:
        digest = line(" (SHA-256 ", _digest(manifest.prompt.sha256), ")") if manifest.prompt.sha256 else ()
        yield line("The wording of the prompts is the variant ", PlainText(manifest.prompt.variant), digest, ".")
    yield from _language(manifest)
    if "wording" in study.rows and (n := study.rows["wording"].nunique()) > 1:
        yield line(
            f"Each prompt was asked in {n} wordings, the original among them; the mean of its ratings counts once."
        )
    yield from _led(manifest)


def _language(manifest: Manifest) -> Iterator[Line]:
    """Yield the language of the prompts and its review; nothing for English or another tool's prompts."""
    language = manifest.language
    if language.is_english or manifest.of_another_tool:
        return
    digest = line(", SHA-256 ", _digest(language.sha256)) if language.sha256 else ()
    yield line(
        "Prompts, identities and narratives were in ", PlainText(language.name), ", by the language pack ",
        PlainText(language.code), " of empathy-audit", digest, ".",
    )  # fmt: skip
    if language.reviewed:
        yield line("Of these texts the pack says: ", PlainText(language.reviewed), ".")
    yield line("A translation differs from the English in more than the language, and stands for no culture.")


def _task(study: Study) -> Line:
    manifest = study.manifest
    if manifest.of_another_tool and study.is_rated:
        return line(
            "A rating is of a perceiver, the identity that the model is given, an experiencer, the person in the "
            "narrative, and a narrative, ", _scale(manifest), " ", Cite((HOU,)), ".",
        )  # fmt: skip
    if manifest.of_another_tool:
        given = ", by a perceiver, the identity that the model is given" if study.has_perceivers else ""
        return line(f"A text answers an experiencer, the person who writes{given} ", Cite((HOU,)), ".")
    heard = "read the last utterance of a conversation, said by" if _is_talk(manifest) else "read a narrative of"
    scale = line(", ", _scale(manifest)) if study.is_rated else ()
    given = "was given an identity (the perceiver)" if study.has_perceivers else "was given no identity of a group"
    return line(
        f"In each prompt the model {given}, {heard} a person of an identity (the "
        f"experiencer), and was asked to {study.asked_to}", scale, " ", Cite((HOU,)), ".",
    )  # fmt: skip


def _scale(manifest: Manifest) -> Line:
    scale = manifest.scale
    low, high = (
        line(scale_end(float(end)), *((" (", PlainText(label), ")") if label else ()))
        for end, label in ((scale.low, scale.low_label), (scale.high, scale.high_label))
    )
    return line("on a scale from ", low, " to ", high)


def _digest(sha256: str) -> PlainText:
    """Shorten a digest; ABOUT.md has it in full."""
    return PlainText(f"{sha256[:12]}…" if len(sha256) > 12 else sha256)


def _is_talk(manifest: Manifest) -> bool:
    return manifest.stimuli.source == CONVERSATIONS


def _narratives(study: Study) -> Iterator[Line]:
    stimuli = study.manifest.stimuli
    if not stimuli.n_narratives:
        return
    noun = "utterance" if _is_talk(study.manifest) else "narrative"
    n, of = stimuli.n_narratives, stimuli.n_available
    counted = plural(n, noun) if of is None or of == n else f"{n:,} of {plural(of, noun)}"
    origin: Line = (", of the set ", PlainText(stimuli.source))
    match stimuli.source:
        case name if name in _OURS:
            origin = line(
                " of the set ",
                PlainText(name),
                ", which comes with empathy-audit ",
                Cite((package_of(study.manifest),)),
            )
        case "hou2025":
            origin = line(
                " of crowd-enVENT ", Cite((TROIANO,)), ", as they were rewritten for such prompts ", Cite((HOU,))
            )
        case "csv":
            origin = line(" of our own")
        case "conversations":
            origin = line(" of a corpus of conversations of our own")
    if study.manifest.of_another_tool:
        origin = ()
    emotions = stimuli.emotions
    about = line(f", about {plural(len(emotions), 'emotion')} (", told_names(emotions), ")") if emotions else ()
    digest = line("; SHA-256 of what is told ", _digest(stimuli.sha256)) if stimuli.sha256 else ()
    begun = "The table is of" if study.manifest.of_another_tool else "It was asked about"
    yield line(f"{begun} {counted}", origin, about, digest, ".")


def _identities(rows: pd.DataFrame, dimension: str) -> Line:
    own = rows.loc[rows["dimension"].astype(str) == dimension]
    counts = []
    groups: set[str] = set()
    for side in ("perceiver", "experiencer"):
        of_groups = own.loc[~own[f"{side}_group"].astype(str).isin(list(BASELINES))]
        groups |= set(of_groups[f"{side}_group"].astype(str))
        if n := of_groups[side].nunique():
            counts.append(plural(n, side))
    if not groups:
        return ()
    return line("of ", PlainText(dimension_title(dimension)), f", {listed(counts)} of {plural(len(groups), 'group')}")


def _baselines(study: Study) -> list[str]:
    perceivers, experiencers = (set(study.rows[f"{side}_group"].astype(str)) for side in ("perceiver", "experiencer"))
    if not study.has_perceivers:
        perceivers = set()
    found = []
    if "unspecified" in perceivers | experiencers:
        found.append("a person whose identity is left open")
    if "no persona" in perceivers:
        found.append("a perceiver who is given no identity at all")
    return found


def _led(manifest: Manifest) -> Iterator[Line]:
    strategy, thinking = manifest.strategy, manifest.config.thinking
    if strategy.name and strategy.name != "none":
        works = arxiv_works(f"{strategy.source} {strategy.deviates}")
        source = line(" (", PlainText(strategy.source), ")") if strategy.source else ()
        stages = (
            line(f", in {plural(len(strategy.stages), 'stage')} (", told_names(strategy.stages), ")")
            if strategy.stages
            else ()
        )
        yield line(
            "Before its answer, the model was led by the strategy ", PlainText(strategy.name), source, stages,
            *((" ", Cite(works)) if works else ()), ".",
        )  # fmt: skip
        if strategy.deviates:
            yield line("What of it is not the source's: ", PlainText(strategy.deviates), ".")
    if thinking.is_on:
        drawn = (
            f"drawn at temperature {thinking.temperature:g} and top-p {thinking.top_p:g}"
            if thinking.temperature
            else "at temperature 0"
        )
        end = (
            "A thought that had not ended by then was closed for the model"
            if thinking.mode == "budget"
            else "Where a thought had not ended by then, there is no answer"
        )
        yield line(f"The model thought before each answer, in {thinking.max_tokens:,} tokens at most, {drawn}. {end}.")


def package_of(manifest: Manifest) -> Reference:
    """Return this package, in the version that analysed the run."""
    return software(str(manifest.analysed_by.get("empathy-audit") or manifest.versions.get("empathy-audit", "")))
