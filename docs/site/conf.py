"""Settings of the documentation site, `make site-docs`. Its pages are the repository's Markdown."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "Translucid"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "formulas",
    "landing",
    "navigation",
    "python_api",
    "repository_links",
    "studio_links",
    "studio_look",
    "worked_solutions",
]
root_doc = "docs/README"
include_patterns = ["*.md", "docs/**", "tests/invariants/README.md"]
exclude_patterns = [".*", "node_modules", "site", "src", "build"]

myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_space = False  # as on the code host: "$ command" is no formula
myst_dmath_allow_digits = False
myst_heading_anchors = 4

default_role = "code"  # `name` in docstrings
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
autodoc_default_options = {"exclude-members": "model_config"}  # pydantic's own
add_module_names = False
toc_object_entries = False  # 500 entries, which each page's sidebar would process
smartquotes = False

html_theme = "furo"
html_title = "Translucid"
html_static_path = ["static"]
html_css_files = ["tokens.css", "site.css"]
html_favicon = "../../src/translucid/studio/static/mark.svg"
templates_path = ["templates"]
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
html_show_sphinx = False
html_use_index = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
