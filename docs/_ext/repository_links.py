"""Links of pages to files of the repository beside `docs/`.

A page links them by their relative path, which works where the repository is read. In the site, rendered reports are
copied and opened; other files are shown at the repository's address (`repository_address`), or, where a build is told
none, named without a link. A file that is not there is a warning, and so an error.
"""

from __future__ import annotations

import os
import posixpath
import shutil
from pathlib import Path
from urllib.parse import quote

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging

_LOG = logging.getLogger(__name__)
_REPORTS = "reports"


def _resolve(app: Sphinx, doctree: nodes.document) -> None:
    """Replace what leads out of `docs/`, before Sphinx takes it for a download or for a page."""
    found = [*doctree.findall(addnodes.download_reference), *doctree.findall(addnodes.pending_xref)]
    for node in found:
        target, _, anchor = str(node.get("reftarget", "")).partition("#")
        if node.get("refdomain") == "doc":  # MyST takes any file that ends so for a page, and drops the ending
            target, anchor = f"{target}.md", str(node.get("reftargetid") or "")
        page = str(node.get("refdoc", ""))
        root = Path(app.srcdir).parent
        place = Path(os.path.normpath(Path(app.srcdir, page).parent / target))
        if node.get("reftype") != "myst" or not target or place.is_relative_to(app.srcdir):
            continue
        if not place.is_relative_to(root) or not place.exists():
            _LOG.warning("%s is not in the repository", target, location=node, type="repository", subtype="missing")
            continue
        path = place.relative_to(root).as_posix()
        text = node.astext()
        if path.startswith(_REPORTS) and place.suffix == ".html":
            uri = posixpath.relpath(quote(path), posixpath.dirname(page) or ".")
        elif app.config.repository_address:
            uri = f"{app.config.repository_address.rstrip('/')}/{quote(path)}"
        else:
            node.replace_self(nodes.literal(text, text))
            continue
        uri += f"#{anchor}" if anchor else ""
        node.replace_self(nodes.reference("", "", *node.children, refuri=uri))


def _copy_reports(app: Sphinx, error: Exception | None) -> None:
    """Put the committed reports into the site, under their paths in the repository."""
    if error is not None or app.builder.format != "html":
        return
    root = Path(app.srcdir).parent
    reports = root / _REPORTS
    for page in sorted([*reports.glob("example*/**/*.html"), *reports.glob("published/**/*.html")]):
        copy = Path(app.outdir) / page.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, copy)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register both with Sphinx."""
    app.add_config_value("repository_address", "", "env", str)
    app.connect("doctree-read", _resolve, priority=100)
    app.connect("build-finished", _copy_reports)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
