"""The documentation as a site: `make docs` builds it, without a network, with warnings as errors.

Pages are Markdown (MyST), and read on their own in the repository too. What is said of options, columns, commands and
functions is made of the code while the site is built, see `_ext/generated_pages.py`.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from audit import __version__

project = "empathy-audit"
author = "The empathy-audit developers"
version = release = __version__
project_copyright = author
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
extensions += ["docstrings", "generated_pages", "repository_links"]
exclude_patterns = ["_ext", "transcripts"]
nitpicky = True
# The documentation of other libraries is not asked, since nothing of a build needs a network; and of what is not public
# there is none.
nitpick_ignore_regex = [
    (
        r"py:.*",
        r"(pandas|pd|numpy|np|matplotlib|pathlib|pydantic|collections)\..*|Path|Any|optional|Held|Passed|Place|Code|Table|Response",
    ),
    (r"py:.*", r"audit\.\w+\..*|(Config|Stimulus|Store)Error"),
]
highlight_language = "text"
smartquotes = False  # quotes in descriptions of columns and options are part of what is said
show_warning_types = True

myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True}
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

# Where files of the repository are shown that are not part of the site, such as https://HOST/OWNER/NAME/blob/COMMIT.
repository_address = os.environ.get("DOCS_REPOSITORY", "")

html_theme = "furo"
html_title = f"empathy-audit {version}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sphinx = False
html_copy_source = False
