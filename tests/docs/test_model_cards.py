"""The table of cards in docs/models.md is made from the cards: ``python tests/docs/test_model_cards.py`` writes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "models.md"
HEAD = "| `model=` | on the hub | licence | weights | in memory | needs | notes |\n|---|---|---|---|---|---|---|\n"
CARD = re.compile(
    r"# (?P<title>[^(\n]+) \((?P<licence>[^)\n]+)\): (?P<weights>[\d.]+) billion weights, "
    r"(?P<memory>[\d.]+ GB) in (?P<format>\w+); (?P<needs>.+)\.\n# (?P<notes>.+)\ndefaults:\n  - base\n"
)
THINKS = {"Qwen3", "SmolLM3", "gpt-oss"}


def cards():
    """Yield the name, the described facts and the settings of each card of a model on the hub."""
    for path in sorted((ROOT / "conf" / "model").glob("*.yaml")):
        text = path.read_text("utf-8")
        if found := CARD.match(text):
            yield path.stem, found, yaml.safe_load(text)


def table():
    """Return the table as docs/models.md has it."""
    rows = [
        f"| `{name}` | `{card['path']}` | {found['licence']} | {found['weights']} billion "
        f"| {found['memory']} in {found['format']} | {found['needs']} | {found['notes']} |\n"
        for name, found, card in cards()
    ]
    return HEAD + "".join(rows)


def test_the_table_is_that_of_the_cards():
    assert table() in PAGE.read_text("utf-8"), "python tests/docs/test_model_cards.py writes it"


@pytest.mark.parametrize("name", [name for name, *_ in cards()])
def test_a_card_is_a_hub_id_and_what_is_known_of_it_and_leaves_the_rest_to_the_base(name):
    [(found, card)] = [(found, card) for each, found, card in cards() if each == name]
    assert set(card) == {"defaults", "name", "path"}
    assert card["name"] == name
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", card["path"])
    if found["format"] == "bfloat16":  # two bytes a weight
        assert found["memory"] == f"{2 * float(found['weights']):.1f} GB"
    size = float(found["memory"].split()[0])
    most = {"a CPU will do": 4, "one GPU of 24 GB": 20, "one GPU of 48 GB": 40, "one GPU of 80 GB": 70}
    assert size <= most.get(found["needs"], 4 * 40)
    assert ("Gated" in found["notes"]) == card["path"].startswith(("meta-llama/", "google/"))
    assert ("Thinks" in found["notes"]) == any(family in found["title"] for family in THINKS)


if __name__ == "__main__":
    before, _, rest = PAGE.read_text("utf-8").partition(HEAD)
    PAGE.write_text(before + table() + "\n" + rest.partition("\n\n")[2], "utf-8")
    print(f"written: {PAGE}")
