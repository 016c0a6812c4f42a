"""What an advisory source says is told apart from silence: pip-audit itself, against a source of the tests' own."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from locking import ROOT, script

pytest.importorskip("pip_audit", reason="pip install '.[release]'")
advisories = script("advisories")
WEAK = {
    "id": "PYSEC-2026-1",
    "aliases": ["CVE-2026-1"],
    "modified": "2026-01-01T00:00:00Z",
    "published": "2026-01-01T00:00:00Z",
    "summary": "a weakness",
    "affected": [
        {
            "package": {"name": "b", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.1"}]}],
        }
    ],
}


@contextmanager
def source(weak):
    """A source as osv.dev's, which knows of one weak package; yields options that name it, and what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((body["package"]["name"], body["version"]))
            content = json.dumps({"vulns": [WEAK]} if body["package"]["name"] == weak else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield (f"--osv-url=http://127.0.0.1:{server.server_address[1]}/v1/query",), asked
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def pins(tmp_path):
    path = tmp_path / "pins.txt"
    path.write_text("# made\na==1 \\\n    --hash=sha256:aa\nb==2.0+cpu \\\n    --hash=sha256:ab\n")
    return str(path)


@pytest.mark.server
def test_a_weakness_is_named_with_the_version_that_mends_it_and_ends_with_1(pins, capsys):
    with source("b") as (more, asked):
        assert advisories.main([pins], more=more) == 1
    assert sorted(asked) == [("a", "1"), ("b", "2.0")]  # a build's own addition to a version is no release
    assert capsys.readouterr().out.splitlines() == [
        "b 2.0: PYSEC-2026-1 CVE-2026-1; mended in 2.1",
        "advisories: 1 known to osv of 2 packages (2 were asked about)",
    ]


@pytest.mark.server
def test_no_weakness_ends_with_0(pins, capsys):
    with source("none") as (more, _):
        assert advisories.main([pins], more=more) == 0
    assert capsys.readouterr().out == "advisories: none known to osv of 2 packages (2 were asked about)\n"


@pytest.mark.process
def test_no_source_is_one_line_and_no_pass(pins, capsys, monkeypatch):
    # osv.dev by an address where nobody listens; a mirror as the index, which serves no advisories.
    monkeypatch.setattr(advisories, "SOURCES", ("osv",))
    assert advisories.main([pins], more=("--osv-url=http://127.0.0.1:9/v1/query",)) == 3
    said = capsys.readouterr().out
    assert said.startswith("advisories: no advisory source could be reached, so nothing is known (osv: no answer (")
    assert said.count("\n") == 1


def answers(monkeypatch, packages):
    monkeypatch.setattr(advisories, "ask", lambda pins, source, more: (packages, ""))


def test_a_package_that_the_source_does_not_know_is_named_and_no_pass(pins, capsys, monkeypatch):
    answers(monkeypatch, [{"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "not found"}])
    assert advisories.main([pins]) == 3
    assert "b: not known to osv, so nothing is known of it" in capsys.readouterr().out


def test_a_mirror_that_knows_no_package_is_no_source(monkeypatch):
    # What pip-audit prints where the index serves files and no advisories: all is skipped, and its exit code is 0.
    class Done:
        stdout = json.dumps(
            {"dependencies": [{"name": "a", "skip_reason": "Dependency not found on PyPI"}], "fixes": []}
        )
        stderr, returncode = "", 0

    monkeypatch.setattr(advisories.subprocess, "run", lambda *_, **__: Done)
    assert advisories.ask(["a==1"], "pypi") == (None, "it knows none of the packages")


def test_a_file_that_is_not_there_is_one_line(capsys):
    assert advisories.main(["none.txt"]) == 2
    assert capsys.readouterr().err == "error: no such file: none.txt; make lock writes them\n"


def test_all_that_is_locked_is_asked_about():
    text = (ROOT / "locks" / "cpu.txt").read_text(encoding="utf-8")
    pins = advisories.released(text)
    assert len(pins) == text.count("==")
    assert "torch==2.13.0" in pins
