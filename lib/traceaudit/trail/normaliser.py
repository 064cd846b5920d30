"""The normaliser: from the text of a category to a label of the taxonomy.

Both sides of every comparison pass through it, so its rules decide what counts as the same category; answers are kept
per label order, because a rescan under another order asks the same few texts again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

__all__ = ["Normaliser", "normaliser"]

KEPT = 100_000


class Normaliser(dict[str, str]):
    """Category text -> label, for one order of labels (pinned scorer, lines 12-30).

    A falsy text becomes the empty text. Any other is lowercased and stripped, and compared without its blanks (U+0020
    only) to each label treated likewise: the first equal label wins, else the first label that contains it, else the
    lowercased, stripped text stays as it is. So a text of white space alone is contained in every label and becomes
    the first one, and the order of labels matters for every text that two labels contain.

    The pinned rule also accepts equality with the blanks kept; that is implied by equality without them.

    Args:
        labels: The taxonomy, in order; duplicates are allowed, the first one wins.
    """

    __slots__ = ("_exact", "_squeezed", "labels", "position")

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__()
        self.labels = tuple(labels)
        self._squeezed = [(label.lower().replace(" ", ""), label) for label in self.labels]
        self._exact = dict(reversed(self._squeezed))
        self.position = {label: at for at, label in reversed(list(enumerate(self.labels)))}

    def __missing__(self, text: str) -> str:
        answer = self._answer(text)
        if len(self) >= KEPT:
            self.clear()
        self[text] = answer
        return answer

    def _answer(self, text: str) -> str:
        if not text:
            return ""
        lowered = text.lower().strip()
        squeezed = lowered.replace(" ", "")
        exact = self._exact.get(squeezed)
        if exact is not None:
            return exact
        return next((label for known, label in self._squeezed if squeezed in known), lowered)

    def normalise(self, text: Any) -> Any:
        """The label for ``text``, which may be any JSON value.

        Raises:
            AttributeError: a truthy value that is not text, as in the pinned scorer.
        """
        return self[text] if type(text) is str else self._answer(text)

    def present(self, texts: Sequence[Any]) -> list[str]:
        """The labels of all truthy ``texts``, in order; falsy ones are dropped (pinned scorer, lines 45 and 46).

        Raises:
            AttributeError: see :meth:`normalise`.
        """
        try:
            return list(map(self.__getitem__, filter(None, texts)))
        except TypeError:  # something unhashable cannot even be looked up
            return [self.normalise(text) for text in texts if text]

    def bits(self, categories: Sequence[str]) -> int:
        """The labels among ``categories`` as a bit set by position; a text off the taxonomy sets no bit."""
        position = self.position
        return sum(1 << position[name] for name in set(categories) if name in position)


@lru_cache(maxsize=256)
def normaliser(labels: tuple[str, ...]) -> Normaliser:
    """The normaliser of one label order, kept for the next call."""
    return Normaliser(labels)
