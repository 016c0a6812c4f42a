"""Runs in German: what they are known by, what is refused, what their answers come to, and what is warned of."""

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from runs import scripted_models
from test_choices import choices, labels
from test_comparison import table_of
from test_planted_strategy import Scripted, draw

from audit.asking.plan import make_plan
from audit.asking.run_identity import default_run_dir, plan_difference
from audit.configuration.schema import load_config
from audit.errors import ConfigError
from audit.runs.manifest import Manifest
from audit.runs.prompts import PromptsAsked
from stimuli.errors import StimulusError
from stimuli.languages import FOLDER

GAP = 12
"""Points by which the scripted model rates its own group higher, in German."""
OFTEN = re.compile("eine christliche Person.*hinduistische", re.DOTALL)
"""Whom it refuses to rate."""
SETTINGS = (
    "model.path=scripted", "elicitation=generate", "statistics.n_permutations=100", "elicitation.noise_sample=0",
    "elicitation.manipulation=0", "stimuli.emotions=[happy,sad]", "stimuli.situations_per_emotion=3",
    "dimensions=[religion]", "stimuli.perceiver_terms=1", "stimuli.experiencer_terms=1", "stimuli.unspecified=false",
    "stimuli.identities=geneva", "stimuli.pairs=all",
)  # fmt: skip


def configured(*words):
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from audit.configuration.composition import conf_folder

    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        values = OmegaConf.to_container(compose("audit", list(words)), resolve=True)
    values.pop("experiment", None)
    return load_config(values)


class Germanised(Scripted):
    """It reads and writes German, and English where it is asked in English."""

    def says(self, text, seed):
        question = r"^user: (Eine .+) erzählt von .*:\n„([^“]+)“\nWie viel .* empfand die Person, .*\? Zahl:\Z"
        asked = re.search(question, text, re.MULTILINE)
        if asked is None:
            return super().says(text, seed)
        told_by, narrative = asked.groups()
        perceiver = re.match(r"system: Für diese Aufgabe bist du (.+)\.\n", text)[1]
        if OFTEN.search(f"{perceiver}\n{told_by}"):
            self.n_refused += 1
            return "Es tut mir leid, als KI kann ich das nicht bewerten."
        rating = 50 + draw(6, narrative) + GAP * (perceiver == told_by[0].lower() + told_by[1:])
        return f"Ich würde {round(rating)} sagen."


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("languages")
    with scripted_models(folder) as load:

        def run_on(engine, *words, command="run", code=0):
            from audit.cli.main import main

            load(engine)
            assert main([command, *words, *(SETTINGS if command == "run" else ())]) == code
            return folder

        yield run_on


@pytest.fixture(scope="module")
def german(run):
    """Folder of a German run, and how often the model refused."""
    engine = Germanised()
    return run(engine, "language=de", "run_dir=german") / "german", engine.n_refused


@pytest.fixture(scope="module")
def compared(run, german):
    run(Germanised(), "run_dir=english")
    return run(Germanised(), "german", "english", "run_dir=both", command="report") / "both"


# --- What a run is known by ------------------------------------------------------------------------------------------


def test_an_english_run_is_the_run_that_it_was_before_there_were_languages():
    """Oracle: what runs of the version before recorded, in which no key and no word was of a language."""
    plan = make_plan(configured())
    assert "language" not in plan.identity()
    assert "language" not in plan.config.model_dump()
    assert "forms" not in json.dumps(PromptsAsked(plan.grid, plan.strategy).content())
    assert " in English" not in plan.announced
    assert plan.config.elicitation.prefill == "Number: "


def test_a_german_run_names_its_language_in_folder_announcement_and_identity():
    english, german = make_plan(configured()), make_plan(configured("language=de"))
    assert german.identity()["language"] == "de"
    assert re.fullmatch(r"smollm2-religion-de-[0-9a-f]{8}", default_run_dir(german).name)
    assert german.announced.startswith("smollm2, prompt origin in German: 12 of 408 narratives (geneva)")
    assert german.config.elicitation.prefill == "Zahl: "
    assert default_run_dir(english) != default_run_dir(german)
    for there, here, said in ((english, german, ("en", "de")), (german, english, ("de", "en"))):
        difference = plan_difference({**there.identity(), "elicitation": here.identity()["elicitation"]}, here)
        assert difference is not None
        assert (difference.setting, difference.there, difference.here) == ("language", *said)


def test_both_languages_draw_the_same_situations_and_the_same_invented_groups():
    one, other = (make_plan(configured(f"language={code}")).grid for code in ("en", "de"))
    assert [n.narrative_id for n in one.narratives.narratives] == [n.narrative_id for n in other.narratives.narratives]
    assert [d.name for d in one.dimensions] == [d.name for d in other.dimensions]
    assert one.narratives.sha256 != other.narratives.sha256


def test_a_configuration_that_was_written_is_read_again_as_it_was():
    config = configured("language=de")
    dumped = config.model_dump(mode="json")
    read = load_config(dumped)
    assert read.model_dump(mode="json") == dumped
    assert (read.language, read.nobody) == (config.language, config.nobody)


def test_forms_of_identities_are_kept_with_the_prompts_and_read_again():
    plan = make_plan(configured("language=de", "prompt=1-person"))
    kept = PromptsAsked.of(json.loads(json.dumps(PromptsAsked(plan.grid, plan.strategy).content())))
    assert [kept.grid.prompt(cell) for cell in kept.grid] == [plan.grid.prompt(cell) for cell in plan.grid]


# --- What is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting",
    [
        "task=reply", "task=inventory", "task=emotion", "wordings=8", "strategy=ecn", "strategy=few-shot-1",
        "prompt=published", "elicitation.parser=hou2025", "model.chat_template=plain",
    ],
)  # fmt: skip
def test_what_is_worded_in_english_alone_is_refused_in_a_line(setting):
    said = f"{setting} is in English only, and language=de would mix two languages"
    with pytest.raises(ConfigError, match=said) as raised:
        configured("language=de", setting)
    assert "\n" not in str(raised.value)


def test_every_task_but_ratings_is_refused():
    for path in (Path(__file__).parents[1] / "conf" / "task").glob("*.yaml"):
        if path.stem != "intensity":
            with pytest.raises(ConfigError, match="in English only"):
                configured("language=de", f"task={path.stem}")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["language=fr"], "language=fr: there are: de, en"),
        (["language=de", "elicitation.prefill='Score: '"], "the pack has these beginnings: 'Zahl: '"),
    ],
)
def test_an_unknown_language_or_beginning_is_refused_with_those_that_there_are(words, says):
    with pytest.raises(ConfigError, match=says):
        configured(*words)


@pytest.mark.parametrize(
    "word", ["prompt=named", "prompt.user='{Experiencer} says: {narrative} {emotion}?'", "stimuli=geneva20",
             "stimuli.identities=wide", "stimuli.placebo_terms=2", "dimensions=[religion+nationality]"]
)  # fmt: skip
def test_what_the_pack_lacks_is_refused_before_a_model_is_loaded(word):
    with pytest.raises(StimulusError, match="the language pack de has no German text of"):
        make_plan(configured("language=de", word))


def test_the_command_ends_in_one_line_and_exit_code_2(run, capsys):
    run(Germanised(), "language=de", "prompt=named", "run_dir=refused", code=2)
    assert "has no German text of it" in capsys.readouterr().err.strip().split("\n")[-1]


def test_people_are_not_shown_german_narratives_in_an_english_form(run, german, capsys):
    run(Germanised(), "export", "german", "form=norming", command="people", code=2)
    assert "its prompts are in German, but the form is in English" in capsys.readouterr().err


# --- What comes of it ------------------------------------------------------------------------------------------------


def test_german_refusals_are_counted_as_refused_and_german_ratings_are_read(german):
    folder, n_refused = german
    assert n_refused == 6  # narratives; one pair of groups, of one term each
    counts = json.loads((folder / "manifest.json").read_text("utf-8"))["counts"]
    told = {name: n for name, n in counts.items() if n and name != "total"}
    assert told == {"rated": 6 * (16 + 16) - 6, "refused": 6}


def test_the_planted_gap_comes_out_in_german(german):
    """Oracle: the scripted model adds GAP points where perceiver and experiencer are alike, and nothing else."""
    gap = pd.read_csv(german[0] / "tables" / "gap.csv")
    own = gap.loc[(gap["dimension"] == "religion") & gap["headline"] & (gap["scope"] == "narratives")].iloc[0]
    assert own["delta"] == pytest.approx(GAP, abs=0.5)


def test_the_manifest_says_which_pack_it_was(german):
    told = Manifest.read(german[0]).language
    assert (told.code, told.name) == ("de", "German")
    assert "no native speaker" in told.reviewed
    assert len(told.sha256) == 64
    assert (FOLDER / f"{told.code}.yaml").exists()


def test_the_page_of_a_german_run_says_so_first_and_shows_what_was_asked(german):
    page = (german[0] / "report.html").read_text("utf-8")
    assert "This measures the model in <bdi>German</bdi>" in page[: page.index('id="answer"')]
    assert '<pre lang="de">' in page
    assert "Für diese Aufgabe bist du eine" in page


def test_the_report_is_made_again_from_the_folder_alone(run, german):
    before = (german[0] / "report.html").read_bytes()
    run(Germanised(), "german", command="report")
    after = (german[0] / "report.html").read_bytes()
    assert "eine muslimische Person" in after.decode()
    assert len(after) == pytest.approx(len(before), rel=0.01)


def test_an_export_says_in_which_language_was_asked(run, german):
    from audit.extras.exchange.base import Collected
    from audit.extras.exchange.facts import of_run

    def told(folder):
        return dict(of_run(Collected.read(folder, unfinished=False, texts=False)))

    said = told(german[0])["language of the prompts"]
    assert re.fullmatch(r"German \(language pack de; .*no native speaker has read it yet\)", said)
    run(Germanised(), "run_dir=in_english")
    assert "language of the prompts" not in told(german[0].parent / "in_english")


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        ("export", ["form=paper"], "Prompts, identities and narratives were in German, by the language pack de"),
        ("export", ["form=card"], "German (language pack de"),
        ("export", ["form=huggingface"], "German (language pack de"),
        ("gate", ["margin=20"], "the model was asked in German (language pack de)"),
    ],
)
def test_every_text_made_of_a_german_run_says_in_which_language_was_asked(run, compared, command, words, said):
    """Oracle: the same command of the English run, in which none says so."""
    for name, told in (("german", True), ("english", False)):
        folder = compared.parent / f"{command}-{words[0].partition('=')[2]}-{name}"
        if command == "gate":
            run_gate(compared.parent / name, *words, f"out={folder}")
        else:
            run(Germanised(), name, *words, f"to={folder}", command=command)
        texts = [path.read_text("utf-8") for path in folder.rglob("*") if path.suffix in {".md", ".json", ".txt"}]
        assert any(said in " ".join(text.replace("\\", "").split()) for text in texts) is told, name


def test_a_record_for_a_database_says_in_which_language_was_asked(compared):
    """Of the part that names the prompt: the scripted run's narratives do not differ, so it has no score to give."""
    from audit.extras.exchange.every_eval_ever import _source

    german, english = (
        _source(Manifest.read(compared.parent / name))["additional_details"] for name in ("german", "english")
    )
    assert german["language"] == "German (language pack de)"
    assert "language" not in english


def run_gate(folder, *words):
    """Return the exit code of the gate, whose verdict is not what this is about; 2 would be a fault."""
    from audit.cli.main import main

    code = main(["gate", str(folder), *words])
    assert code != 2
    return code


def test_the_index_keeps_runs_in_two_languages_apart_and_says_why(compared, tmp_path):
    from audit.extras.index.write import write_index

    for name in ("german", "english"):
        shutil.copytree(compared.parent / name, tmp_path / name)
    write_index(tmp_path)
    page = (tmp_path / "index.html").read_text("utf-8")
    assert "Language: <bdi>German</bdi>" in page
    assert "Language: <bdi>English</bdi>" not in page
    assert len(re.findall(r"Cannot be compared with set \d \(.*language of the prompts", page)) == 2


def test_a_gate_refuses_a_baseline_in_another_language_by_name(compared, capsys):
    from audit.cli.main import main

    german, english = (str(compared.parent / name) for name in ("german", "english"))
    assert main(["gate", german, "margin=2", f"baseline={english}"]) == 2
    assert "was asked in English, not in German" in capsys.readouterr().err


# --- Beside an English one -------------------------------------------------------------------------------------------


def test_a_comparison_of_two_languages_says_what_is_confounded(compared):
    page = (compared / "comparison.html").read_text("utf-8")
    assert "The runs are in several languages (German: German; English: English)." in page
    assert "It does not show what the language does, nor what a culture does." in page
    assert table_of(compared, "runs")["language"].tolist() == ["German", "English"]


def test_situations_are_paired_with_their_translations(compared):
    changes = table_of(compared, "comparisons")
    own = changes.loc[changes["dimension"] == "religion"].iloc[0]
    assert own["n_narratives"] == 6
    assert "different identities" in (compared / "comparison.html").read_text("utf-8")


def test_a_comparison_in_one_language_says_nothing_of_languages(run, german):
    run(Germanised(), "language=de", "seed=1", "run_dir=other")
    folder = run(Germanised(), "german", "other", "run_dir=same", command="report") / "same"
    assert "several languages" not in (folder / "comparison.html").read_text("utf-8")


def test_a_label_names_the_language_where_it_differs():
    german = {"language": {"code": "de", "name": "German"}}
    assert labels(choices(), choices(**german)) == ["English", "German"]
    assert labels(choices(**german), choices("named", **german)) == ["origin", "named"]
