"""Without the extra `local`: endpoints are asked and ratings analysed, and what needs a library says how to get it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "engines"))
from hostile import KEY, Hostile

pytestmark = [pytest.mark.process, pytest.mark.server, pytest.mark.long]

ROOT = Path(__file__).resolve().parent.parent
HEAVY = (
    "torch", "transformers", "vllm", "tokenizers", "safetensors", "huggingface_hub", "accelerate", "gguf", "ray",
    "sentence_transformers", "sklearn", "docx", "pyreadstat", "python_calamine",
)  # fmt: skip
CODE = f"""
import json, sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, *place):
        return None if name.partition(".")[0] in {HEAVY!r} else super().find_spec(name, *place)

sys.meta_path[:] = [Without if finder is PathFinder else finder for finder in sys.meta_path]
from audit.cli.main import main
for words in json.load(open("commands.json")):
    print("exit code", main(words), file=sys.stderr, flush=True)
"""
SMALL = (
    "stimuli.identities=geneva", "stimuli.pairs=all", "stimuli.situations_per_emotion=2",
    "stimuli.emotions=[sad,happy]", "dimensions=[religion]", "stimuli.placebo=0", "statistics.n_permutations=100",
)  # fmt: skip


def without_libraries(folder: Path, *commands: str) -> tuple[list[int], str]:
    """Run commands in one process that cannot import the heavy libraries; return their exit codes and what was said."""
    (folder / "commands.json").write_text(json.dumps([command.split() for command in commands]))
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TESTS_KEY": KEY, "HYDRA_FULL_ERROR": "1"}
    done = subprocess.run([sys.executable, "-c", CODE], env=env, cwd=folder, capture_output=True, text=True, check=True)
    codes = [int(line.split()[-1]) for line in done.stderr.splitlines() if line.startswith("exit code")]
    return codes, done.stderr


def test_a_served_model_is_audited_and_compared_and_gated(tmp_path):
    server = Hostile(models=("tiny", "other"))
    with server.serving() as url:
        asked = (
            f"run model=openai model.base_url={url} model.api_key_env=TESTS_KEY elicitation=generate {' '.join(SMALL)}"
        )
        codes, said = without_libraries(
            tmp_path,
            f"{asked} model.path=tiny run_dir=runs/a",
            f"{asked} model.path=other run_dir=runs/b",
            f"{asked} model.path=tiny run_dir=runs/a",  # nothing is left to ask
            "gate runs/a margin=2",
            "report runs/a runs/b run_dir=compared",
            "index runs",
            "verify runs/a",
            "export runs/a form=csv to=exported",
            "plan model=openai model.path=tiny probe=0",
        )
    assert [code for place, code in enumerate(codes) if place != 3] == [0] * 8, said
    assert codes[3] in (0, 1, 3)  # a verdict
    assert server.asked
    for page in ("runs/a/report.html", "compared/comparison.html", "runs/index.html"):
        assert (tmp_path / page).stat().st_size > 10_000, page


def test_answers_and_ratings_of_other_tools_are_analysed(tmp_path):
    codes, said = without_libraries(tmp_path, f"prompts out=prompts.jsonl elicitation.prefill= {' '.join(SMALL)}")
    assert codes == [0], said
    prompts = [json.loads(line) for line in (tmp_path / "prompts.jsonl").read_text().splitlines()]
    answers = [{"id": each["id"], "text": str(place % 90)} for place, each in enumerate(prompts)]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)))
    rows = [f"a {p},a {e},n{n},{50 + 7 * n + (p == e)}" for p in "XYZ" for e in "XYZ" for n in range(6)]
    (tmp_path / "ratings.csv").write_text("\n".join(["perceiver,experiencer,narrative_id,rating", *rows]))
    (tmp_path / "groups.csv").write_text("\n".join(["term,group", *(f"a {each},{each}" for each in "XYZ")]))
    codes, said = without_libraries(
        tmp_path,
        "report answers=answers.jsonl prompts=prompts.jsonl model=mine by=hand run_dir=answered",
        "report ratings=ratings.csv groups=groups.csv low=0 high=100 run_dir=rated",
        "report rated",
    )
    assert codes == [0, 0, 0], said
    assert (tmp_path / "answered" / "report.html").is_file()


def test_what_needs_a_library_says_in_one_line_how_to_get_it_before_a_folder_is_made(tmp_path):
    commands = {
        "run": "local",
        "run engine=transformers": "local",
        "run engine=vllm": "vllm",
        "run engine=ray": "ray",
        "run model=planted task=reply strategy=few-shot-5": "examples",
        "run model=planted strategy=knowledge-comet strategy.knowledge.path=x/y": "local",
        "plan": "local",
        "plan probe=0": "local",
    }
    codes, said = without_libraries(tmp_path, *commands)
    assert codes == [2] * len(commands), said
    parts = said.split("exit code 2\n")
    for (command, extra), part in zip(commands.items(), parts, strict=False):
        assert f"pip install 'empathy-audit[{extra}]'" in part.splitlines()[-1], command
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["commands.json"]


def test_doctor_examines_a_machine_without_them(tmp_path):
    codes, said = without_libraries(tmp_path, "doctor probe=0")
    assert codes == [1], said
    assert "Traceback" not in said
