"""``export``: writes a run in other formats, such as a data set, a table for a statistics program, or a card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from audit.cli.terminal.base import OK, Command
from audit.cli.terminal.options import Option, Usage, a_path, a_text, one_of, option_lines, true_or_false, usage_lines
from audit.cli.terminal.printing import note, tell
from audit.errors import ConfigError
from audit.tables.formatting import listed


def _form(name: str, text: str) -> str:
    from audit.extras.exchange.registry import FORMS

    return one_of(*FORMS)(name, text)


def _forms() -> Sequence[str]:
    from audit.extras.exchange.registry import FORMS

    return list(FORMS)


_FORM: Final[Option[str | None]] = Option("form", _form, None, "the form; see below", "csv", _forms)
_TO: Final[Option[Path | None]] = Option("to", a_path, None, "a new or empty folder", "FOLDER")
_UNFINISHED: Final = Option(
    "unfinished", true_or_false, False, "export a run with missing prompts; the export says how many"
)
_TEXTS: Final = Option("texts", true_or_false, False, "also export what the model wrote, which may repeat narratives")
_LICENSE: Final = Option(
    "license", a_text, "", "licence of the data set, by its name on the hub; default: unknown", "cc-by-4.0"
)
_ORGANIZATION: Final = Option("organization", a_text, "", "who ran the evaluation", "NAME")
_RELATIONSHIP: Final = Option(
    "relationship", a_text, "", "their relation to the model's maker: first_party, third_party, collaborative or other",
    "third_party",
)  # fmt: skip
_MODEL_ID: Final = Option(
    "model_id", a_text, "", "the model's name on its hub, if the run does not know it", "OWNER/NAME"
)
_OF_FORMS: Final = (_TEXTS, _LICENSE, _ORGANIZATION, _RELATIONSHIP, _MODEL_ID)
_USAGE: Final = Usage("export", "RUN_DIR", needed=(_FORM, _TO), options=(_UNFINISHED, *_OF_FORMS))

_HELP: Final = """
Exports a run in another tool's format. The run is only read. Narratives are never written: rows have their ids. A
refusal is exported as missing, with its status.

forms, with the options of each:
{forms}

{options}

docs/exchange.md has an example of each.
"""


def _help() -> str:
    from audit.extras.exchange.registry import FORMS

    width = max(map(len, FORMS)) + 3
    lines = []
    for form in FORMS.values():
        lines.append(f"  {form.name:<{width}}{form.summary}")
        if form.options:
            lines.append(f"  {'':<{width}}({', '.join(f'{name}=' for name in form.options)})")
    options = option_lines(*_USAGE.needed, *_USAGE.options)
    return usage_lines(_USAGE) + _HELP.format(forms="\n".join(lines), options=options)


def _export(words: Sequence[str]) -> int:
    from audit.extras.exchange.base import ExportOptions
    from audit.extras.exchange.registry import FORMS
    from audit.extras.exchange.write import export_run

    given = _USAGE.read(words)
    path = given.one_folder()
    form = FORMS[given.need(_FORM, to=f"choose the form of the export ({listed(list(FORMS), last='or')})")]
    to = given.need(_TO, to="choose the folder to write to")
    told = ExportOptions(
        texts=given[_TEXTS],
        license=given[_LICENSE],
        organization=given[_ORGANIZATION],
        relationship=given[_RELATIONSHIP],
        model_id=given[_MODEL_ID],
    )
    of_forms = {option.name: given.texts[option.name] for option in _OF_FORMS if option.name in given.texts}
    for name, text in of_forms.items():
        if not text:
            raise ConfigError(f"{name}= is empty; give a value, or leave it out")
    files = export_run(path, form, to, told, given=of_forms, unfinished=given[_UNFINISHED])
    for file in files:
        tell(f"written: {file}")
    if form.name == "paper" and to / "paper.docx" not in files:
        from audit.extras.exchange.paper.export import NO_WORD

        note(f"there is no file for Word: {NO_WORD}; methods and tables are in Markdown and LaTeX")
    if form.name == "huggingface" and not told.license:
        note("the card says that the licence is unknown; set it with license=NAME")
    return OK


COMMAND: Final = Command(
    "export",
    "export a run as CSV, for SPSS, for a paper, as a data set with its card, as a record for an evaluation "
    "database, or as an auditor's card",
    _help,
    _export,
    usages=(_USAGE,),
)
