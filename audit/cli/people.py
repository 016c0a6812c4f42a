"""``people``: has people rate a run's replies or narratives, or choose between two runs, and imports their files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from audit.cli.outcome import show_outcome
from audit.cli.terminal.base import OK, Command
from audit.cli.terminal.options import (
    Option,
    Usage,
    a_path,
    a_text,
    option_lines,
    see,
    true_or_false,
    usage_lines,
    whole_from,
)
from audit.cli.terminal.printing import note, percent, print_table, tell
from audit.errors import ConfigError, command_line
from audit.tables.formatting import bare_p, count, coverage, dimension_title

if TYPE_CHECKING:
    from audit.comparing.preference.human_choices import PeopleChoices

_SEED: Final = Option("seed", whole_from(0), 0, "random seed")
_N: Final = Option("n", whole_from(1), 100, "number of replies, or of pairs")
_MASK: Final = Option(
    "mask_experiencer", true_or_false, False, "true = also hide the experiencer's identity from raters"
)
_QUESTIONS: Final[Option[Path | None]] = Option("questions", a_path, None, "your own questions", "FILE")
_FORM: Final[Option[str | None]] = Option(
    "form", a_text, None, "what is asked, see above; default intensity", "intensity|norming"
)
_PER_LIST: Final[Option[int | None]] = Option("n", whole_from(1), None, "narratives per list", "24")
_LISTS: Final[Option[int | None]] = Option(
    "lists", whole_from(1), None, "number of lists; default: enough for a full rotation, or for all narratives", "N"
)
_INTRODUCTION: Final[Option[Path | None]] = Option(
    "introduction", a_path, None, "a text that raters read first, such as a consent form", "FILE"
)
_RUN_DIR: Final[Option[Path | None]] = Option(
    "run_dir", a_path, None, "the new folder, with the pairs and the forms", "OUT"
)
_OF_FORM: Final[Option[str | None]] = Option("form", a_text, None, "the form that raters filled in", "norming")

_REPLIES: Final = Usage("people export", "RUN_DIR", options=(_N, _SEED, _MASK, _QUESTIONS))
_NARRATIVES: Final = Usage("people export", "RUN_DIR", options=(_FORM, _PER_LIST, _LISTS, _SEED, _INTRODUCTION))
_ONE_RUN: Final = Usage("people export", "RUN_DIR", options=(*_NARRATIVES.options, _MASK, _QUESTIONS))
_IMPORT: Final = Usage("people import", "RUN_DIR FILE ...", options=(_OF_FORM,))
_PAIRS: Final = Usage("people export", "RUN_A RUN_B", options=(_N, _SEED, _MASK, _QUESTIONS, _RUN_DIR))
_IMPORT_PAIRS: Final = Usage("people import", "OUT FILE ...")

_HELP: Final = """
For a run with task=reply, export draws n replies, half of them in-group, and writes to RUN_DIR/people:
  raters/form.html   a page for raters, which works offline and saves a CSV; raters/items.csv is for spreadsheets
  key.csv            which reply belongs to which identities: never send it to raters
  questions.yaml     what is asked

{replies}

For a run of ratings, export writes a page and a spreadsheet for each list, raters/list-1.html and so on:
  form=intensity   raters say which groups they belong to, then rate narratives by experiencers of all groups, as the
                   model did; a narrative's experiencer rotates over the lists. Written to RUN_DIR/people
  form=norming     readers say which emotion a narrative without any identity expresses, how intense it is, and how
                   plausible. Written to RUN_DIR/norming

{narratives}

import reads all CSV files that raters saved and analyses the run again. Replies: how far raters agree, the gap of their
mean scores next to that of every measure, and how far measures order replies as people do. Intensities: people's gap
next to the model's, and agreement by emotion. Norming: how readers judged each narrative. docs/people.md says what such
a study can show.

"""
_PAIRS_HELP: Final = """
For two runs, export draws n pairs of replies to the same prompt, in random order; people say which of the two shows
more empathy, or neither. import gives the share of choices for RUN_A's replies, in-group, out-group and the gap between
them, with intervals over raters and narratives (tables/preference.csv).

{pairs}
"""


def _help() -> str:
    of_one = _HELP.format(replies=option_lines(*_REPLIES.options), narratives=option_lines(*_NARRATIVES.options))
    of_two = _PAIRS_HELP.format(pairs=option_lines(*_PAIRS.options))
    return usage_lines(_REPLIES, _NARRATIVES, _IMPORT) + of_one + usage_lines(_PAIRS, _IMPORT_PAIRS) + of_two


def _people(words: Sequence[str]) -> int:
    step, *more = words or [""]
    if step == "import":
        _import(more)
    elif step != "export":
        raise ConfigError(f"people needs export or import, got {step or 'nothing'}; {see('people')}")
    elif sum("=" not in word for word in more) > 1:
        _export_pairs(more)
    else:
        _export(more)
    return OK


def _export(words: Sequence[str]) -> None:
    from audit.tasks.people import export_items, export_lists, form_of

    given = _ONE_RUN.read(words)
    path = given.one_folder()
    form = form_of(path, given[_FORM])
    known = {_FORM.name, *(_REPLIES if form == "replies" else _NARRATIVES).names}
    for name in given.texts:
        if name not in known:
            raise ConfigError(f"{name}: form={form} does not take this option; {see('people')}")
    if form == "replies":
        place, counted = export_items(
            path, n=given[_N], seed=given[_SEED], questions=given[_QUESTIONS], mask_experiencer=given[_MASK]
        )
    else:
        place, counted = export_lists(
            path, form, n=given[_PER_LIST], n_lists=given[_LISTS], seed=given[_SEED], introduction=given[_INTRODUCTION]
        )
    for text in counted:
        note(text)
    tell(f"send raters: {place}")


def _export_pairs(words: Sequence[str]) -> None:
    from audit.comparing.preference.human_choices import export_pairs

    given = _PAIRS.read(words)
    place = export_pairs(
        [Path(folder) for folder in given.places],
        n=given[_N],
        seed=given[_SEED],
        questions=given[_QUESTIONS],
        mask_experiencer=given[_MASK],
        out=given[_RUN_DIR],
        reports_dir=Path("reports"),
        say=note,
    )
    tell(f"send raters: {place}")
    tell(f"and then:    {command_line('people', 'import', str(place.parent))} FILE ...")


def _import(words: Sequence[str]) -> None:
    from audit.comparing.preference.human_choices import holds_choices, import_choices
    from audit.tasks.pipeline import import_people

    given = _IMPORT.read(words)
    folder, *files = map(Path, given.places or [""])
    if not given.places or not files:
        raise ConfigError(f"people import needs a run folder and the raters' files; {see('people')}")
    if holds_choices(folder):
        if given.texts:
            raise ConfigError(f"form: a choice between two runs does not take this option; {see('people')}")
        _show_choices(import_choices(folder, files))
        return
    outcome, counted = import_people(folder, files, form=given[_OF_FORM])
    for text in counted:
        note(text)
    show_outcome(outcome)


def _show_choices(chosen: PeopleChoices) -> None:
    for text in chosen.remarks:
        note(text)
    level = coverage(chosen.confidence)
    head = ("dimension", "question", "pairs", "preferred (%)", f"{level} interval", "corrected p")
    lines: list[tuple[str, ...]] = [(*head, "position bias (points)", "ties", "from")]
    for row in chosen.preference.to_dict("records"):
        gap = row["pairs"] == "gap"
        lines.append(
            (
                dimension_title(row["dimension"]),
                row["question"],
                "in-group less out-group" if gap else row["pairs"].replace("_", "-"),
                percent(row, "share", signed=gap),
                percent(row, "ci_low", "ci_high", signed=gap),
                bare_p(row["p_adjusted"]),
                "" if gap else percent(row, "position_bias", signed=True),
                count(row["n_ties"]),
                f"{count(row['n_choices'])} choices, {count(row['n_raters'])} raters, {count(row['n_narratives'])} "
                "narratives",
            )
        )
        if row["note"]:
            note(f"{row['dimension']}, {row['question']}, {row['pairs'].replace('_', '-')}: {row['note']}")
    tell(f"preferred by people: the replies of {chosen.labels[0]} over those of {chosen.labels[1]}")
    print_table(lines)
    tell(f"tables: {chosen.path / 'tables'}")


COMMAND: Final = Command(
    "people",
    "have people rate a run's replies or its narratives: export forms, import what raters saved",
    _help,
    _people,
    usages=(_REPLIES, _NARRATIVES, _IMPORT, _PAIRS),
)
