"""YAML that would never be read to its end, and paths that are none."""

import time

import pytest

from stimuli.errors import StimulusError
from stimuli.tables import read_cells
from stimuli.yaml_files import check_size, may_be_file, read_yaml


def laughs(n):
    """Write a few lines that stand for 9 to the power of n values."""
    lines = ["a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, n)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (laughs(30), r"line 7: an alias \(\*name\) stands for itself, or for more than 1,000,000 values; write out"),
        ("a: &a [*a]", "line 1: an alias"),
        ("a: &a {b: *a}", "line 1: an alias"),
        ("a: " + "[" * 50_000, "line 1: is nested more than 100 levels deep; use fewer levels"),
        ("\n".join(" " * k + "- " * 1 + "a:" for k in range(0, 400, 2)), "is nested more than 100 levels deep"),
    ],
    ids=["laughs", "itself", "itself in a mapping", "brackets", "indentation"],
)
def test_a_file_that_would_not_end_is_refused_at_once(content, said, tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(content)
    began = time.process_time()
    for read in (read_yaml, check_size):
        with pytest.raises(StimulusError, match=said) as raised:
            read(path)
        assert str(raised.value).startswith(str(path))
    assert time.process_time() - began < 2


def test_aliases_that_stand_for_little_are_what_they_stand_for(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("a: &a [1, 2]\nb: *a\nc: {x: *a, y: 2}")
    assert read_yaml(path) == {"a": [1, 2], "b": [1, 2], "c": {"x": [1, 2], "y": 2}}
    check_size(path)


def test_what_else_is_wrong_with_a_file_is_left_to_whoever_reads_it(tmp_path):
    path = tmp_path / "own.yaml"
    for content in (b"a: [", b"\xff", b"", b"a: 1\na: 2"):
        path.write_bytes(content)
        check_size(path)
    check_size(tmp_path / "absent.yaml")


@pytest.mark.parametrize("name", ["x" * 300, "a\x00b"])
def test_a_name_that_no_file_can_have_ends_in_one_line(name, tmp_path):
    assert may_be_file(tmp_path / ("x" * 300))
    with pytest.raises(StimulusError):
        read_cells(tmp_path / name, {"a": "a"}, of="rows")
