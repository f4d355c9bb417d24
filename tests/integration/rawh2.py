"""HTTP/2 by hand, for clients that no library is: windows of any size, and nothing said that the test does not say."""
import socket
import struct

DATA, HEADERS, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
INITIAL_WINDOW = 4


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _field(name, value):
    """Never indexed, never packed: HPACK's simplest form."""
    assert len(name) < 127 and len(value) < 127
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def grpc_head(path, *more):
    return b"".join(_field(*pair) for pair in ((b":method", b"POST"), (b":scheme", b"http"), (b":path", path),
                                               (b":authority", b"test"), (b"content-type", b"application/grpc"),
                                               (b"te", b"trailers"), *more))


def message(raw):
    return b"\x00" + struct.pack(">I", len(raw)) + raw


class Connection:
    def __init__(self, port, stream_window=65535, window=65535, source="127.0.0.1", host="127.0.0.1"):
        """`source`: the address that it connects from."""
        self.socket = socket.create_connection((host, port), source_address=(source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.next_stream = b"", 1
        self.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW, stream_window)))
        if window > 65535:
            self.give(window - 65535)

    def send(self, raw):
        self.socket.sendall(raw)

    def give(self, n, stream=0):
        self.send(frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", n)))

    def open(self, path, raw, *more, end=False):
        """A call with one message; its stream. `more`: fields of its head. Not half-closed: a unary call waits for `end`."""
        stream = self.next_stream
        self.next_stream += 2
        self.send(frame(HEADERS, END_HEADERS, stream, grpc_head(path, *more)) +
                  frame(DATA, END_STREAM if end else 0, stream, message(raw)))
        return stream

    def read(self, timeout):
        """(kind, flags, stream, payload) of the next frame; SETTINGS are acknowledged on the way."""
        self.socket.settimeout(timeout)
        while True:
            if len(self.buffer) >= 9:
                length = int.from_bytes(self.buffer[:3], "big")
                if len(self.buffer) >= 9 + length:
                    kind, flags, stream = self.buffer[3], self.buffer[4], int.from_bytes(self.buffer[5:9], "big")
                    payload, self.buffer = self.buffer[9:9 + length], self.buffer[9 + length:]
                    if kind == SETTINGS and not flags & ACK:
                        self.send(frame(SETTINGS, ACK, 0))
                    return kind, flags, stream, payload
            more = self.socket.recv(1 << 16)
            assert more, "the server closed the connection"
            self.buffer += more

    def close(self):
        self.socket.close()
