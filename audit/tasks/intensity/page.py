"""One run's tables, figures and manifest as one self-contained HTML page.

The page requests nothing from the network and runs only the package's own scripts: figures are data URIs, styles and
scripts are inlined, and a Content-Security-Policy forbids the rest. Model names, responses, narratives and identity
wordings are untrusted text and are escaped by Jinja2. Tables come unrounded; numbers are rounded here, by
`audit.tables.formatting`, and each says which cell of which table it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, Final

import pandas as pd
from markupsafe import Markup

from audit.report.dimensions import Key, Limit, RemarkLike, keys_of, note_on, title_of, where_noted
from audit.report.effect_size import response_mark
from audit.report.elicitation import describe_elicitation
from audit.report.explorer import Explorer
from audit.report.manifest import view_manifest
from audit.report.numbers import PlacedRow
from audit.report.page import isolated, picture, prose
from audit.report.results import Results, with_absent
from audit.report.run_page import MAX_DOWNLOADS, OTHER_PROMPTS, answer_section, asked_section, page_section, render_run
from audit.report.section import Block, Paragraph, captioned, section
from audit.report.sentences import ALONE, LIMITS, OF_METHOD, describe_gaps
from audit.report.summary import RenderedPage
from audit.runs.manifest import Manifest, ManifestError, Trials
from audit.statistics.manipulation import SHOWN, in_standard_errors
from audit.tables.formatting import MEANING, PHONE, brief, coverage
from audit.tables.run_of_ratings import OF_SOME, TABLES
from audit.tables.shared import OVERALL
from audit.tasks.intensity import dimension_tables
from audit.tasks.intensity.dimension_section import FIGURES, Rated, overall_card, told_overall
from audit.tasks.intensity.first_screen import summary_of_ratings
from audit.tasks.intensity.people_section import people_section

MAX_FIGURES: Final = 900_000  # bytes for all embedded figures together
_WITH_RATINGS: Final = Markup(
    'To see any other prompt with its rating, open a cell or a rating under <a href="#explore">Explore</a>.'
)
_prose: Final = partial(prose, "audit.tasks.intensity:prose")


def render_report(
    *,
    manifest: Manifest,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, bytes],
    remarks: Sequence[RemarkLike] = (),
    explorer: Explorer | None = None,
    max_figures: int = MAX_FIGURES,
    max_downloads: int = MAX_DOWNLOADS,
) -> RenderedPage:
    """Render the report of one run, as HTML that can be encoded as UTF-8.

    ``tables`` are indexed from 0 as they are written. ``gap`` is needed; the part of any other absent table is left
    out, as are absent figures. ``figures`` are SVG: ``gaps``, and ``KIND-<dimension>-<variant>``; those that exceed
    ``max_figures`` bytes are named. Remarks are shown with their dimension and variant, or at the top if they name none
    that was measured.
    """
    if "gap" not in tables:
        raise ManifestError(f"a report needs the table 'gap'; there are: {', '.join(tables) or 'none'}")
    view = view_manifest(manifest, shown=_without_trials(manifest.content))
    level = coverage(view.confidence)
    known = with_absent(tables, {**TABLES, **OF_SOME})
    measured = [
        key
        for key in dict.fromkeys(key for name in ("gap", "cells", "outcomes") for key in keys_of(known[name]))
        if key[0] != OVERALL
    ]
    several = len({variant for _, variant in measured}) > 1
    fitting, left_out = _fit(figures, measured, max_bytes=max_figures)
    results = Results(known, {**TABLES, **OF_SOME}, view.confidence, fitting)
    rated = [
        Rated(results, key, f"part-{place}", remarks, drawn=set(figures), view=view, several=several)
        for place, key in enumerate(measured, start=1)
    ]
    headlines = [row for row in results.rows("gap") if row["headline"]]
    titled = [(title_of((row["dimension"], row["variant"]), several=several), row) for row in headlines]
    narrow = [(title, row) for title, row in titled if row["scope"] == "narratives"]
    decided = [(title_of((row["dimension"], row["variant"]), several=several), row) for row in results.rows("verdicts")]
    drawn = decided or narrow  # an earlier version decided nothing
    overall = list(told_overall(narrow, results, remarks, view=view))
    limits = list(_limits(remarks, several=several))
    told = [*(each.told() for each in rated), *overall]
    alone = {
        (str(each.row["dimension"]), str(each.row["variant"]))
        for each in told
        if each.row is not None and each.answer.alone
    }
    limiting = {remark.text for remark in remarks if remark.code in LIMITS}
    variants = ", ".join(dict.fromkeys(brief(variant) for _, variant in measured)) or view.variant
    outside = view.of_another_tool
    ratings_by = Markup("another tool") if outside else isolated(view.method)
    explored = explorer if explorer and explorer.heatmaps else None
    codes = {remark.code for remark in remarks}
    whose = not rated or any(each.whose for each in rated)  # else no group is the model's own: nothing is said of δ
    of_groups = any(each.less is not None for each in rated)  # runs of earlier versions cannot say who gets less
    both = whose and of_groups
    summary = summary_of_ratings(
        told,
        view=view,
        who=next((who for each in rated if (who := each.who())), None),
        codes=codes,
        limits=limits,
        whose=whose,
        response=response_mark(results),
    )
    cards = [card for each in rated for card in each.cards(alone=len(rated) == 1)]
    cards += [overall_card(each) for each in overall]
    notes = [
        note_on(remark)
        for remark in remarks
        if (remark.dimension, remark.variant) not in measured and remark.text not in limiting
    ]
    echo_free = any(each.answer.control_kind == "echo_free" for each in rated)
    elicitation = describe_elicitation(
        view.method,
        scale=view.scale,
        parser=view.parser,
        asks_ends=view.asks_ends,
        begun=view.begun,
        ends=view.ends,
    )
    sections = [
        answer_section(
            "Whose side, and who gets less?" if both
            else "Does this model rate the feelings of its own group differently?" if whose
            else "Does this model rate the feelings of some groups lower?",
            summary,
            "" if whose else _prose("lede_without_perceivers", view.scale, of_groups),
            Paragraph(_prose("lede", view.scale, echo_free, both)) if whose else None,
            _prose("beneath", level, _n_corrected(known["verdicts"]), view.margin is None) if cards and whose else None,
            *notes,
            limits=limits, cards=cards, none="No dimension was measured.", folded="Each answer with its test",
        ),
        page_section(
            "gaps", "Evidence", "Evidence: whose side?" if whose else "Evidence",
            *(_gaps(results, titled, drawn, scale=view.scale, alone=alone) if whose else ()),
            *(each.part(several=len(rated) > 1) for each in rated),
            section("Do the ratings match the story?", dimension_tables.manipulation(results), look="folded"),
            section("Variants compared", dimension_tables.comparisons(results), look="folded"),
            section("Explore the pairs and the ratings", prose("explore", "explore", explored), anchor="explore",
                    look="folded") if explored else None,
            _prose("figures", left_out),
        ),
        section(
            "Groups: who gets less?", *(each.groups(several=len(rated) > 1) for each in rated), anchor="groups",
            label="Groups", look="page",
        ),
        people_section(results),
        asked_section(
            view,
            {
                "Analysed" if outside else "Run started": view.date,
                "Preset": "" if outside else isolated(view.preset),
                "Narratives": isolated(view.stimuli),
                "Prompt variant": isolated(variants),
                "Strategy": view.strategy and isolated(view.strategy),
                "Elicitation": Markup("{}, {}{}").format(
                    ratings_by, view.scale, Markup(", begun with <bdi>“{}”</bdi>").format(view.begun) * bool(view.begun)
                ),
            },
            _prose("asked", view),
            _WITH_RATINGS if explorer and not explorer.no_prompts else OTHER_PROMPTS,
            section("How ratings were obtained", Paragraph(elicitation), *_trials(results, manifest.elicitation.trials),
                    look="folded"),
            *(Paragraph(text) for text in dict.fromkeys(each.text for each in remarks if each.code in OF_METHOD)),
            section("What δ is and is not", _prose("meaning", MEANING), anchor="meaning") if whose else None,
            section("How δ is judged", _prose("verdicts"), look="folded") if whose else None,
            section("Who gets less: the disparity D", _prose("disparity"), anchor="" if whose else "meaning",
                    look="folded") if of_groups else None,
            section("How δ is estimated", _prose("method", level), look="folded") if whose else None,
        ),
    ]  # fmt: skip
    return render_run(
        view,
        summary,
        sections,
        title=f"Intergroup empathy gap: {view.model}",
        heading=Markup("Intergroup empathy gap of <bdi>{}</bdi>").format(view.model),
        kicker="report",
        tables=tables,
        cite=_prose("cite", view, variants, ratings_by, outside),
        asked=[_prose("in_language", view)] if view.language else (),
        styles=("explore.css",),
        scripts=("explore.js",),
        max_downloads=max_downloads,
    )


def _gaps(
    results: Results,
    titled: Sequence[tuple[str, PlacedRow]],
    drawn: Sequence[tuple[str, PlacedRow]],
    *,
    scale: str,
    alone: Set[Key],
) -> Iterator[Block | None]:
    """Yield what covers all dimensions; ``alone`` are those whose verdict rests on another estimate."""
    figure = captioned(
        picture(results.figures, "gaps", describe_gaps(drawn, confidence=results.confidence)),
        f"What each verdict rests on: δ with its {results.level} interval, in points of the {scale} scale. If the "
        "interval crosses the line at 0, the data are compatible with no average gap.",
    )
    several = len(drawn) > 1  # else the first screen has drawn it
    yield figure if several else None
    shown, estimated = dimension_tables.gaps(results, titled, alone=alone)
    yield shown
    if titled:
        note = _prose("gaps", len({title for title, _ in titled}), ALONE if alone else "", _has_wider(titled))
        title = "What the rows speak of, and how they were estimated"
        yield section(title, note, None if several else figure, estimated, look="folded")


def _without_trials(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest's content without the trials of the elicitation, which have a table."""
    told = content.get("elicitation")
    if not isinstance(told, Mapping):
        return dict(content)
    return {**content, "elicitation": {name: value for name, value in told.items() if name != "trials"}}


def _trials(results: Results, trials: Trials | None) -> Iterator[Block | None]:
    """Yield how the elicitation was chosen, unless it was stated."""
    if trials is not None:
        followed = any(each.chosen and in_standard_errors(each.model_dump()) >= SHOWN for each in trials.tried)
        yield _prose("trials", trials, followed)
        yield dimension_tables.trials(results)


def _has_wider(titled: Sequence[tuple[str, PlacedRow]]) -> bool:
    """Whether a gap has two intervals, one of them for other identities, too."""
    return any(row["scope"] == "narratives_and_terms" and row.number("ci_low") == row.number("ci_low")
               for _, row in titled)  # fmt: skip


def _n_corrected(verdicts: pd.DataFrame) -> int:
    """Return for how many average gaps p was corrected; means over dimensions are a family of their own."""
    single = verdicts.loc[verdicts["dimension"] != OVERALL]
    return int(single["p_adjusted"].notna().sum())


def _fit(
    figures: Mapping[str, bytes], measured: Sequence[tuple[str, str]], *, max_bytes: int
) -> tuple[dict[str, bytes], list[str]]:
    """Choose the figures that fit, the first kind of all dimensions before the second of any, and name the others."""
    names = ["gaps", *(f"{kind}-{dimension}-{variant}" for kind in FIGURES for dimension, variant in measured)]
    fitting: dict[str, bytes] = {}
    left_out = []
    room = max_bytes
    for name in names:
        drawn = {each: figures[each] for each in (name, f"{PHONE}{name}") if each in figures}
        size = 4 * sum(map(len, drawn.values())) // 3
        if name in figures and size <= room:
            fitting |= drawn
            room -= size
        elif name in figures:
            left_out.append(name)
    return fitting, left_out


def _limits(remarks: Sequence[RemarkLike], *, several: bool) -> Iterator[Limit]:
    """Yield the lines of the banner: each limit once, with the dimensions concerned."""
    for code, (title, why) in LIMITS.items():
        own = [remark for remark in remarks if remark.code == code and code not in OF_METHOD]
        if own:
            texts = list(dict.fromkeys(remark.text for remark in own))
            yield Limit(title, where_noted(own, several=several), texts[0] if len(texts) == 1 else f"{why}.")
