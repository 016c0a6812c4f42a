"""Change places of the code one at a time, and see whether the tests that run them notice: a table in Markdown.

    python benchmarks/mutants.py coverage=.coverage [n=200] [seed=1] [out=tests/mutants.json]

``make mutants`` first measures which tests run which line. Places are drawn by seed from ``PARTS``, as many of each
kind: a comparison changed, a sign turned, a constant changed, a place off by one, a line dropped. The tests that run
the line are then run on a copy of the code until one fails. A mutant that passes all of them survives.
"""

from __future__ import annotations

import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("audit/statistics", "audit/asking/elicitation", "audit/engines", "audit/runs")
KINDS = ("comparison", "sign", "constant", "off by one", "dropped line")
COMPARISONS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}  # fmt: skip
SIGNS = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
SECONDS = 600
"""A mutant whose tests take longer hangs, which is noticed, too."""


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
    """Yield the nodes of code that runs: no annotations, no imports for types alone."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
                continue
            yield node
            yield from _running(node)


def draw(n: int, seed: int, covered: dict[str, dict[int, set[str]]]) -> list[Mutant]:
    """Draw as many mutants of each kind, of lines that some test runs."""
    by_kind = defaultdict(list)
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            for mutant in mutants_of(path):
                if covered.get(mutant.path, {}).get(mutant.line):
                    by_kind[mutant.kind].append(mutant)
    rng = random.Random(seed)
    return [mutant for kind in KINDS for mutant in rng.sample(by_kind[kind], min(len(by_kind[kind]), n // len(KINDS)))]


def tests_by_line(coverage_file: str) -> dict[str, dict[int, set[str]]]:
    """Return the tests that run each line, by file, from a coverage file with contexts."""
    from coverage import CoverageData

    data = CoverageData(coverage_file)
    data.read()
    found = {}
    for measured in data.measured_files():
        if Path(measured).is_relative_to(ROOT):
            contexts = data.contexts_by_lineno(measured)
            name = Path(measured).relative_to(ROOT).as_posix()
            found[name] = {line: {each.partition("|")[0] for each in tests if each} for line, tests in contexts.items()}
    return found


def outcome(mutant: Mutant, tests: set[str], scratch: Path) -> dict[str, object]:
    """Run a mutant's tests in a copy of the code, and put the file back."""
    target = scratch / mutant.path
    text = target.read_text("utf-8")
    target.write_text(mutant.written(text), "utf-8")
    try:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        environment = os.environ | {"PYTHONPATH": str(scratch), "OMP_NUM_THREADS": "1", "CI": "1"}
        run = subprocess.run(
            [*command, *sorted(tests)], cwd=scratch, env=environment, timeout=SECONDS, text=True, capture_output=True
        )
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", run.stdout, re.M)
        found = "noticed" if run.returncode else "survived"
        by = failed[1] if failed else ""
    except subprocess.TimeoutExpired:
        found, by = "noticed", "hangs"
    finally:
        target.write_text(text, "utf-8")
    return asdict(mutant) | {"outcome": found, "by": by, "n_tests": len(tests)}


def table(rows: list[dict[str, object]]) -> str:
    """Return the table by kind."""
    lines = ["| kind | mutants | noticed | survived |", "|---|---|---|---|"]
    for kind in (*KINDS, "all"):
        counts = Counter(row["outcome"] for row in rows if kind in (row["kind"], "all"))
        lines.append(f"| {kind} | {counts.total()} | {counts['noticed']} | {counts['survived']} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Draw the mutants, run their tests, two at a time, and print and write what became of them."""
    if subprocess.run(["git", "-C", str(ROOT), "diff", "--quiet", "HEAD", "--", *PARTS], check=False).returncode:
        sys.exit("the code has changes that are not committed, and copies are made of what is: commit them first")
    told = dict(argument.split("=", 1) for argument in arguments)
    covered = tests_by_line(told.get("coverage", str(ROOT / ".coverage")))
    drawn = draw(int(told.get("n", 200)), int(told.get("seed", 1)), covered)
    copies = [Path(tempfile.mkdtemp()) for _ in range(os.cpu_count() or 1)]
    try:
        for copy in copies:
            subprocess.run(
                ["git", "-C", str(ROOT), "worktree", "add", "-q", "--detach", str(copy / "tree")], check=True
            )
        free = [copy / "tree" for copy in copies]

        def one(mutant: Mutant) -> dict[str, object]:
            scratch = free.pop()
            try:
                row = outcome(mutant, covered[mutant.path][mutant.line], scratch)
            finally:
                free.append(scratch)
            print(
                f"{row['outcome']}: {mutant.path}:{mutant.line}: {mutant.before!r} -> {mutant.after!r}", file=sys.stderr
            )
            return row

        with ThreadPoolExecutor(len(copies)) as threads:
            rows = list(threads.map(one, drawn))
    finally:
        for copy in copies:
            subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(copy / "tree")], check=False)
            shutil.rmtree(copy, ignore_errors=True)
    if "out" in told:
        Path(told["out"]).write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    print(table(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
