"""Named texts: what a rendered page shows under the name of a value or the id of a finding.

Every figure of the report carries its name on the page, so that what a reader sees can be looked up and compared.
"""

from __future__ import annotations

from html.parser import HTMLParser

__all__ = ["NamedTexts"]


class NamedTexts(HTMLParser):
    """The texts of one page that stand under a name.

    Attributes:
        values: Pairs of a value's name and the text under it.
        findings: Pairs of a finding's id and the verdict under it.
        links: What can be downloaded from the page.
    """

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.values: list[tuple[str, str]] = []
        self.findings: list[tuple[str, str]] = []
        self.links: list[str] = []
        self._named: tuple[list[tuple[str, str]], str, str] | None = None  # where it goes, name, element
        self._depth = 0
        self._texts: list[str] = []
        self.feed(content)
        self.close()
        self._keep()  # a page may end in the middle of a value

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin what has a name."""
        given = dict(attrs)
        if tag == "a" and "download" in given:
            self.links.append(given.get("href") or "")
        if self._named:
            self._depth += tag == self._named[2]
        elif "data-name" in given or "data-finding" in given:
            to = self.values if "data-name" in given else self.findings
            name = given.get("data-name") or given.get("data-finding") or ""
            self._named, self._depth, self._texts = (to, name, tag), 1, []

    def handle_endtag(self, tag: str) -> None:
        """End it."""
        if self._named and tag == self._named[2]:
            self._depth -= 1
            if not self._depth:
                self._keep()

    def handle_data(self, data: str) -> None:
        """Text a reader sees."""
        if self._named:
            self._texts.append(data)

    def _keep(self) -> None:
        if self._named:
            to, name, _ = self._named
            to.append((name, "".join(self._texts)))
            self._named = None
