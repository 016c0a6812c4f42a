"""Change places of the code one at a time, and see whether the tests that run them notice: a table in Markdown.

    python benchmarks/mutants.py coverage=FILE out=tests/mutants.json [slow=FILE] [n=200] [seed=1] [again=TESTS]

``make mutants`` first measures which quick tests run which line, and which of the slow ones of the engines (``slow``),
which are run where no quick one does. Places are drawn by seed from ``PARTS``, as many of each
kind: a comparison changed, a sign turned, a constant changed, a place off by one, a line dropped. The tests that run
the line are then run on a copy of the code, those that run least of the code first, until one fails. A mutant that
passes all of them survives.

What is found is written at once, and the same command goes on from there; with another coverage file it runs what is
new in it. ``again`` names files of tests, with commas between them, that are run on the survivors: those written
since. By hand, ``equivalent`` in a survivor's row says why no test could notice it.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import cache
from itertools import zip_longest
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("audit/statistics", "audit/asking/elicitation", "audit/engines", "audit/runs")
KINDS = ("comparison", "sign", "constant", "off by one", "dropped line")
COMPARISONS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}  # fmt: skip
SIGNS = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
HANGS = {signal.ITIMER_PROF: 60, signal.ITIMER_REAL: 180}
"""Seconds, of the processor and by the clock, after which one test hangs, which is noticed, too."""
SECONDS = 600
"""Seconds of the processor for all tests of a mutant; one that is not noticed by then counts as a survivor."""
LOADED = ("hydra", "matplotlib.figure", "numpy", "pandas", "pyarrow.parquet", "pydantic", "scipy.stats", "seaborn",
          "statsmodels.api", "yaml")  # fmt: skip
"""What most tests import; the processes that run them are forked after it."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Mutant:
    """A change of one place: the text from ``start`` to ``end`` of the file becomes ``after``."""

    path: str
    line: int
    kind: str
    start: int
    end: int
    before: str
    after: str

    def written(self, text: str) -> str:
        """Return the file with the change."""
        return text[: self.start] + self.after + text[self.end :]


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield the changes of a file, without those of types and of code that no test can run."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    lines = text.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.decode()))

    def place(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1][:column].decode())

    def made(node: ast.AST, kind: str, start: int, end: int, after: str) -> Mutant:
        name = path.relative_to(ROOT).as_posix()
        return Mutant(name, node.lineno, kind, start, end, text[start:end], after)

    def operator(node: ast.AST, kind: str, left: ast.AST, right: ast.AST, before: str, after: str) -> Iterator[Mutant]:
        start, end = place(left.end_lineno, left.end_col_offset), place(right.lineno, right.col_offset)
        found = re.search(
            r"(?<![\w<>=!])" + r"\s+".join(map(re.escape, before.split())) + r"(?![\w<>=])", text[start:end]
        )
        if found:
            yield made(node, kind, start + found.start(), start + found.end(), after)

    for node in _running(tree):
        match node:
            case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
                yield from operator(node, "comparison", node.left, node.comparators[0], *COMPARISONS[type(op)])
            case ast.BinOp(op=op) if type(op) in SIGNS:
                yield from operator(node, "sign", node.left, node.right, *SIGNS[type(op)])
            case ast.UnaryOp(op=ast.USub()):
                start = place(node.lineno, node.col_offset)
                yield made(node, "sign", start, start + 1, "")
            case ast.Subscript(slice=ast.Slice() as cut):
                for bound in filter(None, (cut.lower, cut.upper)):
                    start, end = place(bound.lineno, bound.col_offset), place(bound.end_lineno, bound.end_col_offset)
                    yield made(bound, "off by one", start, end, f"({text[start:end]}) + 1")
            case ast.Call(func=ast.Name(id="range"), args=[*_, last]):
                start, end = place(last.lineno, last.col_offset), place(last.end_lineno, last.end_col_offset)
                yield made(last, "off by one", start, end, f"({text[start:end]}) - 1")
            case ast.Constant(value=bool() as value):
                start = place(node.lineno, node.col_offset)
                yield made(node, "constant", start, start + len(str(value)), str(not value))
            case ast.Constant(value=int() | float() as value):
                start, end = place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)
                yield made(node, "constant", start, end, f"({text[start:end]} + 1)")
            case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break() | ast.Raise():
                start, end = place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)
                yield made(node, "dropped line", start, end, "pass")


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of code that runs: no annotations, no imports for types alone.

    Nor what stands in an f-string, of which Python 3.11 does not know the place.
    """
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
                continue
            if not isinstance(node, ast.JoinedStr):
                yield node
                yield from _running(node)


def draw(n: int, seed: int) -> list[Mutant]:
    """Draw as many mutants of each kind, in turns, so that the first of them are a sample, too."""
    by_kind = defaultdict(list)
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            for mutant in mutants_of(path):
                by_kind[mutant.kind].append(mutant)
    rng = random.Random(seed)
    drawn = [rng.sample(by_kind[kind], min(len(by_kind[kind]), n // len(KINDS))) for kind in KINDS]
    return [mutant for turn in zip_longest(*drawn) for mutant in turn if mutant]


Coverage = dict[str, dict[int, set[str]]]


def tests_by_line(coverage_file: str | Path) -> Coverage:
    """Return the tests that run each line, by file, from a coverage file with contexts."""
    from coverage import CoverageData

    data = CoverageData(str(coverage_file))
    data.read()
    found = {}
    for measured in data.measured_files():
        if Path(measured).is_relative_to(ROOT):
            contexts = data.contexts_by_lineno(measured)
            name = Path(measured).relative_to(ROOT).as_posix()
            found[name] = {
                line: {each.rpartition("|")[0] for each in tests if each} for line, tests in contexts.items()
            }
    return found


class Module:
    """Where the code of a file runs: in functions, or once, when the module is imported."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.lines = path, text.splitlines()
        self.statements = ast.parse(text).body
        self.nodes = [node for statement in self.statements for node in ast.walk(statement)]
        self.in_functions: set[int] = set()
        for node in self.nodes:
            if isinstance(node, FUNCTIONS):
                body = node.body if isinstance(node.body, list) else [node.body]
                self.in_functions.update(range(body[0].lineno, node.end_lineno + 1))

    def statement(self, line: int) -> range:
        """Return the lines of the smallest statement that holds a line, of a compound one those of its head."""
        held = [node for node in self.nodes if isinstance(node, ast.stmt) and node.lineno <= line <= node.end_lineno]
        smallest = min(held, key=lambda node: node.end_lineno - node.lineno)
        within = getattr(smallest, "body", None)
        return range(smallest.lineno, within[0].lineno if within else smallest.end_lineno + 1)

    def defined(self, line: int) -> tuple[set[str], range]:
        """Return the names that the outermost statement of a line defines, and its lines."""
        held = [node for node in self.statements if node.lineno <= line <= node.end_lineno]
        if not held:
            return set(), range(0)
        stored = {
            node.id for node in ast.walk(held[0]) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        own = getattr(held[0], "name", None)
        return {own} if own else stored, range(held[0].lineno, held[0].end_lineno + 1)


@cache
def module(path: str) -> Module:
    return Module(path, (ROOT / path).read_text("utf-8"))


def tests_of(mutant: Mutant, covered: Coverage) -> set[str]:
    """Return the tests that run a mutant's line, or what is made of it when its module is imported."""
    own, lines = module(mutant.path), covered.get(mutant.path, {})
    if mutant.line not in own.in_functions:
        return _users(own, mutant.line, covered)
    # Of an expression over several lines, not every line is one to Python.
    return lines.get(mutant.line) or set().union(*(lines.get(line, ()) for line in own.statement(mutant.line)))


def _users(own: Module, line: int, covered: Coverage) -> set[str]:
    """Return the tests of functions that name what a line defines at import, or what is defined by that."""
    new, lines = own.defined(line)
    found = set().union(*(covered.get(own.path, {}).get(each, ()) for each in lines if each in own.in_functions))
    known: set[str] = set()
    while new:
        known |= new
        mention = re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(new))) + r")\b").search
        new = set()
        for other in map(module, sorted(covered)):
            for number in (number for number, text in enumerate(other.lines, 1) if mention(text)):
                if number in other.in_functions:
                    found |= covered[other.path].get(number, set())
                elif not other.lines[number - 1].startswith(("import ", "from ", "#")):
                    new |= other.defined(number)[0] - known
    return found


class Chosen:
    """A plugin of pytest: of the files' tests some alone, in an order. It writes down what failed."""

    def __init__(self, tests: list[str], told: Path) -> None:
        self.files = dict.fromkeys(test.partition("::")[0] for test in tests)
        self.order, self.told = {test: place for place, test in enumerate(tests) if "::" in test}, told

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self, items):
        yield  # to conftest.py, which puts the longest files first
        if self.order:
            kept = [item for item in items if item.nodeid in self.order]
            items[:] = sorted(kept, key=lambda item: self.order[item.nodeid])

    def pytest_runtest_logstart(self):
        for timer, seconds in HANGS.items():
            signal.setitimer(timer, seconds)  # their signals end the process

    def pytest_runtest_logreport(self, report):
        self.write(report)

    def pytest_collectreport(self, report):
        self.write(report)

    def write(self, report):
        if report.failed:
            with self.told.open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")


def failed(tests: list[str], tree: Path, seconds: int, *, stop: bool = True) -> list[str]:
    """Run tests, or files of them, in a process of its own; return what failed, or how else the process ended.

    Raises
    ------
    TimeoutError
        If none has failed in so many seconds of the processor.
    """
    with tempfile.TemporaryDirectory() as folder:
        told, log = Path(folder) / "failed", Path(folder) / "log"
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if not child:
            _run(Chosen(tests, told), tree, log, seconds, stop=stop)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what the tests have left running
        names = told.read_text("utf-8").splitlines() if told.exists() else []
        if names or not status:
            return names
        if -status == signal.SIGXCPU:
            raise TimeoutError
        if -status in (signal.SIGPROF, signal.SIGALRM):
            return ["hangs"]
        print(log.read_text("utf-8")[-2000:], file=sys.stderr)
        return [f"exit code {status}"]


def _run(plugin: Chosen, tree: Path, log: Path, seconds: int, *, stop: bool) -> None:
    """Be the process that runs them; never return."""
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
        for descriptor in (1, 2):
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
        os.chdir(tree)
        os.environ["PYTHONPATH"] = str(tree)
        sys.path[:] = [str(tree), *(path for path in sys.path if path not in ("", str(ROOT), str(ROOT / "benchmarks")))]
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:cov", "-p", "no:xdist", *(["-x"] if stop else [])]
        code = pytest.main([*options, *plugin.files], plugins=[plugin])
        audit = sys.modules.get("audit")
        if audit and not Path(audit.__file__).is_relative_to(tree):
            print(f"the tests ran {audit.__file__}, not the copy's")
            code = 70
        sys.stdout.flush()
        os._exit(code)
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(71)


def in_groups(mutant: Mutant, tests: set[str], widths: Counter[str]) -> list[list[str]]:
    """Return tests in the order in which they are run, those of some files after the other."""
    by_file = defaultdict(list)
    for test in sorted(tests, key=lambda test: (widths[test], test)):
        by_file[test.partition("::")[0]].append(test)

    def late(file: str) -> tuple[bool, float]:
        return Path(mutant.path).stem not in file, sum(widths[test] for test in by_file[file]) / len(by_file[file])

    files = sorted(by_file, key=late)
    # The first alone, since most mutants are noticed at once: to import a file takes longer than to run its tests.
    groups = [files[:1], files[1:4], files[4:16], files[16:]]
    return [[test for file in group for test in by_file[file]] for group in groups if group]


def outcome(mutant: Mutant, groups: list[list[str]], tree: Path) -> dict[str, object]:
    """Run tests in a copy of the code with the change until one fails, and put the file back."""
    target = tree / mutant.path
    text = target.read_text("utf-8")
    compiled = Path(
        importlib.util.cache_from_source(str(target))
    )  # which a change of the same second and size outlives
    compiled.unlink(missing_ok=True)
    target.write_text(mutant.written(text), "utf-8")
    found, left = [], float(SECONDS)
    try:
        for group in groups:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            found = failed(group, tree, max(1, int(left)))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            left -= after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            if found:
                break
    except TimeoutError:
        pass
    finally:
        compiled.unlink(missing_ok=True)
        target.write_text(text, "utf-8")
    n_tests = sum(map(len, groups))
    if not groups:
        return asdict(mutant) | {"outcome": "not run", "by": "", "n_tests": 0}
    return asdict(mutant) | {
        "outcome": "noticed" if found else "survived", "by": found[0] if found else "", "n_tests": n_tests
    }  # fmt: skip


COLUMNS = {
    "places": None, "not run": "not run", "noticed by quick tests": "noticed", "by slow ones": "slow",
    "by a test added for it": "added", "equivalent": "equivalent", "survived": "survived",
}  # fmt: skip


def fate(row: dict[str, object]) -> str:
    """Return what became of a mutant, as the table counts it."""
    if row["outcome"] == "survived":
        return "equivalent" if row.get("equivalent") else "survived"
    return next((name for name in ("added", "slow") if row.get(name)), str(row["outcome"]))


def table(rows: list[dict[str, object]]) -> str:
    """Return the table by kind."""
    lines = [f"| kind | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for kind in (*KINDS, "all"):
        counts = Counter(fate(row) for row in rows if kind in (row["kind"], "all"))
        shown = [counts[name] if name else counts.total() for name in COLUMNS.values()]
        lines.append(f"| {' | '.join(map(str, [kind, *shown]))} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Draw the mutants, run their tests, and print and write what became of them."""
    if subprocess.run(["git", "-C", str(ROOT), "diff", "--quiet", "HEAD", "--", *PARTS], check=False).returncode:
        sys.exit("the code has changes that are not committed, and the copy is made of what is: commit them first")
    told = dict(argument.split("=", 1) for argument in arguments)
    out = Path(told["out"])
    os.environ |= {"OMP_NUM_THREADS": "1", "CI": "1"}
    for name in LOADED:
        importlib.import_module(name)
    quick, slow = (tests_by_line(told[name]) if name in told else {} for name in ("coverage", "slow"))
    widths = Counter(
        test for covered in (quick, slow) for lines in covered.values() for tests in lines.values() for test in tests
    )
    drawn = draw(int(told.get("n", 200)), int(told.get("seed", 1)))
    found = {mutant_of(row): row for row in (json.loads(out.read_text("utf-8")) if out.exists() else [])}
    found = {mutant: found[mutant] for mutant in drawn if mutant in found}

    def write() -> None:
        new = out.with_suffix(".new")
        new.write_text(json.dumps([found[each] for each in drawn if each in found], indent=1) + "\n", "utf-8")
        new.replace(out)

    folder = Path(tempfile.mkdtemp())
    tree = folder / "tree"
    subprocess.run(["git", "-C", str(ROOT), "worktree", "add", "-q", "--detach", str(tree)], check=True)
    try:
        for mutant in drawn:
            known = found.get(mutant, {"outcome": "not run", "n_tests": 0})
            if known["outcome"] == "noticed" or known.get("equivalent"):
                continue
            if "again" in told:
                if known["outcome"] == "not run":
                    continue
                row = known | outcome(mutant, [told["again"].split(",")], tree) | {"n_tests": known["n_tests"]}
                row |= {"added": True} if row["outcome"] == "noticed" else {}
            else:
                by_quick = tests_of(mutant, quick)
                tests = by_quick or tests_of(mutant, slow)
                if len(tests) <= known["n_tests"] and mutant in found:
                    continue
                row = outcome(mutant, in_groups(mutant, tests, widths), tree)
                row |= {"slow": True} if tests and not by_quick else {}
            found[mutant] = row
            write()
            change = f"{mutant.path}:{mutant.line}: {mutant.before!r} -> {mutant.after!r}"
            print(f"{row['outcome']}: {change} {row['by']}", file=sys.stderr, flush=True)
        unsound = failing_anyway(found.values(), tree)
        for mutant in [mutant for mutant in found if found[mutant]["by"] in unsound]:
            print(f"fails without any change: {found.pop(mutant)['by']}", file=sys.stderr)
        write()
    finally:
        subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(tree)], check=False)
        shutil.rmtree(folder, ignore_errors=True)
    print(table(list(found.values())))


def mutant_of(row: dict[str, object]) -> Mutant:
    return Mutant(**{field.name: row[field.name] for field in fields(Mutant)})


def failing_anyway(rows: Iterable[dict[str, object]], tree: Path) -> list[str]:
    """Return which tests that noticed a mutant fail without it, too, and so say nothing."""
    names = sorted({str(row["by"]) for row in rows if "::" in str(row["by"])})
    return failed(names, tree, 24 * 3600, stop=False) if names else []


if __name__ == "__main__":
    main(sys.argv[1:])
