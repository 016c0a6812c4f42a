"""Write a data set for the Hugging Face hub: Parquet under ``data/`` and a dataset card.

The card's head holds what the hub reads: configurations, features with their types, licence. Nothing is uploaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from audit.extras.exchange.auditors_card import verdict_lines
from audit.extras.exchange.base import Collected, ExportOptions, Files, Form
from audit.extras.exchange.facts import UNNAMED, about, named
from audit.tables.base import Table, Type
from audit.tables.formatting import in_markdown
from audit.tables.spreadsheets import seen_texts

if TYPE_CHECKING:
    import pandas as pd

_UNKNOWN: Final = "unknown"  # the hub's own word for an unknown licence
_DTYPES: Final = {
    Type.WORD: "string",
    Type.TEXT: "string",
    Type.FLAG: "bool",
    Type.INT8: "int8",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT: "float64",
}
_SIZES: Final = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_WITH_TEXTS: Final = """\
**Texts.** `{column}` is what the model wrote, verbatim. A model may repeat in it what it was told: the narrative, or a
part of it. Whoever owns the narratives may object to that. Nobody has read these texts for names or offence.
"""
_WITHOUT_TEXTS: Final = """\
**Texts.** There are none: neither the narratives, of which there are ids alone, nor what the model wrote.
"""


def _make(collected: Collected, told: ExportOptions) -> Files:
    """Return the Parquet files and ``README.md``, the dataset card."""
    from audit.runs.parquet import plain_parquet

    parts = {collected.table.name: (collected.table, collected.rows), **dict(_statistics(collected))}
    files = {f"data/{name}.parquet": plain_parquet(table, seen_texts(rows)) for name, (table, rows) in parts.items()}
    return files | {"README.md": _card(collected, told, {name: table for name, (table, _) in parts.items()}).encode()}


def _statistics(collected: Collected) -> Iterator[tuple[str, tuple[Table, pd.DataFrame]]]:
    """Yield the tables of gaps, verdicts and disparities from the last report, if the run has them."""
    from audit.tables.disparity import DISPARITY
    from audit.tables.gap import GAP
    from audit.tables.verdicts import VERDICTS

    for table in (GAP, VERDICTS, DISPARITY):
        if table.place(collected.path / "tables").exists():
            rows = collected.statistics(table.name).reindex(columns=list(table))
            texts = [name for name, column in table.items() if column.type in (Type.WORD, Type.TEXT)]
            # An earlier version may lack a column.
            yield table.name, (table, rows.astype(dict.fromkeys(texts, object)).fillna(dict.fromkeys(texts, "")))


def _card(collected: Collected, told: ExportOptions, tables: dict[str, Table]) -> str:
    import yaml

    head = yaml.safe_dump(_head(collected, told, tables), sort_keys=False, allow_unicode=True, width=120)
    text = next((name for name, column in collected.table.items() if column.type == Type.TEXT), None)
    texts = _WITHOUT_TEXTS if text is None else _WITH_TEXTS.format(column=text)
    files = "\n".join(f"- `{name}`: `data/{name}.parquet`, a row is {table.row}." for name, table in tables.items())
    licence = (
        f"**Licence.** {in_markdown(told.license)}, as whoever published it says."
        if told.license
        else "**Licence.** Unknown: whoever publishes this has named none."
    )
    loads = (
        f'    from datasets import load_dataset\n    rows = load_dataset(PATH, "{collected.table.name}", split="test")'
    )
    columns = "\n\n".join(_columns(table) for table in tables.values())
    verdicts = "\n".join(verdict_lines(collected)) if "verdicts" in tables else ""
    page = about(collected, files=files, more=f"{texts}\n{licence}\n\n{loads}\n\n{verdicts}\n## Whose answers\n\n")
    return f"---\n{head}---\n\n{page}\n## Columns\n\n{columns}\n"


def _head(collected: Collected, told: ExportOptions, tables: dict[str, Table]) -> dict[str, Any]:
    n_rows = len(collected.rows)
    return {
        "pretty_name": f"Empathy audit of {named(collected.manifest) or UNNAMED}",
        "license": told.license or _UNKNOWN,
        "size_categories": [next((size for most, size in _SIZES if n_rows < most), "n>1M")],
        "tags": ["empathy-audit", "fairness", "intergroup-bias", "evaluation"],
        "configs": [
            {
                "config_name": name,
                "data_files": [{"split": "test", "path": f"data/{name}.parquet"}],
                **({"default": True} if name == collected.table.name else {}),
            }
            for name in tables
        ],
        "dataset_info": [
            {
                "config_name": name,
                "features": [{"name": key, "dtype": _DTYPES[column.type]} for key, column in table.items()],
            }
            for name, table in tables.items()
        ],
    }


def _columns(table: Table) -> str:
    rows = "\n".join(
        f"| {name} | {in_markdown(column.meaning)} | {in_markdown(column.unit)} |" for name, column in table.items()
    )
    return f"### {table.name}\n\n| column | meaning | unit |\n|---|---|---|\n{rows}"


FORM: Final = Form(
    "huggingface",
    "a data set of the Hugging Face hub: Parquet and a card",
    ("ratings", "replies", "answers"),
    _make,
    options=("texts", "license"),
)
