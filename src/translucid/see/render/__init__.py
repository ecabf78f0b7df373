"""One of everything that draws: HTML frame, palette, LaTeX, figures, progress."""
