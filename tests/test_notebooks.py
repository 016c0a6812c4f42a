"""The notebooks hold text and code alone, run on the committed runs, and show the numbers that lie in the tables."""

import ast
import gc
import gzip
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from functools import cache
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from planted import alone, grouped, ratings_of
from runs import outside_run
from scipy import stats

import audit
from audit.asking.plan import make_plan
from audit.asking.run_identity import prompts_difference
from audit.configuration.schema import load_config
from audit.runs.csv_tables import read_table
from audit.runs.manifest import Manifest
from audit.runs.prompts import PromptsAsked
from audit.runs.store import RunFolder
from audit.statistics.analysis import analyse
from audit.tables.controls import CONTROLS
from audit.tables.formatting import BEYOND, MINUS, fixed, interval, points
from audit.tables.gap import GAP

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE, SWEEP = ROOT / "reports" / "example", ROOT / "reports" / "example-sweep"
OWN = ROOT / "reports" / "example-own"
NOTEBOOKS = ("first_look", "own_vignettes", "refit_in_r", "reanalyse_published_design", "compare_strategies")
NO_GAPS_NAMED = ("reanalyse_published_design", "own_vignettes")
"""Notebooks whose text names no number of the run that they read."""
MAY_IMPORT = {"audit", "pandas", "numpy", "IPython", *sys.stdlib_module_names}
PACKAGES = {"audit", "stimuli"}
every_notebook = pytest.mark.parametrize("name", NOTEBOOKS)


def cells_of(name):
    return json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]


def sources_of(name, kind):
    return ["".join(cell["source"]) for cell in cells_of(name) if cell["cell_type"] == kind]


@every_notebook
def test_wherever_the_prose_says_what_the_gap_is_it_says_what_it_leaves_out(name):
    """A gap is no difference of two means: levels of perceivers and experiencers are not in it."""
    prose = " ".join(" ".join(sources_of(name, "markdown")).replace("*", "").split())
    for said in re.finditer(r"how much higher|rated in-group|rates? experiencers", prose):
        assert BEYOND in prose[said.start() : said.start() + 300], prose[said.start() :][:120]
    assert "lesser part" not in prose
    assert "mixed model" not in prose


def code_of(name):
    """Every statement of a notebook; IPython's own lines, which are no Python, left out."""
    lines = "\n".join(sources_of(name, "code")).splitlines()
    return ast.parse("\n".join(line for line in lines if not line.startswith("%")))


def files_in(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run a notebook in an empty folder beside a copy of the committed runs, once; return what its cells put out."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient, of the extra dev, is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel, of the extra dev, is not installed")
    import nbformat
    from jupyter_client import AsyncKernelManager
    from jupyter_client.kernelspec import KernelSpecManager

    # Where matplotlib has never been, its first import lists the fonts, and says so on stderr if that takes long.
    importlib.import_module("matplotlib.font_manager")

    @cache
    def run_once(name):
        place = tmp_path_factory.mktemp(name)
        work = place / "notebooks"
        work.mkdir()
        for folder in (EXAMPLE, SWEEP, OWN):
            shutil.copytree(folder, place / "reports" / folder.name)
        for beside in ("own_vignettes.csv", "refit_in_r.R"):
            shutil.copy(ROOT / "notebooks" / beside, work)
        before = files_in(place)
        notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
        nbformat.validate(notebook)
        environment = {
            **os.environ,
            "IPYTHONDIR": str(tmp_path_factory.mktemp("ipython")),
            "TMPDIR": str(tmp_path_factory.mktemp("scratch")),
            "PYTHONPATH": str(Path(audit.__file__).parent.parent),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        with warnings.catch_warnings():
            # jupyter_client leaves sockets to the garbage collector, which is asked here, and not in some later test.
            warnings.filterwarnings("ignore", message="Unclosed socket <zmq", category=ResourceWarning)
            # Of no folder: the kernel is this interpreter's own, whatever else the machine has under its name.
            kernel = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
            nbclient.NotebookClient(notebook, km=kernel, timeout=300).execute(cwd=str(work), env=environment)
            del kernel
            gc.collect()
        assert files_in(place) == before, "a notebook only reads its runs, and leaves nothing where it stands"
        return [output for cell in notebook.cells for output in cell.get("outputs", ())]

    return run_once


def text_of(outputs):
    """What a reader sees: printed lines, and tables as their cells one after another, with true minus signs."""
    text = "\n".join(
        each["text"]
        if each["output_type"] == "stream"
        else unescape(re.sub(r"<style.*?</style>|<[^>]+>", "", each["data"].get("text/html", ""), flags=re.DOTALL))
        for each in outputs
    )
    return " ".join(re.sub(r"(?<!\S)-(?=\d)", MINUS, text).split())


def example_gap():
    return read_table(EXAMPLE / "tables" / "gap.csv", GAP)


def sweep_gap():
    """The gaps of the run of groups with one term, whose table the reanalysis reads."""
    ratings = RunFolder(SWEEP / "origin").read_ratings(n_prompts=300)
    return analyse(ratings, scales={"origin": (0, 100)}, seed=0).tables["gap"]


def contrasts_of(folder):
    """Each narrative's mean in-group rating less its mean out-group one: δ's parts, with one term a group."""
    ratings = RunFolder(folder).read_ratings(n_prompts=Manifest.read(folder).n_prompts).dropna(subset="in_group")
    means = ratings.groupby(["narrative_id", "in_group"], observed=True)["intensity"].mean().unstack()
    return means[True] - means[False]


def test_these_are_all_notebooks():
    assert {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")} == set(NOTEBOOKS)


@every_notebook
def test_a_notebook_has_no_outputs_and_is_short(name):
    cells = cells_of(name)
    assert len(cells) <= 25
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


@every_notebook
def test_a_notebook_defines_nothing_and_imports_little(name):
    nodes = list(ast.walk(code_of(name)))
    assert not [n for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda))]
    imported = [alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names]
    imported += [n.module for n in nodes if isinstance(n, ast.ImportFrom)]
    assert {module.partition(".")[0] for module in imported} <= MAY_IMPORT
    assert not [module for module in imported if "._" in module]


def beyond_the_public_names(tree):
    """Say what of ``audit`` a piece of code uses besides ``import audit`` and the names that ``audit.__all__`` has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES:
            yield f"from {node.module} import ..."
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.partition(".")[0] in PACKAGES]
            yield from (f"import {name}" for name in names if name != "audit")
        of_audit = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "audit"
        if of_audit and node.attr not in audit.__all__:
            yield f"audit.{node.attr}"
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            yield node.attr


@every_notebook
def test_a_notebook_uses_the_public_names_alone(name):
    tree = code_of(name)
    assert list(beyond_the_public_names(tree)) == []
    assert "audit" in {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}


def test_the_page_on_python_shows_the_public_names_alone():
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) == 5
    assert [found for block in blocks for found in beyond_the_public_names(ast.parse(block))] == []
    functions = {name for name in audit.__all__ if inspect.isfunction(getattr(audit, name))}
    assert functions == set(re.findall(r"audit\.(\w+)\(", "".join(blocks))), "the page shows every public function"


def test_what_goes_beyond_the_public_names_is_seen():
    code = (
        "import audit, audit.runs.store\nfrom stimuli.prompts import Scale\naudit.pipeline\naudit.open_run('x')._asked"
    )
    assert set(beyond_the_public_names(ast.parse(code))) == {
        "import audit.runs.store", "from stimuli.prompts import ...", "audit.pipeline", "_asked",
    }  # fmt: skip


@pytest.mark.process
@every_notebook
def test_a_notebook_runs_without_a_word_on_stderr_and_draws(run, name):
    outputs = run(name)
    assert [output["text"] for output in outputs if output.get("name") == "stderr"] == []
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 1


@pytest.mark.process
@every_notebook
def test_every_gap_that_the_text_names_is_one_that_the_code_has_found(run, name):
    text = "\n".join(sources_of(name, "markdown"))
    named = set(re.findall(r"[+−]\d+\.\d\d\b", text))
    assert named <= set(re.findall(r"[+−]\d+\.\d\d\b", text_of(run(name))))
    assert bool(named) != (name in NO_GAPS_NAMED)


@pytest.mark.process
def test_the_first_look_shows_the_headlines_of_gap_csv_and_finds_delta_by_hand(run):
    text = text_of(run("first_look"))
    headline = example_gap().query("headline and scope == 'narratives'").set_index("dimension")
    assert set(headline.index) == {"religion"}
    for row in headline.to_dict("records"):
        found = " ".join(f"{row[name]:+.2f}".replace("-", MINUS) for name in ("delta", "ci_low", "ci_high"))
        assert f"religion narratives {found} {row['p']:.1g} {row['n_narratives']} {row['n_answers']}" in text
    controls = read_table(EXAMPLE / "tables" / "controls.csv", CONTROLS).set_index("control")
    by_hand = points(controls.loc["all_terms", "delta"])
    assert f"δ in whatever words, by hand: {by_hand} points, from 12 narratives" in text
    manifest = Manifest.read(EXAMPLE)
    plan = make_plan(load_config(manifest.config.content))
    ratings = RunFolder(EXAMPLE).read_ratings(n_prompts=manifest.n_prompts).query("dimension == 'religion'")
    highest = ratings.loc[ratings.loc[ratings["in_group"].notna(), "intensity"].idxmax()]
    prompt = plan.grid.prompt(plan.grid[highest["prompt_index"]])
    assert " ".join(f"{prompt.system} {prompt.user} rating {highest['intensity']:.1f} points, rated".split()) in text


@pytest.mark.process
def test_the_reanalysis_finds_both_gaps_of_the_run_whose_table_it_reads(run):
    text = text_of(run("reanalyse_published_design"))
    religion = sweep_gap()
    [published] = religion.query("estimator == 'published'").to_dict("records")
    [headline] = religion.query("headline and scope == 'narratives'").to_dict("records")
    assert f"δ_z = {points(published['delta_z'])}, from 12 of 12 narratives" in text
    assert f"null interval: {interval(published['null_low'], published['null_high'])}, all 24 shuffles" in text
    assert f"δ_z by hand: {points(published['delta_z'])}" in text
    found = " ".join(points(headline[name]) for name in ("delta", "ci_low", "ci_high"))
    assert f"narratives {found} {headline['p']:.1g} 12 192" in text
    assert f"religion: δ {points(headline['delta'])} points" in text
    # δ is the same however far apart the experiencers are; δ_z is not.
    assert f"δ (points) {2 * (points(headline['delta']) + ' ')}" in text
    [before, after] = re.findall(r"δ_z ([+−]\d\.\d\d) ([+−]\d\.\d\d)", text)[-1]
    assert before == points(published["delta_z"]) != after


@pytest.mark.process
def test_the_comparison_shows_paired_differences_as_scipy_has_them(run):
    text = text_of(run("compare_strategies"))
    origin, persona, scale = (contrasts_of(SWEEP / name) for name in ("origin", "persona-1", "scale-10"))
    for own in (origin, persona, scale):
        t = stats.ttest_1samp(own, 0).confidence_interval()
        told = (own.mean(), t.low, t.high)
        shown = [[f"{value:+.{n}f}".replace("-", MINUS) for value in told] for n in (2, 3)]  # as its interval bears
        assert any(f"{delta} [{low}, {high}]" in text for delta, low, high in shown), "the table to paste"
    # Of a scale ten times as short, a point is ten times as much of it; of 100 points, one is 1%.
    for first, second in ((origin, persona), (origin, 10 * scale), (persona, 10 * scale)):
        paired = stats.ttest_rel(first, second).confidence_interval()
        assert f"{points((first - second).mean())} {points(paired.low)} {points(paired.high)}" in text
    assert f"change by hand: {points((origin - persona).mean())} points" in text


@pytest.mark.process
def test_own_vignettes_end_in_the_table_of_the_run(run):
    """δ of four situations by scipy: each one's mean in-group rating less its mean out-group one, one term a group."""
    ratings = RunFolder(OWN).read_ratings(n_prompts=Manifest.read(OWN).n_prompts)
    means = ratings.groupby(["narrative_id", "in_group"], observed=True)["intensity"].mean().unstack()
    gaps = means[True] - means[False]
    assert len(gaps) == 4
    asked = PromptsAsked.of(json.loads(gzip.decompress((OWN / "prompts.json.gz").read_bytes())))
    own = pd.read_csv(ROOT / "notebooks" / "own_vignettes.csv").set_index("narrative_id")
    assert {each.narrative_id: each.neutral for each in asked.grid.narratives.narratives} == own["text"].to_dict()
    outputs = [each["data"].get("text/markdown", "") for each in run("own_vignettes") if "data" in each]
    table = next(each for each in outputs if each.startswith("**Table 1**"))
    ends = stats.ttest_1samp(gaps, 0).confidence_interval()
    decimals = len(decimals_shown(table))
    delta, low, high = (fixed(value, decimals=decimals) for value in (gaps.mean(), *ends))
    assert re.search(rf"\| religion \| 4 \| 64 \| {delta} \| \S+ \| \[{low}, {high}\] \|", table)
    assert "Caution, of religion: repeated words are not controlled" in table
    assert any("narratives of our own" in each for each in outputs)


def decimals_shown(table):
    """The decimals of the first number with a unit in a table of Markdown."""
    return re.search(r"\| −?\d+\.(\d+) \|", table)[1]


@pytest.mark.process
def test_the_refit_shows_what_r_finds_or_how_to_get_r(run):
    text = text_of(run("refit_in_r"))
    ours = read_table(EXAMPLE / "tables" / "controls.csv", CONTROLS).set_index("control").loc["all_terms"]
    delta = f"{ours['delta']:+.6f}".replace("-", MINUS)
    assert f"this package {delta} {ours['se']:.6f} 11.0" in text
    if r_is_there():
        assert f"within narratives {delta} {ours['se']:.6f} 11.0" in text
        assert f"lme4 {delta}" in text
    else:
        assert "Rscript with lmerTest is not on this machine" in text


@cache
def r_is_there():
    """Whether R is on this machine, with what the script needs."""
    rscript = shutil.which("Rscript")
    if rscript is None:
        return False
    return subprocess.run([rscript, "-e", "library(lmerTest)"], capture_output=True, check=False).returncode == 0


def refit(folder, ratings, dimension):
    """Run the script of the notebook, and return its fits."""
    ran = subprocess.run(
        [shutil.which("Rscript"), ROOT / "notebooks" / "refit_in_r.R", ratings, dimension, folder / "fits.csv"],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return pd.read_csv(folder / "fits.csv").set_index("fit")


@pytest.fixture
def needs_r():
    if not r_is_there():
        pytest.skip("Rscript with lmerTest is not on this machine: apt-get install r-base-core r-cran-lmertest")


@pytest.mark.process
def test_r_finds_the_gap_of_complete_ratings_with_its_interval(needs_r, tmp_path):
    """lm within narratives and t of their gaps in R; the same as the control over all words, to ten digits."""
    audit.open_run(EXAMPLE).export(tmp_path / "csv", form="csv")
    fits = refit(tmp_path, tmp_path / "csv" / "ratings.csv", "religion")
    ours = read_table(EXAMPLE / "tables" / "controls.csv", CONTROLS).set_index("control").loc["all_terms"]
    names = {"delta": "delta", "se": "se", "df": "df", "ci_low": "ci_low", "ci_high": "ci_high", "p": "p"}
    for name, column in names.items():
        assert fits.loc["within narratives", name] == pytest.approx(ours[column], rel=1e-8)
    assert fits.loc["lme4", "delta"] == pytest.approx(ours["delta"], abs=1e-9)
    assert set(fits["n_ratings"]) == {ours["n_answers"]}


@pytest.mark.process
def test_lme4_finds_the_mixed_row_of_ratings_of_which_some_are_missing(needs_r, tmp_path):
    """Planted: a gap of 4 points that differs between narratives; a sixth of the ratings are refused."""
    groups = alone(4)
    rng = np.random.default_rng(3)
    ratings = ratings_of(groups, n=40, sd=3.0)
    own = [groups[p] == groups[e] for p, e in zip(ratings["perceiver"], ratings["experiencer"], strict=True)]
    gap_of = dict(zip(ratings["narrative_id"].unique(), rng.normal(4, 3, 40), strict=True))
    ratings["rating"] += np.where(own, ratings["narrative_id"].map(gap_of), 0.0)
    gone = rng.random(len(ratings)) < 1 / 6
    ratings = ratings.assign(rating=ratings["rating"].mask(gone), status=np.where(gone, "refused", "rated"))
    folder = outside_run(tmp_path, ratings, grouped(groups))
    audit.open_run(folder).export(tmp_path / "csv", form="csv")
    fits = refit(tmp_path, tmp_path / "csv" / "ratings.csv", "identity")
    gap = pd.read_csv(folder / "tables" / "gap.csv").query("scope == 'narratives'").set_index("estimator")
    assert fits.loc["lme4", "delta"] == pytest.approx(gap.loc["mixed", "delta"], abs=1e-4)
    assert fits.loc["lme4", "se"] == pytest.approx(gap.loc["mixed", "se"], rel=1e-3)
    assert set(fits["n_ratings"]) == {int((~gone).sum())}
    # Where ratings are missing the headline weighs narratives: near to the plain mean of their gaps, and not the same.
    assert fits.loc["within narratives", "delta"] == pytest.approx(gap.loc["contrast", "delta"], abs=0.3)


@pytest.mark.process
def test_the_script_names_a_dimension_that_is_not_there(needs_r, tmp_path):
    audit.open_run(EXAMPLE).export(tmp_path / "csv", form="csv")
    ran = subprocess.run(
        [shutil.which("Rscript"), ROOT / "notebooks" / "refit_in_r.R", tmp_path / "csv/ratings.csv", "age", "x.csv"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode != 0
    assert "there is no dimension age; there are: religion, invented_2" in ran.stderr


@pytest.mark.parametrize("name", ["origin", "persona-1", "scale-10"])
def test_the_sweep_is_small_complete_and_holds_no_place_of_another_machine(name):
    folder = SWEEP / name
    manifest = Manifest.read(folder)
    assert len(RunFolder(folder).read_ratings(n_prompts=300)) == manifest.counts["rated"] == 300
    assert {path.name for path in folder.iterdir()} - {".lock"} == {
        "ledger.jsonl", "manifest.json", "manifest.copy.json", "prompts.json.gz", "ratings.parquet",
    }  # fmt: skip
    assert not re.search(r"[\"' =]/\w", json.dumps(manifest.content))


@pytest.mark.parametrize("name", ["origin", "persona-1", "scale-10"])
def test_the_prompts_of_the_sweep_can_be_built_again(name):
    manifest = Manifest.read(SWEEP / name)
    config = load_config(manifest.config.content)
    assert prompts_difference(manifest.identity.content, make_plan(config)) is None
