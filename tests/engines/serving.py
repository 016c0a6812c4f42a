"""Starts a real server for tests, and waits until it is healthy."""

import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager


@contextmanager
def real_server(command, environment, log, *, starts_within):
    """Run a server as long as it is needed, and yield its address.

    Parameters
    ----------
    command
        Takes a free port and returns the words to run.
    environment
        The server's.
    log
        A file that takes what it prints.
    starts_within
        Seconds after which it must be healthy, on a busy machine.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with log.open("wb") as out:
        server = subprocess.Popen(command(port), env=environment, stdout=out, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + starts_within
        while True:
            assert server.poll() is None, log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < deadline, "the server did not start in time"
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
