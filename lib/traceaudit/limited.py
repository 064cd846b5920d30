"""A reader with a limit, so that a small packed file cannot unpack to more than a machine holds."""

from __future__ import annotations

import io

__all__ = ["LimitedReader", "TooMuchError"]


class TooMuchError(Exception):
    """More came out than the limit; whoever reads turns this into an error that names the file."""


class LimitedReader(io.RawIOBase):
    """Reads on from ``plain`` and raises :class:`TooMuchError` once more than ``most`` bytes came, however packed."""

    def __init__(self, plain: io.BufferedIOBase, most: int) -> None:
        self._plain, self._left = plain, most

    def read(self, size: int = -1) -> bytes:
        """The next bytes of ``plain``."""
        data = self._plain.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise TooMuchError
        return data
