"""Which devices each worker gets."""

import pytest

from audit.asking.workers.devices import of_cpu, of_gpus, shares, visible_gpus
from audit.errors import WorkerError


@pytest.mark.parametrize(
    ("visible", "n", "expected"),
    [
        (None, 3, ["0", "1", "2"]),
        ("2,3", 2, ["2", "3"]),
        (" GPU-8932f937, GPU-0a1b2c3d ", 2, ["GPU-8932f937", "GPU-0a1b2c3d"]),
        ("MIG-a/1/0,MIG-b/2/0", 2, ["MIG-a/1/0", "MIG-b/2/0"]),
        ("0,1,-1,2", 2, ["0", "1"]),  # what follows one that is none is not seen
        ("", 0, []),
    ],
)
def test_gpus_are_called_as_the_environment_calls_them(visible, n, expected, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr("audit.engines.hardware.count_gpus", lambda: n)
    assert visible_gpus() == expected


@pytest.mark.parametrize(
    ("wanted", "each", "expected"),
    [
        ("auto", 1, ["4", "5", "6", "7", "9"]),
        ("auto", 2, ["4,5", "6,7"]),
        (2, 1, ["4", "5"]),
        (1, 4, ["4,5,6,7"]),
    ],
)
def test_each_gets_gpus_of_its_own(wanted, each, expected):
    own = of_gpus(["4", "5", "6", "7", "9"], wanted, each=each)
    assert [share.environment for share in own] == [{"CUDA_VISIBLE_DEVICES": names} for names in expected]
    assert own[0].on == f"GPU {expected[0]}"


@pytest.mark.parametrize(
    ("wanted", "each", "said"),
    [
        (3, 1, "engine.replicas=3 x engine.tensor_parallel_size=1 needs 3 GPUs, but this machine has 2"),
        (2, 2, "needs 4 GPUs, but this machine has 2 (CUDA_VISIBLE_DEVICES=0,1); at most 1 fit"),
        ("auto", 4, "engine.replicas=auto x engine.tensor_parallel_size=4 needs 4 GPUs"),
    ],
)
def test_more_than_there_are_gpus_for_is_refused(wanted, each, said, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(WorkerError) as refused:
        of_gpus(["0", "1"], wanted, each=each)
    assert said in str(refused.value)


@pytest.mark.parametrize(("told", "n", "each"), [("8", 3, "2"), ("8", 16, "1"), ("", 1, None)])
def test_a_cpu_is_shared_out_in_threads(told, n, each, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", told)
    own = of_cpu(n)
    assert len(own) == n
    assert {share.environment["OMP_NUM_THREADS"] for share in own} == {each or own[0].environment["OMP_NUM_THREADS"]}
    assert int(own[0].environment["OMP_NUM_THREADS"]) >= 1


def test_a_mac_s_one_gpu_is_not_shared(tiny_config, monkeypatch, tmp_path):
    monkeypatch.setattr("audit.engines.transformers.choose_device", lambda wanted: "mps")
    _, engine = tiny_config(tmp_path)
    assert len(shares(engine.model_copy(update={"replicas": "auto"}), "transformers")) == 1
    with pytest.raises(WorkerError, match="one GPU"):
        shares(engine.model_copy(update={"replicas": 2}), "transformers")


@pytest.mark.model
def test_gpus_are_used_where_the_engine_uses_them(tiny_config, monkeypatch, tmp_path):
    monkeypatch.setattr("audit.engines.hardware.has_gpu", lambda: True)
    monkeypatch.setattr("audit.engines.hardware.count_gpus", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    _, engine = tiny_config(tmp_path, device="cpu")
    several = engine.model_copy(update={"replicas": 2})
    assert [share.on for share in shares(several, "vllm")] == ["GPU 0", "GPU 1"]
    assert all(share.on.startswith("CPU") for share in shares(several, "transformers"))
