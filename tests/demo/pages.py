"""What every report must be: one file that loads nothing."""

import re
from pathlib import Path


def check_stands_alone(path: Path) -> str:
    """The page's text, after checking that it fetches nothing and holds pictures."""
    text = path.read_text("utf-8")
    assert text.count("<figure>") == text.count('role="img"') > 2
    fetched = re.findall(r'(?:src|href)="(?!#|data:image/png;)[^"]*"', text)
    assert fetched == [], "the page loads something from elsewhere"
    assert "@import" not in text
    assert "url(http" not in text
    assert "<script" not in text
    return text
