"""The README's generated blocks: every number in it comes from a record, between two markers.

``<!-- generated:NAME -->`` and ``<!-- /generated -->`` enclose a block; a marker without a generator and a generator
without a marker are both errors, so that neither can be forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from . import records, stored
from .errors import GuardFailed

__all__ = ["BLOCKS", "render", "update"]

_BLOCK = re.compile(r"<!-- generated:(?P<name>[a-z-]+) -->\n(?P<body>.*?)<!-- /generated -->", re.DOTALL)
WIDTH = 40


def headline(root: Path) -> str:
    """The joint score of the rule that reads nothing beside the best published judge, as bars of text."""
    values = stored.stored("overview", "all", root).values
    rows = []
    for name, prefix in (("GAIA", "gaia"), ("SWE Bench", "swe_bench")):
        for says, key in (
            ("a rule that reads nothing", "joint_all_spans_all_categories"),
            ("best published judge", "published_best_joint"),
        ):
            value = values[f"{prefix}_{key}"]
            bar = "█" * round(WIDTH * value.raw) if isinstance(value.raw, int | float) else ""
            rows.append(f"{name:<10} {says:<26} {bar:<{WIDTH}} {value.shown}")
            name = ""
    return "```text\n" + "\n".join(rows) + "\n```\n"


def verdicts(root: Path) -> str:
    """Each claim's verdict and size, as a table."""
    found = stored.stored("overview", "all", root).findings
    lines = ["| claim | verdict | what was measured |", "|---|---|---|"]
    lines += [f"| {id} | {finding.verdict} | {finding.magnitude} |" for id, finding in found.items()]
    return "\n".join(lines) + "\n"


BLOCKS: Mapping[str, Callable[[Path], str]] = {"headline": headline, "verdicts": verdicts}
"""Generators by the name in the marker."""


def render(text: str, root: Path) -> str:
    """The README with every block made anew.

    Raises:
        GuardFailed: a marker names no generator, or a generator has no block.
    """
    found = [match["name"] for match in _BLOCK.finditer(text)]
    if sorted(found) != sorted(BLOCKS):
        raise GuardFailed(
            "the generated blocks of the README are not those that can be generated",
            where="README.md",
            expected=", ".join(sorted(BLOCKS)),
            got=", ".join(sorted(found)) or "none",
            next_step="correct the markers",
        )
    return _BLOCK.sub(
        lambda match: f"<!-- generated:{match['name']} -->\n{BLOCKS[match['name']](root)}<!-- /generated -->", text
    )


def update(root: Path, *, check: bool) -> bool:
    """Write the blocks anew, or only look.

    Returns:
        Whether the file was as it should be.
    """
    path = root / "README.md"
    text = path.read_text(encoding="utf-8")
    wanted = render(text, root)
    if wanted != text and not check:
        records.write_whole(path, wanted.encode("utf-8"))
    return wanted == text
