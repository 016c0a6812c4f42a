"""Write the section on methods of a run: what was asked of which model, and how it was analysed.

Every sentence rests on this run's manifest and tables, and is left out if they do not support it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from audit.extras.exchange.paper.asked import model_sentences, package_of, prompt_sentences
from audit.extras.exchange.paper.base import OF_MEASURES, SERVED, Study, has_interval, is_finite
from audit.extras.exchange.paper.disparities import disparity_methods
from audit.extras.exchange.paper.limits import NOT_CHECKED, cautions, check_sentences, estimability
from audit.extras.exchange.paper.references import (
    HARTUNG,
    HOLM,
    HOU,
    JUDD,
    LIBRARIES,
    MACKINNON,
    SCHUIRMANN,
    SIDIK,
    TITLES,
)
from audit.extras.exchange.paper.text import Cite, Line, PlainText, Symbol, join_lines, line, told_names
from audit.tables.formatting import MEANING, dimension_title, either, error_rate, listed, plural, unsigned
from audit.tables.ratings import ASKED_AGAIN
from audit.tables.shared import OVERALL

_DELTA: Final = Symbol("δ")


@dataclass(frozen=True, slots=True)
class MethodsSection:
    """A paragraph with its heading."""

    title: str
    sentences: tuple[Line, ...]

    def text(self) -> Line:
        """Return the paragraph."""
        return join_lines(self.sentences, " ")


def methods(study: Study) -> tuple[MethodsSection, ...]:
    """Write the section on methods; paragraphs without a sentence are left out."""
    found = (
        MethodsSection("Model", tuple(model_sentences(study))),
        MethodsSection("Prompts", tuple(prompt_sentences(study))),
        MethodsSection("Responses", tuple(_responses(study))),
        MethodsSection("Analysis", () if study.is_of_groups_alone else tuple(_analysis(study))),
        MethodsSection("Disparity", tuple(disparity_methods(study))),
        MethodsSection("Checks", tuple(_checks(study))),
        MethodsSection("Software", tuple(_software(study))),
    )
    return tuple(each for each in found if each.sentences)


# --- What came of it -------------------------------------------------------------------------------------------------


def _responses(study: Study) -> Iterator[Line]:
    manifest = study.manifest
    elicitation = manifest.elicitation
    begun = line(", after ", PlainText(f"“{elicitation.prefill}”"), ", with which its answer was begun") if (
        elicitation.prefill) else ()  # fmt: skip
    if not study.is_rated:
        task = manifest.task
        drawn = f"at temperature {task.temperature:g}" + (f" and top-p {task.top_p:g}" if task.temperature else "")
        if task.max_tokens and manifest.model.elsewhere is None:
            yield line(f"The model was asked to write {drawn}, in {task.max_tokens:,} tokens at most.")
    elif elicitation.method == "expected":
        yield line(
            "A rating is the mean of the scale's whole numbers, each weighted by the probability that the model gives "
            "it as the beginning of its answer", begun, ".",
        )  # fmt: skip
        if manifest.ends.way == "calibrated":
            yield line(
                "Whether a number ends there, no digit following, was asked of a random sample of "
                f"{manifest.ends.n_prompts} prompts; the others took its mean shares, within a statistical bound."
            )
        if manifest.engine.name == SERVED:
            yield (
                "The server told the probabilities of the likeliest tokens alone, and a rating is of what they tell.",
            )
    elif elicitation.method == "generate":
        limit = elicitation.content.get("max_tokens")
        most = f", in {limit:,} tokens at most" if isinstance(limit, int) else ""
        parser = line("The published parser ", Cite((HOU,))) if elicitation.parser == "hou2025" else line("A parser")
        how = line(f"The model was asked to write its answer at temperature 0{most}", begun, ".")
        yield how if manifest.model.elsewhere is None else line("Answers were written in words.")
        yield line(parser, " read the rating from what was written.")
    if (trials := elicitation.trials) is not None and trials.tried:
        yield line(
            f"Of {len(trials.tried)} ways to obtain a rating, this one was taken for its response to the story (a "
            f"story's own emotion against a wrong one), on {trials.tried[0].n_asked} other stories without identities."
        )
    yield _outcomes(study)
    if study.is_rated:
        yield ("A refusal is missing, and never a rating of 0.",)
    else:
        yield from _measured(study)


def _outcomes(study: Study) -> Line:
    counts = study.rows["status"].astype(str).value_counts()
    n = len(study.rows)
    said = {
        "rated": "gave a rating", "refused": "were refused", "unparseable": "gave no rating that could be read",
        "failed": "gave no answer", "inexact": "told too little of their distribution to be known within the bound",
        "written": "gave a text", "cut": "gave a text that was cut at the limit of tokens",
        "empty": "gave an empty text", "other_script": "gave a text in another script",
    }  # fmt: skip
    outside = study.manifest.outside
    if study.manifest.of_another_tool and not outside.status_given:
        said["unparseable"] = "have no rating, and the table does not say why"
    parts = [f"{counts[name]:,} {words}" for name, words in said.items() if counts.get(name, 0)]
    of = f" of the {study.manifest.n_prompts:,} that the run has" if study.n_missing else ""
    return line(f"Of {plural(n, 'prompt')}{of}, {listed(parts)}.")


def _measured(study: Study) -> Iterator[Line]:
    measures = study.tables["measures"]
    scored = measures.loc[measures["status"] != "absent"]
    if len(scored):
        told = [
            line(
                PlainText(str(row["title"])),
                " (",
                PlainText(str(row["unit"])),
                ", by ",
                PlainText(str(row["scorer"])),
                ")",
            )
            for row in scored.to_dict("records")
        ]
        yield line("The texts were scored for: ", join_lines(told, "; "), ".")


# --- How it was analysed ---------------------------------------------------------------------------------------------


def _analysis(study: Study) -> Iterator[Line]:
    gaps = study.narrow
    what = MEANING if study.is_rated else OF_MEASURES
    unit = "points of the scale" if study.is_rated else "the measure's unit"
    yield line("The gap ", _DELTA, f" is {what}, on average over narratives, in {unit}.")
    if not gaps:
        return
    kinds = {str(gap["estimator"]) for gap in gaps}
    with_error: Line = (
        ()
        if study.over_conversations
        else (", with the Hartung–Knapp–Sidik–Jonkman standard error ", Cite((HARTUNG, SIDIK)))
    )
    if "contrast" in kinds:
        yield line(
            f"Within each narrative, its own valid {'ratings' if study.is_rated else 'values'} were regressed by least "
            "squares on in-group, perceiver and experiencer. The in-group coefficients of the narratives were pooled "
            "as in a random-effects meta-analysis (REML)", *with_error, ".",
        )  # fmt: skip
    if "mixed" in kinds:
        yield line(
            "Where no narrative's own ratings tell its gap, ", _DELTA, " is that of a mixed model with a random "
            "intercept and a random gap for each narrative, by REML.",
        )  # fmt: skip
    if study.over_conversations:
        yield line(
            "Utterances of one conversation are not independent: standard errors are by a jackknife that leaves out "
            "conversations ", Cite((MACKINNON,)), ".",
        )  # fmt: skip
    if any(gap["dimension"] == OVERALL for gap in gaps):
        yield line("In the mean over dimensions, each dimension counts alike.")
    free = [dimension_title(str(gap["dimension"])) for gap in gaps if study.is_free(gap)]
    if free:
        yield line(
            "Of ", told_names(free, last=" and "), ", ", _DELTA, " is of in-group pairs that have no word in common: "
            "repeated words, stems and forms were regressors, too.",
        )  # fmt: skip
    if any(map(has_interval, gaps)):
        level = study.level
        yield line(
            f"Intervals ({level}) and two-sided ", Symbol("p"), " values are of one ", Symbol("t"), " distribution. "
            "Intervals are not corrected for multiple testing.",
        )  # fmt: skip
    yield from estimability(study)
    yield from _corrected(study, gaps)
    if study.wider and study.is_rated:
        yield line(
            "Intervals for any such identities are by a jackknife over groups"
            + (", where the table has them." if len(study.wider) < len(gaps) else ".")
        )
    elif any(row["scope"] == "groups" for row in map(study.verdict, gaps) if row is not None):
        yield ("Intervals of verdicts count how much ", _DELTA, " differs between groups, too.")
    elif gaps:
        yield ("Nothing is claimed about other identities than those that were asked.",)
    yield from _margin(study)
    if study.is_rated and any("wording" in study.controls(gap) for gap in gaps):
        yield line(
            "For any such wordings, they were taken as a random factor, crossed with narratives ", Cite((JUDD,)), "."
        )


def _corrected(study: Study, gaps: list[dict[str, Any]]) -> Iterator[Line]:
    sizes = sorted({int(gap["family_size"]) for gap in gaps if is_finite(gap["family_size"])})
    if not sizes or sizes[-1] < 2:
        return
    over = f"the run's {sizes[-1]} gaps" if study.is_rated else "the measures of a dimension"
    yield line(Symbol("p"), f" values were corrected over {over} by Holm's method ", Cite((HOLM,)), ".")


def _margin(study: Study) -> Iterator[Line]:
    margin = study.manifest.statistics.margin
    if margin is None or not study.is_rated:
        return
    alpha = error_rate(study.manifest.statistics.confidence)
    counted = f"A gap of less than {unsigned(float(margin))} points counted as too small to matter"
    if not any(len(study.equivalence(gap)) for gap in study.narrow):
        yield (f"{counted}; no gap could be compared with that.",)
        return
    yield line(
        f"{counted}. Whether a gap lies within that margin was tested by two one-sided tests ", Cite((SCHUIRMANN,)),
        f", each at an error rate of {alpha}.",
    )  # fmt: skip


def _checks(study: Study) -> Iterator[Line]:
    manifest = study.manifest
    if study.is_rated and manifest.of_another_tool:
        yield (f"{NOT_CHECKED}.",)
    else:
        yield from check_sentences(study)
    noise = manifest.noise
    if study.is_rated and noise.n and noise.rms_points == noise.rms_points:
        varied = line(", with other ", PlainText(noise.varied)) if noise.varied else ()
        yield line(
            f"{plural(noise.n, 'prompt')} {either(noise.n, 'was', 'were')} asked again", varied, ": ratings differed "
            f"by {unsigned(float(noise.rms_points))} points (root mean square), {unsigned(float(noise.max_points))} at "
            "most.",
        )  # fmt: skip
    again = manifest.checks.get(ASKED_AGAIN.name)
    if not study.is_rated and again is not None:
        yield line(
            f"{plural(again.n_prompts, 'prompt')} {either(again.n_prompts, 'was', 'were')} asked again, with other ",
            PlainText(again.varied), ".",
        )  # fmt: skip
    yield from cautions(study, checks=False, gaps=not study.is_of_groups_alone)


def _software(study: Study) -> Iterator[Line]:
    manifest = study.manifest
    collected = str(manifest.versions.get("empathy-audit", ""))
    outside = manifest.of_another_tool or manifest.model.elsewhere is not None
    verb = "read" if outside else "asked, and answers collected,"
    what = "The answers were" if outside else "Prompts were"
    version = line(" ", PlainText(collected)) if collected else ()
    seed = "" if manifest.of_another_tool else f", with seed {manifest.seed}"
    yield line(f"{what} {verb} by empathy-audit", version, " ", Cite((package_of(manifest),)), f"{seed}.")
    used = manifest.analysed_by or manifest.versions
    parts = [
        line(PlainText(f"{TITLES[name]} {used[name]}"), *((" ", Cite((LIBRARIES[name],))) if name in LIBRARIES else ()))
        for name in ("numpy", "scipy", "pandas", "statsmodels")
        if name in used
    ]
    own = str(used.get("empathy-audit", ""))
    with_it = line(" ", PlainText(own)) if own else ()
    if parts:
        yield line("The analysis is by empathy-audit", with_it, " with ", join_lines(parts, ", ", last=" and "), ".")
