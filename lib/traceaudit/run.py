"""Running chapters: the one import for the command line and the tests.

``execute`` runs one chapter, ``build`` those that changed, ``check`` all of them against their records.
"""

from __future__ import annotations

from .build import BuildReport, build, built_path
from .checking import Checked, CheckReport, check
from .execute import Executed, execute
from .instances import Instance, choose, load_chapters

__all__ = [
    "BuildReport",
    "CheckReport",
    "Checked",
    "Executed",
    "Instance",
    "build",
    "built_path",
    "check",
    "choose",
    "execute",
    "load_chapters",
]
