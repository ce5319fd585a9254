"""A launcher whose daemon starts the command, as srun and the clients of containers do.

    python handing_over.py NAME COMMAND...

NAME is that of an abstract socket: one in a folder is not reached through an overlay. It passes
on its folder, its environment and what the command prints, and ends with its code.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST = 1 << 20


@contextmanager
def daemon(name: str) -> Iterator[list[int]]:
    """Starts what it is sent; whatever hangs up has its command killed. Yields their numbers."""
    started: list[int] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0{name}")
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=_start, args=(connection, started), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield started
        listener.shutdown(socket.SHUT_RDWR)


def _start(connection: socket.socket, started: list[int]) -> None:
    with connection:
        request, (output,), _, _ = socket.recv_fds(connection, LONGEST, 1)
        asked = json.loads(request)
        with subprocess.Popen(
            asked["words"],
            cwd=asked["folder"],
            env=asked["environment"],
            stdout=output,
            stderr=output,
            start_new_session=True,
        ) as process:
            os.close(output)
            started.append(process.pid)
            threading.Thread(target=_hang_up, args=(connection, process), daemon=True).start()
            code = process.wait()
        try:
            connection.send(str(code).encode())
        except OSError:
            return


def _hang_up(connection: socket.socket, process: subprocess.Popen[bytes]) -> None:
    try:
        if not connection.recv(1):
            os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        return


def main() -> None:
    name, *words = sys.argv[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(f"\0{name}")
        request = {"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}
        socket.send_fds(connection, [json.dumps(request).encode()], [1])
        sys.exit(int(connection.recv(100) or b"1") & 0xFF)


if __name__ == "__main__":
    main()
