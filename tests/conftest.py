"""What every test shares: no network anywhere, the real data where it is, and a count of what ran on it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
NO_NETWORK = TESTS / "nonet"
LONG = 80  # characters of an input that may stand in a test's name
REAL = ROOT.parent / "shared" / "data"

# Children of tests (kernels, workers, commands) inherit the ban through PYTHONPATH; git may read files only.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(NO_NETWORK), os.environ.get("PYTHONPATH")]))
os.environ["GIT_ALLOW_PROTOCOL"] = "file"
os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
GIVEN = os.environ.get("TRACEAUDIT_SCORER_SOURCE") or os.environ.get("TRACEAUDIT_SOURCE") or ""
for name in ("TRACEAUDIT_SOURCE", "TRACEAUDIT_JUDGES"):  # a test that wants a source names it
    os.environ.pop(name, None)
sys.path.insert(0, str(NO_NETWORK))
import sitecustomize  # noqa: E402, F401  (the same ban in this process)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """The user's cache of fetched sources is neither read nor written by a test."""
    os.environ["TRACEAUDIT_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def trail_source() -> Path:
    """The folder with the real TRAIL files; a test that uses it carries the marker ``real``."""
    folder = REAL / "trail"
    if not folder.is_dir():
        pytest.skip("the real TRAIL files are not beside this repository (../shared/data/trail)")
    return folder


@pytest.fixture(scope="session")
def scorer_source() -> str:
    """A source that holds the pinned scorer; a test that uses it carries the marker ``upstream``."""
    from traceaudit import sources
    from traceaudit.trail import pin

    if not GIVEN:
        pytest.skip("no source with the pinned scorer (TRACEAUDIT_SCORER_SOURCE)")
    pinned = pin.load()
    if not sources.read_verified(sources.open_source(GIVEN, pinned.pin), pinned.pin, [pinned.scorer_path]).files:
        pytest.skip("the given source does not hold the pinned scorer")
    return GIVEN


@pytest.fixture(scope="session")
def scorer_bytes(scorer_source: str) -> bytes:
    """The pinned scorer's bytes, verified."""
    from traceaudit import sources
    from traceaudit.trail import pin

    pinned = pin.load()
    source = sources.open_source(scorer_source, pinned.pin)
    return sources.read_verified(source, pinned.pin, [pinned.scorer_path]).files[pinned.scorer_path]


def pytest_make_parametrize_id(val, argname):
    """Bytes and long texts are named after their parameter: a name must be short, and the same in every process."""
    return argname if isinstance(val, bytes) or (isinstance(val, str) and len(val) > LONG) else None


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(items):
    """Two processes share the suite; a file stays in one, and so do tests that look at the same executed chapters."""
    for item in items:
        part = item.path.relative_to(TESTS).parts
        of_its_own = part[-1] == "test_hostile_site.py"  # it executes other chapters
        group = "pages" if part[0] in ("chapters", "site") and not of_its_own else "/".join(part)
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.skipped and not hasattr(report, "wasxfail") and REAL.is_dir():
        needs_more = item.get_closest_marker("upstream") is not None
        if item.get_closest_marker("real") is not None and not needs_more:
            report.outcome = "failed"  # where the data is, a skipped test on real data is a failure
            report.longrepr = f"marked real and skipped although ../shared/data is there: {_reason(report)}"


RAN_ON_REAL_DATA: list[str] = []
SKIPPED: dict[str, int] = {}


def _reason(report) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple | list) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def pytest_runtest_logreport(report):
    """Count in the process that prints the summary, whichever process ran the test."""
    if report.skipped and not hasattr(report, "wasxfail"):
        SKIPPED[_reason(report)] = SKIPPED.get(_reason(report), 0) + 1
    elif report.when == "call" and "real" in report.keywords:
        RAN_ON_REAL_DATA.append(report.nodeid)


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"on real data: {len(RAN_ON_REAL_DATA)} tests ran")
    for reason, n in sorted(SKIPPED.items()):
        terminalreporter.write_line(f"skipped {n}: {reason}")
