"""Pages of docs/reference/, from what the code says of itself.

python -m tools.reference            # write the pages
python -m tools.reference --check    # end with 1 if a page is stale
"""

from pathlib import Path

__all__ = ["FOLDER", "MADE", "table_cell"]

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
MADE = "<!-- Written by `python -m tools.reference`: change the code, then run `make docs`. -->"


def table_cell(text: str) -> str:
    """Text that fits a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", r"\|")
