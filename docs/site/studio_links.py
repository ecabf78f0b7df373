"""A link below each example with a shipped model and a text: the studio opens with both."""

import re
from string import ascii_lowercase
from urllib.parse import urlencode

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from translucid.data import shipped_models

STUDIO = "studio/index.html"
EXAMPLE = re.compile(
    r'(?:tl\.load\("|\$ translucid [\w-]+ )(demo:[\w-]+)(?:"\))?.*?"([^"\n]* [^"\n]*)"', re.S
)


class StudioLinks(SphinxTransform):
    default_priority = 500

    def apply(self, **_: object) -> None:
        for block in list(self.document.findall(nodes.literal_block)):
            if found := EXAMPLE.search(block.astext()):
                address = "../" * self.env.docname.count("/") + address_of(*found.groups())
                link = nodes.reference("", "Open in the studio", refuri=address, internal=True)
                block.parent.insert(
                    block.parent.index(block) + 1,
                    nodes.paragraph("", "", link, classes=["studio-link"]),
                )


def address_of(model: str, text: str) -> str:
    """The address from the site's root; the studio has all shipped models, in this order."""
    key = ascii_lowercase[shipped_models.names().index(model)]
    return f"{STUDIO}#/flow?{urlencode({'m': key, 'text': text})}"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(StudioLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
