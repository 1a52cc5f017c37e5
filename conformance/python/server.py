"""Starts the real binary on free ports and stops it again."""

import base64
import json
import os
import select
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

START_SECONDS = 20
STOP_SECONDS = 20


def key_of(text):
    """An account key that anyone can tell apart from the others in a failing test."""
    return base64.b64encode(text.ljust(64, ".").encode()).decode()


SECONDARY_KEY = key_of("the secondary key")
READONLY_KEY = key_of("the read-only key")
OTHER_KEY = key_of("a key of another account")


class Server:
    """One running server. HTTP and HTTPS share its port."""

    def __init__(self, *arguments, env=None):
        self._log = tempfile.TemporaryFile(mode="w+")
        command = [os.environ["PLANISPHERE_BIN"], "serve", "--ports", "auto", "--ready-json", *arguments]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log, text=True, env={**os.environ, **(env or {})}
        )
        ready = self._ready_line(command)
        self.key = ready["key"]
        self.endpoints = ready["endpoints"]
        self.http = self.endpoints["nosql"]
        self.port = int(self.http.rstrip("/").rsplit(":", 1)[1])

    def endpoint(self, transport):
        return f"{transport}://127.0.0.1:{self.port}/"

    def stop(self):
        """Asks for a graceful shutdown; a server that ignores it fails the suite."""
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError("the server did not stop after SIGTERM") from None
        finally:
            self._process.stdout.close()
            log = self.log()
            self._log.close()
        assert code == 0, f"the server ended with {code}: {log}"

    def log(self):
        self._log.seek(0)
        return self._log.read()

    def _ready_line(self, command):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            readable, _, _ = select.select([self._process.stdout], [], [], deadline - time.monotonic())
            line = self._process.stdout.readline() if readable else ""
            if line.strip():
                ready = json.loads(line)
                assert ready["ready"] is True and ready["pid"] == self._process.pid, ready
                return ready
        self._process.kill()
        self._process.wait()
        raise AssertionError(f"{' '.join(command)} did not get ready: {self.log()}")


def export_certificate(server, directory):
    """Saves the certificate authority of `server` as the documents tell a user to."""
    path = Path(directory) / "emulator.pem"
    with urllib.request.urlopen(f"{server.http}_explorer/emulator.pem") as response:
        path.write_bytes(response.read())
    return path
