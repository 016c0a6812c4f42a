"""Runs that files of tests share are made once, and whoever writes to one is told."""

import finished_runs
import pytest
from finished_runs import Recipe, library, made_once


@pytest.fixture
def taken(monkeypatch, tmp_path):
    """Return the library of a session with one run, and the commands that were given."""
    monkeypatch.setattr(finished_runs, "RUNS", {"small": Recipe(("seed=1",))})
    commands = []

    def command(folder, *words):
        commands.append(words)
        (folder / "run").mkdir()
        (folder / "run" / "ratings.csv").write_text("1")
        return 0

    return lambda: library(tmp_path / "shared", command, tmp_path / "model"), commands


def test_a_run_is_made_once_for_all_sessions_that_share_a_folder(taken, tmp_path):
    opened, commands = taken
    for _ in range(2):
        session = opened()
        finished_run = next(session)
        assert finished_run("small") == finished_run("small") == tmp_path / "shared" / "small" / "run"
        assert next(session, "ended") == "ended"
    assert commands == [("run", f"model.path={tmp_path / 'model'}", "seed=1", "run_dir=run")]


@pytest.mark.parametrize("change", ["changed", "added", "gone"])
def test_a_run_that_a_test_wrote_to_is_named_at_the_end(change, taken):
    opened, _ = taken
    session = opened()
    run = next(session)("small")
    (run / ".lock").touch()  # of whoever opens it
    if change == "gone":
        (run / "ratings.csv").unlink()
    else:
        (run / {"changed": "ratings.csv", "added": "more.csv"}[change]).write_text("2")
    with pytest.raises(AssertionError, match=r"tests wrote to finished runs that others read: \['small'\]"):
        next(session)


def test_what_could_not_be_made_is_made_anew_by_the_next(tmp_path):
    def fails(folder):
        (folder / "half").touch()
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        made_once(tmp_path / "run", fails)
    made = made_once(tmp_path / "run", lambda folder: (folder / "whole").touch())
    assert [path.name for path in made.iterdir()] == ["whole"]
