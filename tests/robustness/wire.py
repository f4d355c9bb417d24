#!/usr/bin/python3
"""wire: carries frames between two links of this namespace, each after so many milliseconds. A link with a delay, for
kernels that have no netem.

    wire.py LINK LINK MS

Frames are taken and given with the header that says what is still to be done for them (PACKET_VNET_HDR): checksums and
segments of what the kernel itself sends are left to hardware, and here there is none. At most HELD_MAX are under way in
each direction; more are dropped, as by any queue."""
import collections
import select
import socket
import sys
import time

ETH_P_ALL, SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 3, 263, 15, 23
FRAME_MAX = 70_000
HELD_MAX = 20_000


def open_link(name):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    s.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    s.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    s.bind((name, ETH_P_ALL))
    s.setblocking(False)
    return s


def take(link, held, due):
    while len(held) < HELD_MAX:
        try:
            held.append((due, link.recv(FRAME_MAX)))
        except BlockingIOError:
            return


def give(held, link, now):
    while held and held[0][0] <= now:
        frame = held.popleft()[1]
        try:
            link.send(frame)
        except OSError:
            pass  # its queue is full, or it is down: a frame less


def main():
    a, b = open_link(sys.argv[1]), open_link(sys.argv[2])
    delay_s = int(sys.argv[3]) / 1000
    ways = {a: (b, collections.deque()), b: (a, collections.deque())}
    while True:
        waits = [held[0][0] - time.monotonic() for _, held in ways.values() if held]
        ready = select.select([a, b], [], [], max(0, min(waits)) if waits else None)[0]
        now = time.monotonic()
        for link in ready:
            take(link, ways[link][1], now + delay_s)
        for other, held in ways.values():
            give(held, other, now)


main()
