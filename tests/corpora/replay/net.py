"""Listeners on loopback that note who connects and what is sent: the far end of technique rows."""
import re
import socket
import threading

HTTP, TCP, UDP, DNS = 18080, 18081, 18082, 53


class Net:
    """Answers HTTP, TCP and UDP with a payload and keeps what came in."""

    def __init__(self):
        self.lock = threading.Lock()
        self.connections, self.data, self.payload = [], b"", b""
        for port, serve in ((HTTP, self._http), (TCP, self._tcp)):
            listener = socket.create_server(("127.0.0.1", port), backlog=32)
            self._thread(self._accept, listener, serve)
        for port in (UDP, DNS):
            datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            datagrams.bind(("127.0.0.1", port))
            self._thread(self._datagrams, datagrams)

    @staticmethod
    def _thread(work, *arguments):
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def reset(self, payload):
        with self.lock:
            self.connections, self.data, self.payload = [], b"", payload

    def _note(self, what, data=b""):
        with self.lock:
            if what:
                self.connections.append(what)
            self.data += data

    def _datagrams(self, sock):
        while True:
            data, sender = sock.recvfrom(65535)
            self._note("udp", data)
            try:
                sock.sendto(data[:2] + b"\x81\x83" + data[4:], sender)  # DNS: no such name
            except OSError:
                pass

    def _accept(self, listener, serve):
        while True:
            connection, _ = listener.accept()
            self._note("connection")
            self._thread(self._one, connection, serve)

    def _one(self, connection, serve):
        with connection:
            connection.settimeout(3)
            try:
                serve(connection)
            except OSError:
                pass

    def _tcp(self, connection):
        connection.sendall(self.payload)
        while data := connection.recv(65536):
            self._note(None, data)

    def _http(self, connection):
        def more(have, enough):
            while not enough(have):
                data = connection.recv(65536)
                if not data:
                    break
                self._note(None, data)
                have += data
            return have

        head = more(b"", lambda have: b"\r\n\r\n" in have)
        if b"Expect: 100" in head:
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head.lower())
        body = head.split(b"\r\n\r\n", 1)[-1]
        if b"transfer-encoding: chunked" in head.lower():
            more(body, lambda have: b"0\r\n\r\n" in have)
        else:
            more(body, lambda have: len(have) >= (int(length.group(1)) if length else 0))
        answer = self.payload
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
            b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(answer) + answer
        )
