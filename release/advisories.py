"""Ask an advisory source whether what is locked has known weaknesses; say so in one line where no source is reached.

Run as ``python release/advisories.py FILE...`` (``make advisories``), where pip-audit is installed (the extra
``release``). Exit codes: 0 none is known, 1 there are some, 2 the command is wrong, 3 no source could tell.

pip-audit alone takes a package that a source does not know for one without weaknesses. A mirror that serves files, and
no advisories, would so pass everything. Here that is "no source could tell".
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

SOURCES: Final = ("osv", "pypi")
"""Tried in this order: the database of osv.dev, then the package index's own."""
NONE, FOUND, WRONG, UNKNOWN = 0, 1, 2, 3


def main(files: list[str], *, more: tuple[str, ...] = ()) -> int:
    """Ask about all that is pinned in some files; ``more`` are options of pip-audit."""
    missing = [name for name in files if not Path(name).is_file()]
    if missing or not files:
        print(f"error: no such file: {', '.join(missing) or 'none was named'}; make lock writes them", file=sys.stderr)
        return WRONG
    pins = released("".join(Path(name).read_text(encoding="utf-8") for name in files))
    reasons = []
    for source in SOURCES:
        answer, reason = ask(pins, source, more)
        if answer is not None:
            return tell(answer, source)
        reasons.append(f"{source}: {reason}")
    print(f"advisories: no advisory source could be reached, so nothing is known ({'; '.join(reasons)})")
    return UNKNOWN


def released(text: str) -> list[str]:
    """Return the pins of a lock, without what a build adds to a version: advisories are of releases.

    Parameters
    ----------
    text
        Of files that pip installs from: ``torch==2.13.0+cpu`` becomes ``torch==2.13.0``.
    """
    return sorted({pin for pin in re.findall(r"^([A-Za-z0-9._-]+==[^\s;+\\]+)", text, flags=re.MULTILINE)})


def ask(pins: list[str], source: str, more: tuple[str, ...] = ()) -> tuple[list[dict[str, Any]] | None, str]:
    """Return what a source says of each package, or None and the reason why it could not tell."""
    with tempfile.TemporaryDirectory() as scratch:
        asked = Path(scratch) / "pins.txt"
        asked.write_text("\n".join(pins) + "\n", encoding="utf-8")
        options = ("--disable-pip", "--no-deps", "--progress-spinner=off", "--format=json", "--timeout=20")
        done = subprocess.run(
            [sys.executable, "-m", "pip_audit", *options, f"--vulnerability-service={source}", "-r", asked, *more],
            capture_output=True,
            text=True,
            check=False,
        )
    try:
        answer = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        if "No module named pip_audit" in done.stderr:
            return None, "pip-audit is not installed, pip install '.[release]'"
        kinds = re.findall(
            r"^(?:[a-z_0-9.]+\.)?([A-Za-z]*(?:Error|Timeout|Exception))\b", done.stderr, flags=re.MULTILINE
        )
        return None, f"no answer ({kinds[-1] if kinds else f'pip-audit ended with {done.returncode}'})"
    if all("skip_reason" in package for package in answer):
        return None, "it knows none of the packages"
    return answer, ""


def tell(answer: list[dict[str, Any]], source: str) -> int:
    """Print what is known, a line for each weakness and for each package that the source does not know."""
    n_found = 0
    for package in answer:
        if "skip_reason" in package:
            print(f"{package['name']}: not known to {source}, so nothing is known of it")
        for weakness in package.get("vulns", []):
            n_found += 1
            mended = ", ".join(weakness["fix_versions"]) or "no version yet"
            names = " ".join([weakness["id"], *weakness.get("aliases", [])])
            print(f"{package['name']} {package['version']}: {names}; mended in {mended}")
    n_known = sum("skip_reason" not in package for package in answer)
    print(f"advisories: {n_found or 'none'} known to {source} of {n_known} packages ({len(answer)} were asked about)")
    if n_found:
        return FOUND
    return NONE if n_known == len(answer) else UNKNOWN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
