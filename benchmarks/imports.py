"""How the parts of this package import each other: parts, arrows between them, circles, floors, and what goes upward.

    python benchmarks/imports.py [PART PART]

prints these counts, the floors with their parts, and every import that goes up; with two parts, the imports by which
the first stands on the second. The order of parts is :data:`LAYERS`; ``tests/test_architecture.py`` holds the code
against it. Imports are read from the syntax trees, those for types and inside functions, too. What an entry point or
the list in ``audit/tasks/registry.py`` names is no import: who looks it up knows its interface alone.
"""

import ast
import sys
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAYERS = (
    "stimuli", "errors", "configuration", "tables", "engines", "runs", "asking", "statistics", "report", "people",
    "tasks.measures", "tasks", "tasks.reply", "tasks.recognition", "tasks.inventory", "tasks.intensity", "comparing",
    "cli.terminal", "extras", "cli", "audit",
)  # fmt: skip
"""What may import what: a part imports only those before it, and itself. A folder without those named apart is one."""
APART = "extras"
"""Its folders are parts that may import each other in any order without a circle, and that no layer below imports."""


@dataclass(frozen=True)
class Import:
    """A name that a module imports, and where that stands."""

    importer: str
    target: str
    line: int
    when: str  # at "module" level, inside a "function", or for the "types" alone

    def __str__(self) -> str:
        return f"{self.importer}, line {self.line}: imports {self.target} ({self.when})"


@cache
def sources(root=ROOT):
    """Return the text of each module of ``audit`` and ``stimuli`` by its dotted name."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path.read_text("utf-8")
        for package in ("audit", "stimuli")
        for path in sorted((root / package).rglob("*.py"))
    }


def imports_of(importer, source):
    """Yield the imports of a module's text, one for each name."""

    def visit(node, when):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            when = "function"
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            when = "types"
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(importer, alias.name, node.lineno, when)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{importer}, line {node.lineno}: a relative import; write it out"
            for alias in node.names:
                yield Import(importer, f"{node.module}.{alias.name}", node.lineno, when)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, when)

    yield from visit(ast.parse(source), "module")


@cache
def all_imports(root=ROOT):
    """Return all imports of ``audit`` and ``stimuli``, of each other and of libraries."""
    return tuple(found for name, source in sources(root).items() for found in imports_of(name, source))


def module_of(target, modules):
    """Return the module that a target is or is a name of, or None: ``audit.runs.store`` of its ``RunFolder``."""
    return next((name for name in (target, target.rpartition(".")[0]) if name in modules), None)


def imports(root=ROOT):
    """Return, for each module, the modules of ``audit`` and ``stimuli`` that it imports."""
    found = {name: set() for name in sources(root)}
    for each in all_imports(root):
        module = module_of(each.target, found)
        found[each.importer] |= {module} - {None, each.importer}
    return found


def part_of(module):
    """Return the part that a module is of: ``runs``, or ``tasks.reply`` if the folder is a part of its own."""
    names = module.split(".")
    if names[0] == "stimuli":
        return "stimuli"
    if len(names) == 1 or names[1] in ("__main__", "api"):
        return "audit"  # what a user imports or runs; it stands on everything
    two = ".".join(names[1:3])
    return two if two in LAYERS or names[1] == APART else names[1]


def layer_of(part):
    """Return the layer of a part."""
    return part if part in LAYERS else part.split(".")[0]


def is_upward(importer, target):
    """Whether an import of one part by another goes up."""
    return LAYERS.index(layer_of(importer)) < LAYERS.index(layer_of(target))


def circles(graph):
    """Return the sets of nodes that import each other in a circle."""
    place, low, stack, found = {}, {}, [], []

    def visit(node):
        place[node] = low[node] = len(place)
        stack.append(node)
        for target in sorted(graph[node]):
            if target not in place:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], place[target])
        if low[node] == place[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in place:
            visit(node)
    return found


def between_parts(found):
    """Return the imports between parts: by part, the parts that it imports."""
    graph = defaultdict(set)
    for name, targets in found.items():
        graph[part_of(name)] |= {part_of(target) for target in targets} - {part_of(name)}
    return dict(graph)


def floors(graph):
    """Return the floor of each part: one above the highest part that it imports."""
    known = {}

    def floor(part):
        if part not in known:
            known[part] = 1 + max((floor(each) for each in graph.get(part, ())), default=0)
        return known[part]

    for part in graph:
        floor(part)
    return known


def main(*parts):
    """Print the counts, or the imports between two parts."""
    found = imports()
    if parts:
        importer, target = parts
        for each in all_imports():
            module = module_of(each.target, found)
            if module and (part_of(each.importer), part_of(module)) == (importer, target):
                print(each)
        return 0
    graph = between_parts(found)
    upward = sorted(
        (name, target)
        for name, targets in found.items()
        for target in targets
        if part_of(name) != part_of(target) and is_upward(part_of(name), part_of(target))
    )
    of_files, of_parts = circles(found), circles(graph)
    print(f"{len(found)} files, {len(graph)} parts, {sum(map(len, graph.values()))} arrows between parts")
    print(f"{len(upward)} imports go up; circles: {len(of_files)} of files, {len(of_parts)} of parts")
    if not of_parts:
        by_floor = defaultdict(list)
        for part, number in floors(graph).items():
            by_floor[number].append(part)
        for number in sorted(by_floor):
            print(f"floor {number}: {', '.join(sorted(by_floor[number]))}")
    for name, target in upward:
        print(f"up: {name} -> {target}")
    return int(bool(upward or of_files or of_parts))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
