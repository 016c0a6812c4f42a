"""Change places of the code one at a time, and see whether the tests that run them notice: a table in Markdown.

    python benchmarks/mutants.py out=tests/mutants.json [coverage=FILE] [slow=FILE] [n=200] [seed=1] [again=TESTS]

Places are drawn by seed from ``PARTS``, as many of each kind: a comparison changed, a sign turned, a constant changed,
a place off by one, a line dropped. Tests are then run on a copy of the code until one fails. A mutant that passes all
of them survives.

``make mutants`` first measures which quick tests run which line (``coverage``), and which of the slow ones of the
engines (``slow``), which are run where no quick one does. Without such a file, the tests are those of the files that
import the module.

What is found is written at once, and the same command goes on from there; with another coverage file it runs what is
new in it. ``again`` names files of tests, with commas between them, that are run on the survivors: those written
since. By hand, ``equivalent`` in a survivor's row says why no test could notice it.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import importlib.util
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import cache
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

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
"""Seconds of the processor for all tests of a mutant. One that is not noticed by then counts as a survivor."""
UNCHANGED = 72
"""Exit code where no function that is imported has the change."""
LOADED = ("matplotlib.figure", "numpy", "omegaconf", "pandas", "pyarrow.parquet", "pydantic", "scipy.stats", "seaborn",
          "statsmodels.api", "yaml")  # fmt: skip
"""What most tests import; the processes that run them are forked after it."""
OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:cov", "-p", "no:xdist"]
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


class Told:
    """A plugin of pytest that writes down which tests fail, and ends a process whose test hangs."""

    told: Path | None = None

    def pytest_runtest_logstart(self):
        for timer, seconds in HANGS.items() if self.told else ():
            signal.setitimer(timer, seconds)  # their signals end the process

    def pytest_runtest_logreport(self, report):
        if self.told and report.failed:
            with self.told.open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")

    pytest_collectreport = pytest_runtest_logreport


class Chosen(Told):
    """Of the files' tests some alone, in an order."""

    def __init__(self, tests: list[str], told: Path) -> None:
        self.tests, self.told = tests, told

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self, items):
        yield  # to conftest.py, which puts the longest files first
        items[:] = chosen(items, self.tests)


class Forks(Told):
    """Of tests that are all imported, each mutant's in a process of its own, in which the change is made in memory."""

    def __init__(self, jobs: dict[Mutant, list[str]], tree: Path, record: Callable[[dict[str, object]], None]) -> None:
        self.jobs, self.tree, self.record = jobs, tree, record
        self.left = Path(tempfile.mkdtemp()) / "left"
        self.tests = list(dict.fromkeys(file_of(test) for tests in jobs.values() for test in tests))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        gc.unfreeze()  # what conftest.py froze has the functions to change
        every = session.items
        for mutant, tests in self.jobs.items():
            own = chosen(every, tests)
            if not own:
                self.record(row_of(mutant, [], 0))
                continue
            told = self.left.with_name("failed")
            told.unlink(missing_ok=True)
            with changed_in(self.tree, mutant) as text:
                child = os.fork()
                if not child:
                    os.setpgid(0, 0)
                    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, resource.RLIM_INFINITY))
                    if not change_functions(mutant, text, self.tree):
                        os._exit(UNCHANGED)
                    self.told, session.items, session.config.option.maxfail = told, own, 1
                    return None  # and pytest goes on to run them
                found = ended(child, told)
            if found == [f"exit code {UNCHANGED}"]:
                with self.left.open("a", encoding="utf-8") as file:
                    file.write(f"{json.dumps(asdict(mutant))}\n")
            else:
                self.record(row_of(mutant, found, len(own)))
        return True


def file_of(test: str) -> str:
    return test.partition("::")[0]


def chosen(items: list[Any], tests: list[str]) -> list[Any]:
    """Return the items of these tests, or files of tests, in the order of the names."""
    place = {test: k for k, test in enumerate(tests)}
    placed = [(place.get(item.nodeid, place.get(file_of(item.nodeid))), item) for item in items]
    return [item for _, item in sorted(((k, i) for k, i in placed if k is not None), key=lambda pair: pair[0])]


def change_functions(mutant: Mutant, text: str, tree: Path) -> int:
    """Give the functions of a module that is imported the code that they have with the change; return how many."""
    file = str(tree / mutant.path)
    before, after = (_functions(compile(each, file, "exec")) for each in (text, mutant.written(text)))
    names = {(code.co_qualname, code.co_firstlineno, code.co_code): name for name, code in before.items()}
    n_changed = 0
    for function in gc.get_objects():
        if type(function) is FunctionType and function.__code__.co_filename == file:
            own = function.__code__
            new = after.get(names.get((own.co_qualname, own.co_firstlineno, own.co_code)))
            if new is not None and new.co_freevars == own.co_freevars:
                n_changed += (new.co_code, new.co_consts, new.co_names) != (own.co_code, own.co_consts, own.co_names)
                function.__code__ = new
    return n_changed


def _functions(code: CodeType) -> dict[tuple[str, int], CodeType]:
    """Return the code of all functions in some code, by name and which of that name it is."""
    found: dict[tuple[str, int], CodeType] = {}
    times: Counter[str] = Counter()
    within = [code]
    while within:
        for each in within.pop(0).co_consts:
            if isinstance(each, CodeType):
                found[each.co_qualname, times[each.co_qualname]] = each
                times[each.co_qualname] += 1
                within.append(each)
    return found


def ended(child: int, told: Path) -> list[str]:
    """Wait for a process that runs tests; return what failed, or how else the process ended.

    Raises
    ------
    TimeoutError
        If none has failed in the seconds of the processor that it had.
    """
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what the tests have left running
    names = told.read_text("utf-8").splitlines() if told.exists() else []
    if names or not status:
        return names
    if -status == signal.SIGXCPU:
        return []
    return ["hangs" if -status in (signal.SIGPROF, signal.SIGALRM) else f"exit code {status}"]


def start(plugin: Told, files: Iterable[str], tree: Path, *options: str) -> int:
    """Run pytest in a copy of the code, in a process of its own; return its number."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    try:
        os.setpgid(0, 0)
        os.chdir(tree)
        # Compiled files stay, or every process compiles all of the code.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        sys.dont_write_bytecode = False
        os.environ["PYTHONPATH"] = str(tree)
        sys.path[:] = [str(tree), *(path for path in sys.path if path not in ("", str(ROOT), str(ROOT / "benchmarks")))]
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            code = pytest.main([*OPTIONS, *options, *files], plugins=[plugin])
        audit = sys.modules.get("audit")
        if audit and not Path(audit.__file__).is_relative_to(tree):
            print(f"the tests ran {audit.__file__}, not the copy's", file=sys.stderr)
            code = 70
        os._exit(code)
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        os._exit(71)


def failed(tests: list[str], tree: Path, *options: str) -> list[str]:
    """Return which of these tests, or files of tests, fail."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "failed"
        return ended(start(Chosen(tests, told), dict.fromkeys(map(file_of, tests)), tree, *options), told)


@contextlib.contextmanager
def changed_in(tree: Path, mutant: Mutant) -> Iterator[str]:
    """Write the change into a copy of the code, and take it back; give the file as it was."""
    target = tree / mutant.path
    text = target.read_text("utf-8")
    # A compiled file outlives a change of the same second and size.
    compiled = Path(importlib.util.cache_from_source(str(target)))
    maker = os.getpid()
    compiled.unlink(missing_ok=True)
    target.write_text(mutant.written(text), "utf-8")
    try:
        yield text
    finally:
        if os.getpid() == maker:
            compiled.unlink(missing_ok=True)
            target.write_text(text, "utf-8")


def in_forks(jobs: dict[Mutant, list[str]], tree: Path, record: Callable[[dict[str, object]], None]) -> set[Mutant]:
    """Run the tests of changes of functions; return those that no function in memory has."""
    plugin = Forks(jobs, tree, record)
    if plugin.tests:
        ended(start(plugin, plugin.tests, tree), plugin.left)
    lines = plugin.left.read_text("utf-8").splitlines() if plugin.left.exists() else []
    return {mutant_of(json.loads(line)) for line in lines}


def at_import(mutant: Mutant, tests: list[str], tree: Path) -> dict[str, object]:
    """Run the tests of what runs when a module is imported, in a process that imports it anew."""
    with changed_in(tree, mutant):
        return row_of(mutant, failed(tests, tree, "-x") if tests else [], len(tests))


def row_of(mutant: Mutant, found: list[str], n_tests: int) -> dict[str, object]:
    """Return what became of a mutant."""
    what = "noticed" if found else "survived" if n_tests else "not run"
    return asdict(mutant) | {"outcome": what, "by": found[0] if found else "", "n_tests": n_tests}


def in_order(mutant: Mutant, tests: set[str], widths: Counter[str]) -> list[str]:
    """Return tests in the order in which they are run: of files named as the module, then those that run least."""
    of_file = defaultdict(list)
    for test in tests:
        of_file[file_of(test)].append(widths[test])

    def late(test: str) -> tuple[bool, float, str, int, str]:
        file = file_of(test)
        own = of_file[file]
        return Path(mutant.path).stem not in file, sum(own) / len(own), file, widths[test], test

    return sorted(tests, key=late)


def importing(mutant: Mutant) -> set[str]:
    """Return the files of tests that import a mutant's module."""
    name, stem = mutant.path.removesuffix(".py").replace("/", "."), Path(mutant.path).stem
    asked = re.compile(rf"{re.escape(name)}\b|from {re.escape(name.rpartition('.')[0])} import [^\n]*\b{stem}\b")
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return {
        path.relative_to(ROOT).as_posix()
        for path in files
        if path.stem == f"test_{stem}" or asked.search(path.read_text("utf-8"))
    }


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
    progress = os.fdopen(os.dup(2), "w")  # whatever pytest does with sys.stderr
    out = Path(told["out"]).resolve()
    os.environ |= {"OMP_NUM_THREADS": "1", "CI": "1"}
    for name in LOADED:
        importlib.import_module(name)
    quick, slow = (tests_by_line(told[name]) if name in told else {} for name in ("coverage", "slow"))
    widths = Counter(
        test for of in (quick, slow) for lines in of.values() for tests in lines.values() for test in tests
    )
    drawn = draw(int(told.get("n", 200)), int(told.get("seed", 1)))

    def read() -> dict[Mutant, dict[str, object]]:
        rows = json.loads(out.read_text("utf-8")) if out.exists() else []
        found = {mutant_of(row): row for row in rows}
        return {mutant: found[mutant] for mutant in drawn if mutant in found}

    def write(found: dict[Mutant, dict[str, object]]) -> None:
        new = out.with_suffix(".new")
        new.write_text(json.dumps([found[each] for each in drawn if each in found], indent=1) + "\n", "utf-8")
        new.replace(out)

    def record(row: dict[str, object]) -> None:
        mutant, found = mutant_of(row), read()
        if "again" in told:
            row |= {"n_tests": found[mutant]["n_tests"]} | ({"added": True} if row["outcome"] == "noticed" else {})
        elif quick and not tests_of(mutant, quick) and row["n_tests"]:
            row |= {"slow": True}
        write(found | {mutant: row})
        change = f"{mutant.path}:{mutant.line}: {mutant.before!r} -> {mutant.after!r}"
        print(f"{row['outcome']}: {change} {row['by']}", file=progress, flush=True)

    jobs = {}
    for mutant in drawn:
        known = read().get(mutant, {"outcome": "not run", "n_tests": -1})
        if known["outcome"] == "noticed" or known.get("equivalent") or ("again" in told and known["n_tests"] < 1):
            continue
        tests = set(told["again"].split(",")) if "again" in told else set()
        tests = tests or (tests_of(mutant, quick) or tests_of(mutant, slow) if quick else importing(mutant))
        if "again" in told or len(tests) > known["n_tests"]:
            jobs[mutant] = in_order(mutant, tests, widths)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "-C", str(ROOT), "worktree", "add", "-q", "--detach", str(tree)], check=True)
        try:
            in_functions = {each: jobs[each] for each in jobs if each.line in module(each.path).in_functions}
            for mutant in (jobs.keys() - in_functions.keys()) | in_forks(in_functions, tree, record):
                record(at_import(mutant, jobs[mutant], tree))
            found = read()
            names = sorted({str(row["by"]) for row in found.values() if "::" in str(row["by"])})
            anyway = failed(names, tree) if names else []
            for mutant in [mutant for mutant in found if found[mutant]["by"] in anyway]:
                print(f"fails without any change, and says nothing: {found.pop(mutant)['by']}", file=sys.stderr)
            write(found)
        finally:
            subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(tree)], check=False)
    print(table(list(found.values())))


def mutant_of(row: dict[str, object]) -> Mutant:
    return Mutant(**{field.name: row[field.name] for field in fields(Mutant)})


if __name__ == "__main__":
    main(sys.argv[1:])
