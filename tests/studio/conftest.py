"""The browser's fixtures, for all tests of the studio."""

from tests.studio.both_sides import both, built, here, server  # noqa: F401
from tests.studio.browser import leaf, own_page, page, running, tab, window  # noqa: F401
from tests.studio.firefox import firefox  # noqa: F401
from tests.studio.local_page import local  # noqa: F401
