import json
import os
import subprocess
import sys
import textwrap

import pytest

HEAVY = (
    "hydra", "omegaconf", "pydantic", "numpy", "pandas", "pyarrow", "scipy", "statsmodels", "matplotlib", "seaborn",
    "torch", "transformers", "vllm", "inflect", "jinja2",
)  # fmt: skip
MODEL_LIBRARIES = ("torch", "transformers", "vllm", "matplotlib")
SMALL = (
    "stimuli.identities=geneva", "stimuli.pairs=all",
    "stimuli.situations_per_emotion=1", "stimuli.emotions=[sad,happy]", "dimensions=religion", "stimuli.placebo=0",
)  # fmt: skip
MANIFEST = (
    '{"schema_version": 1, "n_prompts": 50, "shard_size": 50, "scale": {"low": 0, "high": 100}, '
    '"config": {"statistics": {}}}'
)
N_SMALL = 64  # 4 perceivers x 4 experiencers of 2 terms each x 2 narratives
KEYS = {"id", "dimension", "variant", "narrative_id", "emotion", "perceiver", "experiencer", "system", "user", "begun",
        "messages"}  # fmt: skip
"""Of a prompt of the embedded model's card, which begins its answers; others have no ``begun``."""


@pytest.fixture
def composed(monkeypatch):
    """List of the configurations that `run` is asked to run; nothing is run."""
    seen = []
    monkeypatch.setattr("audit.cli.run.run_job", lambda config, composed, *, command: seen.append(config))
    return seen


def imported_by(arguments, names, environment, folder):
    """Return which of the modules a command has imported when it ends, in a process of its own."""
    code = f"""
    import sys
    from audit.cli.main import main
    code = main({list(arguments)!r})
    print([name for name in {names!r} if name in sys.modules], code, file=sys.stderr)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stderr.splitlines()[-1], done.stdout


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--help"], "usage: python -m audit COMMAND"),
        (["-h"], "usage: python -m audit COMMAND"),
        (["--version"], "empathy-audit "),
        (["run", "--help"], "usage: python -m audit run"),
        (["prompts", "--help"], "usage: python -m audit prompts"),
        (["report", "-h"], "usage: python -m audit report"),
        (["consolidate", "--help"], "usage: python -m audit consolidate"),
        (["export", "--help"], "usage: python -m audit export"),
        (["people", "--help"], "usage: python -m audit people export"),
        (["judge", "--help"], "usage: python -m audit judge"),
        (["replicate", "--help"], "usage: python -m audit replicate"),
    ],
)
def test_help_imports_nothing_heavy(arguments, shown, child_environment, tmp_path):
    imported, out = imported_by(arguments, HEAVY, child_environment, tmp_path)
    assert imported == "[] 0"
    assert out.startswith(shown)
    assert len(max(out.splitlines(), key=len)) <= 125


def test_prompts_and_refusals_need_no_model_library(child_environment, tmp_path):
    for arguments in (
        ["prompts", *SMALL, "out=p.jsonl"],
        ["run", "model.dtype=float99"],
        ["report", "nowhere"],
        ["consolidate", "nowhere"],
        ["replicate", "nowhere"],
    ):
        imported, _ = imported_by(arguments, MODEL_LIBRARIES, child_environment, tmp_path)
        assert imported.startswith("[] ")


def test_help_names_every_choice(audit, capsys):
    assert audit("run", "--help") == 0
    out = capsys.readouterr().out
    for choice in ("smollm2", "llama3", "scale-10", "published", "hou2025", "transformers", "expected"):
        assert choice in out


def test_no_command_shows_the_help_and_fails(audit, capsys):
    assert audit() == 2
    assert capsys.readouterr().out.startswith("usage: ")


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (
            "xyz",
            "'xyz' is not a command; there are: cache, completion, consolidate, doctor, export, gate, index, init, ",
        ),
        ("reprot x", "'reprot' is not a command; did you mean 'report'?"),
        ("report", "needs one run folder, got none; see python -m audit report --help"),
        ("report a b", "a is not a run folder: it has no manifest.json"),
        ("report --all", "report has no flag --all; see python -m audit report --help"),
        ("report nowhere", "nowhere is not a run folder: it has no manifest.json"),
        ("report .", ". is not a run folder: it has no manifest.json"),
        ("report a-run a-run", "a-run and a-run are the same folder; give each run once"),
        ("report a-file", "a-file is not a run folder"),
        (
            "report a-run statistics.marginn=2",
            "statistics.marginn: report does not take this option; did you mean 'statistics.m",
        ),
        ("report a-run margin=2", "margin: report does not take this option; "),
        ("report a-run statistics.power=2", "statistics.power: must be below 1 (given: '2')"),
        ("report a-run statistics.margin=-1", "statistics.margin: must be above 0 (given: '-1')"),
        ("report a-run statistics.margin=", "statistics.margin: must be a number"),
        ("report a-run statistics.margin=inf", "statistics.margin: must be a finite number"),
        ("report a-run statistics.wanted=nan", "statistics.wanted: must be a finite number"),
        ("report a-run statistics.least_response=0", "statistics.least_response: must be above 0 (given: '0')"),
        ("report a-run statistics.least_response=1", "statistics.least_response: must be below 1 (given: '1')"),
        ("report a-run statistics.least_response=null", "statistics.least_response: must be a number"),
        ("report a-run statistics.least_response=true", "statistics.least_response: "),
        ("report a-run statistics.confidence=abc", "statistics.confidence: must be a number"),
        ("report a-run statistics.confidence=1", "statistics.confidence: must be below 1 (given: '1')"),
        ("report a-run statistics.power=.9 statistics.power=.8", "statistics.power is given twice, as '.9' and '.8'"),
        ("report a-run statistics.formula=intensity~in_grup", "unknown column or function 'in_grup'; did you mean"),
        ("report a-run statistics.fit=lm", "statistics.fit: must be mixed or ols (given: 'lm')"),
        (
            "report a-run ratings=a-file",
            "ratings=a-file is for ratings=FILE, replies=FILE, answers=FILE or several run folders, but one run folder "
            "is given, a-run; ",
        ),
        ("report ratings=a-file answers=b", "ratings= and answers= cannot be given together; keep one"),
        ("report nowhere", "it has no manifest.json; the folder does not exist; check its name"),
        ("report a-file", "it has no manifest.json; it is a file; give the run's folder"),
        ("report a-run run_dir=", "leave out one of them"),
        ("gate a-run statistics.margin=2", "statistics.margin: gate does not take this option; did you mean margin=2?"),
        (
            "gate a-run --margin=2",
            "gate has no flag --margin=2; options are written without dashes: margin=2; see python -m audit",
        ),
        ("run --seed=1", "--seed=1: unknown flag; options are written without dashes: seed=1"),
        ("run -- seed=1", "--: it is not needed; leave it out"),
        ("run +seed=1", "+seed=1: seed is already an option; leave out the plus sign: seed=1"),
        ("run measures=none", "measures=none: unknown choice; there are: default"),
        (
            "run model=none",
            "model=none: unknown choice; python -m audit options model lists all cards; a model without a card: ",
        ),
        ("run stimuli.csv=x", "stimuli.csv: unknown option; did you mean stimuli=csv?"),
        ("run model=SMOLLM2", "model=SMOLLM2: unknown choice; did you mean 'smollm2'?"),
        ("run strategy=nobody", "knowledge-self, none, perspective"),
        ("run out=", "out= is empty; give a path, or leave it out"),
        ("plan probe=-1", "probe=-1: must be a number of at least 0"),
        ("plan like=nowhere", "like=nowhere has no manifest.json, so it is not a run; give a run folder"),
        ("options stimuli=cvs", "stimuli=cvs: unknown choice; did you mean 'csv'?"),
        (
            "completion powershell",
            "completion powershell: no completion script exists for this shell; there are: bash, fish, zsh",
        ),
        (
            "report ratings=a-file",
            "groups= must be given to analyse outside ratings; see python -m audit report --help",
        ),
        ("report ratings=a-file groups=a-file", "run_dir= must be given to analyse outside ratings"),
        ("report groups=a-file run_dir=new", "ratings= must be given to analyse outside ratings"),
        ("report ratings= groups=a-file run_dir=new", "ratings= must be given to analyse outside ratings"),
        ("report ratings=nowhere.csv groups=nowhere.csv run_dir=new", "ratings=nowhere.csv is not a file"),
        ("report ratings=x groups=x run_dir=new low=a", "low=a: must be a number"),
        ("report ratings=x groups=x run_dir=new high=inf", "high=inf: must be a number"),
        ("report ratings=x groups=x run_dir=new low=5 high=1", "low=5 high=1: low must be below high"),
        ("report ratings=x groups=x run_dir=new missing=[-1,x]", "ratings=x has no suffix; give a table"),
        (
            "report ratings=x groups=x run_dir=new missing=[-1,-99",
            "missing=[-1,-99: must be a number, a text, or a list of these in brackets",
        ),
        ("report ratings=x groups=x run_dir=new missing=[-1,]", "missing=: must have a number"),
        ("report ratings=x groups=x run_dir=new seed=-1", "seed=-1: must be a whole number of at least 0"),
        ("consolidate", "consolidate needs one run folder or more, got none; see python -m audit consolidate --help"),
        ("consolidate nowhere", "nowhere is not a run folder: it has no manifest.json"),
        ("consolidate a-run", "a-run is not finished; run its command again, which merges the parts when it finishes"),
        ("consolidate a-run seed=1", "seed: consolidate does not take this option"),
        ("run statistics.margin=inf", "statistics.margin: must be a finite number"),
        (
            "run model=nonsense",
            "model=nonsense: unknown choice; python -m audit options model lists all cards; a model without a card: ",
        ),
        ("run +model=nonsense", "model=nonsense: unknown choice"),
        ("run prompt=orign", "prompt=orign: unknown choice; did you mean 'origin'?"),
        ("run -m prompt=origin,orign", "prompt=orign: unknown choice; did you mean 'origin'?"),
        ("run seed=1,2", "seed=1,2: several values; run -m seed=1,2 runs each"),
        ("run seed=range(1,3)", "seed=range(1,3): several values; run -m 'seed=range(1,3)' runs each"),
        ("run prompt=origin,scale-10", "prompt=origin,scale-10: several values; run -m prompt=origin,scale-10 runs"),
        (
            "run strategy=[ecn,empathise-first]",
            "strategy=[ecn,empathise-first]: must be one choice, not a list; run -m "
            "strategy=ecn,empathise-first runs each",
        ),
        ("run -m strategy=none,[ecn,two-stage]", "run -m strategy=ecn,two-stage runs each"),
        ("prompts model=[smollm2,llama3]", "model=[smollm2,llama3]: must be one choice, not a list"),
        ("run task=1", "task=1: unknown choice; there are: cause, emotion, entailment, intensity, inventory, reply"),
        ("run task=null", "task=null: unknown choice"),
        ("run -m strategy=5,none", "strategy=5,none: unknown choice; there are: basic-empathy"),
        ("run strategy={a:1}", "strategy={a:1}: unknown choice"),
        (
            "run statistics.n_permutations=1000000000000",
            "n_permutations=1000000000000: at most 10,000,000; the smallest",
        ),
        (
            "run run_dir=a=b",
            """'run_dir=a=b' is not an option; options are written KEY=VALUE; quote its value: """,
        ),
        ("run run_dir=größe", """quote its value: 'run_dir="größe"'"""),
        ("run run_dir=it's", """quote its value: 'run_dir="it'"'"'s"'"""),
        ("run engine=vlm", "engine=vlm: unknown choice; did you mean 'vllm'?"),
        ("run promt=origin", "promt: unknown option; did you mean 'prompt'?"),
        ("run model.dtpye=float32", "model.dtpye: unknown option; did you mean 'model.dtype'?"),
        ("run +model.dtpye=float32", "model.dtpye: unknown option; did you mean 'dtype'?"),
        (
            "run strategy=ecn strategy.examples.n=3",
            "strategy.examples.n: unknown option; strategy.examples is null",
        ),
        ("run +sede=1", "sede: unknown option; did you mean 'seed'?"),
        ("run model.path", "'model.path' is not an option;"),
        ("run dimensions=[a", "'dimensions=[a' is not an option;"),
        ("run model.path=a=b", "'model.path=a=b' is not an option;"),
        ("run seed=1,2", "seed"),
        ("run seed=abc", "seed: must be a whole number"),
        ("run seed=-1", "seed: must be at least 0 (given: -1)"),
        ("run shard_size=0", "shard_size: must be at least 1 (given: 0)"),
        ("run shard_size=1.5", "shard_size: must be a whole number"),
        (
            "run model.dtype=float99",
            "model.dtype: must be auto or bfloat16 or float16 or float32; did you mean 'float32'? (given: 'float99')",
        ),
        ("run engine.batch_size=0", "engine.batch_size: must be at least 1"),
        ("run statistics.confidence=95", "statistics.confidence: must be below 1 (given: 95)"),
        ("run dimensions=relgion", "dimensions: 'relgion' is not a dimension; did you mean 'religion'?"),
        ("run dimensions=[]", "dimensions is empty"),
        ("run dimensions=religion+foo", "'foo' is not a dimension"),
        ("run stimuli.emotions=[sadd]", "stimuli.emotions: geneva has no 'sadd'; did you mean 'sad'?"),
        (
            "run stimuli.situations_per_emotion=99",
            "stimuli.situations_per_emotion=99, but amused has 34; ask for at most 34",
        ),
        ("run stimuli.situations_per_emotion=none", "stimuli.situations_per_emotion"),
        ("run stimuli=csv", "stimuli=csv needs stimuli.path"),
        ("run stimuli=hou2025", "stimuli=hou2025 needs stimuli.path"),
        ("run model=own", "model.path must be set: model.path=VALUE"),
        ("run model.path=null", "model.path: must be text"),
        ("run prompt=published", "prompt=published needs prompt.path"),
        ("run prompt=published prompt.path=nowhere.py", "prompt.path=nowhere.py is not a file"),
        ("run prompt.user=hello", "prompt origin: user lacks the placeholder {narrative}"),
        ("run prompt.system=FILE", "lacks the placeholder {persona}; an assistant's own system prompt goes with"),
        ("run prompt.scale.high=-3", "low=0 and high=-3 must be whole numbers"),
        (
            "run --config-dir=nowhere",
            "--config-dir=nowhere does not exist; give a folder with your own groups, such as",
        ),
        ("run --cfg job -m seed=1,2", "--cfg and -m cannot be combined; keep one"),
        ("run --frobnicate", "--frobnicate: unknown flag; "),
        ("prompts --mulitrun", "--mulitrun: unknown flag; did you mean '--multirun'?"),
        ("prompts model=nonsense", "model=nonsense: unknown choice"),
        ("prompts out=no/such/folder", "out=no/such/folder cannot be written (No such file or directory)"),
        ("prompts out=.", "out=. cannot be written (Is a directory)"),
        ("run run_dir=a-file", "run_dir=a-file is a file; give a"),
        pytest.param(
            "run model.path=a-file",
            "model.path=a-file is a file, but not a GGUF file; a model is a folder with config.json and "
            "weights, a GGUF file, or a hub id",
            marks=pytest.mark.model,
        ),
        pytest.param(
            "run model.path=no-such-model",
            "model.path=no-such-model is neither a folder on this machine nor a hub id",
            marks=pytest.mark.model,
        ),
        pytest.param(
            "run model.path=embedded:gpt5",
            "model.path=embedded:gpt5: there is embedded:smollm2",
            marks=pytest.mark.model,
        ),
    ],
)
def test_bad_input_ends_in_one_line_and_exit_code_2(arguments, fragment, audit, capsys, tmp_path):
    (tmp_path / "a-file").write_text("x")
    (tmp_path / "a-run").mkdir()
    (tmp_path / "a-run" / "manifest.json").write_text(MANIFEST)
    assert audit(*arguments.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = [line for line in err.splitlines() if line.startswith("audit")]
    [line] = lines
    assert line == err.splitlines()[-1]
    assert fragment in line
    assert len(line) < 500
    assert "Traceback" not in err
    assert (tmp_path / "a-run" / "manifest.json").read_text() == MANIFEST
    assert not (tmp_path / "new").exists()
    said = [line for line in err.splitlines() if line not in lines]  # a run says what it is before it loads the model
    assert len(said) <= 4  # what, where, and what is loaded by what


def test_an_unknown_choice_lists_no_internal_ones(audit, capsys):
    assert audit("run", "prompt=nonsense") == 2
    err = capsys.readouterr().err
    assert "1-person, 3-person" in err
    assert "base" not in err


def test_plus_before_a_group_means_the_group(audit, composed):
    for name in ("model=llama3", "+model=llama3"):
        assert audit("run", name, "+engine=transformers", "prompt=scale-10") == 0
    plain, plus = composed
    assert plain == plus
    assert plain.model.name == "llama3"
    assert plain.engine.name == "transformers"
    assert plain.prompt_variant().scale.high == 10


def test_a_path_alone_is_a_model_of_ones_own(audit, composed):
    assert audit("run", "model.path=x/y") == 0
    assert audit("run", "model=own", "model.path=x/y") == 0
    [alone, explicit] = composed
    assert alone == explicit
    assert (alone.model.name, alone.model.path, alone.elicitation_method) == ("own", "x/y", "generate")
    # the embedded model's sample is not another's
    assert (alone.dimensions, alone.stimuli.situations_per_emotion) == (None, "all")
    assert (alone.stimuli.perceiver_terms, alone.stimuli.unspecified) == (1, True)


def test_a_path_with_a_card_replaces_only_the_path(audit, composed):
    assert audit("run", "model.path=here/llama", "model=llama3") == 0
    [config] = composed
    assert (config.model.name, config.model.path, config.model.dtype) == ("llama3", "here/llama", "auto")


def test_the_default_is_the_embedded_model_with_a_sample(audit, composed):
    assert audit("run") == 0
    [config] = composed
    assert (config.model.path, config.elicitation_method) == ("embedded:smollm2", "expected")
    assert isinstance(config.stimuli.situations_per_emotion, int)
    assert list(config.dimensions) == ["religion"]
    assert (config.stimuli.perceiver_terms, config.stimuli.unspecified, config.stimuli.placebo) == (1, False, 1)


def test_the_command_line_is_stronger_than_a_card(audit, composed):
    words = ("stimuli.situations_per_emotion=5", "model=smollm2", "model.dtype=bfloat16", "dimensions=null")
    assert audit("run", *words) == 0
    [config] = composed
    assert (config.stimuli.situations_per_emotion, config.model.dtype) == (5, "bfloat16")
    assert config.dimensions is None


def test_a_folder_of_ones_own_adds_choices(audit, composed, tmp_path):
    mine = tmp_path / "mine" / "prompt"
    mine.mkdir(parents=True)
    (mine / "polite.yaml").write_text("defaults:\n  - base\nname: polite\npersona: 'Kindly be {perceiver}.'\n")
    assert audit("run", f"--config-dir={tmp_path / 'mine'}", "prompt=polite") == 0
    [config] = composed
    assert config.prompt_variant().persona == "Kindly be {perceiver}."


def test_a_failing_run_after_a_good_one_and_the_reverse_do_not_disturb_each_other(audit, composed):
    assert [audit("run", *given) for given in (["seed=1"], ["seed=x"], ["seed=2"], ["-m", "seed=3,4"])] == [0, 2, 0, 0]
    assert [config.seed for config in composed] == [1, 2, 3, 4]


def test_prompts_are_json_lines_of_eleven_keys(audit, capsys):
    assert audit("prompts", *SMALL) == 0
    out, err = capsys.readouterr()
    assert err.startswith("note: a sample: 2 of 68 narratives, ")
    records = [json.loads(line) for line in out.splitlines()]
    assert len(records) == N_SMALL
    assert all(set(record) == KEYS for record in records)
    assert len({(record["system"], record["user"]) for record in records}) == N_SMALL
    assert {record["emotion"] for record in records} == {"sad", "happy"}
    for record in records:
        assert record["perceiver"] in record["system"]
        assert record["begun"] == "Number: "
        assert record["experiencer"].casefold() in record["user"].casefold()  # it may begin a sentence


def test_invented_groups_are_asked_after_the_others(audit, capsys):
    # 4 groups of one term, without a baseline: 4 x 4 pairs x 2 narratives
    assert audit("prompts", *SMALL[:-1]) == 0
    dimensions = [json.loads(line)["dimension"] for line in capsys.readouterr().out.splitlines()]
    assert dimensions[:N_SMALL] == ["religion"] * N_SMALL
    assert len(dimensions) == N_SMALL + 32
    [invented] = set(dimensions[N_SMALL:])
    assert invented in {"invented_1", "invented_2", "invented_3"}


def test_prompts_go_to_a_file_and_replace_what_was_there(audit, capsys, tmp_path):
    for _ in range(2):
        assert audit("prompts", *SMALL, "out=prompts.jsonl") == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines().count(f"{N_SMALL} prompts: prompts.jsonl") == 2
    assert len((tmp_path / "prompts.jsonl").read_text(encoding="utf-8").splitlines()) == N_SMALL


def test_the_jobs_of_a_sweep_follow_each_other_in_one_file(audit, tmp_path):
    for _ in range(2):
        assert audit("prompts", *SMALL, "-m", "prompt=origin,scale-10", "out=p.jsonl", "reports_dir=r") == 0
    records = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [record["variant"] for record in records] == ["origin"] * N_SMALL + ["scale-10"] * N_SMALL


def test_a_sweep_whose_first_job_fails_keeps_nothing_of_an_earlier_file(audit, tmp_path):
    (tmp_path / "p.jsonl").write_text("differ from day to day\n")
    assert audit("prompts", *SMALL, "-m", "prompt=published,origin", "out=p.jsonl", "reports_dir=r") == 2
    lines = (tmp_path / "p.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == N_SMALL
    assert json.loads(lines[0])["variant"] == "origin"


def test_a_reader_that_goes_away_ends_prompts_quietly(child_environment, tmp_path):
    command = [sys.executable, "-m", "audit", "prompts", "stimuli.situations_per_emotion=all"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=child_environment, cwd=tmp_path, text=True, **pipes) as process:
        assert set(json.loads(process.stdout.readline())) == KEYS
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr.read().startswith("note: a sample: 1 of 3 dimensions, ")
    assert os.listdir(tmp_path) == []


def test_a_command_from_another_folder_finds_its_configuration(child_environment, tmp_path):
    command = [sys.executable, "-m", "audit", "prompts", *SMALL, "out=p.jsonl"]
    done = subprocess.run(command, env=child_environment, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert (done.returncode, sorted(os.listdir(tmp_path))) == (0, ["p.jsonl", "p.jsonl.run.json"])


@pytest.mark.parametrize(("words", "preset"), [([], "defaults"), (["experiment=replication"], "replication")])
def test_a_run_knows_which_experiment_it_is(words, preset, audit, monkeypatch):
    seen = []
    monkeypatch.setattr("audit.cli.run.run_job", lambda config, composed, *, command: seen.append(composed.preset))
    replication = ["stimuli.path=here", "prompt.path=there"] if words else []
    assert audit("run", *words, *replication) == 0
    assert seen == [preset]


def test_a_choice_of_ones_own_that_is_no_yaml_ends_in_one_line(audit, tmp_path, capsys):
    (tmp_path / "strategy").mkdir()
    (tmp_path / "strategy" / "mine.yaml").write_text("defaults: [base]\nname: x\nname: y\n")
    assert audit("run", f"--config-dir={tmp_path}", "strategy=mine") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "mine.yaml" in line
    assert "'name' occurs twice, first on line 2" in line


def test_an_override_whose_value_needs_quotes_is_taken_in_those_that_are_named(audit, capsys, tmp_path):
    import shlex

    for value in ("a=b", "größe", "it's", 'say "x"', "a&b"):
        assert audit("prompts", "dimensions=religion", f"out={value}") == 2
        [quoted] = shlex.split(capsys.readouterr().err.rpartition("quote its value: ")[2])
        assert audit("prompts", "dimensions=religion", "stimuli.situations_per_emotion=1", quoted) == 0
        assert (tmp_path / value).is_file()


@pytest.mark.parametrize(
    ("group", "text"),
    [
        ("prompt", "system: '{persona} ${oc.env:A_TOKEN}'"),
        ("prompt", "system: '{persona} ${oc.env:ABSENT,${oc.env:A_TOKEN}}'"),
        ("prompt", "system: '{persona} ${model.name}'"),
        ("strategy", "question: '${oc.env:A_TOKEN} {question}'"),
        ("strategy", "stages: {look: {prompt: '${oc.env:A_TOKEN}', max_tokens: 9, temperature: 0.0, top_p: 1.0}}"),
        ("stimuli", "intensity: ${oc.env:A_TOKEN}"),
    ],
)
def test_a_file_of_somebody_else_s_cannot_show_a_model_the_environment(
    group, text, audit, capsys, tmp_path, monkeypatch
):
    monkeypatch.setenv("A_TOKEN", "secret-1234")
    base = {"prompt": "origin", "strategy": "none", "stimuli": "geneva"}[group]
    (tmp_path / "own" / group).mkdir(parents=True)
    name = "" if group == "stimuli" else "name: mine\n"
    (tmp_path / "own" / group / "mine.yaml").write_text(f"defaults:\n  - {base}\n{name}{text}\n")
    words = ["--config-dir=own", f"{group}=mine", "dimensions=religion", "model.name=${oc.env:A_TOKEN}", "out=p.jsonl"]
    assert audit("prompts", *words) == 2
    out, err = capsys.readouterr()
    assert err.splitlines()[-1].startswith(f"audit: {group}: shows ${{oc.env:A")
    assert "secret-1234" not in out + err
    assert not (tmp_path / "p.jsonl").exists()


def test_a_place_may_be_told_by_the_environment(audit, tmp_path, monkeypatch):
    monkeypatch.setenv("A_PLACE", "here")
    words = ["dimensions=religion", "stimuli.situations_per_emotion=1", "out=${oc.env:A_PLACE}.jsonl"]
    assert audit("prompts", *words) == 0
    assert (tmp_path / "here.jsonl").is_file()
