"""Taking a shell script apart into simple commands, without running or expanding anything.

The standard library's ``shlex`` knows no heredocs, substitutions or comments inside lines, and all of them hold text
that looks like a command and is none.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

__all__ = ["Command", "split_script"]

_WORDS = frozenset({"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "esac", "{", "}", "!"})
_OPERATORS = re.compile(r"&&|\|\||;;&?|;&|\|&|[;&|\n]")
_REDIRECT = re.compile(r"(\d*)(<<<|<<-?|<>|<&|<(?!\()|&>>|&>|>>|>\||>&|>(?!\())")
_PLAIN = re.compile(r"[^\s;&|<>()'\"\\$`#]+")
_DOUBLE = re.compile(r'[^"\\$`]+')
_BLANK = re.compile(r"(?:[ \t\r]|\\\n)+")


class Command(msgspec.Struct, frozen=True):
    """A simple command, or the start or end of a subshell.

    Attributes:
        kind: ``run``, ``open`` (a subshell begins) or ``close``.
        words: Its words without quotes; a substitution stays as its text.
        outputs: Targets of its output redirects; ``&1`` for a stream.
        stdin: Text of its heredoc or here-string.
    """

    kind: Literal["run", "open", "close"] = "run"
    words: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    stdin: str | None = None


class _TornError(Exception):
    """The text ends inside a quote or a substitution."""


def split_script(script: str) -> tuple[list[Command], bool]:
    """The simple commands of a script in order, those of its substitutions before the command that holds them.

    Returns:
        The commands, and whether all of it could be read; text that ends inside a quote, a substitution or a heredoc
        is read up to there.
    """
    reader = _Reader(script)
    try:
        reader.run()
    except (_TornError, RecursionError):
        reader.whole = False
    reader.end()
    return reader.out, reader.whole


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.out: list[Command] = []
        self.whole = True
        self.words: list[str] = []
        self.outputs: list[str] = []
        self.stdin: str | None = None
        self.open: list[tuple[str, bool, bool, int]] = []  # heredocs: delimiter, tabs, quoted, place of the command

    def end(self) -> None:
        """The command that was being read is over."""
        words = self.words
        while words and words[0] in _WORDS:
            words = words[1:]
        if words or self.outputs:
            self.out.append(Command("run", tuple(words), tuple(self.outputs), self.stdin))
        self.words, self.outputs, self.stdin = [], [], None

    def in_test(self) -> bool:
        """Whether a ``[[`` is open, in which signs are comparisons."""
        return self.words[:1] == ["[["] and self.words[-1] != "]]"

    def run(self) -> None:
        """Read all."""
        text = self.text
        while self.at < len(text):
            if found := _BLANK.match(text, self.at):
                self.at = found.end()
            elif text[self.at] == "#":
                self.at = _until(text, "\n", self.at)
            elif not self.in_test() and (found := _REDIRECT.match(text, self.at)):
                self.redirect(found)
            elif found := _OPERATORS.match(text, self.at):
                self.at = found.end()
                if self.in_test() and found[0] in ("&&", "||"):
                    continue
                self.end()
                if found[0] == "\n" and self.open:
                    self.heredocs()
            elif text[self.at] in "()":
                kind: Literal["open", "close"] = "open" if text[self.at] == "(" else "close"
                self.at += 1
                self.end()
                self.out.append(Command(kind))
            elif self.in_test() and text[self.at] in "<>":
                self.at += 1
            else:
                self.words.append(self.word())
        if self.open:
            self.heredocs()

    def redirect(self, found: re.Match[str]) -> None:
        """An operator with its target."""
        operator, self.at = found[2], found.end()
        if blank := _BLANK.match(self.text, self.at):
            self.at = blank.end()
        start = self.at
        target = self.word() if self.at < len(self.text) and self.text[self.at] not in "\n;|&()" else ""
        if operator in ("<<", "<<-"):
            quoted = any(mark in self.text[start : self.at] for mark in "'\"\\")
            self.open.append((target, operator == "<<-", quoted, len(self.out)))
        elif operator == "<<<":
            self.stdin = target
        elif operator in (">&", "<&"):
            stream = re.fullmatch(r"\d+-?|-", target)
            if operator == ">&":
                self.outputs.append(f"&{target}" if stream else target)
        elif operator != "<":
            self.outputs.append(target)
        if self.at == start and operator != "<<":
            self.whole = False

    def heredocs(self) -> None:
        """Texts of the heredocs of the line that just ended; a command may go on behind its ``<<``, or have ended."""
        for delimiter, tabs, quoted, position in self.open:
            lines: list[str] = []
            while True:
                if self.at >= len(self.text):
                    self.whole = False
                    break
                stop = _until(self.text, "\n", self.at)
                line, self.at = self.text[self.at : stop], min(stop + 1, len(self.text))
                goes_on = bool(lines) and not quoted and lines[-1].endswith("\\")
                if (line.lstrip("\t") if tabs else line) == delimiter and not goes_on:
                    break
                lines.append(line)
            while position < len(self.out) and self.out[position].kind != "run":
                position += 1
            if position < len(self.out):
                self.out[position] = msgspec.structs.replace(self.out[position], stdin="\n".join([*lines, ""]))
        self.open = []

    def word(self) -> str:
        """One word without its quotes; substitutions in it are read on their own."""
        text, parts = self.text, []
        while self.at < len(text):
            if found := _PLAIN.match(text, self.at):
                parts.append(found[0])
                self.at = found.end()
                continue
            mark = text[self.at]
            if mark == "'":
                stop = _until(text, "'", self.at + 1, torn=True)
                parts.append(text[self.at + 1 : stop])
                self.at = stop + 1
            elif mark == '"':
                self.at += 1
                parts.append(self.double())
            elif mark == "\\":
                parts.append(text[self.at + 1 : self.at + 2].strip("\n"))
                self.at += 2
            elif mark in "$`" or (mark in "<>" and text.startswith("(", self.at + 1)):
                parts.append(self.substitution())
            elif mark == "#" and parts:
                parts.append(mark)
                self.at += 1
            else:
                break
        return "".join(parts)

    def double(self) -> str:
        """The rest of a text in double quotes."""
        text, parts = self.text, []
        while self.at < len(text):
            if found := _DOUBLE.match(text, self.at):
                parts.append(found[0])
                self.at = found.end()
            elif text[self.at] == '"':
                self.at += 1
                return "".join(parts)
            elif text[self.at] == "\\":
                keep = text[self.at + 1 : self.at + 2]
                parts.append(keep.strip("\n") if keep in '"\\$`\n' else f"\\{keep}")
                self.at += 2
            elif text.startswith("$'", self.at):  # no quote of its own inside of this one
                parts.append("$")
                self.at += 1
            else:
                parts.append(self.substitution())
        raise _TornError

    def substitution(self) -> str:
        """What begins with ``$``, a backquote or ``<(``: its text, and its commands go before this one."""
        text, start = self.text, self.at
        if text.startswith("$'", start) or text.startswith("${", start):
            self.at = self.closing(start + 2, "'" if text[start + 1] == "'" else "}")
        elif text.startswith("$((", start):
            self.at = self.closing(start + 3, ")")
            self.at = self.closing(self.at, ")")
        elif text[start] == "`":
            self.at = self.closing(start + 1, "`")
            self.nested(text[start + 1 : self.at - 1].replace("\\`", "`"))
        elif text.startswith("(", start + 1):
            self.at = self.closing(start + 2, ")")
            self.nested(text[start + 2 : self.at - 1])
        else:
            self.at = start + 1
        return text[start : self.at]

    def nested(self, script: str) -> None:
        """Commands of a substitution, as those of a subshell."""
        commands, whole = split_script(script)
        if self.open and commands:  # keep the place of the heredoc's command, which is still being read
            self.open = [(*doc[:3], doc[3] + len(commands) + 2) for doc in self.open]
        self.out += [Command("open"), *commands, Command("close")] if commands else []
        self.whole &= whole

    def closing(self, at: int, mark: str) -> int:
        """The place after the mark that closes, past quotes and nested pairs.

        Raises:
            _TornError: there is none.
        """
        text, depth = self.text, 0
        while at < len(text):
            here = text[at]
            if here == "\\":
                at += 1
            elif here == mark and not depth:
                return at + 1
            elif mark == ")" and here in "()":
                depth += 1 if here == "(" else -1
            elif here == "'" and mark == ")":
                at = _until(text, "'", at + 1, torn=True)
            elif here == '"' and mark in ")}":
                at = _quoted(text, at + 1)
            at += 1
        raise _TornError


def _quoted(text: str, at: int) -> int:
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    if at >= len(text):
        raise _TornError
    return at


def _until(text: str, mark: str, at: int, *, torn: bool = False) -> int:
    found = text.find(mark, at)
    if found < 0 and torn:
        raise _TornError
    return found if found >= 0 else len(text)
