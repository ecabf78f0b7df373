"""What every report must be: one file that loads nothing."""

import re
from pathlib import Path


def check_stands_alone(path: Path, figures: int) -> str:
    """The page's text, after checking that it fetches nothing and holds this many pictures."""
    text = path.read_text("utf-8")
    assert text.count("<svg") == figures
    fetched = re.findall(r'(?:src|href)="(?!#|data:image/png;)[^"]*"', text)
    assert fetched == [], "the page loads something from elsewhere"
    assert "@import" not in text
    assert "url(http" not in text
    assert "<script" not in text
    return text
