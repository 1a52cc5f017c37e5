"""Stands in for the SDK repository's private test helpers, which are not published.

Tests run live: nothing is recorded, nothing is replayed, and what a test wants to know of its
account comes from the environment.
"""

import functools
import inspect
import os
import time
import zlib

import pytest


def is_live():
    return True


def get_credential(**_):
    raise RuntimeError("there is no directory in this run")


class AzureRecordedTestCase:
    is_live = True
    is_playback = False

    @property
    def qualified_test_name(self):
        return os.environ.get("PYTEST_CURRENT_TEST", "test").split(" ")[0]

    def get_resource_name(self, prefix):
        return f"{prefix}{zlib.crc32(self.qualified_test_name.encode()):08x}"

    def generate_sas(self, function, *args, **kwargs):
        return function(*args, **kwargs)

    def sleep(self, seconds):
        time.sleep(seconds)


class PowerShellPreparer:
    """Hands settings of the environment to a test, under the names it gave defaults for."""

    def __init__(self, _directory, **defaults):
        self.defaults = defaults

    def __call__(self, test):
        def given(kwargs):
            values = {name: os.environ.get(name.upper(), value) for name, value in self.defaults.items()}
            return {**values, **kwargs}

        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def run_async(case, **kwargs):
                return await test(case, **given(kwargs))

            return shown_without_parameters(run_async)

        @functools.wraps(test)
        def run(case, **kwargs):
            return test(case, **given(kwargs))

        return shown_without_parameters(run)


def shown_without_parameters(function):
    """pytest takes parameters for fixtures; what a preparer hands in is none of its business."""
    function.__dict__.pop("__wrapped__", None)
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    function.__signature__ = inspect.Signature(parameters)
    return function


def recorded_by_proxy(test):
    return test


class ResponseCallback:
    """Makes a client see another status than the server sent."""

    def __init__(self, status=None, new_status=None):
        self.status = status
        self.new_status = new_status
        self.count = 0

    def _override(self, response):
        if response.http_response.status_code == self.status:
            response.http_response.status_code = self.new_status

    def override_status(self, response):
        self._override(response)
        self.count += 1

    def override_first_status(self, response):
        if self.count == 0:
            self._override(response)
        self.count += 1


@pytest.fixture(scope="session")
def test_proxy():
    yield


def __getattr__(name):
    """What prepares recordings does nothing."""
    prepares = ("add_", "set_", "remove_")
    if name.startswith(prepares):
        return lambda *_, **__: None
    raise AttributeError(name)
