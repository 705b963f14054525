"""A client that launches a server and never stops it: `KIND PORT LOG stay|leave|fork`."""

import os
import sys
import time
from pathlib import Path

from server_launchers.process import ServerProcess
from tests.launchers.test_process import command

if __name__ == "__main__":
    kind, port, log, then = sys.argv[1:]
    server = ServerProcess.start(command(kind, int(port)), Path(log), grace_s=0.5)
    server.wait_ready(timeout_s=20)
    if then == "fork":
        os.fork()  # both go on, and both hold the pipe to the guard
    os.write(1, b"READY\n")
    if then != "leave":
        time.sleep(120)
