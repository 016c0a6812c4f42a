"""Whole runs that fill in a questionnaire: from the command line to subscale scores, their report, and back again."""

import json
import re
import shutil
from hashlib import sha256

import pandas as pd
import pytest
import yaml
from runs import FOUR_RELIGIONS, as_stored, in_parts

from audit.engines.base import EngineFacts, Generated, OpenModel
from audit.engines.local import LocalModel, TokenEngine
from audit.engines.open import EngineChoice
from audit.engines.resolve import ModelFiles
from audit.runs.store import RunFolder

TINY = ("engine=transformers", "engine.device=cpu", "model.name=tiny", "model.dtype=float32", "shard_size=40")
SMALL = (*FOUR_RELIGIONS, "stimuli.unspecified=false", "stimuli.emotions=[sad,happy]")
TEA = {
    "name": "tea test",
    "source": "made up",
    "scale": {"low": 0, "high": 4, "low_label": "never", "high_label": "always"},
    "instruction": "How often is this true?",
    "items": [
        {"id": "c1", "text": "I bring others their tea.", "subscale": "care"},
        {"id": "c2", "text": "I drink alone.", "subscale": "care", "reverse": True},
        {"id": "c3", "text": "I ask how they like it.", "subscale": "care"},
        {"id": "t1", "text": "I am thirsty.", "subscale": "thirst"},
        {"id": "t2", "text": "I finish the pot.", "subscale": "thirst"},
    ],
}


def tea(folder, name="tea.yaml", **changes):
    path = folder / name
    path.write_text(yaml.safe_dump(TEA | changes), encoding="utf-8")
    return path


def manifest_of(run):
    return json.loads((run / "manifest.json").read_text(encoding="utf-8"))


def answers_of(run):
    return RunFolder(run).read("answers", n_prompts=manifest_of(run)["n_prompts"])


def table(run, name):
    return pd.read_csv(run / "tables" / f"{name}.csv", keep_default_na=False, na_values=[""])


def files(run):
    kept = ("answers", "answers.parquet", "tables", "figures", "report.html")
    found = (path for name in kept for path in [run / name, *(run / name).glob("*")] if path.is_file())
    return {str(path.relative_to(run)): path.read_bytes() for path in found}


# --- The packaged affect words, by a model that writes no numbers ----------------------------------------------------


@pytest.fixture(scope="session")
def affect(finished_model_run):
    """Return a finished run of 4 perceivers, 12 words, both orders of the scale, the default and 2 situations."""
    return finished_model_run("affect")


def test_every_perceiver_answers_every_word_in_both_orders_by_default_and_in_each_situation(affect):
    answers, manifest = answers_of(affect), manifest_of(affect)
    assert len(answers) == manifest["n_prompts"] == 4 * 3 * 12 * 2
    key = ["perceiver", "narrative_id", "order", "item_id"]
    assert not answers.duplicated(key).any()
    assert answers.groupby(["perceiver", "narrative_id"], observed=True).size().tolist() == [24] * 12
    assert (answers["status"] == "rated").all()
    assert answers["answer"].between(1, 5).all()
    assert manifest["counts"] == {"rated": 288, "refused": 0, "unparseable": 0, "failed": 0, "total": 288}
    assert manifest["task"] == {
        "kind": "inventory", "presentation": "single", "n_orders": 2, "affect": True, "method": "expected",
        "max_tokens": None,
    }  # fmt: skip
    described = table(affect, "dictionary").groupby("table")["column"].agg(list).to_dict()
    written = {path.stem: list(pd.read_csv(path).columns) for path in affect.glob("tables/*.csv")}
    assert written.pop("dictionary")
    assert written | {"answers": list(answers.columns)} == described


def test_a_group_s_score_and_change_are_the_means_worked_from_its_answers(affect):
    answers = answers_of(affect)
    word = answers["item_id"].astype(str).isin(["amused", "cheerful", "happy", "relaxed", "relieved", "joyful"])
    own = answers[word & (answers["perceiver_group"] == "Hindu")]
    means = own.groupby(own["narrative_id"].astype(str))["answer"].mean()
    groups = table(affect, "inventory_groups").set_index(["perceiver_group", "subscale"])
    assert groups.loc[("Hindu", "positive"), "score"] == pytest.approx(means["default"])
    # Both directions of the scale were asked, so they are no sample: the interval is over the six words, 5 df.
    assert (groups["df"] == 5).all()
    differences = table(affect, "inventory_differences")
    assert (differences["df"].dropna() == 5).all()
    assert differences["df"].notna().any()
    assert differences["se_orders"].isna().all()
    changes = table(affect, "affect_groups").set_index(["perceiver_group", "subscale", "narratives"])
    happy = next(name for name in means.index if name.startswith("happy"))
    assert changes.loc[("Hindu", "positive", "positive"), "change"] == pytest.approx(means[happy] - means["default"])
    assert set(changes.index.get_level_values("narratives")) == {"positive", "negative"}


@pytest.mark.every_format
def test_an_interrupted_run_goes_on_to_the_same_bytes(affect, audit, tiny_model, tmp_path):
    before = files(affect)
    again = shutil.copytree(affect, tmp_path / "again")
    words = ("task=inventory", *TINY, *SMALL, f"model.path={tiny_model}", "elicitation=expected")
    for name in ("part-000001", "part-000005"):
        (in_parts(again) / f"answers/{name}.parquet").unlink()
    assert audit("report", again) == 2
    assert audit("run", *words, "stimuli.situations_per_emotion=1", f"run_dir={again}") == 0
    after = files(again)
    assert manifest_of(again)["n_sessions"] == 2
    # The report and the manifest name the folder, the command and the time.
    assert {name: after[name] for name in after if name != "report.html"} == {
        name: before[name] for name in before if name != "report.html"
    }


@pytest.mark.every_format
def test_a_report_is_rendered_again_without_the_model_and_by_other_settings(affect, audit, tmp_path, monkeypatch):
    monkeypatch.setattr("audit.engines.open.open_model", None)
    again = shutil.copytree(affect, tmp_path / "run")
    assert audit("report", again) == 0
    assert files(again) == files(affect)
    assert audit("report", again, "statistics.confidence=.8") == 0
    assert "80% interval" in (again / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("report", "{run}", "{copy}"), "is a run of task=inventory, of which there is no comparison"),
        (("people", "export", "{run}"), "nothing for people to rate"),
        (("report", "{run}", "statistics.margin=2"), "statistics.margin is for runs of ratings"),
        (("report", "{run}", "statistics.sensitivity=true"), "statistics.sensitivity is for runs of ratings"),
    ],
)
def test_what_takes_ratings_or_replies_refuses_answers_in_one_line(words, said, affect, audit, tmp_path, capsys):
    copy = tmp_path / "copy"
    copy.mkdir()
    manifest = manifest_of(affect)
    manifest["identity"]["seed"] = 1
    (copy / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    as_stored(copy)
    assert audit(*(word.format(run=affect, copy=copy) for word in words)) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert said in line


# --- Lists, by scripted models ---------------------------------------------------------------------------------------


class Scripted(TokenEngine):
    """A model whose tokens are bytes; it answers each line of a list by who it is, as it reads the prompt."""

    facts = EngineFacts("scripted", "1", "cpu", "float32")
    max_model_len = 100_000
    n_calls = 0

    template = None

    @property
    def tokenizer(self):
        return self

    def render(self, prompt):
        return f"{prompt.system}\n\n{prompt.user}"

    def encode(self, text):
        return list(text.encode())

    def encode_prompts(self, prompts):
        return [self.encode(self.render(prompt)) for prompt in prompts]

    def forget(self):
        pass

    def generate(self, prompts, *, max_tokens, temperature=0.0, top_p=1.0, seeds=None, done=None):
        self.n_calls += 1
        return [Generated(self.says(bytes(ids).decode()), 3, False) for ids in prompts]

    def says(self, text):
        numbered = re.findall(r"^(\d+)\. (.+)$", text, re.MULTILINE)
        return "\n".join(f"{place}: {self.answer(text, place, item)}" for place, item in numbered)

    def answer(self, text, place, item):
        """An answer is 1 or 2 by item and place; a Hindu cares one point more; sad situations add one thirst."""
        base = 1 + sha256(f"{item}{place}".encode()).digest()[0] % 2
        cares = "a Hindu" in text and item in ("I bring others their tea.", "I ask how they like it.")
        # The reverse item: one point more of care is one point less of it.
        alone = -1 if "a Hindu" in text and item == "I drink alone." else 0
        thirst = item in ("I am thirsty.", "I finish the pot.") and "Imagine that you are" in text
        return base + cares + alone + thirst


@pytest.fixture
def scripted(audit, monkeypatch, tmp_path):
    """Return a function that runs a questionnaire on a scripted model and returns its folder."""

    def run_on(engine, *words, code=0):
        monkeypatch.setattr("audit.engines.open.choose_engine", lambda *_, **__: EngineChoice("scripted", "a test"))
        monkeypatch.setattr(
            "audit.engines.open.open_model",
            lambda *_, **__: OpenModel(engine, LocalModel(ModelFiles(tmp_path, None), {})),
        )
        assert audit("run", "task=inventory", *SMALL, "model.path=scripted", "run_dir=run", *words) == code
        return tmp_path / "run"

    return run_on


def test_a_planted_difference_is_found_in_its_subscale_alone_and_reverse_items_are_turned(scripted, tmp_path):
    run = scripted(Scripted(), f"task.path={tea(tmp_path)}", "task.presentation=list", "task.n_orders=4")
    answers = answers_of(run)
    assert len(answers) == 4 * 4 * 5
    assert manifest_of(run)["n_prompts"] == 4 * 4
    assert manifest_of(run)["task"]["max_tokens"] == 32 * 5
    # As given: a Hindu drinks alone less.
    alone = answers[answers["item_id"] == "c2"].groupby("perceiver_group", observed=True)["answer"].mean()
    assert alone["Hindu"] == alone["Muslim"] - 1
    differences = table(run, "inventory_differences")
    differences = differences[differences["compared_with"] == "other groups"].set_index(["perceiver_group", "subscale"])
    assert differences.loc[("Hindu", "care"), "difference"] == pytest.approx(1)
    assert differences.loc[("Muslim", "care"), "difference"] == pytest.approx(-1 / 3)  # the mean of 1, 0 and 0
    assert differences.loc[("Hindu", "thirst"), "difference"] == pytest.approx(0)
    assert not list(run.glob("tables/affect_*"))
    assert "total" not in set(table(run, "inventory_scores")["subscale"])


def test_a_planted_change_is_evoked_in_its_subscale_alone(scripted, tmp_path, monkeypatch, capsys):
    words = ("task.presentation=list", "task.affect=true", "stimuli.situations_per_emotion=2")
    run = scripted(Scripted(), f"task.path={tea(tmp_path)}", *words)
    changes = table(run, "affect_groups").set_index(["subscale", "narratives", "perceiver_group"])["change"]
    assert manifest_of(run)["task"]["n_orders"] == 5
    assert changes["thirst"].to_numpy() == pytest.approx(1)
    assert changes["care"].to_numpy() == pytest.approx(0)
    monkeypatch.setattr("stimuli.inventories._IMAGINE", "Picture this: {}\n\n")
    scripted(Scripted(), f"task.path={tea(tmp_path)}", *words, code=2)
    assert "holds another run: prompt.sha256 is" in capsys.readouterr().err


def test_a_corrected_key_scores_the_same_answers_and_another_item_is_another_run(scripted, audit, tmp_path, capsys):
    path, engine = tea(tmp_path), Scripted()
    words = (f"task.path={path}", "task.presentation=list")
    run = scripted(engine, *words)
    before, n_calls = table(run, "inventory_groups").set_index(["perceiver_group", "subscale"])["score"], engine.n_calls
    tea(tmp_path, items=[item | {"reverse": False} for item in TEA["items"]])
    scripted(engine, *words)
    after = table(run, "inventory_groups").set_index(["perceiver_group", "subscale"])["score"]
    assert engine.n_calls == n_calls
    assert after["Hindu", "care"] != before["Hindu", "care"]
    path.unlink()  # its content is in the manifest
    assert audit("report", run) == 0
    for other in ("text", "id"):
        tea(tmp_path, items=[item | {other: f"{item[other]}!"} for item in TEA["items"]])
        capsys.readouterr()
        scripted(engine, *words, code=2)
        assert "holds another run: prompt.sha256 is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("I think that I am often rather kind to others.", "unparseable"),
        ("I'm sorry, but I cannot answer these.", "refused"),
        ("", "unparseable"),
    ],
)
def test_prose_is_counted_and_never_scored(text, status, scripted, tmp_path, capsys):
    engine = Scripted()
    engine.says = lambda _: text
    run = scripted(engine, f"task.path={tea(tmp_path)}", "task.presentation=list", "task.n_orders=2")
    answers = answers_of(run)
    assert set(answers["status"]) == {status}
    assert answers["answer"].isna().all()
    assert manifest_of(run)["counts"][status] == len(answers) == 4 * 2 * 5
    groups = table(run, "inventory_groups")
    assert groups["score"].isna().all()
    assert (groups["note"] != "").all()
    assert table(run, "inventory_outcomes")[f"n_{status}"].sum() == 40
    assert capsys.readouterr().out.startswith("answer:   ")
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "No answer" in page
    assert "None of 40 answers could be read" in page
    assert not list(run.glob("figures/*"))


def test_one_line_of_a_list_that_is_unclear_is_missing_alone(scripted, tmp_path):
    engine = Scripted()
    whole = engine.says
    engine.says = lambda text: whole(text).replace("3: ", "3: 1 or ")
    answers = answers_of(scripted(engine, f"task.path={tea(tmp_path)}", "task.presentation=list"))
    assert answers.groupby("place")["answer"].agg(lambda a: a.isna().mean()).tolist() == [0, 0, 1, 0, 0]
    assert set(answers.loc[answers["place"] == 3, "status"]) == {"unparseable"}


def test_a_model_that_writes_its_number_is_read_as_a_rating_is(scripted, tmp_path):
    engine = Scripted()
    engine.says = lambda text: "I'd say 3." if "from 0 (never)" in text else "I'd say 1."
    run = scripted(engine, f"task.path={tea(tmp_path)}", "elicitation=generate")
    answers = answers_of(run)
    assert answers.groupby("order")["answer"].agg(["min", "max"]).to_numpy().tolist() == [[3, 3], [1, 1]]
    assert set(answers["response"]) == {"I'd say 3.", "I'd say 1."}


# --- Prompts, and what cannot be asked ------------------------------------------------------------------------------


def test_prompts_are_written_without_a_model_by_default_first(audit, tmp_path):
    baselines = ("stimuli.unspecified=true", "stimuli.no_persona=true")
    words = ("task=inventory", "task.presentation=list", *FOUR_RELIGIONS, *baselines)
    assert audit("prompts", *words, "stimuli.emotions=[sad]", "out=p.jsonl") == 0
    records = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(records) == 6 * 2 * 5
    first, evoked = records[0], records[5]
    assert first["narrative_id"] == "default"
    assert first["system"].startswith("For this task you are a Buddhist.\n")
    assert first["items"][:2] == ["amused", "anxious"]
    assert "1. amused\n2. anxious\n" in first["user"]
    assert "Imagine" not in first["user"]
    assert evoked["user"].startswith("Imagine that you are the person in this situation:\n")
    assert records[1]["items"] != first["items"]
    assert sorted(records[1]["items"]) == sorted(first["items"])
    assert {r["system"] for r in records if r["perceiver_group"] == "no persona"} == {first["system"].split("\n")[1]}


def test_every_dimension_has_its_perceivers_an_intersection_too(audit, tmp_path):
    crossed = ("dimensions=[faith,heritage+faith]", "stimuli.unspecified=true")
    assert audit("prompts", "task=inventory", "task.affect=false", *FOUR_RELIGIONS, *crossed, "out=p.jsonl") == 0
    records = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text(encoding="utf-8").splitlines()]
    of = pd.DataFrame(records).groupby("dimension")["perceiver"]
    assert of.size().to_dict() == {"faith": (4 + 1) * 24, "heritage+faith": (16 + 1) * 24}
    assert of.nunique().to_dict() == {"faith": 5, "heritage+faith": 17}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("task.path=double.yaml",), "the id 'c1' is given to 2 items"),
        (("task.path=nowhere.yaml",), "nowhere.yaml"),
        (
            ("task.presentation=list", "task.method=expected"),
            "task.method=expected reads the probabilities of one number",
        ),
        (
            ("task.presentation=list", "elicitation=expected"),
            "elicitation=expected reads the probabilities of one number",
        ),
        (("task.n_orders=3",), "n_orders=3: an item shown alone has 2 orders"),
        (("task.n_orders=0",), "n_orders: must be at least 1"),
        (("task.presentation=sheet",), "task.presentation: must be single or list"),
        (("strategy=ecn",), "strategy=ecn: task=inventory asks nothing before its items"),
        (("elicitation=generate", "elicitation.parser=hou2025"), "elicitation.parser=hou2025 reads the study's"),
        (("statistics.wanted=2",), "statistics.wanted is for runs of ratings"),
        (("stimuli=csv", "stimuli.path=n.csv"), "a narrative is called 'default'"),
        (("stimuli=conversations", "stimuli.path=n.csv"), "task=inventory uses situations, not conversations"),
    ],
)
def test_what_can_not_be_asked_ends_in_one_line_before_a_model_is_loaded(words, said, audit, tmp_path, capsys):
    tea(tmp_path, "double.yaml", items=[*TEA["items"], TEA["items"][0] | {"text": "Again."}])
    (tmp_path / "n.csv").write_text("narrative_id,emotion,text\ndefault,sad,It rains.\n", encoding="utf-8")
    assert audit("run", "task=inventory", "model.path=nowhere", *words) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert said in line
