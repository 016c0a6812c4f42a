"""The same commands twice, each time in a process, in folders and with an order of sets of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

Pairs = dict[str, list[Path]]
PROGRAM = """
import json, os, sys
from drawing import svg_alone
from audit.cli.main import main
from audit.report.figures import gallery
draw_figures = gallery.draw_figures
home = os.getcwd()
for name, asked in json.load(sys.stdin).items():
    os.mkdir(os.path.join(home, name))
    os.chdir(os.path.join(home, name))
    gallery.draw_figures = draw_figures if asked["figures"] else lambda *_, **__: {}
    sys.argv = ["audit"]
    print("COMMAND", name, flush=True)
    with svg_alone():
        if main(asked["words"]):
            sys.exit(name + " failed")
"""
TIMES = ("started", "finished", "timings")
"""Fields of the manifest that say when, and how long it took. They may differ; so may when a server was first seen."""


def twice(folder: Path, commands: dict[str, list[str]], *, drawn: tuple[str, ...] = (), **environment: str) -> Pairs:
    """Run commands by name in two processes, each with a seed of Python's hashes and folders of its own.

    Returns the two folders of each command. The names in ``drawn`` are those whose figures are drawn, too.
    """
    home = Path(__file__).resolve().parent
    paths = [str(home.parent), str(home), os.environ.get("PYTHONPATH", "")]
    asked = {name: {"words": words, "figures": name in drawn} for name, words in commands.items()}
    made = [folder / f"with-hash-seed-{seed}" for seed in (1, 2)]
    for seed, own in enumerate(made, start=1):
        own.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=json.dumps(asked),
            cwd=own,
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONHASHSEED": str(seed), "HF_HUB_OFFLINE": "1"}
            | environment,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return {name: [own / name for own in made] for name in commands}


def files_of(folder: Path) -> dict[str, bytes]:
    """Return all that lies in a folder, without what says when; the log of an engine and locks are left out."""
    found = {}
    for path in sorted(folder.rglob("*")):
        place = str(path.relative_to(folder))
        if not path.is_file() or path.name in (".lock", "engine.log"):
            continue
        content = path.read_bytes()
        if path.name in ("manifest.json", "manifest.copy.json"):
            content = json.dumps(without_times(json.loads(content))).encode()
        elif path.name == "report.html":
            content = page_without_times(content.decode(), json.loads(path.with_name("manifest.json").read_text()))
        elif path.name == "ledger.jsonl":
            content = ledger_without_times(content)
        found[place] = content
    return found


def ledger_without_times(content: bytes) -> bytes:
    """Return what a ledger says of the files that hold no time, line by line."""
    timed = ("manifest.json", "manifest.copy.json", "report.html")
    lines = [json.loads(line)["files"] for line in content.splitlines()]
    return json.dumps([{name: "" if name in timed else sha for name, sha in files.items()} for files in lines]).encode()


def without_times(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest without its times, in the order that it was written in."""
    kept = {name: value for name, value in manifest.items() if name not in TIMES}
    if manifest.get("model", {}).get("seen"):
        kept["model"] = kept["model"] | {"seen": [{**each, "date": ""} for each in kept["model"]["seen"]]}
    return kept


def page_without_times(page: str, manifest: dict[str, Any]) -> bytes:
    """Return a report without the manifest's times, and without how long it took where that stands as a value alone."""
    seen = [each["date"] for each in manifest.get("model", {}).get("seen", [])]
    for when in (manifest.get("started"), manifest.get("finished"), *seen):
        page = page.replace(when, "") if when else page
    for value in (manifest.get("timings") or {}).values():
        page = page.replace(f"<dd>{value:.6g}</dd>", "<dd></dd>") if isinstance(value, float) else page
    return page.encode()


def same(folders: list[Path], *needed: str) -> dict[str, bytes]:
    """Check that two folders hold the same files, byte for byte, with these among them; return them."""
    first, second = map(files_of, folders)
    assert list(first) == list(second)
    differ = [place for place in first if first[place] != second[place]]
    assert not differ, differ
    for name in needed:
        assert [place for place in first if Path(place).match(name)], (name, list(first))
    return first
