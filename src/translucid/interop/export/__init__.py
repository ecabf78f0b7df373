"""Export Translucid models to the formats of other tools."""
