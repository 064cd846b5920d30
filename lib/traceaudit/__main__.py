"""``python -m traceaudit``: the same commands as ``traceaudit``."""

import sys

from .cli import main

sys.exit(main())
