"""What a run prints at its end: commands that a newcomer can give next."""

import shlex
from pathlib import Path

import pytest

from audit.report.verdicts import Step
from audit.runs.manifest import Manifest
from audit.tasks.outcome import next_command

RUN = "python -m audit run model=planted run_dir=here"
MORE = Step.of("more_narratives", "with more of them", n_needed=1230)


def after(step, own=RUN, *, variant="origin", high=100.0, margin=None, sweep=False, **counts):
    """Return the command after a run, given its own command and the step."""
    content = {"command": own, "prompt": {"variant": variant}, "scale": {"low": 0.0, "high": high}}
    stimuli = {"emotions": [f"emotion {n}" for n in range(12)], **counts}
    config = {"statistics": {"margin": margin}}
    manifest = Manifest.of({**content, "stimuli": stimuli, "config": config, "status": "complete"})
    return next_command(step, manifest, Path("RUN"), sweep=sweep)


@pytest.mark.parametrize(
    ("step", "command"),
    [
        ("nothing", "python -m audit gate RUN margin=2"),
        ("margin", "python -m audit report RUN statistics.margin=2"),
        ("finish", RUN),
        ("more_narratives", "python -m audit run model=planted stimuli.situations_per_emotion=all"),
        ("other_model", "python -m audit run model=planted prompt=persona-1"),
        ("controls", "python -m audit options stimuli.placebo"),
        ("narrower_bounds", "python -m audit options elicitation.max_pruned_points"),
        ("missing_shift", "python -m audit options statistics.missing_shift"),
        ("ask_again", ""),
    ],
)
def test_a_step_has_a_command_that_takes_or_explains_it(step, command):
    assert after(Step.of(step, "in any words")) == command


def test_as_many_situations_are_asked_as_narratives_are_needed():
    # 1,230 narratives of 12 emotions: 102.5 of each.
    assert after(MORE) == "python -m audit run model=planted stimuli.situations_per_emotion=103"
    asked = "python -m audit run stimuli.situations_per_emotion=2 'prompt.system=a file'"
    assert shlex.split(after(MORE, asked))[4:] == ["prompt.system=a file", "stimuli.situations_per_emotion=103"]


def test_a_dimension_that_has_a_part_of_the_narratives_needs_as_many_times_more_of_the_run():
    # 123 instead of 6 are 20.5 times as many: 1,230 instead of 60
    of_age = Step.of("more_narratives", "with more of them", n_needed=123, n_used=6)
    assert after(of_age, n_narratives=60) == after(MORE, n_narratives=60) != after(of_age, n_narratives=6)
    assert after(of_age, n_narratives=60, n_available=1229) == ""


@pytest.mark.parametrize(
    "own", ["python -m audit run -m prompt=origin,scale-10", "python -m audit report ratings=r.csv"]
)
def test_what_no_single_run_asked_is_not_asked_again(own):
    assert after(MORE, own) == ""


def test_a_sweep_is_asked_again_as_a_whole_where_its_runs_are_compared():
    sweep = "python -m audit run -m prompt=origin,scale-10 run_dir=here"
    again = "python -m audit run -m prompt=origin,scale-10 stimuli.situations_per_emotion=103"
    assert after(MORE, sweep, sweep=True) == again
    assert after(Step.of("other_model"), sweep, sweep=True) == ""  # it would replace what was swept


def test_a_persona_s_run_goes_back_to_the_plain_prompt_and_a_margin_is_on_the_scale():
    assert after(Step.of("other_model"), variant="persona-1").endswith(" prompt=origin")
    assert after(Step.of("margin"), high=10.0).endswith(" statistics.margin=0.2")


def test_a_command_keeps_the_margin_that_a_later_report_set():
    again = after(MORE, margin=20.0)
    assert shlex.split(again)[4:] == ["model=planted", "stimuli.situations_per_emotion=103", "statistics.margin=20"]
    assert after(Step.of("nothing"), margin=20.0) == "python -m audit gate RUN margin=20"


def test_no_command_asks_more_narratives_than_there_are():
    assert after(MORE, n_narratives=60, n_available=1229) == ""
    assert after(MORE, n_narratives=60, n_available=1230) != ""
    assert after(Step.of("more_narratives"), n_narratives=408, n_available=408) == ""
    assert after(Step.of("margin"), n_narratives=408, n_available=408) != ""
