"""A Python that has imported torch already, so that programs of tests start 2 s earlier.

A server imports torch once for each process of pytest and forks for each program. What the fork
runs ends as any program does: tracebacks, handlers of `atexit`, exit code. Tests of what happens
when torch is imported, or of Python's own options, start a new Python instead.
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import types
from pathlib import Path

# Passes its arguments, folder, environment and files to the server, and ends as the program does.
CLIENT = """#!{python} -IS
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({address!r})
    said = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [said], [0, 1, 2])
    code = int(server.recv(100))
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@functools.cache
def python() -> str:
    """Return the path of a program to start in place of sys.executable."""
    folder = Path(tempfile.mkdtemp(prefix="warm"))
    server = subprocess.Popen(
        [sys.executable, __file__, str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    atexit.register(_end, server, os.getpid())
    client = folder / "python3"
    client.write_text(CLIENT.format(python=sys.executable, address=str(folder / "socket")))
    client.chmod(0o700)
    assert server.stdout.readline() == b"ready\n"
    return str(client)


def _end(server: subprocess.Popen[bytes], owner: int) -> None:
    """End the server, unless this is a fork of the process that started it."""
    if os.getpid() == owner and server.stdin is not None:
        server.stdin.close()
        server.wait(60)


def serve(folder: Path) -> list[str]:
    """Fork for each request; return only in a fork, the arguments of its program."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen()
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
        while select.select([listener, sys.stdin], [], [])[0] == [listener]:
            client, _ = listener.accept()
            with client:
                if os.fork() == 0:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    listener.close()
                    return begin(client)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    os._exit(0)


def begin(client: socket.socket) -> list[str]:
    """Return in the process of the program; the other one tells the client how it ended."""
    said, files, _, _ = socket.recv_fds(client, 1 << 20, 3)
    program = os.fork()
    if program > 0:
        ends = select.select([os.pidfd_open(program), client], [], [])[0]
        if client in ends:  # it is gone: a test that ended it meant the program
            os.kill(program, signal.SIGKILL)
        else:
            client.send(str(os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])).encode())
        os._exit(0)
    client.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    arguments, cwd, environment = json.loads(said)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    return arguments


if __name__ == "__main__":
    import torch
    import torch._dynamo  # optimizers import it

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    program, *arguments = serve(Path(sys.argv[1]))
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if program == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = arguments
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    elif program == "-c":
        sys.path[0] = ""
        sys.argv = [program, *arguments[1:]]
        exec(compile(arguments[0], "<string>", "exec"), main.__dict__)
    else:
        sys.path[0] = str(Path(program).resolve().parent)
        sys.argv = [program, *arguments]
        main.__file__ = os.path.abspath(program)
        exec(compile(Path(program).read_bytes(), program, "exec"), main.__dict__)
