"""Drawing: the HTML frame, the palette, formulas, and figures as SVG, PNG or PDF."""
