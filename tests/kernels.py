"""Kernels of the tests: over local sockets, because two processes that look for a free port can be given the same one.

Then one of the kernels dies at its start and the test waits a minute for it; the runner's own kernels do the same.
"""

from __future__ import annotations

import shutil
import tempfile
from typing import Any

from jupyter_client.manager import AsyncKernelManager

__all__ = ["LocalKernel"]


class LocalKernel(AsyncKernelManager):
    """A kernel manager whose sockets lie in a folder of its own; for ``NotebookClient(kernel_manager_class=…)``."""

    def __init__(self, **settings: Any) -> None:
        self._folder = tempfile.mkdtemp(prefix="kernel-")
        super().__init__(transport="ipc", connection_file=f"{self._folder}/kernel.json", **settings)

    async def _async_cleanup_resources(self, restart: bool = False) -> None:
        await super()._async_cleanup_resources(restart=restart)
        if not restart:
            shutil.rmtree(self._folder, ignore_errors=True)

    cleanup_resources = _async_cleanup_resources
