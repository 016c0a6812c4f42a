"""Section on what a strategy's stages wrote about each group: a sentence, tables, marked words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from markupsafe import Markup

from audit.report.numbers import PlacedRow, show
from audit.report.results import Results
from audit.report.section import Captioned, Paragraph, Section, captioned, section
from audit.report.table_layout import ShownColumn, ShownTable, said
from audit.tables.formatting import brief, count, either, error_rate, fixed, magnitude, p_value, unsigned
from audit.tables.stages import THEME

FIGURE_CAPTION: Final = (
    "What the stages wrote about each group, compared with the others. Filled marks: the corrected p is below the "
    "level."
)
_MEASURES: Final = {
    "stereotype_words": "stereotype words per 100",
    "sentiment": "sentiment, −1 to 1",
    "emotion_named": "names an emotion, % of texts",
    "emotion_accuracy": "names the narrative's emotion, % of texts that name one",
    "n_words": "length in words",
    "refused": "refused, % of texts",
}
_SAID: Final = {
    "stereotype_words": ("had {} more stereotype words per 100 words", "had {} fewer stereotype words per 100 words"),
    "sentiment": ("had a sentiment higher by {}", "had a sentiment lower by {}"),
    "emotion_named": (
        "named an emotion {} percentage points more often",
        "named an emotion {} percentage points less often",
    ),
    "emotion_accuracy": (
        "named the narrative's emotion, where they named one, {} percentage points more often",
        "named the narrative's emotion, where they named one, {} percentage points less often",
    ),
    "n_words": ("had {} more words", "had {} fewer words"),
    "refused": ("had {} percentage points more refusals", "had {} percentage points fewer refusals"),
}
"""Sentences for a group whose texts have more of a score, and less."""
_SPEAKS: Final = {
    "narratives": "Intervals and p are over narratives: they cover narratives like these, for exactly these "
    "identities.",
    "perceivers": "Stages that write the same for every narrative have one text per pair of identities. Their "
    "intervals and p are over perceivers, who are few.",
}
_EMOTIONS: Final = (
    "A text names an emotion if it has a word for it. An emotion that is only described is missed, and a word close to "
    "the narrative's emotion may count as another one. A text that names several emotions is right if one of them is. "
    "A stage that does not see the narrative can be right only by chance."
)
_MARKED: Final = (
    "words that are more frequent in texts about a group than in the others (z; count there, and count in the others)"
)
_CRUDE: Final = Markup(
    "Baselines are left out. These scores are crude: they are made for English and count words without context. We "
    "made the packaged list of stereotype words; it was not normed on people. One such word is not yet a stereotype: "
    "words of prayer are expected in texts about religions. Sentiment comes from VADER, a lexicon with rules for short "
    "messages. The length of a text that was cut says little. A difference does not say why the texts differ. Equal "
    "scores do not show that the texts are free of stereotypes: read some of them. A strategy that makes δ smaller by "
    "writing stereotypes is no improvement."
)
_LOG_ODDS: Final = (
    "Marked words: weighted log odds with an informative Dirichlet prior (Monroe, Colaresi and Quinn 2008). Each "
    "distinct text counts once; words must be in at least three texts; words of the identities are left out. Words of "
    "one text are not independent, so use z to rank words: its p is too small."
)
_NAMED: Final = 6
_SHOWN: Final = 40


def text_section(own: Results, figure: Captioned | None = None) -> Section | None:
    """Make the section of one dimension and variant; None if no stage wrote anything."""
    rows = own.rows("stage_texts")
    if not rows:
        return None
    refusals = any(row["measure"] == "refused" and row.number("mean") > 0 for row in rows)
    stages = {str(row["stage"]): own.rows("stage_texts", stage=row["stage"]) for row in rows}
    declined = "" if refusals else " No text contains a phrase that declines the task."
    speaks = (
        *(words for units, words in _SPEAKS.items() if any(row["units"] == units for row in rows)),
        *([_EMOTIONS] if any(row["measure"] == "emotion_named" for row in rows) else []),
    )
    marked = [captioned(_marked(own, stage), f"{own.title}, stage {stage}: {_MARKED}") for stage in stages]
    none = "" if any(marked) else "No word stands out after correction. "
    return section(
        "What the strategy wrote about each group",
        Paragraph(_lead(rows, confidence=own.confidence, several=len(stages) > 1) + declined),
        figure,
        Paragraph(Markup("{} {}").format(" ".join(speaks), _CRUDE), "small"),
        section(
            "Scores, themes and marked words of the texts",
            *(_scores(own, of, stage, refusals=refusals) for stage, of in stages.items()),
            *(
                captioned(
                    _themes(of), f"{own.title}, stage {stage}: stereotype words by theme, per 100 words (not tested)"
                )
                for stage, of in stages.items()
            ),
            *marked,
            Paragraph(f"{none}{_LOG_ODDS}", "small"),
            look="folded",
        ),
        look="texts",
    )


def _lead(rows: Sequence[PlacedRow], *, confidence: float, several: bool) -> Markup:
    """Say what differs after correction."""
    tested = [row for row in rows if math.isfinite(row.number("p_adjusted"))]
    level = error_rate(confidence)
    constant = [row for row in rows if row["constant"]]
    if not tested and not constant:
        return Markup("Differences between groups could not be tested; the table says why.")
    size = show((tested or constant)[0], "family_size", count)
    noun = either((tested or constant)[0].number("family_size"), "test", "tests")
    found = sorted(
        (*constant, *(row for row in tested if row.number("p_adjusted") < 1 - confidence)),
        key=lambda row: (list(_SAID).index(row["measure"]), not row["constant"], row.number("p_adjusted")),
    )
    if not found:
        return Markup(
            "No difference between groups was found in these scores (p below {} after correction for {} {}). There may "
            "still be one."
        ).format(level, size, noun)
    named = Markup("; ").join(_difference(row, several=several) for row in found[:_NAMED])
    more = f"; and {len(found) - _NAMED} more, in the table" if len(found) > _NAMED else ""
    return Markup("Compared with the other groups, after correction for {} {}, texts about {}{}.").format(
        size, noun, named, more
    )


def _difference(row: PlacedRow, *, several: bool) -> Markup:
    """Write a difference, as in "Muslim had 2.31 more stereotype words per 100 words (p = .012)"."""
    what = Markup(_SAID[row["measure"]][int(row.number("difference") < 0)]).format(show(row, "difference", magnitude))
    where = f" in stage {row['stage']}" if several else ""
    how = f"the same in all {row['units']}" if row["constant"] else show(row, "p_adjusted", p_value)
    return Markup("<bdi>{}</bdi> {}{} ({})").format(brief(str(row["group"])), what, where, how)


def _scores(own: Results, rows: Sequence[PlacedRow], stage: str, *, refusals: bool) -> Captioned | None:
    measures = [measure for measure in _MEASURES if measure != "refused" or refusals]
    shown = [row for measure in measures for row in rows if row["measure"] == measure]
    caption = f"{own.title}, stage {stage}: scores of the texts about each group, and of the texts about the others"
    accuracy = [row for row in shown if row["measure"] == "emotion_accuracy"]
    if accuracy and not any(math.isfinite(row.number("mean")) for row in accuracy):  # said once instead of dashes
        caption += f"; whether they name the narrative's emotion is unknown: {accuracy[0]['note']}"
        shown = [row for row in shown if row["measure"] != "emotion_accuracy"]
    if len(shown) > _SHOWN:
        chosen = sorted(shown, key=lambda row: (math.isnan(row.number("p")), row.number("p")))[:_SHOWN]
        lines = {row.line for row in chosen}
        caption += f"; the {_SHOWN} of {len(shown)} with the smallest p, all are in tables/stage_texts.csv"
        shown = [row for row in shown if row.line in lines]
    notes = Counter(str(row["note"]) for row in shown)
    common, n_common = notes.most_common(1)[0]
    noted = len(notes) > 1
    once = common if not noted or ("" not in notes and 2 * n_common > len(shown)) else ""
    if once:
        caption += f"; {'where the table has no note, ' if noted else ''}{once}"
    note = ShownColumn("note", lambda row: row["note"] if row["note"] != once else "", words=True)
    return replace(own, title="").table(
        "stage_texts", caption,
        "group", said("measure", "score", _MEASURES), ("mean", "about the group"), ("mean_others", "about the others"),
        "difference", "ci_low", "p_adjusted",
        ShownColumn("over", lambda row: Markup("{} {}").format(show(row, "n_units", count), row["units"])),
        ShownColumn("distinct texts", _counted), *([note] if noted else []),
        rows=shown,
    )  # fmt: skip


def _counted(row: PlacedRow) -> Markup:
    """Write how many texts there are, how many have the score, and how many prompts have no text."""
    lacking = [kind for kind in ("empty", "failed") if row[f"n_{kind}"]]
    unscored = row["n_scored"] < row["n_texts"]
    return Markup(", ").join(
        [
            show(row, "n_texts", count),
            *([Markup("{} with a score").format(show(row, "n_scored", count))] if unscored else []),
            *(Markup("{} {}").format(show(row, f"n_{kind}", count), kind) for kind in lacking),
        ]
    )


def _themes(rows: Sequence[PlacedRow]) -> ShownTable | None:
    """Show the themes that occur in any text, a column each."""
    of_theme: dict[str, dict[str, PlacedRow]] = {}
    for row in rows:
        if str(row["measure"]).startswith(THEME):
            of_theme.setdefault(str(row["measure"]), {})[str(row["group"])] = row
    used = [theme for theme, own in of_theme.items() if any(row.number("mean") > 0 for row in own.values())]
    if not used:
        return None
    return ShownTable(
        ("group", *(theme.removeprefix(THEME).replace("_", " ") for theme in used)),
        tuple(
            (
                Markup("<bdi>{}</bdi>").format(brief(group)),
                *(show(of_theme[theme][group], "mean", unsigned) for theme in used),
            )
            for group in of_theme[used[0]]
        ),
    )


def _marked(own: Results, stage: str) -> ShownTable | None:
    """Show each group's marked words whose corrected p is below the level; None if there are none."""
    of_group: dict[str, list[Markup]] = {str(row["group"]): [] for row in own.rows("stage_texts", stage=stage)}
    for word in own.rows("marked_words", stage=stage):
        if word.number("p_adjusted") < 1 - own.confidence:
            of_group[str(word["group"])].append(
                Markup("<bdi>{}</bdi> ({}; {}, {})").format(
                    brief(str(word["word"]), at_most=40),
                    show(word, "z", lambda z: fixed(z, decimals=1)),
                    show(word, "n_group", count),
                    show(word, "n_others", count),
                )
            )
    if not any(of_group.values()):
        return None
    return ShownTable(
        ("group", "marked words"),
        tuple(
            (Markup("<bdi>{}</bdi>").format(brief(group)), Markup(" · ").join(found) or "none")
            for group, found in of_group.items()
        ),
        words=frozenset((1,)),
    )
