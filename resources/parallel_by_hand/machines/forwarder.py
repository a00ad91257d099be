"""A link with latency, as a program: it holds packets back and passes them on.

Linux gives a program the end of a network cable as a file, a *TUN device*: what the
host sends can be read there, and what is written arrives. The kernel has a module for
latency too (netem), but not every kernel.
"""

import collections
import contextlib
import ctypes
import fcntl
import os
import select
import struct
import subprocess
import time

ENTER_NETWORK = 0x40000000  # setns: CLONE_NEWNET
MAKE_DEVICE, WHOLE_PACKETS = 0x400454CA, 0x0001 | 0x1000  # TUNSETIFF, IFF_TUN|IFF_NO_PI
LARGEST = 9000  # bytes of a packet
QUEUE = 0.4  # seconds of packets that wait for the link; what comes on top is lost


def forward_packets(rate: float, latency: float) -> None:
    """Be the link of host-a and host-b: `rate` in Mbit/s, `latency` in ms one way."""
    ends = [_cable_of(f"host-{letter}", place) for place, letter in enumerate("ab", 1)]
    print("ready", flush=True)
    seconds_per_byte, latency = 8e-6 / rate, latency / 1000
    waiting = collections.deque(), collections.deque()  # (due, packet), in each way
    free = [0.0, 0.0]  # when the last packet will be on the cable, in each way
    while True:
        due = min((queue[0][0] for queue in waiting if queue), default=None)
        pause = None if due is None else max(0.0, due - time.monotonic())
        readable, _, _ = select.select(ends, [], [], pause)
        now = time.monotonic()
        for way, end in enumerate(ends):
            for packet in _packets_of(end) if end in readable else ():
                now = time.monotonic()  # it may have been sent after the last one
                if max(free[way], now) - now < QUEUE:
                    free[way] = max(free[way], now) + len(packet) * seconds_per_byte
                    waiting[way].append((free[way] + latency, packet))
            while waiting[way] and waiting[way][0][0] <= now:
                _deliver_packet(ends[1 - way], waiting[way].popleft()[1])


def _packets_of(end: int, most: int = 64):
    for _ in range(most):
        try:
            yield os.read(end, LARGEST + 100)
        except BlockingIOError:
            return


def _deliver_packet(end: int, packet: bytes) -> None:
    with contextlib.suppress(OSError):  # lost, as on a network: TCP sends it again
        os.write(end, packet)


def _cable_of(host: str, place: int) -> int:
    """A TUN device called eth0 in the network of `host`; we keep its other end."""
    network = os.open(f"/run/netns/{host}", os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(network, ENTER_NETWORK):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(end, MAKE_DEVICE, struct.pack("16sH22x", b"eth0", WHOLE_PACKETS))
    for words in (
        f"ip address add 10.200.1.{place}/24 dev eth0",
        f"ip link set eth0 up mtu {LARGEST} txqueuelen 1000",
    ):
        subprocess.run(words.split(), check=True)
    return end
