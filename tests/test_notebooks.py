"""The notebooks hold text and code alone, run on the committed runs, and show the numbers that lie in the tables."""

import ast
import gc
import importlib
import inspect
import json
import os
import re
import shutil
import sys
import warnings
from functools import cache
from html import unescape
from pathlib import Path

import pandas as pd
import pytest
from scipy import stats

import audit
from audit.config import load_config
from audit.plan import make_plan
from audit.runs.manifest import Manifest
from audit.runs.provenance import prompts_difference
from audit.runs.store import RunFolder
from audit.statistics.analysis import analyse
from audit.wording import BEYOND, MINUS, interval, points

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE, SWEEP = ROOT / "reports" / "example", ROOT / "reports" / "example-sweep"
NOTEBOOKS = ("first_look", "reanalyse_published_design", "compare_strategies")
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
        for folder in (EXAMPLE, SWEEP):
            shutil.copytree(folder, place / "reports" / folder.name)
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
            nbclient.NotebookClient(notebook, km=kernel, timeout=120).execute(cwd=str(work), env=environment)
            del kernel
            gc.collect()
        assert files_in(place) == before, "a notebook only reads its runs, and leaves nothing where it stands"
        return [output for cell in notebook.cells for output in cell.get("outputs", ())]

    return run_once


def text_of(outputs):
    """What a reader sees: printed lines, and tables as their cells one after another, with true minus signs."""
    shown = [each["text"] if each["output_type"] == "stream" else each["data"].get("text/html", "") for each in outputs]
    text = unescape(re.sub(r"<style.*?</style>|<[^>]+>", "", "\n".join(shown), flags=re.DOTALL))
    return " ".join(re.sub(r"(?<!\S)-(?=\d)", MINUS, text).split())


def example_gap():
    return pd.read_csv(EXAMPLE / "tables" / "gap.csv")


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
    assert len(blocks) == 4
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


@every_notebook
def test_a_notebook_runs_without_a_word_on_stderr_and_draws(run, name):
    outputs = run(name)
    assert [output["text"] for output in outputs if output.get("name") == "stderr"] == []
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 1


@every_notebook
def test_every_gap_that_the_text_names_is_one_that_the_code_has_found(run, name):
    text = "\n".join(sources_of(name, "markdown"))
    named = set(re.findall(r"[+−]\d+\.\d\d\b", text))
    assert named <= set(re.findall(r"[+−]\d+\.\d\d\b", text_of(run(name))))
    assert named or name == "reanalyse_published_design"


def test_the_first_look_shows_the_headlines_of_gap_csv_and_finds_delta_by_hand(run):
    text = text_of(run("first_look"))
    headline = example_gap().query("headline and scope == 'narratives'").set_index("dimension")
    assert set(headline.index) == {"religion"}
    for row in headline.to_dict("records"):
        found = " ".join(points(row[name]) for name in ("delta_points", "ci_low", "ci_high"))
        assert f"religion narratives {found} {row['p']:.1g} {row['n_narratives']} {row['n_ratings']}" in text
    controls = pd.read_csv(EXAMPLE / "tables" / "controls.csv").set_index("control")
    by_hand = points(controls.loc["all_terms", "delta_points"])
    assert f"δ in whatever words, by hand: {by_hand} points, from 12 narratives" in text
    manifest = Manifest.read(EXAMPLE)
    plan = make_plan(load_config(manifest.config.content))
    ratings = RunFolder(EXAMPLE).read_ratings(n_prompts=manifest.n_prompts).query("dimension == 'religion'")
    highest = ratings.loc[ratings.loc[ratings["in_group"].notna(), "intensity"].idxmax()]
    prompt = plan.grid.prompt(plan.grid[highest["prompt_index"]])
    assert " ".join(f"{prompt.system} {prompt.user} rating {highest['intensity']:.1f} points, rated".split()) in text


def test_the_reanalysis_finds_both_gaps_of_the_run_whose_table_it_reads(run):
    text = text_of(run("reanalyse_published_design"))
    religion = sweep_gap()
    [published] = religion.query("estimator == 'published'").to_dict("records")
    [headline] = religion.query("headline and scope == 'narratives'").to_dict("records")
    assert f"δ_z = {points(published['delta_z'])}, from 12 of 12 narratives" in text
    assert f"null interval: {interval(published['null_low'], published['null_high'])}, all 24 shuffles" in text
    assert f"δ_z by hand: {points(published['delta_z'])}" in text
    found = " ".join(points(headline[name]) for name in ("delta_points", "ci_low", "ci_high"))
    assert f"narratives {found} {headline['p']:.1g} 12 192" in text
    assert f"religion: δ {points(headline['delta_points'])} points" in text
    # δ is the same however far apart the experiencers are; δ_z is not.
    assert f"δ (points) {2 * (points(headline['delta_points']) + ' ')}" in text
    [before, after] = re.findall(r"δ_z (−\d\.\d\d) (−\d\.\d\d)", text)[-1]
    assert before == points(published["delta_z"]) != after


def test_the_comparison_shows_paired_differences_as_scipy_has_them(run):
    text = text_of(run("compare_strategies"))
    origin, persona, scale = (contrasts_of(SWEEP / name) for name in ("origin", "persona-1", "scale-10"))
    for own in (origin, persona, scale):
        t = stats.ttest_1samp(own, 0).confidence_interval()
        assert f"{points(own.mean())} [{points(t.low)}, {points(t.high)}]" in text, "the table to paste"
    # Of a scale ten times as short, a point is ten times as much of it; of 100 points, one is 1%.
    for first, second in ((origin, persona), (origin, 10 * scale), (persona, 10 * scale)):
        paired = stats.ttest_rel(first, second).confidence_interval()
        assert f"{points((first - second).mean())} {points(paired.low)} {points(paired.high)}" in text
    assert f"change by hand: {points((origin - persona).mean())} points" in text


@pytest.mark.parametrize("name", ["origin", "persona-1", "scale-10"])
def test_the_sweep_is_small_complete_and_holds_no_place_of_another_machine(name):
    folder = SWEEP / name
    manifest = Manifest.read(folder)
    assert len(RunFolder(folder).read_ratings(n_prompts=300)) == manifest.counts["rated"] == 300
    assert {path.name for path in folder.iterdir()} - {".lock"} == {"ledger.jsonl", "manifest.json", "ratings.parquet"}
    assert not re.search(r"[\"' =]/\w", json.dumps(manifest.content))


@pytest.mark.parametrize("name", ["origin", "persona-1", "scale-10"])
def test_the_prompts_of_the_sweep_can_be_built_again(name):
    manifest = Manifest.read(SWEEP / name)
    config = load_config(manifest.config.content)
    assert prompts_difference(manifest.identity.content, make_plan(config)) is None
