"""Print what a language pack translates, with each text translated back, as Markdown tables.

Run as ``python benchmarks/translations.py [code]`` where the project is installed; de if not told otherwise. Of the
situations it prints those with a note, and those of the default run; the pack's file has all of them. The table of
emotions is in docs/languages.md.
"""

import sys
from collections.abc import Iterator

from stimuli.languages import LanguagePack, load_language
from stimuli.narratives import load_narratives

TITLES = {"text": "Templates and words of the scale", "term": "Identities", "emotion": "Emotions",
          "situation": "Situations"}  # fmt: skip


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("\n", "<br>").split())


def tables(pack: LanguagePack) -> Iterator[str]:
    """Yield the lines."""
    default = {each.narrative_id for each in load_narratives("geneva", situations_per_emotion=1).narratives}
    for kind, title in TITLES.items():
        yield f"### {title}\n"
        yield f"| English | {pack.name} | translated back | where the meaning shifts |\n|---|---|---|---|"
        for own, english, text, back, note in pack.items():
            if own == kind and (kind != "situation" or note or english in default):
                yield f"| {' | '.join(map(_cell, (english, text, back, note)))} |"
        yield ""


if __name__ == "__main__":
    [code] = sys.argv[1:] or ["de"]
    chosen = load_language(code)
    if chosen is None:
        sys.exit(f"{code}: the package is written in it, there is no pack")
    print("\n".join(tables(chosen)))
