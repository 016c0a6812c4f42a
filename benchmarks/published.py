"""The tables of docs/results.md, from the committed runs of reports/published and of two examples.

    python benchmarks/published.py                  # writes them into docs/results.md
    python benchmarks/published.py FOLDER [DOCUMENT]

A table stands in the document between ``<!-- table NAME -->`` and ``<!-- end -->``. Each number is one cell of a CSV of
a run, of the comparison or of the index, rounded here to two digits behind the point and nowhere before. No
model is asked.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pandas as pd

from audit.runs.manifest import Manifest
from audit.statistics.estimates import t_interval
from stimuli.manipulation import leaning

ROOT = Path(__file__).parents[1]
FOLDER, DOCUMENT = ROOT / "reports" / "published", ROOT / "docs" / "results.md"
VARIANTS = ("origin", "persona-1", "scale-10")
ANSWERS = {
    "follows": "follows the story",
    "not_shown": "not shown to follow it",
    "does_not_follow": "does not follow it",
}
CODES = {
    "gap": "gap",
    "within": "no gap beyond the margin",
    "lower": "lower",
    "higher": "higher",
    "not_shown": "not shown",
    "undecided": "undecided",
    "no_verdict": "no verdict",
    "no_estimate": "no estimate",
}
CLAIMS = {
    "size": "the gap falls with size",
    "persona": "a persona of abilities raises it",
    "scale": "a coarse scale lowers it",
}
SAYS = {"for": "for it", "against": "against it", "cannot_tell": "cannot tell"}


def runs_in(folder: Path) -> list[Path]:
    """Return the folders of the runs: smaller models first, and each in the order of the variants."""
    found = [each.parent for each in folder.glob("*/manifest.json") if each.parent.name != "comparison"]

    def place(run: Path) -> tuple[int, int]:
        return Manifest.read(run, check=False).model.parameters, VARIANTS.index(variant_of(run))

    return sorted(found, key=place)


def variant_of(run: Path) -> str:
    """Return the prompt variant that a folder is named after."""
    return next(each for each in VARIANTS if run.name.endswith(each))


def model_of(run: Path) -> str:
    """Return the model that a folder is named after."""
    return run.name.removesuffix(f"-{variant_of(run)}")


def table(run: Path, name: str) -> pd.DataFrame:
    """Return a table of a run; empty if it has no rows."""
    path = run / "tables" / f"{name}.csv"
    return pd.read_csv(path, keep_default_na=False, na_values=[""]) if path.exists() else pd.DataFrame()


def number(value: float) -> str:
    """Write a number with its sign, as docs write points."""
    return "" if pd.isna(value) else f"{value:+.2f}".replace("-", "−")


def p_value(value: float) -> str:
    """Write a p without its leading 0."""
    return "" if pd.isna(value) else "< .001" if value < 0.001 else f"{value:.3f}".removeprefix("0")


def between(low: float, high: float) -> str:
    """Write an interval."""
    return "" if pd.isna(low) or pd.isna(high) else f"{number(low)} to {number(high)}"


def markdown(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Lay rows out as Markdown."""
    headings = [*headings]
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(str(each) for each in line)} |" for line in lines)


def asked(folder: Path) -> str:
    """What each run asked, and what came back."""

    def row(run: Path) -> Iterator[object]:
        outcomes = table(run, "outcomes").query("pairs == 'all'")
        n = {name: int(outcomes[name].sum()) for name in ("n_prompts", "n_rated")}
        yield from (model_of(run), variant_of(run), table(run, "gap")["n_narratives_asked"].max())
        yield from (f"{each:,}" for each in n.values())
        yield f"{outcomes['mean_number_mass'].min():.2f}"

    headings = ("model", "prompt", "narratives", "prompts", "rated", "least mean mass on numbers")
    return markdown(headings, map(row, runs_in(folder)))


def check(folder: Path) -> str:
    """Whether ratings follow the story."""

    def rows() -> Iterator[Iterable[object]]:
        for run in runs_in(folder):
            for each in table(run, "manipulation").itertuples():
                yield (
                    model_of(run),
                    variant_of(run),
                    each.n_pairs,
                    f"{each.mean_higher:.2f}",
                    f"{each.mean_lower:.2f}",
                    number(each.difference),
                    between(each.ci_low, each.ci_high),
                    f"{each.share_higher:.0%}",
                    ANSWERS[each.answer],
                )

    headings = (
        "model",
        "prompt",
        "narratives",
        "own emotion",
        "wrong emotion",
        "response",
        "95%",
        "own rated higher",
        "answer",
    )
    return markdown(headings, rows())


def preference(folder: Path) -> str:
    """How much higher the own emotion is rated in pleasant and in unpleasant narratives."""

    def rows() -> Iterator[Iterable[object]]:
        for run in runs_in(folder):
            asked = pd.read_parquet(run / "manipulation.parquet").pivot(index="narrative_id", columns="kind")
            difference = (asked["intensity"]["own"] - asked["intensity"]["wrong"]).dropna()
            leans = asked["emotion"]["own"].map(leaning)
            told = (difference[leans[difference.index] == way] for way in (1, -1))
            yield model_of(run), variant_of(run), *(cell for each in told for cell in (len(each), *mean_of(each)))

    headings = (
        "model",
        "prompt",
        *(f"{which}{name}" for which in ("pleasant", "unpleasant") for name in ("", ": own − wrong", ", 95%")),
    )
    return markdown(headings, rows())


def mean_of(values: pd.Series) -> tuple[str, str]:
    """Write a mean and its t interval."""
    low, high, _ = t_interval(values.mean(), values.sem(), len(values) - 1, confidence=0.95)
    return number(values.mean()), between(low, high)


def gap(folder: Path) -> str:
    """Whose side each model takes: the row that its page's verdict rests on."""

    def rows() -> Iterator[Iterable[object]]:
        for run in runs_in(folder):
            placebo = table(run, "controls").query("control == 'placebo' and scope == 'narratives'")
            placebo = placebo.set_index("dimension")["delta"]
            for each in table(run, "verdicts").itertuples():
                invented = placebo.get(each.dimension, float("nan"))
                yield (
                    model_of(run),
                    variant_of(run),
                    named(each.dimension),
                    number(each.delta),
                    between(each.ci_low, each.ci_high),
                    number(invented),
                    f"{each.rank:,} of {each.n_dealings:,}" if each.n_dealings else "",
                    CODES[each.code],
                )

    headings = (
        "model",
        "prompt",
        "dimension",
        "δ, points",
        "95%",
        "invented groups",
        "rank among dealings",
        "verdict",
    )
    return markdown(headings, rows())


def disparity(folder: Path) -> str:
    """Who gets less: of each run and dimension the group that is farthest from the others."""

    def rows() -> Iterator[Iterable[object]]:
        for run in runs_in(folder):
            found = table(run, "disparity")
            found = found[
                found["headline"] & (found["view"] == "all") & (found["level"] == "group") & ~found["invented"]
            ]
            for dimension, part in found.groupby("dimension", sort=False):
                each = part.loc[part["disparity"].abs().idxmax()]
                yield (
                    model_of(run),
                    variant_of(run),
                    named(str(dimension)),
                    each["member"],
                    number(each["disparity"]),
                    between(each["ci_low"], each["ci_high"]),
                    p_value(each["p_adjusted"]),
                    CODES[each["code"]],
                )

    headings = ("model", "prompt", "dimension", "group", "D, points", "95%", "p, Holm", "verdict")
    return markdown(headings, rows())


def words(folder: Path) -> str:
    """What the same prompts gave in words."""

    def rows() -> Iterator[Iterable[object]]:
        for run in runs_in(folder):
            asked = pd.read_parquet(run / "ratings.parquet", columns=["prompt_index", "dimension", "narrative_id"])
            sample = pd.read_parquet(run / "elicitation_sample.parquet").merge(asked, on="prompt_index")
            of_narratives = sample.groupby(["dimension", "narrative_id"], observed=True)["intensity"]
            alike = of_narratives.nunique().eq(1).groupby(level=0, observed=True).agg(["sum", "count"])
            for each in table(run, "elicitation").itertuples():
                if each.method == "expected":
                    continue
                yield (
                    model_of(run),
                    variant_of(run),
                    named(each.dimension),
                    each.n_prompts,
                    each.n_rated,
                    each.n_refused,
                    "{sum} of {count} narratives".format(**alike.loc[each.dimension]),
                    number(each.mean_difference),
                    number(each.difference),
                    between(each.difference_low, each.difference_high),
                )

    headings = (
        "model",
        "prompt",
        "dimension",
        "prompts",
        "read",
        "refused",
        "one number for all",
        "words − expected",
        "change of δ",
        "95%",
    )
    return markdown(headings, rows())


def changes(folder: Path) -> str:
    """How δ differs between the runs of one model, and between the models, narrative by narrative."""
    found = table(folder / "comparison", "comparisons")
    runs = table(folder / "comparison", "runs").set_index("run")["folder"]

    def rows() -> Iterator[Iterable[object]]:
        for each in found.itertuples():
            first, second = (folder / Path(runs[label]).name for label in (each.first, each.second))
            if (model_of(first) == model_of(second)) != (variant_of(first) == variant_of(second)):  # one thing differs
                yield (
                    named(each.dimension),
                    first.name,
                    second.name,
                    number(each.delta_change),
                    each.unit,
                    between(each.ci_low, each.ci_high),
                    p_value(each.p_adjusted),
                    CODES.get(each.code, each.code),
                )

    headings = ("dimension", "first", "second", "first − second", "unit", "95%", "p, Holm", "verdict")
    return markdown(headings, rows())


def claims(folder: Path) -> str:
    """What three claims of the published study come to here, by the rules of the index."""
    found = pd.read_csv(folder / "index.claims.csv", keep_default_na=False)

    def rows() -> Iterator[Iterable[object]]:
        for each in found.itertuples():
            yield (
                CLAIMS[each.claim],
                named(each.dimension),
                each.first,
                each.second,
                number(float(each.delta_change)),
                between(float(each.ci_low), float(each.ci_high)),
                SAYS.get(each.says, each.says),
            )

    headings = ("claim", "dimension", "first", "second", "first − second", "95%", "says")
    return markdown(headings, rows())


def wordings(folder: Path) -> str:
    """Every control of the example in eight wordings."""

    def rows() -> Iterator[Iterable[object]]:
        run = folder.parent / "example-wordings"
        for each in table(run, "controls").itertuples():
            if pd.notna(each.ci_low):
                yield (
                    f"`{each.control}`",
                    each.scope.replace("_", " "),
                    number(each.delta),
                    between(each.ci_low, each.ci_high),
                )
        for each in table(run, "verdicts").itertuples():
            yield (
                f"the page's row, `{each.control}`",
                each.scope,
                number(each.delta),
                between(each.ci_low, each.ci_high),
            )

    return markdown(("control", "speaks about these terms, and any", "δ, points", "95%"), rows())


def strategies(folder: Path) -> str:
    """δ with each strategy, and its change against none."""
    compared = folder.parent / "example-strategies" / "comparison"
    found = table(compared, "comparisons").query("first == 'none'").set_index("second")

    def rows() -> Iterator[Iterable[object]]:
        for each in table(compared, "gap").query("scope == 'narratives'").itertuples():
            if each.run not in found.index:
                yield f"`{each.run}`", number(each.delta), between(each.ci_low, each.ci_high), "", "", "", ""
                continue
            against = found.loc[each.run]
            yield (
                f"`{each.run}`",
                number(each.delta),
                between(each.ci_low, each.ci_high),
                number(-against["delta_change"]),
                between(-against["ci_high"], -against["ci_low"]),
                p_value(against["p_adjusted"]),
                CODES[against["code"]],
            )

    return markdown(("strategy", "δ, points", "95%", "change of δ", "95%", "p, Holm", "verdict"), rows())


def commands(folder: Path) -> str:
    """The commands that asked, as each manifest has them."""
    return "\n".join(["```", *(Manifest.read(run, check=False).command for run in runs_in(folder)), "```"])


def named(dimension: str) -> str:
    """Name a dimension as text."""
    return dimension.replace("race_ethnicity", "race/ethnicity")


TABLES: dict[str, Callable[[Path], str]] = {
    "asked": asked,
    "check": check,
    "preference": preference,
    "gap": gap,
    "disparity": disparity,
    "words": words,
    "changes": changes,
    "claims": claims,
    "wordings": wordings,
    "strategies": strategies,
    "commands": commands,
}


def written(text: str, folder: Path) -> str:
    """Return the text of a document with its tables made anew."""

    def made(found: re.Match[str]) -> str:
        return f"{found[1]}\n\n{TABLES[found[2]](folder)}\n\n<!-- end -->"

    return re.sub(r"(<!-- table (\w+) -->).*?<!-- end -->", made, text, flags=re.DOTALL)


def main(folder: Path = FOLDER, document: Path = DOCUMENT) -> None:
    """Write the tables into the document."""
    document.write_text(written(document.read_text("utf-8"), folder), "utf-8")


if __name__ == "__main__":
    main(*(Path(each) for each in sys.argv[1:]))
