"""Print a table of random packaged situations, each in its wordings and with two identities inserted, as Markdown.

Run as ``python benchmarks/situations.py [n] [seed]`` where the project is installed; 60 and 16 if not told otherwise.
"""

import sys

import numpy as np

from stimuli.identities import Identity, load_dimensions
from stimuli.narratives import Narrative, geneva20_versions, load_narratives

N_SITUATIONS, SEED = 60, 16


def subject(identity: Identity, narrative: Narrative) -> str:
    """Return the third person with the identity as its subject, as the prompt `named` shows it."""
    term = identity.term
    return term[:1].upper() + term[1:] + narrative.third_person.removeprefix("The person")


def main(n: int, seed: int) -> None:
    """Print the table: of both packaged sets, in the ratio of their sizes."""
    rng = np.random.default_rng(seed)
    identities = [
        identity for dimension in load_dimensions("geneva", unspecified=False) for identity in dimension.experiencers
    ]
    narratives = [*load_narratives("geneva").narratives, *geneva20_versions()]
    print("| situation | first person | third person | as subject, two identities |\n|---|---|---|---|")
    for place in sorted(rng.choice(len(narratives), n, replace=False).tolist()):
        narrative = narratives[place]
        first, second = (identities[k] for k in rng.choice(len(identities), 2, replace=False))
        named = f"{subject(first, narrative)}<br>{subject(second, narrative)}"
        print(f"| {narrative.narrative_id} | {narrative.first_person} | {narrative.third_person} | {named} |")


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:]]
    main(*(given + [N_SITUATIONS, SEED][len(given) :]))
