"""What the released study computes of one table of ratings, by plain loops over Python's own numbers.

Written from the description of its code in words; it shares nothing with the package, nor numpy. A table is a list of
narratives, of a row for each perceiver, of a rating for each experiencer: a number, or None where there is none. The
order of perceivers and of experiencers is that of ``groups``, in which "unspecified" is "a person".

``make_published.py`` is the same with fractions and 40 digits; here the floating point is the study's, so that the two
tell apart what the arithmetic says and what rounding makes of it.
"""

import math

UNSPECIFIED = "unspecified"


def identities(groups):
    """Places of the terms that belong to a group."""
    return [place for place, group in enumerate(groups) if group != UNSPECIFIED]


def narratives_without_default(ratings, groups):
    """Narratives of δ_z: none of the cells between identities lacks its rating; "a person" is not looked at."""
    terms = identities(groups)
    return [y for y in ratings if all(y[p][e] is not None for p in terms for e in terms)]


def narratives_with_default(ratings):
    """Narratives of the heatmap and its mask: none of the (K + 1)² cells lacks its rating."""
    return [y for y in ratings if all(rating is not None for row in y for rating in row)]


def cell_mean(kept, p, e):
    """Sum over count, to two decimals by Python's own rounding of a float."""
    total = 0
    for y in kept:
        total += y[p][e]
    return round(total / len(kept), 2)


def standardised(matrix):
    """Cells less their mean, over their population standard deviation."""
    cells = [cell for row in matrix for cell in row]
    mean = math.fsum(cells) / len(cells)
    sd = math.sqrt(math.fsum((cell - mean) ** 2 for cell in cells) / len(cells))
    return [[(cell - mean) / sd for cell in row] for row in matrix]


def delta_z(ratings, groups):
    """Mean z of the in-group cells less that of the others, over the K² cells between identities."""
    kept, terms = narratives_without_default(ratings, groups), identities(groups)
    z = standardised([[cell_mean(kept, p, e) for e in terms] for p in terms])
    inside, outside = [], []
    for row, p in zip(z, terms, strict=True):
        for cell, e in zip(row, terms, strict=True):
            (inside if groups[p] == groups[e] else outside).append(cell)
    return math.fsum(inside) / len(inside) - math.fsum(outside) / len(outside)


def heatmap_z(ratings, groups):
    """Standardise the (K + 1)² cells."""
    kept, k = narratives_with_default(ratings), len(groups)
    return standardised([[cell_mean(kept, p, e) for e in range(k)] for p in range(k)])


def shuffled_delta_z(ratings, groups, row_order, column_order):
    """δ_z of the matrix whose rows and columns are put into another order while the groups stay."""
    kept, terms = narratives_without_default(ratings, groups), identities(groups)
    z = standardised([[cell_mean(kept, p, e) for e in terms] for p in terms])
    inside, outside = [], []
    for place, row in enumerate(row_order):
        for other, column in enumerate(column_order):
            same = groups[terms[place]] == groups[terms[other]]
            (inside if same else outside).append(z[row][column])
    return math.fsum(inside) / len(inside) - math.fsum(outside) / len(outside)
