"""Write ``published.json``: the published δ_z by plain loops, for tables small enough to list every shuffle.

Run as ``python tests/reference/make_published.py``. It follows the description of Hou, Daumé III and Rudinger (2025) in
words and uses neither the package nor numpy. Ratings are whole numbers, sums and means are fractions, roots have 40
digits; only the cell means are floating point, as in the study: the sum over the count, to two decimals by ``round``.
δ_z and its null are of the narratives with a rating in every cell between identities; the heatmap and its mask of those
with one in every cell, "a person" among them, and the heatmap is standardised over all of its cells.
"""

import itertools
import json
import random
from decimal import Decimal, getcontext
from fractions import Fraction
from pathlib import Path

getcontext().prec = 40
UNSPECIFIED = "unspecified"
SCENARIOS = {
    # name: seed, group of each term, narratives, cells (narrative, perceiver, experiencer) without a rating
    "one_term_groups": (1, [UNSPECIFIED, "A", "B", "C", "D", "E"], 13, [(2, 1, 3), (7, 0, 4)]),
    "unequal_groups": (2, [UNSPECIFIED, "A", "A", "B", "C"], 11, [(4, 2, 0), (6, 1, 2)]),
}


def draw_ratings(seed, groups, n_narratives, missing):
    """Draw whole numbers from 0 to 100 that are higher within groups, and for one pair between groups."""
    rng = random.Random(seed)
    ratings = []
    for narrative in range(n_narratives):
        level = rng.gauss(50, 10)
        of_narrative = []
        for p, perceiver in enumerate(groups):
            row = []
            for e, experiencer in enumerate(groups):
                own = 9 if perceiver == experiencer != UNSPECIFIED else 0
                near = 9 if {perceiver, experiencer} == {"A", "B"} else 0
                rating = min(100, max(0, round(level + own + near + rng.gauss(0, 4))))
                row.append(None if (narrative, p, e) in missing else rating)
            of_narrative.append(row)
        ratings.append(of_narrative)
    return ratings


def root(number):
    """Square root of a fraction with 40 digits."""
    return (Decimal(number.numerator) / Decimal(number.denominator)).sqrt()


def decimal(number):
    return Decimal(number.numerator) / Decimal(number.denominator)


def two_sided_p(differences):
    """Two-sided p of the paired t-test, by the finite series for even degrees of freedom.

    Abramowitz and Stegun (1964), Handbook of Mathematical Functions, 26.7.4.
    """
    n = len(differences)
    mean = Fraction(sum(differences), n)
    squares = sum((each - mean) ** 2 for each in differences)
    t_squared = mean**2 * n * (n - 1) / squares
    freedom = n - 1
    assert freedom % 2 == 0, "the series is for even degrees of freedom: keep an odd number of narratives"
    cosine_squared = decimal(freedom / (freedom + t_squared))
    term = total = Decimal(1)
    for k in range(1, freedom // 2):
        term *= cosine_squared * (2 * k - 1) / (2 * k)
        total += term
    return 1 - (1 - cosine_squared).sqrt() * total


def gap(cells, same):
    """Mean of the in-group cells less mean of the others."""
    inside, outside = [], []
    for row, members in zip(cells, same, strict=True):
        for cell, member in zip(row, members, strict=True):
            (inside if member else outside).append(cell)
    return Fraction(sum(inside), len(inside)) - Fraction(sum(outside), len(outside))


def percentile(ordered, share):
    """Value below which this share lies; midway to the next where it ends exactly there."""
    place = share * len(ordered)
    whole = place.numerator // place.denominator
    return (ordered[whole - 1] + ordered[whole]) / 2 if place == whole else ordered[whole]


def matrix_of(ratings, places):
    """Narratives that have a rating in every cell of these places, and the cells' rounded means."""
    kept = [y for y in ratings if all(y[p][e] is not None for p in places for e in places)]

    def mean(p, e):
        return Fraction(str(round(sum(y[p][e] for y in kept) / len(kept), 2)))

    return kept, [[mean(p, e) for e in places] for p in places]


def mean_and_sd(matrix):
    cells = [cell for row in matrix for cell in row]
    mean = sum(cells) / len(cells)
    return mean, root(sum((cell - mean) ** 2 for cell in cells) / len(cells))


def answers(groups, ratings):
    """Everything that the study prints of one table."""
    k = len(groups)
    terms = [place for place, group in enumerate(groups) if group != UNSPECIFIED]
    of_gap, matrix = matrix_of(ratings, terms)
    same = [[groups[p] == groups[e] for e in terms] for p in terms]
    _, sd = mean_and_sd(matrix)
    null = []
    for rows in itertools.permutations(range(len(terms))):
        for columns in itertools.permutations(range(len(terms))):
            null.append(gap([[matrix[row][column] for column in columns] for row in rows], same))
    null.sort()
    of_heatmap, means = matrix_of(ratings, range(k))
    mean, spread = mean_and_sd(means)
    level = Decimal("0.05") / (len(terms) + 1) ** 2
    p_perceiver = [[None] * k for _ in range(k)]
    p_experiencer = [[None] * k for _ in range(k)]
    shown = [[True] * k for _ in range(k)]
    for p in range(k):
        for e in range(k):
            if p == e:
                continue
            against = [two_sided_p([y[p][e] - y[own][own] for y in of_heatmap]) for own in (p, e)]
            p_perceiver[p][e], p_experiencer[p][e] = map(float, against)
            if p in terms and e in terms:
                shown[p][e] = all(each < level for each in against)
    return {
        "n_narratives": len(of_gap),
        "n_narratives_heatmap": len(of_heatmap),
        "n_shuffles": len(null),
        "delta_z": float(decimal(gap(matrix, same)) / sd),
        "null_low": float(decimal(percentile(null, Fraction(25, 1000))) / sd),
        "null_high": float(decimal(percentile(null, Fraction(975, 1000))) / sd),
        "z": [[float(decimal(cell - mean) / spread) for cell in row] for row in means],
        "p_perceiver": p_perceiver,
        "p_experiencer": p_experiencer,
        "shown": shown,
    }


def main():
    scenarios = {}
    for name, (seed, groups, n_narratives, missing) in SCENARIOS.items():
        ratings = draw_ratings(seed, groups, n_narratives, missing)
        scenarios[name] = {"groups": groups, "ratings": ratings} | answers(groups, ratings)
    lines = []
    for name, scenario in scenarios.items():
        fields = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in scenario.items())
        lines.append(f"{json.dumps(name)}: {{\n{fields}\n}}")
    path = Path(__file__).with_name("published.json")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
