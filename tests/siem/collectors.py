"""Collectors that read the stories with the configuration that siem/ ships. Called by check.py.

Only the paths of the shipped files are changed. syslog-ng conflicts with rsyslog as a package, so it is unpacked, not
installed, where it is not there.
"""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# A bound on waiting for something that has to happen, never a measure of how fast it does.
PATIENCE = 120


def prepared(name, logs, base):
    """A live file, a directory for what comes out, the configuration for both, and all records."""
    place = base / name
    out = place / "out"
    out.mkdir(parents=True)
    live = place / "audit.jsonl"
    live.touch()
    text = next((ROOT / "siem" / name).glob("*.conf")).read_text()
    text = text.replace("/var/log/cofferdam-siem", str(out)).replace("/var/log/cofferdam/audit.jsonl", str(live))
    records = b"".join(log.read_bytes() for log in logs.values())
    return place, out, live, text, records


def until(holds):
    deadline = time.monotonic() + PATIENCE
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.1)


def count(path):
    return len(path.read_bytes().splitlines()) if path.exists() else 0


def compared(check, name, out, records):
    lines = records.splitlines()
    copy = out / "records.jsonl"
    check(f"{name}, the copy is byte for byte the log", copy.exists() and copy.read_bytes() == records, count(copy))
    return [json.loads(line) for line in lines]


def fed(process, live, records, out):
    """Half of the records, a rename as a rotation makes it, and the other half."""
    lines = records.splitlines(keepends=True)
    half = len(lines) // 2
    with live.open("ab") as file:
        file.writelines(lines[:half])
    until(lambda: count(out / "records.jsonl") >= half or process.poll() is not None)
    live.rename(live.with_name("audit-000000000001.jsonl"))
    with live.open("ab") as file:
        file.writelines(lines[half:])
    until(lambda: count(out / "records.jsonl") >= len(lines) or process.poll() is not None)


def stopped(process):
    process.terminate()
    try:
        return process.communicate(timeout=PATIENCE)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def rsyslog(check, logs, base):
    place, out, live, text, records = prepared("rsyslog", logs, base)
    file = place / "rsyslog.conf"
    file.write_text(f'global(workDirectory="{place}")\n{text}')
    syntax = subprocess.run(["rsyslogd", "-N1", "-f", file], capture_output=True, text=True)
    check("rsyslog, the configuration is right", syntax.returncode == 0, syntax.stderr)
    command = ["rsyslogd", "-n", "-f", file, "-i", place / "pid"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    fed(process, live, records, out)
    parsed = compared(check, "rsyslog", out, records)
    denied = sum(record["event_type"] == "run.denied" for record in parsed)
    until(lambda: count(out / "denied.jsonl") >= denied and count(out / "fields.tsv") >= len(parsed))
    said = stopped(process)
    check("rsyslog, every record is parsed", not (out / "unparsed.log").exists() and count(out / "fields.tsv") == len(parsed), said)
    check("rsyslog, refusals are routed by field", count(out / "denied.jsonl") == denied > 10, count(out / "denied.jsonl"))


def syslog_ng(check, logs, base):
    program, environment, flags = unpacked(base)
    place, out, live, text, records = prepared("syslog-ng", logs, base)
    file = place / "syslog-ng.conf"
    file.write_text(text)
    state = ["--persist-file", place / "persist", "--pidfile", place / "pid", "--control", place / "control", "--no-caps"]
    command = [program, "-F", "-f", file, *state, *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    fed(process, live, records, out)
    denied = sum(json.loads(line)["event_type"] == "run.denied" for line in records.splitlines())
    until(lambda: count(out / "denied.tsv") >= denied or process.poll() is not None)
    said = stopped(process)
    compared(check, "syslog-ng", out, records)
    check("syslog-ng, refusals are routed by field", count(out / "denied.tsv") == denied > 10, said)


def unpacked(base):
    installed = shutil.which("syslog-ng")
    if installed:
        return installed, dict(os.environ), []
    packages, root = base / "packages", base / "root"
    packages.mkdir()
    packages.chmod(0o777)
    subprocess.run(["apt-get", "download", "-q", "syslog-ng-core", "libivykis0", "libnet1", "libpcre3"], cwd=packages, check=True, capture_output=True)
    for package in packages.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, root], check=True)
    libraries = root / "usr/lib/x86_64-linux-gnu"
    modules = next((root / "usr/lib/syslog-ng").glob("*"))
    paths = [libraries, root / "lib/x86_64-linux-gnu", root / "usr/lib/syslog-ng", modules]
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, paths))}
    return root / "usr/sbin/syslog-ng", environment, ["--module-path", modules]
