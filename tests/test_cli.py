"""The command line: one exit code per thing a script must tell apart, and a file written whole or not at all."""

from __future__ import annotations

import argparse
import errno
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from traceaudit import cli, errors, report
from traceaudit.cli import FAULT, check_target, main, positive, write_json
from traceaudit.errors import UsageError


def ran(*arguments: str) -> int:
    """The exit code, however it comes."""
    try:
        return main(list(arguments))
    except SystemExit as end:
        return end.code


# ---------------------------------------------------------------------------------------------- exit codes

# what a command raises -> exit code, words on standard error
ENDINGS = [
    (errors.PinMismatch("x", where="a file", expected="1", got="2", next_step="z"), 1, "a file: x\n  expected: 1\n"),
    (errors.RecordMismatch("x"), 1, "traceaudit: x"),
    (errors.ChapterFailed("x"), 1, "traceaudit: x"),
    (errors.GuardFailed("x"), 1, "traceaudit: x"),
    (errors.ValueProblem("x"), 1, "traceaudit: x"),
    (errors.WorkerFailed("x"), 1, "traceaudit: x"),
    (errors.NothingToCheck("x"), 2, "traceaudit: x"),
    (errors.UsageError("x"), 64, "traceaudit: x"),
    (PermissionError(errno.EACCES, "Permission denied", "a/file"), 64, "Permission denied: a/file"),
    (OSError(errno.ENOSPC, "No space left on device"), 64, "No space left on device\n"),  # without a file
    (OSError("odd"), 64, "traceaudit: odd"),  # without a number
    (KeyboardInterrupt(), 130, "interrupted; nothing half-written was kept"),
    (ZeroDivisionError("a fault"), 70, "ZeroDivisionError: a fault"),
    (RecursionError("too deep"), 70, "this is a fault of the program"),
    (MemoryError(), 70, "please report it"),
    (AssertionError("x"), 70, "Traceback"),
    (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), 70, "UnicodeEncodeError"),
]


@pytest.mark.parametrize(("raised", "code", "words"), ENDINGS, ids=lambda each: type(each).__name__)
def test_every_ending_has_its_code(raised, code, words, monkeypatch, capsys):
    def command(arguments):
        raise raised

    monkeypatch.setattr(report, "_readme", command)
    assert main(["readme"]) == code
    said = capsys.readouterr()
    assert words in said.err
    assert said.out == ""
    assert ("Traceback" in said.err) == (code == FAULT)


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_what_a_command_returns_is_the_exit_code(code, monkeypatch):
    monkeypatch.setattr(report, "_readme", lambda arguments: code)
    assert main(["readme"]) == code


def test_no_two_meanings_share_a_code():
    assert len({0, 1, errors.NothingToCheck.exit_code, 3, errors.UsageError.exit_code, FAULT, 130}) == 7


# arguments -> words on standard error
MISUSED = [
    ((), "the following arguments are required: COMMAND"),  # no command
    (("nonsense",), "invalid choice: 'nonsense'"),
    (("trail",), "the following arguments are required: PART"),
    (("trail", "nonsense"), "invalid choice: 'nonsense'"),
    (("build", "--nonsense"), "unrecognized arguments: --nonsense"),
    (("build", "--workers"), "expected one argument"),
    (("build", "--workers", "0"), "0 is not at least 1"),
    (("check", "--workers", "-3"), "-3 is not at least 1"),
    (("build", "--workers", "two"), "invalid positive value: 'two'"),
    (("build", "--workers", "1.5"), "invalid positive value: '1.5'"),
    (("build", "--workers", ""), "invalid positive value: ''"),
    (("build", "--only"), "expected at least one argument"),
    (("report", "--renderer", "word"), "invalid choice: 'word'"),
    (("readme", "extra"), "unrecognized arguments: extra"),
    (("trail", "audit", "--json"), "expected one argument"),
]


@pytest.mark.parametrize(("arguments", "words"), MISUSED)
def test_wrong_usage_is_64_and_shows_the_usage(arguments, words, capsys):
    assert ran(*arguments) == 64
    said = capsys.readouterr()
    assert words in said.err and said.err.startswith("usage: traceaudit")
    assert said.out == ""


@pytest.mark.parametrize("command", [(), ("build",), ("trail",), ("trail", "audit"), ("fetch",)])
def test_help_is_no_error_and_goes_to_standard_output(command, capsys):
    assert ran(*command, "--help") == 0
    said = capsys.readouterr()
    assert said.out.startswith("usage: traceaudit") and said.err == ""


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("12", 12), (" 3 ", 3)])
def test_whole_numbers_of_at_least_one(text, number):
    assert positive(text) == number


def test_whole_numbers_below_one_are_refused():
    for text in ("0", "-1"):
        with pytest.raises(argparse.ArgumentTypeError):
            positive(text)


def test_an_interrupted_command_ends_with_130_and_without_a_traceback(monkeypatch, capsys):
    """As if somebody pressed the keys in the middle of the work."""

    def command(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "_build", command)
    assert main(["build"]) == 130
    assert capsys.readouterr().err == "traceaudit: interrupted; nothing half-written was kept\n"


def test_a_reader_who_leaves_early_sees_no_traceback():
    """The output goes into a pipe whose other end is closed before the first byte."""
    command = [sys.executable, "-m", "traceaudit", "trail", "audit", "--split", "demo", "--json", "-"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    process.wait()
    assert "Traceback" not in said and "Broken pipe" not in said
    assert process.returncode in (0, 3)


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "traceaudit", "nonsense"], capture_output=True, text=True, check=False)
    assert done.returncode == 64
    assert "invalid choice" in done.stderr


# --------------------------------------------------------------------------------------------------- files

DATA = {"b": 1, "a": [1.5, None, "\ud800", "\u00e9"]}
TEXT = '{\n  "b": 1,\n  "a": [\n    1.5,\n    null,\n    "\\ud800",\n    "\\u00e9"\n  ]\n}\n'


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_json_goes_to_standard_output_for_a_dash(here, capsys):
    (here / "-").mkdir()  # even where there is something of that name
    write_json(DATA, "-")
    assert capsys.readouterr().out == TEXT


# target -> where the text is afterwards; each in an empty folder, or as `before` left it
WRITTEN = [
    ("out.json", lambda: None, "out.json"),  # a new file
    ("out.json", lambda: Path("out.json").write_text("former and much longer" * 100), "out.json"),  # replaced whole
    ("./a/../out.json", lambda: Path("a").mkdir(), "out.json"),
    ("a b\u00e9.json", lambda: None, "a b\u00e9.json"),
    (".hidden", lambda: None, ".hidden"),
    ("link.json", lambda: Path("link.json").symlink_to("real.json"), "real.json"),  # to nothing as yet
]


@pytest.mark.parametrize(("target", "before", "place"), WRITTEN)
def test_json_goes_to_a_file(target, before, place, here):
    before()
    write_json(DATA, target)
    assert (here / place).read_text() == TEXT
    left = {path.name for path in here.iterdir() if not path.is_dir()}
    assert left == {place, Path(target).name}  # nothing half-written is left


def test_an_existing_link_is_followed_and_stays_a_link(here):
    (here / "elsewhere").mkdir()
    real = here / "elsewhere" / "real.json"
    real.write_text("former")
    (here / "first.json").symlink_to("second.json")
    (here / "second.json").symlink_to(real)
    write_json(DATA, "first.json")
    assert real.read_text() == TEXT
    assert (here / "first.json").is_symlink() and (here / "second.json").is_symlink()
    assert [path.name for path in real.parent.iterdir()] == ["real.json"]


def test_what_is_no_ordinary_file_is_written_to_and_never_replaced(here):
    """A named pipe stands for every device; a real one is left alone."""
    os.mkfifo("pipe")
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(Path("pipe").read_text()), daemon=True)
    reader.start()
    write_json(DATA, "pipe")
    reader.join(10)
    assert got == [TEXT]
    assert stat.S_ISFIFO(Path("pipe").stat().st_mode)
    assert [path.name for path in here.iterdir()] == ["pipe"]


def test_what_is_not_json_writes_nothing(here):
    for wrong in (float("nan"), float("inf"), object()):
        with pytest.raises((ValueError, TypeError)):
            write_json({"x": wrong}, "out.json")
    assert not list(here.iterdir())


def test_a_write_that_fails_leaves_the_former_file(here, monkeypatch):
    (here / "out.json").write_text("former")

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("traceaudit.records.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_json(DATA, "out.json")
    assert [(path.name, path.read_text()) for path in here.iterdir()] == [("out.json", "former")]


# target -> words of the refusal; `locked` may not be written, neither the folder nor the file of that name
REFUSED = [
    ("", "a file name is needed"),
    (".", "this is a folder"),
    ("folder", "this is a folder"),
    ("folder/", "this is a folder"),
    ("to-a-folder", "this is a folder"),  # a link to one
    ("absent/out.json", "its folder does not exist"),
    ("absent/-", "its folder does not exist"),
    ("file.txt/out.json", "its folder does not exist"),  # a file in the place of a folder
    ("to-nowhere", "its folder does not exist"),  # a link into an absent folder
    ("locked/out.json", "it cannot be written"),
    ("locked.json", "it cannot be written"),
]


@pytest.fixture
def locked(here, monkeypatch):
    """A folder with things that cannot be written; the superuser may write anywhere, so the answer is given here."""
    for name in ("folder", "locked"):
        (here / name).mkdir()
    for name in ("file.txt", "locked.json"):
        (here / name).write_text("former")
    (here / "to-a-folder").symlink_to("folder")
    (here / "to-nowhere").symlink_to("absent/out.json")
    real = os.access
    monkeypatch.setattr(
        cli.os, "access", lambda path, mode: not Path(path).name.startswith("locked") and real(path, mode)
    )
    return here


@pytest.mark.parametrize(("target", "words"), REFUSED)
def test_a_target_that_cannot_be_written_is_wrong_usage(target, words, locked):
    with pytest.raises(UsageError, match=words) as caught:
        write_json(DATA, target)
    assert caught.value.where == repr(target)
    assert (locked / "locked.json").read_text() == "former"


@pytest.mark.parametrize(("target", "words"), REFUSED)
def test_it_is_refused_before_the_work(target, words, locked, monkeypatch, capsys):
    monkeypatch.setattr("traceaudit.trail.study.open_study", lambda *_, **__: pytest.fail("the work began"))
    assert ran("trail", "audit", "--split", "demo", f"--json={target}") == 64
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("target", ["-", "new.json", "file.txt", "folder/new.json", "folder/../new.json"])
def test_a_target_that_can_be_written_is_given_back(target, locked):
    assert check_target(target) == target
    assert not (locked / "new.json").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_that_really_cannot_be_written(here):
    (here / "folder").mkdir(mode=0o500)
    with pytest.raises(UsageError, match="cannot be written"):
        write_json(DATA, "folder/out.json")


def test_json_of_the_audit_is_written_through_a_pipe(here, monkeypatch, capsys):
    """The whole way: a command, its verdicts on standard output, its JSON in the pipe."""
    os.mkfifo("pipe")
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(Path("pipe").read_text()), daemon=True)
    reader.start()
    assert main(["trail", "audit", "--split", "demo", "--json", "pipe"]) == 3
    reader.join(10)
    assert json.loads(got[0])["schema"] == 1
    assert "VIOLATED" in capsys.readouterr().out


def test_lines_for_people_go_to_standard_error(capsys):
    cli.say("a line")
    cli.say()
    assert capsys.readouterr() == ("", "a line\n\n")
