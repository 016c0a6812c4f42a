"""The jobs of a sweep in processes of their own, and as jobs of Slurm: stand-ins for its commands run them here."""

import importlib.util
import json
import os
import stat
import sys

import pytest
from forked import done
from runs import FOUR_RELIGIONS

from audit.cli.main import main

pytestmark = [pytest.mark.slow, pytest.mark.model, pytest.mark.process]
SWEEP = (
    "run", "-m", "engine=transformers", "engine.device=cpu", "elicitation=expected", "stimuli.emotions=[sad]",
    "stimuli.situations_per_emotion=2", *FOUR_RELIGIONS, "elicitation.check_sample=0", "elicitation.noise_sample=0",
    "elicitation.manipulation=0", "statistics.n_permutations=100", "reports_dir=reports",
)  # fmt: skip
SBATCH = """#!{python}
import os, pathlib, re, subprocess, sys
script = pathlib.Path(sys.argv[-1])
text = script.read_text()
asked = dict(re.findall(r"^#SBATCH --([\\w-]+)=(.*)$", text, re.M))
here = pathlib.Path(__file__).parent
with (here / "asked.txt").open("a") as out:
    out.write(text)
first, last = map(int, re.match(r"(\\d+)-(\\d+)", asked["array"]).groups())
for task in range(first, last + 1):
    own = {{"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(task), "SLURM_JOB_ID": str(70 + task),
            "SLURM_NTASKS": "1", "SLURM_JOB_NUM_NODES": "1", "SLURM_NODEID": "0", "SLURM_PROCID": "0",
            "SLURM_LOCALID": "0", "SLURM_JOB_NODELIST": "node1"}}
    subprocess.Popen(["bash", str(script)], env=os.environ | own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print("Submitted batch job 7")
"""
SRUN = """#!/usr/bin/env bash
while [[ "$1" == --* ]]; do
  if [[ "$1" == --output || "$1" == --error ]]; then shift; fi
  shift
done
exec "$@"
"""
SACCT = """#!{python}
print("JobID|State|NodeList")
for task in (0, 1):
    print(f"7_{{task}}|RUNNING|node1")
"""


@pytest.fixture(autouse=True)
def launcher():
    if importlib.util.find_spec("hydra_plugins") is None or (
        importlib.util.find_spec("hydra_plugins.hydra_submitit_launcher") is None
    ):
        pytest.skip("Hydra's launcher for Slurm is not installed: pip install 'empathy-audit[slurm]'")


def sweep(folder, environment, *words):
    """Run a sweep; return its exit code and what it says."""
    said = folder / "said.txt"
    changes = {name: value for name, value in environment.items() if os.environ.get(name) != value}
    return done((*SWEEP, *words), said, **changes), said.read_text()


def of_runs(folder):
    return {path.parent.name: path.read_bytes() for path in folder.glob("reports/tiny*/ratings.parquet")}


@pytest.fixture(scope="module")
def here(tiny_model, audit_in, tmp_path_factory):
    """Ratings of a sweep whose jobs this process did."""
    folder = tmp_path_factory.mktemp("here")
    assert audit_in(folder, *SWEEP, *sweep_of(tiny_model)) == 0
    return of_runs(folder)


def sweep_of(model):
    return f"model.path={model}", "model.name=tiny", "prompt=origin,scale-10"


@pytest.mark.parametrize("launcher_name", ["submitit_local", "slurm"])
def test_runs_that_are_made_elsewhere_are_those_of_a_sweep_here(
    launcher_name, here, tiny_model, child_environment, tmp_path
):
    there = tmp_path / "there"
    there.mkdir()
    words, environment = sweep_of(tiny_model), child_environment
    if launcher_name == "slurm":
        commands = tmp_path / "bin"
        commands.mkdir()
        for name, text in (("sbatch", SBATCH), ("srun", SRUN), ("sacct", SACCT)):
            path = commands / name
            path.write_text(text.format(python=sys.executable) if name != "srun" else text)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        environment = environment | {"PATH": f"{commands}{os.pathsep}{environment['PATH']}"}
        words = (*words, "hydra.launcher.partition=gpu", "hydra.launcher.mem_gb=3")
    code, said = sweep(there, environment, *words, f"hydra/launcher={launcher_name}")
    assert code == 0, said[-2000:]
    assert of_runs(there) == here
    assert len(here) == 2
    assert "report:   reports/comparison-" in said
    assert [line for line in said.splitlines() if line.startswith("job 1 (")]
    assert not list(there.glob(".sweep-*"))
    if launcher_name == "slurm":
        asked = (commands / "asked.txt").read_text()
        for setting in ("partition=gpu", "mem=3GB", "gpus-per-node=1", "time=240", "array=0-1%2"):
            assert f"#SBATCH --{setting}" in asked, asked
    manifests = [json.loads((path / "manifest.json").read_text()) for path in there.glob("reports/tiny*")]
    assert {each["status"] for each in manifests} == {"complete"}


@pytest.fixture
def debug_mode(monkeypatch):
    """Have submitit take what Slurm is asked for, and do each job in this process, as its debug mode does."""
    import submitit

    executor = submitit.AutoExecutor
    made = []

    def debugging(folder, cluster, **settings):
        made.append((cluster, executor(folder, cluster="debug", **settings)))
        return made[-1][1]

    monkeypatch.setattr("submitit.AutoExecutor", debugging)
    return made


# submitit's debug mode opens each job's log and leaves it open.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_runs_of_the_debug_mode_of_submitit_are_those_of_a_sweep_here(
    debug_mode, here, tiny_model, audit, tmp_path, capsys
):
    words = (*SWEEP, *sweep_of(tiny_model), "hydra/launcher=slurm")
    assert audit(*words, "hydra.launcher.partition=gpu", "hydra.launcher.mem_gb=3") == 0
    [(cluster, executor)] = debug_mode
    assert cluster == "slurm"
    assert executor.cluster == "debug"
    assert executor.parameters["mem_gb"] == 3
    assert of_runs(tmp_path) == here
    said = capsys.readouterr()
    assert [line[:7] for line in said.err.splitlines() if line.startswith("job ")] == ["job 0 (", "job 1 ("]
    assert "report:   reports/comparison-" in said.out
    assert not list(tmp_path.glob(".sweep-*"))


def test_a_setting_that_slurm_does_not_have_is_named(debug_mode, audit, tmp_path, capsys):
    assert audit("run", "-m", "hydra/launcher=slurm", "+hydra.launcher.partitoin=gpu", "seed=0,1") == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("audit: hydra/launcher=slurm: Unknown argument 'partitoin'")
    assert error.endswith("; correct the name in hydra.launcher.NAME=VALUE, or leave it out")
    valid = error.partition("Valid arguments: ")[2].partition(";")[0].split(", ")
    assert "partition" in valid
    assert valid == sorted(valid)  # submitit lists a set, whose order changes from process to process
    assert not list(tmp_path.glob(".sweep-*"))


def test_a_job_that_fails_elsewhere_is_named_and_the_others_are_made(tiny_model, child_environment, tmp_path):
    code, said = sweep(
        tmp_path, child_environment, "hydra/launcher=submitit_local", "model.name=tiny",
        f"model.path={tiny_model},{tmp_path / 'gone'}",
    )  # fmt: skip
    assert code == 2
    assert "is neither a folder on this machine nor a hub id" in said
    assert len(of_runs(tmp_path)) == 1
    assert "no comparison" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "hydra/launcher=submitit_local"), "is for the jobs of a sweep, and this is a single run; add -m"),
        (("prompts", "-m", "hydra/launcher=slurm", "seed=0,1"), "only `run -m` sends jobs to a cluster"),
        (("run", "-m", "hydra/launcher=slurm", "seed=0,1"), "Could not detect"),
        (("run", "-m", "hydra/launcher=slrum", "seed=0,1"), "slrum"),
    ],
)
def test_what_cannot_be_handed_over_is_said(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    assert main(list(words)) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("audit: ")
    assert said in error
    assert not list(tmp_path.glob(".sweep-*"))
