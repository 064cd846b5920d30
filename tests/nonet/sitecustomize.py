"""Put on PYTHONPATH by the suite: no Python process that a test starts may leave the machine.

Loopback and local sockets stay open, since kernels and local test servers need them.
"""

import pytest_socket

pytest_socket.socket_allow_hosts(["127.0.0.1", "::1"], allow_unix_socket=True)
