"""How the parts of this package import each other: parts, arrows between them, circles, floors, and what goes upward.

    python benchmarks/imports.py

prints these counts, the floors with their parts, and every import that goes up. The order of parts is :data:`LAYERS`;
``tests/test_architecture.py`` holds the code against it. Imports are read from the syntax trees, those for types and
inside functions, too.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAYERS = (
    "stimuli", "errors", "configuration", "tables", "engines", "runs", "asking", "statistics", "report", "people",
    "tasks", "comparing", "cli.terminal", "extras", "api", "cli",
)  # fmt: skip
"""What may import what: a part imports only those before it, and itself."""
WITHIN = {
    "tasks": (
        "measures", "publishing", "base", "reply", "recognition", "inventory", "intensity", "registry", "pipeline",
    ),
}  # fmt: skip
"""The same inside a part that is made of several."""
APART = ("extras",)
"""Parts whose own parts may import each other in any order without a circle, and which no layer below may import."""


def imports(root=ROOT):
    """Return, for each module, the modules of ``audit`` and ``stimuli`` that it imports."""
    paths = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for package in ("audit", "stimuli")
        for path in sorted((root / package).rglob("*.py"))
    }
    found = {name: set() for name in paths}
    for name, path in paths.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            targets = []
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                targets = [
                    whole if (whole := f"{node.module}.{alias.name}") in paths else node.module for alias in node.names
                ]
            found[name] |= {target for target in targets if target in paths and target != name}
    return found


def part_of(module):
    """Return the part that a module is of: ``runs``, or ``tasks.reply`` in a part that has parts."""
    names = module.split(".")
    if names[0] == "stimuli":
        return "stimuli"
    if len(names) == 1 or names[1] == "__main__":
        return "audit"  # what a user imports or runs; it stands on everything
    if ".".join(names[1:3]) in LAYERS:
        return ".".join(names[1:3])
    return ".".join(names[1:3]) if names[1] in (*WITHIN, *APART) and len(names) > 2 else names[1]


def is_upward(importer, target):
    """Whether an import of one part by another goes up."""
    (a, *own), (b, *others) = ((part,) if part in LAYERS else part.split(".") for part in (importer, target))
    if "audit" in (a, b):
        return b == "audit"
    if a != b:
        return LAYERS.index(a) < LAYERS.index(b)
    order = WITHIN.get(a, ())
    return bool(own and others and order) and order.index(own[0]) < order.index(others[0])


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


def main():
    """Print the counts."""
    found = imports()
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
    sys.exit(main())
