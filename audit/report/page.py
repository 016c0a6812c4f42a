"""Shared by all pages: Jinja's environment, style sheets, the policy that forbids the network, embedded figures."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from audit.report.glossary import explained
from audit.report.numbers import show
from audit.tables.formatting import OVERRIDES, PHONE, points, without_overrides


@dataclass(frozen=True, slots=True)
class Picture:
    """An embedded figure. Width and height, in CSS pixels, reserve its place while it is decoded."""

    uri: str
    alt: str
    width: int
    height: int
    phone: Picture | None = None  # the same figure drawn for a phone


@cache
def environment() -> Environment:
    """Return the templates' environment: everything is escaped, bidirectional overrides too; undefined is an error."""
    made = Environment(
        loader=FunctionLoader(_read),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["shown"] = show
    made.globals["points"] = points
    made.globals["explained"] = explained
    return made


def prose(template: str, name: str, *values: object) -> Markup:
    """Render a macro of a template: ``run_parts``, or of another package, ``audit.tasks.reply:prose``."""
    return Markup(getattr(environment().get_template(f"{template}.html.j2").module, name)(*values))


def isolated(text: str) -> Markup:
    """Isolate a text that anybody may have chosen from the direction of the text around it."""
    return Markup("<bdi>{}</bdi>").format(text)


def asset(*names: str) -> Markup:
    """Concatenate style sheets or scripts of this package, unescaped."""
    return Markup("\n".join(map(_read, names)))


def policy(script: str = "") -> str:
    """Return the page's Content-Security-Policy: nothing is fetched, and only this script runs."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    scripts = f"script-src 'sha256-{digest}'; " if script else ""
    return f"default-src 'none'; {scripts}img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def picture(figures: Mapping[str, bytes], name: str, alt: str) -> Picture | None:
    """Embed a figure, with its form for phones; None if there is none of that name."""
    if name not in figures:
        return None
    phone = figures.get(f"{PHONE}{name}")
    return _embedded(figures[name], alt, None if phone is None else _embedded(phone, alt))


def _embedded(svg: bytes, alt: str, phone: Picture | None = None) -> Picture:
    sides = [re.search(rb"<svg[^>]*?\s" + side + rb'="([\d.]+)pt"', svg[:4000]) for side in (b"width", b"height")]
    width, height = (round(float(found.group(1)) * 4 / 3) if found else 0 for found in sides)
    uri = "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")
    return Picture(uri, alt, width, height, phone)


def render_page(
    template: str,
    *,
    styles: tuple[str, ...] = ("style.css",),
    scripts: tuple[str, ...] = ("page.js",),
    **content: object,
) -> str:
    """Render a template with these style sheets and scripts; bytes of file names that are no UTF-8 are replaced."""
    script = asset(*scripts)
    page = (
        environment()
        .get_template(template)
        .render(**content, contents=[], style=asset(*styles), script=script, policy=policy(script))
    )
    return page.encode("utf-8", "replace").decode("utf-8")


def _visible(value: object) -> object:
    """Escape bidirectional overrides in any text that a template writes."""
    if not isinstance(value, str) or OVERRIDES.search(value) is None:
        return value
    return type(value)(without_overrides(value))


def _read(name: str) -> str:
    package, _, file = name.rpartition(":")
    return resources.files(package or "audit.report").joinpath(file).read_text("utf-8")
