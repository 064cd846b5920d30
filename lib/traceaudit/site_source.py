"""Where a published site is read from: an address or a folder, one file at a time and with limits.

What is said about a published site must rest on what its readers get, so it is read as they read it; and a server is
never followed to another place, waited for without end or listened to beyond a limit.
"""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from .errors import NothingToCheck, RecordMismatch, UsageError
from .sources import is_remote, shown_address

__all__ = ["FolderSite", "Site", "WebSite", "open_site"]

LARGEST = 50_000_000
SILENCE = 20.0  # seconds without a byte
LONGEST = 120.0  # seconds for one file
CHUNK = 1 << 16
_AGAIN = "check the address and the network, and try again"


class Site(Protocol):
    """A published site. ``str()`` of it is how a message names it."""

    def read(self, path: str) -> bytes | None:
        """The bytes of one file; ``None`` where the site has none of this name.

        Raises:
            NothingToCheck: the site cannot be read: no answer, a refusal, a connection that ended early.
            RecordMismatch: what is there is no file of a report: too large, or a way to another place.
        """

    def pages(self) -> set[str] | None:
        """Every HTML page there is; ``None`` where that cannot be known."""


def open_site(place: str) -> Site:
    """The site at an ``http`` or ``https`` address, or in a folder.

    Raises:
        UsageError: another kind of address, or one with a name, a password, a query or a fragment.
        NothingToCheck: there is no such folder.
    """
    if is_remote(place):
        return WebSite(place)
    folder = Path(place)
    if not place or not folder.is_dir():
        raise NothingToCheck(
            "there is no such folder", where=place or "--site", expected="a rendered site, or its address",
            next_step="render it with `make report`, or correct the path",
        )  # fmt: skip
    return FolderSite(folder)


class FolderSite:
    """A site in a folder of this machine.

    Args:
        folder: The folder that holds ``index.html``.
        largest: Bytes that a file may have.
    """

    def __init__(self, folder: Path, *, largest: int = LARGEST) -> None:
        self._folder, self._largest = folder, largest

    def __str__(self) -> str:
        return str(self._folder)

    def read(self, path: str) -> bytes | None:
        """See :class:`Site`."""
        file = self._folder / path
        if not file.is_file():
            return None
        if (size := file.stat().st_size) > self._largest:
            raise _too_large(path, self._largest, f"{size:,} bytes")
        return file.read_bytes()

    def pages(self) -> set[str]:
        """See :class:`Site`."""
        return {path.relative_to(self._folder).as_posix() for path in self._folder.rglob("*.html")}


class WebSite:
    """A site behind an address.

    Args:
        address: Of its first page or of the folder that it is in.
        largest: Bytes that a file may have.
        silence: Seconds without a byte after which a connection is given up.
        longest: Seconds for one file.
    """

    def __init__(
        self, address: str, *, largest: int = LARGEST, silence: float = SILENCE, longest: float = LONGEST
    ) -> None:
        shown, wrong = shown_address(address), ""
        try:
            parts = urlsplit(address)
            host, _ = parts.hostname, parts.port  # a port that is no number is found here
        except ValueError as error:
            raise UsageError("this is no address", where=shown, got=str(error)) from None
        if parts.scheme not in ("http", "https") or not host:
            wrong = "only http and https addresses can be read"
        elif parts.username is not None or parts.query or parts.fragment:
            wrong = "an address of a site has no name, password, query or fragment"
        if wrong:
            raise UsageError(wrong, where=shown, expected="https://HOST/PATH/", next_step="correct --site")
        path = parts.path.removesuffix("index.html")
        self._base = f"{parts.scheme}://{parts.netloc}{path.removesuffix('/')}/"
        self._largest, self._silence, self._longest = largest, silence, longest
        self._opener = urllib.request.build_opener(_SamePlace)
        self._opener.addheaders = [("User-Agent", "traceaudit")]

    def __str__(self) -> str:
        return self._base

    def pages(self) -> None:
        """See :class:`Site`: a server does not say which pages it has."""

    def read(self, path: str) -> bytes | None:
        """See :class:`Site`."""
        try:
            with self._opener.open(self._base + quote(path), timeout=self._silence) as response:
                return self._body(response, path)
        except urllib.error.HTTPError as error:
            with error:
                if error.code in (404, 410):
                    return None
                if error.code in (301, 302, 303, 307, 308):
                    raise _elsewhere(self._base + path, error.headers.get("Location") or "nowhere") from None
                raise NothingToCheck(
                    "the server does not give this file", where=self._base + path,
                    got=f"{error.code} {error.reason}", next_step=_AGAIN,
                ) from None  # fmt: skip
        except urllib.error.URLError as error:
            raise self._unreachable(path, error.reason) from None
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise self._unreachable(path, error) from None

    def _body(self, response: Any, path: str) -> bytes:
        """All of an answer, within the limits."""
        end, parts, size = time.monotonic() + self._longest, [], 0
        while part := response.read1(CHUNK):
            parts.append(part)
            size += len(part)
            if size > self._largest:
                raise _too_large(self._base + path, self._largest, "more")
            if time.monotonic() > end:
                raise TimeoutError
        said = response.headers.get("Content-Length", "")
        if said.isdecimal() and size < int(said):
            raise http.client.IncompleteRead(b"", int(said) - size)
        return b"".join(parts)

    def _unreachable(self, path: str, reason: object) -> NothingToCheck:
        what, got = "the site cannot be reached", str(reason)
        if isinstance(reason, TimeoutError):
            what = "the server did not answer in time"
            got = f"{self._silence:g} seconds without a byte, or {self._longest:g} without the end"
        elif isinstance(reason, ssl.SSLError):
            what = "no trusted connection to the server"
            got = getattr(reason, "verify_message", "") or reason.reason or str(reason)
        elif isinstance(reason, http.client.IncompleteRead):
            what, got = "the connection ended before the file did", f"{reason.expected} bytes are lacking"
        elif isinstance(reason, OSError) and reason.strerror:
            got = reason.strerror
        return NothingToCheck(what, where=self._base + path, got=got or type(reason).__name__, next_step=_AGAIN)


class _SamePlace(urllib.request.HTTPRedirectHandler):
    """Follows a redirect to the same scheme, host and port, and from http to https on the same host."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        same = (old.scheme, old.hostname, old.port) == (new.scheme, new.hostname, new.port)
        safer = (old.scheme, new.scheme) == ("http", "https") and old.hostname == new.hostname
        if not same and not (safer and old.port in (None, 80) and new.port in (None, 443)):
            fp.close()
            raise _elsewhere(req.full_url, newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _elsewhere(where: str, to: str) -> RecordMismatch:
    return RecordMismatch(
        "the server leads elsewhere", where=where, expected="a file, or a redirect to the same host",
        got=f"redirected to {shown_address(to)}",
        next_step="give the address that the site really has",
    )  # fmt: skip


def _too_large(where: str, largest: int, got: str) -> RecordMismatch:
    return RecordMismatch(
        "the file is too large for a report", where=where, expected=f"at most {largest:,} bytes", got=got,
        next_step="look at what is published there",
    )  # fmt: skip
