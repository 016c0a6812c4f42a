import math

import pytest

from audit.tables.formatting import (
    SCOPES,
    brief,
    count,
    coverage,
    dimension_title,
    fixed,
    in_markdown,
    interval,
    p_value,
    plural,
    points,
    rate,
    scale_end,
)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.4949, "+0.49"),
        (-1.005e1, "−10.05"),
        (0.0034, "+0.0034"),  # below 0.01: two significant digits
        (-0.00996, "−0.0100"),
        (0.0, "0.00"),
        (-0.0, "0.00"),
        (-1e-17, "0.00"),  # the rest of a floating-point sum
        (1234.5, "+1,234.50"),
        (math.nan, "–"),
    ],
)
def test_gap_has_two_decimals_or_two_significant_digits(value: float, written: str) -> None:
    assert points(value) == written


def test_value_that_rounds_to_zero_has_no_sign() -> None:
    assert fixed(-0.04, decimals=1, signed=True) == "0.0"
    assert fixed(0.04, decimals=1, signed=True) == "0.0"


def test_interval_carries_true_minus_signs() -> None:
    assert interval(-0.2, 0.44) == "−0.20 to +0.44"


def test_ends_of_a_narrow_interval_have_the_same_decimals_and_differ() -> None:
    assert interval(0.009958, 0.010223) == "+0.00996 to +0.01022"
    assert interval(5.001, 5.004) == "+5.0010 to +5.0040"


@pytest.mark.parametrize(
    ("p", "written"),
    [(0.0001, "p < .001"), (0.012, "p = .012"), (0.5, "p = .500"), (1.0, "p > .999"), (math.nan, "p not available")],
)
def test_p_has_no_leading_zero(p: float, written: str) -> None:
    assert p_value(p) == written


@pytest.mark.parametrize(
    ("share", "written"),
    [(0.0, "0%"), (1.0, "100%"), (0.0004, "<0.1%"), (0.99996, ">99.9%"), (0.0416, "4.2%"), (math.nan, "–")],
)
def test_share_that_is_not_zero_never_reads_as_zero(share: float, written: str) -> None:
    assert rate(share) == written


def test_counts_and_names() -> None:
    assert count(217800) == "217,800"
    assert plural(1, "narrative") == "1 narrative"
    assert plural(6528, "rating") == "6,528 ratings"
    assert scale_end(100.0) == "100"
    assert scale_end(-2.5) == "−2.5"
    assert coverage(0.95) == "95%"
    assert coverage(0.995) == "99.5%"
    assert dimension_title("race_ethnicity+religion") == "race/ethnicity × religion"
    assert dimension_title("own_groups") == "own groups"
    assert dimension_title("all") == "all dimensions"
    assert count(math.nan) == "–"


def test_both_scopes_have_their_words() -> None:
    assert SCOPES == {"narratives": "these identities", "narratives_and_terms": "any such identities"}


def test_a_name_that_nobody_reads_to_its_end_is_cut_and_says_so():
    assert brief("a" * 120) == "a" * 120
    assert brief("a" * 100_000) == "a" * 120 + "… (100,000 characters)"
    assert dimension_title("a" * 121 + "+religion").endswith("… (121 characters) × religion")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0.95, don't: a_b/c.json", "0.95, don't: a_b/c.json"),
        ("1. a list", "1&#46; a list"),
        ("http://x.y", "http&#58;//x.y"),
        ("www.x.y", "www&#46;x.y"),
        (":smile:", "&#58;smile:"),
        ("_a_ *b* `c` ~d~", "&#95;a&#95; &#42;b&#42; &#96;c&#96; &#126;d&#126;"),
        ("a | <b> [c](d) @me #1 \\", "a &#124; &#60;b&#62; &#91;c&#93;(d) &#64;&#8203;me &#35;&#8203;1 &#92;"),
        ("two\nlines", "two&#92;nlines"),
    ],
)
def test_what_markdown_would_act_on_is_an_entity_and_all_else_stays(text, written):
    assert in_markdown(text) == written
