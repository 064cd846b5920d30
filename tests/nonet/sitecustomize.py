"""Put on PYTHONPATH by the suite: no Python process that a test starts may leave the machine.

Loopback and local sockets stay open, since kernels and local test servers need them. Kept free of imports beyond the
standard library, because every kernel, worker and command of the suite pays for them.
"""

import ipaddress
import socket


class BlockedByTestsError(OSError):
    """Traffic beyond this machine was refused by the suite."""


def _refuse_unless_local(host):
    if host in (None, "", "localhost"):
        return
    try:
        if ipaddress.ip_address(str(host).partition("%")[0]).is_loopback:
            return
    except ValueError:
        pass
    raise BlockedByTestsError(f"the suite allows no traffic to {host}")


def _guarded(name, where):
    original = getattr(socket.socket, name)

    def call(self, *arguments):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            address = where(arguments)
            if address is not None:
                _refuse_unless_local(address[0])
        return original(self, *arguments)

    setattr(socket.socket, name, call)


def _resolving(original):
    def call(host, *arguments, **more):
        _refuse_unless_local(host.decode() if isinstance(host, bytes) else host)
        return original(host, *arguments, **more)

    return call


_guarded("connect", lambda arguments: arguments[0])
_guarded("connect_ex", lambda arguments: arguments[0])
_guarded("sendto", lambda arguments: arguments[-1])
_guarded("sendmsg", lambda arguments: arguments[3] if len(arguments) > 3 else None)
for _name in ("getaddrinfo", "gethostbyname"):
    setattr(socket, _name, _resolving(getattr(socket, _name)))
