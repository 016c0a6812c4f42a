"""Runs with examples and knowledge, and with a strategy of a user's own, as the command line makes them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from runs import as_stored, collected, in_parts, of_before
from test_strategy_runs import N_PROMPTS, manifest_of, overrides

from audit.cli.main import main
from audit.runs.store import RunFolder
from audit.tables.stages import GIVEN, STAGES
from stimuli.examples import EXAMPLES_FILE

MANUAL = Path(__file__).parents[1] / "docs" / "strategies.md"
RANDOM = ("strategy=few-shot-1-random", f"strategy.examples.pool={EXAMPLES_FILE}")


@pytest.fixture(autouse=True)
def in_an_empty_folder_without_figures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})


@pytest.fixture(scope="module")
def random_once(audit_in, tiny_model, tmp_path_factory):
    """Folder of a finished run with examples; not to be written to."""
    folder = tmp_path_factory.mktemp("random")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
        assert audit_in(folder, "run", *overrides(tiny_model, "run", *RANDOM)) == 0
    return folder / "run"


@pytest.fixture
def finished(random_once, tmp_path):
    """Folder of a finished run with examples, ``run`` in the folder that the test runs in."""
    return shutil.copytree(random_once, tmp_path / "run")


def test_the_manual_s_own_strategy_runs_as_one_yaml_file(tiny_model, tmp_path):
    [example] = re.findall(r"```yaml\n(.*?)```", MANUAL.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "mine" / "strategy").mkdir(parents=True)
    (tmp_path / "mine" / "strategy" / "mine.yaml").write_text(example, encoding="utf-8")
    short = ("strategy.stages.needs.max_tokens=4", "strategy.stages.obstacles.max_tokens=4")
    assert main(["run", "--config-dir=mine", *overrides(tiny_model, "run", "strategy=mine", *short)]) == 0
    assert manifest_of(tmp_path / "run")["strategy"]["stages"] == ["needs", "obstacles"]
    with RunFolder(tmp_path / "run") as folder:
        assert set(folder.parts(STAGES).frame()["stage"]) == {"needs", "obstacles"}
        assert (folder.read_ratings(n_prompts=N_PROMPTS)["status"] == "rated").all()
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "What did they need most? Answer in one sentence." in page


def test_examples_are_kept_with_the_run_and_shown_in_its_report(tmp_path, finished):
    with RunFolder(tmp_path / "run") as folder:
        [given] = folder.table(GIVEN).rows()  # one example of one narrative
        ratings = folder.read_ratings(n_prompts=N_PROMPTS)
    assert list(given) == list(GIVEN)
    assert given["kind"] == "example"
    assert (ratings["n_dropped"] == 0).all()
    assert (ratings["n_prompt_tokens"] > 0).all()
    assert manifest_of(tmp_path / "run")["strategy"]["examples"]["n_pool"] == 60
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    for part in ("text", "answer"):
        assert given[part].replace("'", "\\u0027") in page or given[part] in page


def test_an_interrupted_run_goes_on_with_the_examples_that_it_had(tiny_model, random_once, tmp_path, monkeypatch):
    from audit.engines.transformers import TransformersEngine

    answer, calls = TransformersEngine.read, []

    def counting(self, *arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return answer(self, *arguments)

    monkeypatch.setattr(TransformersEngine, "read", counting)
    assert main(["run", *overrides(tiny_model, "run", *RANDOM)]) == 130
    # As if a newer version would choose others: what was shown to the first prompts is shown to the last.
    monkeypatch.setattr("audit.asking.strategies.given.give", lambda *_, **__: pytest.fail("the examples are there"))
    assert main(["run", *overrides(tiny_model, "run", *RANDOM)]) == 0
    assert collected(tmp_path / "run", "ratings") == collected(random_once, "ratings") != {}
    assert (tmp_path / "run" / "given.parquet").read_bytes() == (random_once / "given.parquet").read_bytes()


def test_examples_that_are_lost_are_chosen_again_and_must_be_the_same(tiny_model, tmp_path, capsys, finished):
    kept = (tmp_path / "run" / "given.parquet").read_bytes()
    (of_before(tmp_path / "run") / "given.parquet").unlink()
    assert main(["report", "run"]) == 0
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "given.parquet, with examples and knowledge, is gone" in page
    (in_parts(tmp_path / "run") / "ratings" / "part-000001.parquet").unlink()
    assert main(["run", *overrides(tiny_model, "run", *RANDOM)]) == 0
    assert (tmp_path / "run" / "given.parquet").read_bytes() == kept
    (tmp_path / "run" / "given.parquet").unlink()
    (in_parts(tmp_path / "run") / "ratings" / "part-000001.parquet").unlink()
    manifest = tmp_path / "run" / "manifest.json"
    manifest.write_text(re.sub(r'"given_sha256": "\w+"', '"given_sha256": "0"', manifest.read_text()))
    as_stored(tmp_path / "run")
    assert main(["run", *overrides(tiny_model, "run", *RANDOM)]) == 2
    assert (
        "given.parquet is missing, and the examples or knowledge to show now differ from what"
        in capsys.readouterr().err
    )


def test_examples_of_another_run_are_not_gone_on_with(tiny_model, tmp_path, capsys, finished):
    with RunFolder(tmp_path / "run") as folder:
        rows = folder.table(GIVEN).rows()
        folder.table(GIVEN).write([row | {"answer": "Another answer."} for row in rows])
    (in_parts(tmp_path / "run") / "ratings" / "part-000001.parquet").unlink()
    assert main(["run", *overrides(tiny_model, "run", *RANDOM)]) == 2
    assert (
        "given.parquet is not of this run: it differs from what the first prompts were shown" in capsys.readouterr().err
    )


@pytest.mark.parametrize("part", ["pool", "seed"])
def test_another_pool_is_another_run(part, tiny_model, tmp_path, capsys, finished):
    pool = tmp_path / "pool.csv"
    pool.write_text("example_id,text,answer\na,A long day at sea.,How good!\n", encoding="utf-8")
    other = {"pool": f"strategy.examples.pool={pool}", "seed": "seed=1"}[part]
    assert main(["run", *overrides(tiny_model, "run", *(RANDOM[:1] if part == "pool" else RANDOM), other)]) == 2
    assert f"run_dir=run holds another run: {'strategy.examples.pool' if part == 'pool' else 'seed'}" in (
        capsys.readouterr().err
    )


def test_examples_that_do_not_fit_are_left_out_and_counted(tiny_model, tmp_path):
    n = 16  # without the baseline, since long prompts take their time
    whole = ["strategy=few-shot-5-random", RANDOM[1], "model.max_model_len=2048", "stimuli.unspecified=false"]
    assert main(["run", *overrides(tiny_model, "whole", *whole)]) == 0
    with RunFolder(tmp_path / "whole") as folder:
        longest = int(folder.read_ratings(n_prompts=n)["n_prompt_tokens"].max())
    tight = [
        "strategy=few-shot-5-random",
        RANDOM[1],
        f"model.max_model_len={longest - 10}",
        "stimuli.unspecified=false",
    ]
    assert main(["run", *overrides(tiny_model, "tight", *tight)]) == 0
    with RunFolder(tmp_path / "tight") as folder:
        ratings = folder.read_ratings(n_prompts=n)
    assert (ratings["status"] == "rated").all()
    assert set(ratings["n_dropped"]) <= {0, 1}
    assert ratings["n_dropped"].sum() > 0
    assert "shortened" in (tmp_path / "tight" / "report.html").read_text(encoding="utf-8")


def test_knowledge_of_a_file_reaches_every_prompt(tiny_model, tmp_path, capsys):
    relations = ["xIntent", "xNeed", "xWant", "xEffect", "xReact"]
    settings = ["strategy=knowledge-file", "strategy.knowledge.path=known.csv"]
    known = tmp_path / "known.csv"
    known.write_text(",".join(["narrative_id", *relations]) + "\n", encoding="utf-8")
    assert main(["run", *overrides("no-such-model", "run", *settings)]) == 2
    assert "known.csv" in capsys.readouterr().err
    ids = [f"sad-{number:02}" for number in range(1, 35)]
    known.write_text(
        "\n".join([",".join(["narrative_id", *relations]), *(f"{i},1,2,3,4,to weep in {i}" for i in ids)]),
        encoding="utf-8",
    )
    assert main(["run", *overrides(tiny_model, "run", *settings)]) == 0
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "how they feel about it: to weep in sad-" in page
