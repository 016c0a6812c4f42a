"""A run's folder keeps what it asked: its report shows that, whatever becomes of the packaged and the user's files."""

from __future__ import annotations

import gzip
import json
import shutil

import numpy as np
import pytest
from finished_runs import STAGES as ASKED
from hypothesis import given
from hypothesis import strategies as st
from runs import FOUR_RELIGIONS, as_stored, command_fixture, in_parts, of_before
from test_planted_strategy import Scripted
from test_strategy_runs import shown_in

from audit.asking.conversations import prompt_records
from audit.asking.plan import make_plan
from audit.asking.run_identity import kept_difference, prompts_difference
from audit.configuration.schema import load_config
from audit.errors import StoreError
from audit.runs import prompts
from audit.runs.manifest import Manifest
from audit.runs.prompts import FILE, PromptsAsked
from stimuli import identities
from stimuli.narratives import WORDINGS, EmotionWords, Narrative, Narratives
from stimuli.prompts import PromptGrid, PromptVariant, Scale
from stimuli.strategies import Strategy

command = command_fixture("kept", Scripted)


@pytest.fixture(scope="session")
def once(finished_run):
    """A run with stages and two dimensions, one of them invented; not to be written to."""
    return finished_run("stages")


@pytest.fixture
def run(once, command):
    """A copy of it, named ``run`` in the folder that commands run in."""
    yield shutil.copytree(once, command.folder / "run")
    shutil.rmtree(command.folder / "run")


def reworded(monkeypatch):
    """Let the packaged identities be those of a later version: religion has other words, and a dimension is new."""
    packaged, study = identities._packaged(), "geneva"
    other = json.loads(json.dumps(packaged[study]["religion"]).replace('"a ', '"one '))
    assert other != packaged[study]["religion"]
    changed = {**packaged[study], "religion": other, "creed": other}
    monkeypatch.setattr(identities, "_packaged", lambda: {**packaged, study: changed})


def page_of(folder):
    return (folder / "report.html").read_text()


NOT_SHOWN = "This file does not contain prompts and narratives"


def test_a_report_shows_what_was_asked_when_the_packaged_identities_have_changed(run, command, monkeypatch):
    assert command("report", "run") == 0
    before = page_of(run)
    config = load_config(Manifest.read(run).config.content)
    reworded(monkeypatch)
    assert prompts_difference(Manifest.read(run).identity.content, make_plan(config)) != ""
    assert command("report", "run") == 0
    assert page_of(run) == before
    assert shown_in(run)["calls"]["columns"]["frame"]["of"]
    assert NOT_SHOWN not in before


def test_a_dimension_that_is_added_to_the_package_leaves_old_prompts_as_they_were(command, monkeypatch):
    packaged, study = identities._packaged(), "geneva"
    own = {"religion": packaged[study]["religion"]}
    monkeypatch.setattr(identities, "_packaged", lambda: {study: own})
    all_there_are = [word for word in ASKED if not word.startswith("dimensions=")]
    assert command("run", *all_there_are, "run_dir=every") == 0
    folder = command.folder / "every"
    before = shown_in(folder)
    monkeypatch.setattr(identities, "_packaged", lambda: {study: own | {"creed": own["religion"]}})
    assert command("report", "every") == 0
    assert shown_in(folder) == before
    assert NOT_SHOWN not in page_of(folder)


def test_a_run_of_an_earlier_version_has_its_prompts_built_again_as_long_as_that_gives_the_same(
    run, command, monkeypatch
):
    before = shown_in(run)
    (of_before(run) / FILE).unlink()
    assert command("report", "run") == 0
    assert shown_in(run) == before
    reworded(monkeypatch)
    assert command("report", "run") == 0
    assert "they could not be built again (identities is " in page_of(run)
    assert not (run / FILE).exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: path.write_bytes(b"no gzip"), "cannot be read ("),
        (lambda path: path.write_bytes(path.read_bytes()[:-20]), "cannot be read ("),
        (lambda path: path.write_bytes(gzip.compress(b'{"format": 2}')), "its format is 2; this version"),
        (lambda path: path.write_bytes(gzip.compress(b"[]")), "cannot be read ("),
        (lambda path: rewrite(path, "a Muslim", "a Sikh"), "are not of this run (identities is "),
        (lambda path: rewrite(path, '"stage_system": "', '"stage_system": "Hear: '), "are not of this run (strategy"),
    ],
)
def test_prompts_that_are_damaged_or_of_another_run_are_not_shown(run, command, change, said):
    change(run / FILE)
    as_stored(run)
    assert command("report", "run") == 0
    assert NOT_SHOWN in page_of(run)
    assert said in page_of(run)


def rewrite(path, old, new):
    text = gzip.decompress(path.read_bytes()).decode()
    assert old in text
    path.write_bytes(gzip.compress(text.replace(old, new).encode()))


def test_the_file_is_the_same_for_the_same_prompts_and_small(run, command):
    plan = make_plan(load_config(Manifest.read(run).config.content))
    content = (run / FILE).read_bytes()
    assert PromptsAsked(plan.grid, plan.strategy).to_bytes() == content
    longer = PromptGrid(plan.grid.dimensions * 50, plan.grid.narratives, plan.grid.variant)
    assert len(PromptsAsked(longer, plan.strategy).to_bytes()) < 2 * len(content)
    assert command("run", *ASKED, "strategy=two-stage", "run_dir=run") == 0
    assert (run / FILE).read_bytes() == content


def test_what_is_read_makes_every_prompt_that_was_asked(run):
    plan = make_plan(load_config(Manifest.read(run).config.content))
    kept = PromptsAsked.read(run)
    assert kept is not None
    assert len(kept.grid) == len(plan.grid) == Manifest.read(run).n_prompts
    assert [kept.grid.prompt(cell) for cell in kept.grid] == [plan.grid.prompt(cell) for cell in plan.grid]
    assert kept.strategy == plan.strategy
    assert kept_difference(plan.identity(), kept) is None
    assert next(prompt_records(plan))["stages"]
    hidden = set(WORDINGS) - {kept.grid.variant.narrative}
    assert {each.wording(name) for each in kept.grid.narratives.narratives for name in hidden} == {""}


texts = st.text(st.characters(codec=None, exclude_categories=()), min_size=1, max_size=20)


@given(term=texts, told=texts, words=texts)
def test_any_text_comes_back_as_it_was(term, told, words, tmp_path_factory):
    of = identities.Identity(term, "A", ("A",))
    pairs = (frozenset({("A", "A")}),)
    dimension = identities.Dimension("d", (of,), (of,), pairs, {"A": words})
    narrative = Narrative("n", "sad", EmotionWords(words, words), told, told, told)
    variant = PromptVariant(
        "v", "{perceiver}", "{persona}", "{experiencer} {narrative} {emotion}", "neutral", Scale(0, 9)
    )
    asked = PromptsAsked(PromptGrid([dimension], Narratives("csv", (narrative,), 1, "a"), variant), Strategy("none"))
    folder = tmp_path_factory.mktemp("any")
    (folder / FILE).write_bytes(asked.to_bytes())
    read = PromptsAsked.read(folder)
    assert read is not None
    assert read.grid.prompt(read.grid[0]) == asked.grid.prompt(asked.grid[0])
    assert (read.grid.dimensions, read.strategy) == (asked.grid.dimensions, asked.strategy)


def test_a_run_goes_on_that_an_earlier_version_began_and_keeps_its_prompts(command):
    words = [*ASKED, *FOUR_RELIGIONS, "dimensions=[faith]", "run_dir=begun"]
    assert command("run", *words) == 0
    folder = command.folder / "begun"
    content = (folder / FILE).read_bytes()
    (folder / FILE).unlink()
    next((in_parts(folder) / "ratings").iterdir()).unlink()
    assert command("run", *words) == 0
    assert (folder / FILE).read_bytes() == content


def changed(content, path, value):
    """Return prompts' content with another value at a path."""
    copied = json.loads(json.dumps(content))
    place = copied
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return copied


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("strategy", "system"), {}),
        (("narratives", "narratives", 0, "first_person"), 3),
        (("narratives", "narratives"), []),
        (("dimensions", 0, "perceivers", 0, "term"), None),
        (("dimensions", 0, "in_group_pairs"), [[["a", 3]]]),
        (("dimensions", 0, "clusters"), {"a": 1}),
        (("dimensions", 0, "placebo"), "no"),
        (("narratives", "n_available"), True),
        (("wordings", 0, "scale", "low"), "0"),
        (("wordings",), []),
        (("wordings", 0), [] ),
    ],
)  # fmt: skip
def test_a_part_of_another_type_is_refused_and_not_shown(path, value, run):
    asked = PromptsAsked.read(run)
    (run / FILE).write_bytes(gzip.compress(json.dumps(changed(asked.content(), path, value)).encode()))
    with pytest.raises(StoreError, match=r"prompts\.json\.gz cannot be read \("):
        PromptsAsked.read(run)


def test_a_draw_of_pairs_comes_back_and_one_of_another_size_is_refused():
    drawn = np.arange(3 * 3 * 5).reshape(3, 3, 5) % 2 == 0
    kept = prompts._plain_mask(drawn)
    assert (prompts._mask(kept) == drawn).all()
    for shape in ([3, 3, 4], [3, 3, 6]):  # 45 bits are stored in 48
        with pytest.raises(ValueError, match="another size than recorded"):
            prompts._mask({**kept, "shape": shape})


def test_prompts_that_unpack_to_more_than_there_can_be_are_refused(run, monkeypatch):
    monkeypatch.setattr("audit.runs.prompts._LONGEST", 2**20)
    (run / FILE).write_bytes(gzip.compress(b" " * 2**21))
    with pytest.raises(StoreError, match="it unpacks to more than 1 MiB"):
        PromptsAsked.read(run)
