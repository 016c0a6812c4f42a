"""Runs that workers on a Ray cluster share out; the cluster is of this machine, begun for each test."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import re
import signal
import sys

import pytest
from sharing import CHECKED, LED, TWO, collect, gone, overrides, same, signalled

from audit import __version__
from audit.asking.workers.cluster import Relay, fit
from audit.asking.workers.pool import Raised
from audit.asking.workers.serve import Opening
from audit.configuration.schema import EngineConfig, RayConfig
from audit.engines.open import judging_engine
from audit.errors import ModelError, WorkerError

with_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'empathy-audit[ray]'"
)
RAY = ("engine=ray", "engine.name=transformers", TWO)


@pytest.fixture(autouse=True)
def as_it_was():
    """Put the environment back, into which Ray writes."""
    before = dict(os.environ)
    yield
    for name in set(os.environ) - set(before):
        del os.environ[name]


@with_ray
@pytest.mark.slow
def test_two_actors_make_the_run_that_one_process_makes_byte_for_byte(alone, tiny_model, tmp_path):
    lines = []
    manifest = collect(tmp_path / "run", [*overrides(tiny_model, *CHECKED), *RAY], lines)
    same(tmp_path / "run", alone(*CHECKED))
    one = json.loads((alone(*CHECKED) / "manifest.json").read_text())
    assert manifest.content["identity"] == one["identity"]
    assert manifest.content["timings"]["replicas"] == 2
    assert [line for line in lines if line.startswith("2 x transformers ")]


@with_ray
@pytest.mark.slow
@pytest.mark.simulation
@pytest.mark.parametrize("of", ["process", "actor"])
def test_what_a_worker_left_that_was_killed_another_one_takes_over(of, alone, tiny_model, tmp_path, on_progress):
    seen, killed = [], []

    def act(state):
        found = [int(pid) for pid in re.findall(r"actor (\d+), process (\d+)", state.worker.name)[0]]
        seen.append(found)
        signalled(signal.SIGKILL, killed, of=lambda _: found[of == "process"])(state)

    on_progress(act)
    lines = []
    collect(tmp_path / "run", [*overrides(tiny_model, *LED), *RAY], lines)
    same(tmp_path / "run", alone(*LED))
    [note] = [line for line in lines if line.startswith("note:")]
    assert f"{of} {killed[0]}" in note
    assert " has ended at shard " in note
    assert note.endswith("; 1 of 2 go on")
    assert ("signal SIGKILL" in note) == (of == "process")
    assert gone({pid for pair in seen for pid in pair})


@with_ray
@pytest.mark.slow
def test_a_cluster_that_is_not_there_ends_in_one_line(tiny_model, tmp_path):
    with pytest.raises(WorkerError, match=r"engine\.ray\.address=auto: no Ray cluster can be reached there"):
        collect(tmp_path / "run", [*overrides(tiny_model), *RAY, "engine.ray.address=auto"])


# --- Without a cluster -----------------------------------------------------------------------------------------------


def test_without_ray_a_line_says_how_to_get_it(tiny_model, audit, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert audit("run", *overrides(tiny_model, *RAY, "run_dir=run")) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("pip install 'empathy-audit[ray]'")


def test_a_server_is_not_asked_through_ray(tiny_model, audit, capsys):
    assert audit("run", *overrides(tiny_model, *RAY, "engine.name=openai", "run_dir=run")) == 2
    assert "for a server, use engine=openai" in capsys.readouterr().err.splitlines()[-1]


def heard(relay):
    while not (events := pickle.loads(relay.hear())):
        pass
    return events


@pytest.mark.process
def test_a_node_that_lacks_the_model_is_named(tiny_config, tmp_path):
    model, engine = tiny_config(tmp_path / "elsewhere")
    relay = Relay(1, __version__, {}, pickle.dumps(Opening(model, engine, 0, False, None)))
    raised = next(event for _ in range(99) for event in heard(relay) if isinstance(event, Raised))
    relay.stop()
    assert isinstance(raised.error, ModelError)
    assert str(raised.error).startswith(f"node {os.uname().nodename}: model.path={tmp_path / 'elsewhere'} is neither")


def test_a_node_with_another_version_is_named():
    [raised] = heard(Relay(1, "0.0.1", {}, b""))
    assert isinstance(raised.error, WorkerError)
    assert "but this machine has 0.0.1" in str(raised.error)


def engine_of(**changes):
    settings = {"name": "auto", "tensor_parallel_size": 1, "gpu_memory_utilization": 0.9, "kv_cache_gib": 1}
    settings |= {"enforce_eager": None, "block_size": None, "device": "auto", "batch_size": 16}
    return EngineConfig(**(settings | {"ray": RayConfig(num_cpus=2)} | changes))


@pytest.mark.parametrize(
    ("nodes", "changes", "wanted", "expected"),
    [
        ([{"CPU": 8, "GPU": 4}, {"CPU": 8, "GPU": 4}], {}, "auto", (8, 1)),
        ([{"CPU": 8, "GPU": 3}, {"CPU": 8, "GPU": 3}], {"tensor_parallel_size": 2}, "auto", (2, 2)),  # each of one node
        ([{"CPU": 8, "GPU": 4}, {"CPU": 8}], {}, 3, (3, 1)),
        ([{"CPU": 8, "GPU": 4}, {"CPU": 7}], {"device": "cpu"}, "auto", (7, 0)),
        ([{"CPU": 5}, {}], {}, "auto", (2, 0)),
    ],
)
def test_a_cluster_has_room_for_so_many(nodes, changes, wanted, expected):
    assert fit(nodes, engine_of(**changes), wanted) == expected


@pytest.mark.parametrize(
    ("nodes", "wanted", "said"),
    [
        ([{"CPU": 8, "GPU": 2}], 3, "engine.replicas=3: Ray's cluster has room for 2 of engine.tensor_parallel_size=1"),
        (
            [{"CPU": 1}],
            "auto",
            "engine.replicas=auto: Ray's cluster has room for 0 of engine.ray.num_cpus=2 on its CPUs",
        ),
    ],
)
def test_more_than_a_cluster_has_room_for_is_refused(nodes, wanted, said):
    with pytest.raises(WorkerError) as refused:
        fit(nodes, engine_of(), wanted)
    assert str(refused.value).startswith(said)


def test_a_judge_is_asked_by_the_command_s_own_process():
    judging = judging_engine(engine_of(replicas=4), served=False)
    assert (judging.replicas, judging.ray) == (1, None)
