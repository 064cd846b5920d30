"""Put on PYTHONPATH by the suite: no Python process that a test starts may leave the machine.

Loopback and local sockets stay open, since kernels and local test servers need them. Kept free of imports beyond the
standard library, because every kernel, worker and command of the suite pays for them.
"""

import ipaddress
import socket


class BlockedByTestsError(OSError):
    """A connection beyond this machine was refused by the suite."""


def _guarded(original):
    def connect(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            host = address[0]
            try:
                local = ipaddress.ip_address(host.partition("%")[0]).is_loopback
            except ValueError:
                local = host == "localhost"
            if not local:
                raise BlockedByTestsError(f"the suite allows no connection to {host}")
        return original(self, address)

    return connect


socket.socket.connect = _guarded(socket.socket.connect)
socket.socket.connect_ex = _guarded(socket.socket.connect_ex)
