"""Write ratings as an SPSS data file (``.sav``), with labels of variables and values from the schema.

Missing numbers are system-missing. SPSS has no such value for texts, so the empty text is declared missing. The status
of a prompt is a labelled number beside the intensity.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from audit.errors import ConfigError, StoreError
from audit.extras.exchange.base import Collected, Form
from audit.extras.exchange.facts import UNNAMED, about, named, of_run
from audit.tables.base import Column, Type
from audit.tables.formatting import printable
from audit.tables.spreadsheets import seen

if TYPE_CHECKING:
    import pandas as pd

_FILES: Final = """\
`ratings.sav`: variables are labelled with what they mean, values with what they stand for. A number that is missing is
system-missing."""
_LONGEST_LABEL: Final = 255
_LONGEST_TEXT: Final = 32_767
_LONGEST_NOTE: Final = 80  # bytes that SPSS keeps of a label, a text and a line of notes
_OUT_IN: Final = {0: "out-group", 1: "in-group"}
_NO_YES: Final = {0: "no", 1: "yes"}
_FORMATS: Final = {Type.INT8: "F4.0", Type.INT32: "F10.0", Type.INT64: "F12.0", Type.FLAG: "F4.0", Type.FLOAT: "F16.8"}
_TEXTS: Final = (Type.WORD, Type.TEXT)
_NUMBERS: Final = (Type.INT8, Type.INT32, Type.INT64)


def _sav(collected: Collected) -> bytes:
    try:
        import pyreadstat
    except ImportError as error:
        raise ConfigError("form=spss needs pyreadstat: pip install 'empathy-audit[spss]'") from error
    import pandas as pd

    columns, labels = {}, {}
    for name, column in collected.table.items():
        columns[name], labels[name] = _values(collected.rows[name], name, column)
    texts = [name for name in columns if labels[name] is None and collected.table[name].type in _TEXTS]
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "ratings.sav"
        pyreadstat.write_sav(
            pd.DataFrame(columns),
            str(path),
            file_label=f"empathy-audit: {named(collected.manifest) or UNNAMED}"[:64],
            column_labels={name: _label(column) for name, column in collected.table.items()},
            variable_value_labels={name: own for name, own in labels.items() if own},
            missing_ranges={name: [""] for name in texts},
            variable_measure={name: _measure(name, column) for name, column in collected.table.items()},
            variable_format={
                name: _FORMATS.get(column.type, "F4.0") for name, column in collected.table.items() if name not in texts
            },
            note=list(_notes(collected)),
        )
        return path.read_bytes()


def _notes(collected: Collected) -> Iterator[str]:
    """Yield facts about the run, wrapped to the bytes that SPSS keeps of a line."""
    for name, value in of_run(collected):
        line = ""
        for character in f"{name}: {printable(value)}":
            if len((line + character).encode()) > _LONGEST_NOTE:
                yield line
                line = "  "
            line += character
        yield line


def _values(values: pd.Series, name: str, column: Column) -> tuple[pd.Series, dict[int, str] | None]:
    """Return a column's values for SPSS, and value labels if they are codes for words."""
    from audit.tables.ratings import Status

    if name == "status":
        codes = {status.value: place for place, status in enumerate(Status, start=1)}
        return values.astype(str).map(codes).astype(float), {place: word for word, place in codes.items()}
    if column.type == Type.FLAG:
        return values.astype("Float64").astype(float), _OUT_IN if name == "in_group" else _NO_YES
    if column.type in _TEXTS:
        texts = values.astype(object).where(values.notna(), "").map(seen)
        longest = max((len(text.encode()) for text in texts), default=0)
        if longest > _LONGEST_TEXT:
            raise StoreError(
                f"column {name} has a text of {longest:,} bytes, but SPSS keeps at most {_LONGEST_TEXT:,}; leave "
                "texts= out, or use form=csv"
            )
        return texts, None
    return values.astype("Float64").astype(float), None


def _label(column: Column) -> str:
    """Return a variable's meaning and unit, cut to the bytes that SPSS keeps."""
    unit = f" ({column.unit})" if column.unit else ""
    room = _LONGEST_LABEL - len(unit.encode())
    return column.meaning.encode()[:room].decode(errors="ignore") + unit


def _measure(name: str, column: Column) -> Any:
    numeric = column.type in (*_NUMBERS, Type.FLOAT) and name != "status"
    return "scale" if numeric else "nominal"


FORM: Final = Form(
    "spss",
    "ratings as a data file of SPSS (.sav), labelled from their schema",
    ("ratings",),
    lambda collected, told: {"ratings.sav": _sav(collected), "ABOUT.md": about(collected, files=_FILES).encode()},
    options=("texts",),
)
