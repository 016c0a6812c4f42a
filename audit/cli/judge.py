"""``judge``: has a model compare the replies of two runs, pair by pair, in both orders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from audit.cli.terminal.base import OK, Command
from audit.cli.terminal.options import Option, Usage, a_path, a_text, one_of, option_lines, usage_lines, whole_from
from audit.cli.terminal.printing import note, percent, print_table, say, tell
from audit.errors import command_line
from audit.tables.formatting import bare_p, count, coverage, dimension_title, plural

if TYPE_CHECKING:
    from audit.comparing.preference.judging import Judgement

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

_HELP: Final = """
A judge model compares the replies of two runs with task=reply on the same narratives and identities (two models, or
two strategies): which reply is better by a criterion. Each pair is asked twice, in both orders. Writes how often the
first run's replies are preferred, in-group and out-group, and how much the judge favours a position, to
OUT/judgement.html and OUT/tables (OUT defaults to reports/judged-<hash>). To continue an interrupted comparison, give
the same command again.

{options}
"""


def _help() -> str:
    return usage_lines(_USAGE) + _HELP.format(options=option_lines(*_USAGE.needed, *_USAGE.options))


def _judge(words: Sequence[str]) -> int:
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


COMMAND: Final = Command(
    "judge",
    "have a model compare the replies of two runs, pair by pair, in both orders",
    _help,
    _judge,
    usages=(_USAGE,),
)
