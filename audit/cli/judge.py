"""``judge``: has a model compare the replies of two runs, in both orders; or compares its scores with people's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from audit.cli.terminal.base import OK, Command
from audit.cli.terminal.options import Option, Usage, a_path, a_text, one_of, whole_from
from audit.cli.terminal.printing import note, percent, print_table, say, tell
from audit.errors import command_line
from audit.tables.formatting import bare_p, count, coverage, dimension_title, interval, plural, points

if TYPE_CHECKING:
    from audit.comparing.preference.judging import Judgement
    from audit.comparing.validation import Validation

_MODEL: Final[Option[str | None]] = Option(
    "model", a_text, None, "the judge: a folder or hub id of a model that follows instructions", "PATH"
)
_METHOD: Final[Option[Literal["expected", "generate"]]] = Option(
    "method",
    one_of("expected", "generate"),
    "expected",
    "expected = use the probabilities of the answers A and B; generate = read what the judge writes",
)
_RUBRIC: Final = Option("rubric", a_text, "empathy", "one of the packaged rubrics")
_RUBRIC_FILE: Final[Option[Path | None]] = Option("rubric_file", a_path, None, "a rubric of your own", "FILE")
_CRITERION: Final[Option[str | None]] = Option(
    "criterion", a_text, None, "a criterion of the rubric; default: the first", "NAME"
)
_N: Final[Option[int | None]] = Option(
    "n", whole_from(1), None, "number of narratives, drawn by seed; default: all", "NARRATIVES"
)
_SEED: Final = Option("seed", whole_from(0), 0, "random seed of the narratives and the engine")
_ENGINE: Final[Option[Literal["own", "auto", "vllm", "transformers"]]] = Option(
    "engine",
    one_of("own", "auto", "vllm", "transformers"),
    "own",
    "vllm, transformers or auto; own = the engine of the first run",
)
_BASE_URL: Final[Option[str | None]] = Option(
    "base_url", a_text, None, "the address of an OpenAI-compatible server that runs the judge", "URL"
)
_API_KEY_ENV: Final[Option[str | None]] = Option(
    "api_key_env", a_text, None, "the environment variable with the server's key", "NAME"
)
_RUN_DIR: Final[Option[Path | None]] = Option("run_dir", a_path, None, "folder for the comparison", "OUT")
_USAGE: Final = Usage(
    "judge",
    "RUN_A RUN_B",
    needed=(_MODEL,),
    options=(_METHOD, _RUBRIC, _RUBRIC_FILE, _CRITERION, _N, _SEED, _ENGINE, _BASE_URL, _API_KEY_ENV, _RUN_DIR),
)

_LABELS: Final[Option[Path | None]] = Option(
    "labels",
    a_path,
    None,
    "people's scores: a CSV or Excel file with prompt_index, score and, if several, rater",
    "FILE",
)
_MEASURE: Final[Option[str | None]] = Option(
    "measure", a_text, None, "the measure that people scored, too; default: the run's only judged measure", "NAME"
)
_QUESTION: Final[Option[str | None]] = Option(
    "question", a_text, None, "the question to take, if the file has a column question with several", "NAME"
)
_VALIDATE: Final = Usage("judge validate", "RUN", needed=(_LABELS,), options=(_MEASURE, _QUESTION))

_HELP: Final = """
A judge model compares the replies of two runs with task=reply on the same narratives and identities (two models, or
two strategies): which reply is better by a criterion. Each pair is asked twice, in both orders. Writes how often the
first run's replies are preferred, in-group and out-group, and how much the judge favours a position, to
OUT/judgement.html and OUT/tables (OUT defaults to reports/judged-<hash>). To continue an interrupted comparison, give
the same command again.

{options}

"""
_VALIDATE_HELP: Final = """
Compares a measure of a run with task=reply, such as a judge's, with people's scores of a random sample of its replies
(RUN/people/ratings.csv after people import, or a file of yours). Writes how far people agree with each other and with
the measure, for which group the measure is off, and every gap corrected by people's scores, to RUN/validation/MEASURE.

{options}
"""


def _judge(words: Sequence[str]) -> int:
    if words[:1] == ["validate"]:
        return _validate(words[1:])
    from audit.comparing.preference.judging import JudgeSettings, judge_runs

    given = _USAGE.read(words)
    judged = judge_runs(
        [Path(folder) for folder in given.places],
        JudgeSettings(
            model=given[_MODEL],
            method=given[_METHOD],
            rubric=given[_RUBRIC],
            rubric_file=given[_RUBRIC_FILE],
            criterion=given[_CRITERION],
            n_narratives=given[_N],
            seed=given[_SEED],
            engine=given[_ENGINE],
            base_url=given[_BASE_URL],
            api_key_env=given[_API_KEY_ENV],
        ),
        out=given[_RUN_DIR],
        reports_dir=Path("reports"),
        command=command_line("judge", *words),
        say=say,
    )
    _show(judged)
    return OK


def _show(judged: Judgement) -> None:
    for text in judged.remarks:
        note(text)
    level = coverage(judged.confidence)
    head = ("dimension", "pairs", "preferred (%)", f"{level} interval", "corrected p", "position bias (points)")
    lines: list[tuple[str, ...]] = [(*head, f"{level} interval", "contradictions (%)", "from")]
    for row in judged.preference.to_dict("records"):
        gap = row["pairs"] == "gap"
        lines.append(
            (
                dimension_title(row["dimension"]),
                "in-group less out-group" if gap else row["pairs"].replace("_", "-"),
                percent(row, "preference", signed=gap),
                percent(row, "ci_low", "ci_high", signed=gap),
                bare_p(row["p_adjusted"]),
                "" if gap else percent(row, "position_bias", signed=True),
                "" if gap else percent(row, "bias_low", "bias_high", signed=True),
                "" if gap else percent(row, "inconsistent", signed=False),
                f"{count(row['n_read'])} of {plural(row['n_pairs'], 'pair')}, "
                f"{plural(row['n_narratives'], 'narrative')}",
            )
        )
    tell(f"preferred: the replies of {judged.labels[0]} over those of {judged.labels[1]}")
    print_table(lines)
    tell(f"page: {judged.page}")


def _validate(words: Sequence[str]) -> int:
    from audit.comparing.validation import validate_measure

    given = _VALIDATE.read(words)
    found = validate_measure(
        given.one_folder(),
        labels=given.need(_LABELS, to="compare a measure with people"),
        measure=given[_MEASURE],
        question=given[_QUESTION],
        command=command_line("judge", "validate", *words),
    )
    _show_validation(found)
    return OK


def _show_validation(found: Validation) -> None:
    for text in found.remarks:
        note(text)
    level = coverage(found.confidence)
    gaps = found.tables["corrected_gaps"]
    alone = gaps.loc[gaps["estimator"] == "measure"].set_index(["dimension", "gap", "group"])["estimate"]
    head = ("dimension", "gap", "measure alone", "corrected", f"{level} interval", "corrected p", "labelled replies")
    lines: list[tuple[str, ...]] = [head]
    for row in gaps.loc[gaps["headline"]].to_dict("records"):
        name = "in-group minus out-group" if row["gap"] == "delta" else f"{row['group']} minus the others"
        if row["note"]:
            note(f"{row['dimension']}, {name}: {row['note']}")
        own = alone.get((row["dimension"], row["gap"], row["group"]), float("nan"))
        ends = interval(row["ci_low"], row["ci_high"])
        lines.append(
            (dimension_title(row["dimension"]), name, points(own), points(row["estimate"]), ends,
             bare_p(row["p_adjusted"]), count(row["n_labels"]))
        )  # fmt: skip
    print_table(lines)
    for row in found.tables["measure_errors"].to_dict("records"):
        if row["code"] in ("higher", "lower"):
            whom = "in-group replies" if row["pairs"] == "in_group" else f"replies to {row['group']}"
            tell(
                f"{dimension_title(row['dimension'])}: {whom} are scored {row['code']} than by people, compared with "
                f"the others: {points(row['difference'])} ({interval(row['ci_low'], row['ci_high'])})"
            )
    tell(f"page: {found.page}")


COMMAND: Final = Command(
    "judge",
    "have a model compare two runs' replies, pair by pair; or compare a judge's scores of one run with people's",
    lambda: _USAGE.help(_HELP) + _VALIDATE.help(_VALIDATE_HELP),
    _judge,
    usages=(_USAGE, _VALIDATE),
)
