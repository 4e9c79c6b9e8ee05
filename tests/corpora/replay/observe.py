"""What a row managed to do: markers outside, the canary in what it printed or sent, a connection made."""
import base64
import binascii
import bz2
import gzip
import io
import lzma
import os
import re
import socket
import zipfile
import zlib

BASE58 = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def _base58(text):
    number = 0
    for byte in text:
        number = number * 58 + BASE58.index(byte)
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _attempt(decode, data):
    try:
        return [decode(data)]
    except Exception:  # whatever is not in this encoding
        return []


def _unzipped(data):
    archive = zipfile.ZipFile(io.BytesIO(data))
    return b"".join(archive.read(name) for name in archive.namelist())


def readings(data):
    """The bytes as they are and in every encoding that a technique may have put them into."""
    yield data
    yield re.sub(rb"[^0-9A-Za-z]", b"", data)
    for text in [data, *data.splitlines()[:5]]:
        yield text[::-1]
    squeezed = re.sub(rb"\s", b"", data)
    whole = [(f, data) for f in (gzip.decompress, bz2.decompress, lzma.decompress, _unzipped)]
    whole += [(f, squeezed) for f in (base64.b64decode, base64.b32decode, binascii.unhexlify, _base58)]
    whole += [(lambda t: base64.a85decode(t, adobe=t.startswith(b"<~")), squeezed)]
    whole += [(binascii.a2b_uu, line) for line in data.splitlines()]
    whole += [
        (binascii.unhexlify, found.group(0).replace(b" ", b""))
        for found in re.finditer(rb"(?:[0-9a-f]{2} ?){8,}", data)
    ]
    for found in re.finditer(rb"PK\x03\x04|\x1f\x8b|x\x9c|x\xda|BZh|\xfd7zXZ", data):
        rest = data[found.start() :]
        inflate = [lambda t: zlib.decompressobj().decompress(t), lambda t: zlib.decompressobj(31).decompress(t)]
        whole += [(f, rest) for f in (*inflate, bz2.decompress, lzma.decompress)]
    for decode, text in whole:
        yield from _attempt(decode, text)


def holds(data, needle):
    pattern = re.compile(needle.encode(), re.I)
    return any(pattern.search(reading) for reading in readings(data))


def _content(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _listens(port):
    for host in ("127.0.0.1", "::1"):
        try:
            socket.create_connection((host, port), 0.3).close()
            return True
        except OSError:
            pass
    return False


def observed(row, output, net):
    """"escaped", "confined" (it ran, and nothing left the scope) or None."""
    what = row["observable"]
    kind, path = what["type"], what.get("path")

    def exists(name):
        return bool(what.get(name)) and os.path.lexists(what[name])

    if kind in ("exec", "write"):
        if exists("marker" if kind == "exec" else "path"):
            return "escaped"
        return "confined" if exists("marker_inside") else None
    if kind == "changed":
        now = _content(path)
        escaped = now is None or now.decode("utf-8", "replace") != what["was"]
    elif kind == "read":
        kept = _content(path) if path else None
        escaped = holds(output, what["needle"]) or (kept is not None and holds(kept, what["needle"]))
    elif kind == "exfil":
        if not re.search(what["needle"].encode(), net.data, re.I):
            return "confined" if net.connections else None
        escaped = True
    elif kind == "connect":
        escaped = bool(net.connections) or exists("marker")
    elif kind == "listen":
        escaped = _listens(what["port"])
    elif kind == "mode":
        escaped = os.path.exists(path) and bool(os.stat(path).st_mode & 0o6000)
    elif kind == "gone":
        escaped = not exists("path")
    else:
        raise ValueError(f"{row['id']}: observable of an unknown type: {kind}")
    return "escaped" if escaped else None
