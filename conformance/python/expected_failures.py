"""Marks the tests that are expected to fail. One that passes all the same fails the run.

The section of `expected-failures.txt` that counts is `own`, or what EXPECTED_FAILURES says.
"""

import os
import re
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("expected-failures.txt")


def expected(section):
    """The names in a section of the file, each with its reason."""
    current, found = None, {}
    for line in FILE.read_text().splitlines():
        if line.startswith("["):
            current = line.strip("[]")
        elif current == section and line and not line.startswith("#"):
            name, _, reason = re.sub(r"\s+# ", "\0", line, count=1).partition("\0")
            found[name.strip()] = reason
    return found


def pytest_collection_modifyitems(items):
    reasons = expected(os.environ.get("EXPECTED_FAILURES", "own"))
    for item in items:
        # Microsoft's are in a directory. A name stands for all variants of a test, or for one.
        name = item.nodeid.removeprefix("tests/")
        reason = reasons.get(name, reasons.get(name.partition("[")[0]))
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
