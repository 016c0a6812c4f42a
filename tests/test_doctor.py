"""What doctor says of a machine: its faults are named with a remedy, and nothing tells who the user is."""

import shutil
import sys
from collections import namedtuple

import pytest

from audit.extras.planning import examination as doctor
from audit.extras.planning.examination import Tried, _compared

TINY = ("engine=transformers", "engine.device=cpu", "elicitation=expected", "stimuli.emotions=[sad]")
Usage = namedtuple("Usage", "total used free")
NOT_ASKED = "No problem was found, but no question was asked"


@pytest.fixture
def examined(audit, number_model, capsys, tmp_path):
    def run(*words, code=0, model=number_model):
        page = tmp_path / "page.md"
        assert audit("doctor", f"model.path={model}", *TINY, f"out={page}", *words) == code
        said = capsys.readouterr()
        assert page.read_text() == said.out
        return said.out

    return run


def test_secrets_and_the_home_folder_are_not_on_the_page(examined, monkeypatch, number_model):
    monkeypatch.setenv("HF_TOKEN", "hf_secret77")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret88")
    monkeypatch.setenv("USER", "mueller")
    monkeypatch.setattr("audit.extras.planning.examination._import_fault", lambda *_: "no module in /home/mueller/x")
    monkeypatch.setattr("pathlib.Path.home", lambda: number_model.parent)
    page = examined("probe=0")
    assert "HF_TOKEN: set" in page
    assert NOT_ASKED in page
    for secret in ("hf_secret77", "sk-secret88", "mueller", str(number_model.parent)):
        assert secret not in page


def test_what_does_not_import_is_a_note_with_its_remedy(examined, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if name != "torchaudio" else None)
    monkeypatch.setattr(
        "audit.extras.planning.examination._import_fault", lambda *_: "operator torchvision::nms does not exist"
    )
    page = examined("probe=0")
    assert "vLLM does not import: operator torchvision::nms" in page
    assert "pip uninstall torchvision torchcodec" in page


def test_an_engine_that_the_run_takes_and_that_does_not_import_keeps_it_from_working(examined, monkeypatch):
    monkeypatch.setattr(
        "audit.extras.planning.examination._import_fault", lambda *_: "operator torchvision::nms does not exist"
    )
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: object() if name in ("vllm", "torch", "transformers") else None
    )
    page = examined("probe=0", "engine=vllm", code=1)
    assert "- **Mend:** vLLM does not import: operator torchvision::nms" in page
    assert "A run would not work." in page
    assert NOT_ASKED in examined("probe=0")  # engine=transformers, which the others ask for


def test_the_engine_that_writes_texts_is_the_one_of_a_run_that_has_them(examined, monkeypatch):
    monkeypatch.setattr("audit.extras.planning.examination._import_fault", lambda *_: "it is broken")
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: object() if name in ("vllm", "torch", "transformers") else None
    )
    monkeypatch.setattr("audit.engines.hardware.has_gpu", lambda: False)
    for words in (("elicitation=generate",), ("task=reply",), ("strategy=perspective",)):
        assert "**Mend:** vLLM does not import" in examined("probe=0", "engine=auto", *words, code=1)
    assert "- Note: vLLM does not import" in examined("probe=0", "engine=auto")


def test_of_a_task_without_numbers_no_engine_is_tried_and_none_is_blamed(examined, monkeypatch):
    monkeypatch.setattr("audit.extras.planning.examination._import_fault", lambda *_: "left out by a test")
    monkeypatch.setattr(
        "audit.extras.planning.examination.try_engine", lambda *_, **__: pytest.fail("an engine was tried")
    )
    page = examined("task=reply")
    assert (
        "no engine was tried, because this task's answers are not numbers; leave out task= to try the engines"
    ) in page
    assert NOT_ASKED in page


def test_a_full_disk_and_a_model_that_is_not_there_end_with_code_1(examined, monkeypatch, tmp_path):
    monkeypatch.setattr("audit.extras.planning.examination._import_fault", lambda *_: "")
    page = examined("probe=0", code=1, model=tmp_path / "gone")
    assert "**Mend:**" in page
    assert "gone is neither a folder on this machine nor a hub id" in page
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10, 9, 1))
    page = examined("probe=0", code=1)
    assert "less than 2 GB free" in page
    assert "A run would not work." in page


@pytest.mark.process
@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import time; time.sleep(60)", r"no answer within 2 s"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "signal 11"),
        ("raise RuntimeError('out of memory')", "exit code 1: RuntimeError: out of memory"),
    ],
)
def test_an_engine_that_hangs_or_dies_is_a_finding(code, says):
    assert says in doctor._child(["-c", code], 2.0 if "sleep" in code else 60.0)[1]


def test_garbage_of_an_engine_s_process_is_a_finding(monkeypatch):
    class Any:
        server = None

        def model_copy(self, update):
            return self

        def model_dump(self, mode):
            return {}

    asked = Any()
    asked.engine = Any()
    monkeypatch.setattr(doctor, "_child", lambda *_: ("no json at all", ""))
    assert "ended without an answer: no json at all" in doctor.try_engine("vllm", asked, limit_s=1).fault


def test_engines_that_disagree_are_told_and_those_that_agree_too():
    one = Tried("transformers", "", "5 on cpu, float32", 1, 3, (50.0, 60.0, None))
    near, far = (Tried("vllm", "", "1 on cpu, float32", 1, 3, (50.0, 60.0 + off, 3.0)) for off in (0.01, 0.5))
    lines, wrong, notes = _compared([one, near], "transformers", scale=100)
    assert lines[-1].endswith("0.01 points of 100: they agree")
    assert not wrong
    assert not notes
    lines, wrong, notes = _compared([one, far], "transformers", scale=100)
    assert lines[-1].endswith("they do NOT agree")
    assert "one engine has a fault:" in notes[0]
    _, wrong, notes = _compared([Tried("transformers", "signal 9"), near], "transformers", scale=100)
    assert wrong == ["engine=transformers: no answer: signal 9"]
    _, wrong, notes = _compared([one, Tried("vllm", "signal 9")], "transformers", scale=100)
    assert not wrong
    assert notes == ["engine=vllm: no answer: signal 9"]


def test_what_a_run_has_beside_the_process_that_is_tried_is_said_or_refused(examined, monkeypatch):
    monkeypatch.setattr("audit.extras.planning.examination._import_fault", lambda *_: "left out by a test")
    page = examined("probe=0", "engine.replicas=3")
    assert "engine.replicas=3: 3 workers" in page
    assert "engine.replicas=3: one process is tried" in page
    monkeypatch.setattr("audit.engines.transformers.choose_device", lambda _: "cuda")
    monkeypatch.setattr("audit.asking.workers.devices.visible_gpus", lambda: ["0"])
    assert "this machine has 1" in examined("probe=0", "engine.replicas=3", code=1)
    monkeypatch.setitem(sys.modules, "ray", None)
    page = examined("probe=0", "engine=ray", "engine.name=transformers", code=1)
    assert "**Mend:** engine=ray: Ray is not installed" in page
    assert "Ray's cluster was not checked:" in page


@pytest.mark.slow
def test_the_engine_of_a_run_is_tried_in_a_process_of_its_own(examined, monkeypatch):
    monkeypatch.setattr("audit.extras.planning.examination._import_fault", lambda *_: "left out by a test")
    page = examined("limit_s=120")
    assert "20 of 20 prompts rated" in page
    assert "A run would work: the model answered." in page


def test_bad_options_end_in_one_line(audit, capsys):
    assert audit("doctor", "limit_s=0") == 2
    assert capsys.readouterr().err.splitlines()[-1] == "audit: limit_s=0: must be above 0 s"
    assert audit("doctor", "-m", "seed=0,1") == 2
    assert "doctor checks one run" in capsys.readouterr().err


def test_what_was_found_of_the_chat_template_is_on_the_page_and_its_fault_is_too(examined, monkeypatch, make_model):
    monkeypatch.setattr("audit.extras.planning.examination._import_fault", lambda *_: "left out by a test")
    page = examined("probe=0")
    found = page.partition("## Chat template\n\n")[2].partition("\n\n")[0].splitlines()
    assert len(found) == 10
    assert "- system role: shown" in found
    assert "- an answer begins after: '<|end|>\\n<|start|>assistant\\n'" in found
    silent = make_model(template="{% for m in messages %}{{ m.role }}{% endfor %}")
    page = examined("probe=0", code=1, model=silent)
    assert "**Mend:** model" in page
    assert "its chat template leaves out the user's message" in page
    assert "## Chat template" not in page
