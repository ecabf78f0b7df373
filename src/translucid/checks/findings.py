"""What a check found; tasks have checks of their own, so it stands there."""

from translucid.tasks.findings import Finding as Finding
from translucid.tasks.findings import spread_out as spread_out
