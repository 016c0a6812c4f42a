"""The study's result files, planted: its own functions, as plain loops, are the oracle of what comes out."""

import importlib.util
import itertools
import json
import random
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from audit.comparing.tables import COMPARISON_TABLES
from audit.errors import ConfigError
from audit.extras.replication.released_results import parse_name
from stimuli.identities import load_dimensions
from stimuli.prompts import PUBLISHED_VARIANTS

_SPEC = importlib.util.spec_from_file_location("released_oracle", Path(__file__).parent / "reference" / "released.py")
oracle = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(oracle)

DIMENSIONS = {dimension.name: dimension for dimension in load_dimensions("hou2025")}
RELIGION = DIMENSIONS["religion"].perceivers
N = 40
FEW = ("statistics.n_permutations=200",)


def plant(
    folder,
    *,
    model="llama3-8b",
    variant="origin",
    seed=0,
    n=N,
    gap=4,
    high=100,
    missing=(),
    baselines=True,
    columns=None,
):
    """Write the files of one model and variant, religion; return the ratings as the oracle takes them."""
    rng = random.Random(seed)
    people = [person for person in RELIGION if baselines or not person.is_baseline]
    levels = [rng.gauss(high / 2, high / 10) for _ in range(n)]
    ratings = [[[None] * len(people) for _ in people] for _ in range(n)]
    folder.mkdir(exist_ok=True)
    for (p, perceiver), (e, experiencer) in itertools.product(enumerate(people), repeat=2):
        for row, level in enumerate(levels):
            own = gap if perceiver.group == experiencer.group else 0
            rating = min(high, max(0, round(level + own + rng.gauss(0, high / 20))))
            ratings[row][p][e] = None if (row, perceiver.term, experiencer.term) in missing else rating
        table = pd.DataFrame({"intensity": [-1 if y[p][e] is None else y[p][e] for y in ratings], **(columns or {})})
        table.to_csv(folder / name(variant, model, perceiver.term, experiencer.term), sep="\t", index=False)
    return ratings, [person.group for person in people]


def name(variant, model, perceiver, experiencer, dimension="religion"):
    return f"{dimension}_{variant}_{model}_{perceiver}_{experiencer}.tsv"


# A narrative refused by "a person" counts in the gap and not in the heatmap; one between identities in neither.
REFUSED = (
    (3, "a Jew", "a Hindu"),
    (9, "a person", "a Muslim"),
    (10, "a person", "a person"),
    (11, "a Buddhist", "a person"),
)


@pytest.fixture
def planted(tmp_path):
    folder = tmp_path / "processed_results"
    return {
        "origin": plant(folder, missing=REFUSED),
        "10-scale": plant(folder, variant="10-scale", seed=1, high=10, gap=-1),
    }


def table_of(folder, table):
    return pd.read_csv(folder / "tables" / f"{table}.csv", keep_default_na=False, na_values=[""])


class Places(HTMLParser):
    """The unrounded value and the place of every number of a page."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag == "data":
            self.found.append((dict(attrs)["data-at"], dict(attrs)["value"]))


@pytest.fixture(scope="module")
def replicated(tmp_path_factory):
    """One replication of two variants, which the tests of what comes out share."""
    from audit.cli.main import main

    here = tmp_path_factory.mktemp("replication")
    folder = here / "study" / "processed_results"
    folder.parent.mkdir()
    planted = {
        "origin": plant(folder, missing=REFUSED),
        "10-scale": plant(folder, variant="10-scale", seed=1, high=10, gap=-1),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audit.report.figures.style.figure_files", lambda name, figure, svg: {f"figures/{name}.svg": svg})
        patch.chdir(here)
        assert main(["replicate", "study", "run_dir=out", *FEW]) == 0
    return here / "out", planted


@pytest.mark.long
def test_every_published_number_is_the_study_s_own(replicated):
    out, planted = replicated
    table = table_of(out / "comparison", "published").set_index("prompt")
    declared = COMPARISON_TABLES["published"]
    assert list(table_of(out / "comparison", "published")) == [*declared, *declared.former]
    for variant, (ratings, groups) in planted.items():
        row = table.loc[variant]
        assert row["delta_z"] == pytest.approx(oracle.delta_z(ratings, groups), abs=1e-12)
        k = len(oracle.identities(groups))
        # K = 5 one-term groups: shuffling columns alone gives all 120 values, each as often.
        null = sorted(
            oracle.shuffled_delta_z(ratings, groups, range(k), order) for order in itertools.permutations(range(k))
        )
        # 2.5% of 120 is the border between the third and the fourth, which are averaged.
        assert row["null_low"] == pytest.approx((null[2] + null[3]) / 2, abs=1e-12)
        assert row["null_high"] == pytest.approx((null[-3] + null[-4]) / 2, abs=1e-12)
        n = len(oracle.narratives_without_default(ratings, groups))
        n_heatmap = len(oracle.narratives_with_default(ratings))
        assert (row["n_narratives_asked"], row["n_narratives"], row["n_narratives_heatmap"]) == (N, n, n_heatmap)
        assert row["excluded_share"] == pytest.approx(1 - n / N)
        assert row["excluded_share_heatmap"] == pytest.approx(1 - n_heatmap / N)
    assert table.loc["origin", ["n_narratives", "n_narratives_heatmap"]].tolist() == [39, 36]


def test_every_cell_of_the_heatmaps_is_the_study_s_own(replicated):
    out, planted = replicated
    cells = table_of(out / "comparison", "published_cells")
    terms = [person.term for person in RELIGION]
    for variant, (ratings, groups) in planted.items():
        z = cells.loc[cells["run"] == variant].set_index(["perceiver", "experiencer"])["z"]
        expected = oracle.heatmap_z(ratings, groups)
        for (p, perceiver), (e, experiencer) in itertools.product(enumerate(terms), repeat=2):
            assert z[perceiver, experiencer] == pytest.approx(expected[p][e], abs=1e-10)
    assert (out / "comparison" / "figures" / "published-religion.svg").stat().st_size > 5000


def test_a_run_s_own_report_has_the_same_numbers_and_ours_beside_them(replicated):
    out, _ = replicated
    compared = table_of(out / "comparison", "published").set_index("prompt")
    for variant in ("origin", "10-scale"):
        run = out / f"llama3-8b-{variant}"
        gap = table_of(run, "gap")
        row = gap.loc[gap["estimator"] == "published"].iloc[0]
        for column in ("delta_z", "null_low", "null_high"):
            assert row[column] == compared.loc[variant, column]
        ours = gap.loc[gap["headline"] & (gap["scope"] == "narratives")].iloc[0]
        assert ours["ci_low"] < ours["delta"] < ours["ci_high"]
        assert (ours["delta"] > 0) == (variant == "origin")
        assert (run / "figures" / f"published-masked-religion-{variant}.svg").exists()
        manifest = json.loads((run / "manifest.json").read_text())
        assert manifest["scale"]["high"] == (10 if variant == "10-scale" else 100)
        assert manifest["counts"]["unparseable"] == (4 if variant == "origin" else 0)
        page = (run / "report.html").read_text("utf-8")
        assert ("does not say why 4 ratings are missing" in page) == (variant == "origin")
        assert "A column `status` would tell" not in page


def test_the_page_has_the_table_the_heatmaps_and_why_there_is_no_map(replicated):
    out, _ = replicated
    page = (out / "comparison" / "comparison.html").read_text("utf-8")
    assert "As the study shows it" in page
    assert "a map of perceivers takes 6 or more, and there are 5" in page
    published = pd.read_csv(out / "comparison" / "tables" / "published.csv", dtype=str, keep_default_na=False)
    of_table = [(place, value) for place, value in Places(page).found if place.startswith("published:")]
    assert len(of_table) >= 10
    for place, value in of_table:
        _, line, column = place.split(":")
        assert published[column][int(line)] == value, place
    markdown = (out / "comparison" / "tables" / "published.md").read_text("utf-8")
    assert "2.5% of 40" in markdown  # one of 40 narratives
    assert "10.0%" in markdown  # four of 40 in the heatmap
    assert r"$\delta_z$" in (out / "comparison" / "tables" / "published.tex").read_text("utf-8")


def test_report_makes_the_comparison_again(replicated, audit, tmp_path, capsys):
    out, _ = replicated
    before = (out / "comparison" / "tables" / "published.csv").read_bytes()
    runs = [str(out / f"llama3-8b-{variant}") for variant in ("origin", "10-scale")]
    assert audit("report", *runs, f"run_dir={tmp_path / 'again'}") == 0
    assert (tmp_path / "again" / "tables" / "published.csv").read_bytes() == before


def test_one_model_and_variant_ends_in_its_report(audit, tmp_path, capsys, quick):
    ratings, groups = plant(tmp_path / "files", variant="persona-1", baselines=False)
    assert audit("replicate", "files", "run_dir=out", *FEW) == 0
    out, err = capsys.readouterr()
    head, row, last = out.splitlines()
    assert head.startswith("model      variant    dimension  published gap")
    assert row.split()[:3] == ["llama3-8b", "persona-1", "religion"]
    assert f"{oracle.delta_z(ratings, groups):+.2f}" in row
    assert last == "report: out/llama3-8b-persona-1/report.html"
    for said in ("no comparison (it needs 2 runs)", "no files of the unspecified identity in "
    "religion",
                 "its files have 40 rows, and the study has 6,050 narratives"):  # fmt: skip
        assert said in err
    # Given again it is the same run; files that have changed are another one.
    assert audit("replicate", "files", "run_dir=out", *FEW) == 0
    plant(tmp_path / "files", variant="persona-1", baselines=False, seed=5)
    assert audit("replicate", "files", "run_dir=out", *FEW) == 2
    assert "run_dir=out/llama3-8b-persona-1 holds another run" in capsys.readouterr().err


@pytest.fixture
def quick(monkeypatch):
    """Leave out figures, which take most of the time."""
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
    monkeypatch.setattr("audit.comparing.comparison._draw", lambda *_: {})


@pytest.mark.long
def test_perceivers_are_mapped_by_their_rows_with_cultural_clusters(audit, tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setattr("audit.report.figures.gallery.draw_figures", lambda *_, **__: {})
    monkeypatch.setattr("audit.comparing.ratings._draw", lambda *_: {})
    monkeypatch.setattr(
        "audit.report.figures.style.figure_files", lambda name, figure, svg: {f"figures/{name}.svg": svg}
    )
    rng = random.Random(0)
    (tmp_path / "files").mkdir()
    people = [person for person in DIMENSIONS["nationality"].perceivers if not person.is_baseline]
    for variant in ("origin", "persona-1"):
        for perceiver, experiencer in itertools.product(people, repeat=2):
            path = tmp_path / "files" / name(variant, "m", perceiver.term, experiencer.term, "nationality")
            path.write_text("\n".join(["intensity", *(str(rng.randrange(101)) for _ in range(6))]) + "\n")
    assert audit("replicate", "files", "run_dir=out", "seed=4", *FEW) == 0
    places = table_of(tmp_path / "out" / "comparison", "perceiver_map")
    assert list(places) == list(COMPARISON_TABLES["perceiver_map"])
    assert len(places) == 2 * 21
    assert set(places["cluster"]) == set(DIMENSIONS["nationality"].clusters.values())
    assert (set(places["perplexity"]), set(places["seed"])) == ({6}, {4})
    page = (tmp_path / "out" / "comparison" / "comparison.html").read_text("utf-8")
    assert "It is a picture and claims nothing" in page
    assert "Without a map of perceivers" not in page
    for figure in ("perceiver-map-nationality", "published-nationality"):
        assert (tmp_path / "out" / "comparison" / "figures" / f"{figure}.svg").exists()


# --- Emotions --------------------------------------------------------------------------------------------------------


def emotions_of(run):
    return json.loads((run / "manifest.json").read_text())["stimuli"]["emotions"]


def test_without_a_column_no_emotion_is_made_up(replicated):
    out, _ = replicated
    assert emotions_of(out / "llama3-8b-origin") is None


def test_a_column_tells_the_emotions(audit, tmp_path, quick):
    plant(tmp_path / "files", columns={"emotion": ["joy", "fear"] * (N // 2), "response": ["text\nlines"] * N})
    assert audit("replicate", "files", "run_dir=out", *FEW) == 0
    assert emotions_of(tmp_path / "out" / "llama3-8b-origin") == ["joy", "fear"]
    families = table_of(tmp_path / "out" / "llama3-8b-origin", "families")
    assert set(families.loc[families["family"] == "emotion", "member"]) == {"joy", "fear"}


def narratives(folder, ids):
    folder.mkdir()
    rows = [f"joy\t{key}\ttext\ttext\ttext\n" for key in ids]
    head = "emotion\ttext_id\tgenerated_text\tfirst_person_text\tthird_person_text\n"
    (folder / "crowd-enVent_joy.tsv").write_text(head + "".join(rows))


def test_the_narratives_tell_the_emotion_of_each_text_id(audit, tmp_path, quick, capsys):
    plant(tmp_path / "files", columns={"text_id": range(N)})
    narratives(tmp_path / "corpus", range(N))
    assert audit("replicate", "files", "run_dir=out", "narratives=corpus", *FEW) == 0
    assert emotions_of(tmp_path / "out" / "llama3-8b-origin") == ["joy"]
    assert audit("replicate", "files", "run_dir=out", *FEW) == 2  # without them it is not the same table
    assert "holds another run" in capsys.readouterr().err


# --- Names -----------------------------------------------------------------------------------------------------------

SPELLINGS = (
    lambda term: term,
    lambda term: term.replace(" ", "_"),
    lambda term: term.replace(" ", "-"),
    lambda term: term.split(" ", 1)[1],
    lambda term: term.split(" ", 1)[1].replace(" ", "_"),
    lambda term: term.removeprefix("a person from "),
    lambda term: term.removeprefix("a person from ").removeprefix("the "),
)


@pytest.mark.parametrize("spell", SPELLINGS)
@pytest.mark.parametrize("called", ["religion", "nationality", "ethnicity", "race_ethnicity"])
def test_every_pair_of_the_study_is_read_from_a_name_however_it_is_spelt(spell, called):
    dimension = DIMENSIONS.get(called, DIMENSIONS["race_ethnicity"])
    for (perceiver, experiencer), variant in zip(dimension.pairs(), itertools.cycle(PUBLISHED_VARIANTS), strict=False):
        stem = f"{called}_{variant}_Mistral-7B-Instruct-v0.3_{spell(perceiver.term)}_{spell(experiencer.term)}"
        read = parse_name(Path(f"{stem}.tsv"))
        assert (read.dimension, read.variant, read.model) == (dimension.name, variant, "Mistral-7B-Instruct-v0.3")
        assert (read.perceiver, read.experiencer) == (perceiver.term, experiencer.term), stem


def test_case_counts_where_it_tells_two_wordings_apart_and_only_there():
    for perceiver in ("a white person", "a White person"):
        read = parse_name(Path(f"ethnicity_origin_m_{perceiver}_a caucasian.tsv"))
        assert (read.perceiver, read.experiencer) == (perceiver, "a Caucasian")
    with pytest.raises(ConfigError, match="no experiencer of race_ethnicity"):
        parse_name(Path("ethnicity_origin_m_a Caucasian_a WHITE person of note.tsv"))


def test_a_model_may_end_in_an_article_where_the_perceiver_has_its_own():
    read = parse_name(Path("religion_origin_model_A_a-Jew_a-Hindu.tsv"))
    assert (read.model, read.perceiver, read.experiencer) == ("model_A", "a Jew", "a Hindu")
    assert parse_name(Path("religion_origin_model_a_Jew_a_Hindu.tsv")).model == "model"
    with pytest.raises(ConfigError, match="no model and perceiver"):
        parse_name(Path("religion_origin_model_an_Jew_Hindu.tsv"))


def test_a_model_s_name_cannot_act_on_the_terminal(audit, tmp_path, capsys, quick):
    plant(tmp_path / "files", model="m\u202e\x1b[31m")
    assert audit("replicate", "files", "run_dir=out", *FEW) == 0
    told = "".join(capsys.readouterr())
    assert r"m\u202e\x1b[31m" in told
    assert "\u202e" not in told
    assert "\x1b" not in told


def test_a_model_s_name_turns_nothing_round_on_any_page(audit, tmp_path, capsys, quick):
    """Characters that a browser obeys: an override, an isolate, and what would end them."""
    plant(tmp_path / "files", model="gpt\u202egnorw\u202c")
    plant(tmp_path / "files", model="b\u2067x\u2069", seed=1)
    assert audit("replicate", "files", "run_dir=out", *FEW) == 0
    pages = {path: path.read_text("utf-8") for path in (tmp_path / "out").rglob("*.html")}
    assert len(pages) == 3
    for path, page in pages.items():
        assert not re.search("[\u202a-\u202e\u2066-\u2069]", page), path
    titles = {re.search("<title>(.*)</title>", page)[1].partition(": ")[2] for page in pages.values()}
    assert titles == {r"gpt\u202egnorw\u202c", r"b\u2067x\u2069", "2 runs side by side"}
    [comparison] = (page for page in pages.values() if "side by side</title>" in page)
    assert r"gpt\u202egnorw\u202c" in comparison


@pytest.mark.parametrize(
    ("stem", "fault"),
    [
        ("age_origin_m_a Jew_a Hindu", "it begins with no dimension; there are: country, ethnicity, "),
        ("relgion_origin_m_a Jew_a Hindu", "it begins with no dimension; did you mean 'religion'?"),
        ("religion_persona-4_m_a Jew_a Hindu", "after religion comes no variant; did you mean 'persona-"),
        ("religion_orgin_m_a Jew_a Hindu", "after religion comes no variant; did you mean 'origin'? there are: 1-p"),
        ("religion_10-scal_m_a Jew_a Hindu", "after religion comes no variant; did you mean '10-scale'?"),
        ("religion_xyzzy_m_a Jew_a Hindu", "after religion comes no variant; there are: origin, persona-1, "),
        ("religion_origin_m_a Jew_a Sikh", "no experiencer of religion can be read at its end; identities of the st"),
        ("religion_origin_m_a Sikh_a Jew", "no model and perceiver of religion can be read at its end"),
        ("religion_origin_a Jew_a Hindu", "no model and perceiver of religion"),
        ("", "it begins with no dimension"),
    ],
)
def test_a_name_that_can_not_be_read_says_what_was_expected(audit, tmp_path, capsys, stem, fault):
    plant(tmp_path / "files")
    (tmp_path / "files" / f"{stem}.tsv").write_text("intensity\n1\n")
    assert audit("replicate", "files", "run_dir=out") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"audit: files/{stem}.tsv: the name cannot be read as DIMENSION_VARIANT_MODEL_")
    assert fault in line
    assert not (tmp_path / "out").exists()


# --- What is in the files --------------------------------------------------------------------------------------------

JEW_HINDU = name("origin", "llama3-8b", "a Jew", "a Hindu")


def rewritten(folder, change):
    path = folder / JEW_HINDU
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda b: b.replace(b"intensity", b"intensty"), "no column 'intensity'; did you mean 'intensty'?"),
        (lambda b: b.replace(b"intensity", b"x,intensity"), "there are: x,intensity; separate the cells by tabs"),
        (lambda b: b.replace(b"intensity", b"intensity\tIntensity"), "2 columns are called 'intensity'; keep one"),
        (lambda b: b"\n".join(b.split(b"\n")[:-3]) + b"\n", "has 38 rows, and "),
        (lambda b: b"intensity\n", "has columns but no rows"),
        (lambda b: b"", "the file is empty; replace the file with the study's"),
        (lambda b: b"\xef\xbb\xbf \n\n", "the file is empty"),
        (lambda b: b"intensity\n" + b"101\n" * N, "row 1 (and 39 more): the intensity 101 is outside the scale"),
        (lambda b: b"intensity\n" + b"1\n" * 39 + b"-7\n", "row 40: the intensity -7 is outside the scale of origin"),
        (lambda b: b"intensity\n" + b"1\n" * 39 + b"high\n", "row 40: the intensity 'high' is not a number; write -1"),
        (lambda b: b"intensity\tx\n" + b"1\ty\n" * 39 + b"\ty\n", "row 40: the intensity '' is not a number; write -1"),
        (lambda b: b"intensity\n\xff\n", "is not UTF-8"),
        (lambda b: b"intensity\temotion\n" + b"1\tjoy\n" * N, "has no column for the emotion, and "),
    ],
)  # fmt: skip
def test_a_broken_file_ends_in_one_line_that_names_it(audit, tmp_path, capsys, change, fault):
    plant(tmp_path / "files")
    rewritten(tmp_path / "files", change)
    assert audit("replicate", "files", "run_dir=out") == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("audit")]
    [line] = lines
    assert f"files/{JEW_HINDU}" in line or JEW_HINDU in line
    assert fault in line
    assert not (tmp_path / "out").exists()


def test_one_stray_file_of_the_unspecified_identity_is_what_is_named(audit, tmp_path, capsys):
    """Not the ten others that the study has beside it."""
    plant(tmp_path / "files", baselines=False)
    stray = name("origin", "llama3-8b", "a person", "a Jew")
    (tmp_path / "files" / stray).write_text("intensity\n1\n")
    assert audit("replicate", "files", "run_dir=out") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "audit: religion, origin, llama3-8b: 1 of the 11 files with the unspecified identity is "
        f"there, {stray}; remove it, or add the other 10, the first that of perceiver '"
    )
    assert "missing" not in line


def test_a_missing_file_and_two_of_one_pair_are_named(audit, tmp_path, capsys):
    plant(tmp_path / "files")
    shutil.copy(tmp_path / "files" / JEW_HINDU, tmp_path / "files" / JEW_HINDU.replace("a Jew", "Jew"))
    assert audit("replicate", "files") == 2
    assert "are both for perceiver 'a Jew' and experiencer 'a Hindu'; keep one in files" in capsys.readouterr().err
    for spelt in ("a Jew", "Jew"):
        (tmp_path / "files" / JEW_HINDU.replace("a Jew", spelt)).unlink()
    assert audit("replicate", "files") == 2
    err = capsys.readouterr().err
    assert "religion, origin, llama3-8b: 1 of 36 files is missing, the first that of perceiver 'a Jew' and exp" in err


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ("", "replicate needs one folder of result files, got none"),
        ("files files", "replicate needs one folder of result files, got files files"),
        ("nowhere", "nowhere is not a folder; give the folder processed_results of the study's repository"),
        ("empty", "empty has no .tsv file; give the folder processed_results"),
        ("files beyond=clip", "beyond=clip: must be refuse or keep"),
        ("files seed=x", "seed=x: must be a whole number of at least 0"),
        ("files run_dri=out", "run_dri: replicate does not take this option; did you mean 'run_dir'?"),
        ("files statistics.margn=1", "statistics.margn: replicate does not take this option; did you mean "
        "'statistics.m"),
        ("files narratives=empty", "narratives=empty has no file crowd-enVent_joy.tsv"),
        ("files narratives=corpus", "narratives= cannot be used: "),
        ("files --all", "replicate has no flag --all; see python -m audit replicate --help"),
    ],
)  # fmt: skip
def test_what_can_not_be_asked_ends_in_one_line(audit, tmp_path, capsys, arguments, fault):
    plant(tmp_path / "files")
    (tmp_path / "empty").mkdir()
    narratives(tmp_path / "corpus", range(N))
    assert audit("replicate", *arguments.split(), "run_dir=out") == 2 if arguments else audit("replicate") == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("audit")]
    assert len(lines) == 1
    assert fault in lines[0]
    assert not (tmp_path / "out").exists()


def test_answers_beyond_ten_stop_it_and_are_kept_as_the_study_kept_them_when_asked(audit, tmp_path, capsys, quick):
    ratings, groups = plant(tmp_path / "files", variant="10-scale", high=10, gap=1)
    ratings[4][2][4] = 85
    pair = [RELIGION[2].term, RELIGION[4].term]
    path = tmp_path / "files" / name("10-scale", "llama3-8b", *pair)
    rows = path.read_text().splitlines()
    path.write_text("\n".join([*rows[:5], "85", *rows[6:]]) + "\n")
    assert audit("replicate", "files", "run_dir=out", *FEW) == 2
    err = capsys.readouterr().err
    assert (
        "row 5: the intensity 85 is outside the scale of 10-scale, 0 to 10; the study's parser accepted answers"
    ) in err
    assert "beyond=keep" in err
    assert audit("replicate", "files", "run_dir=out", "beyond=keep", *FEW) == 0
    assert "1 rating outside the scale of 10-scale, kept as by the study's parser" in capsys.readouterr().err
    gap = table_of(tmp_path / "out" / "llama3-8b-10-scale", "gap")
    outcomes = table_of(tmp_path / "out" / "llama3-8b-10-scale", "outcomes")
    assert outcomes.loc[outcomes["pairs"] == "all", "n_above_scale"].tolist() == [1]
    found = gap.loc[gap["estimator"] == "published", "delta_z"].iloc[0]
    assert found == pytest.approx(oracle.delta_z(ratings, groups), abs=1e-12)
