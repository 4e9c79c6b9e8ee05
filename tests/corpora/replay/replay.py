#!/usr/bin/env python3
"""Replays the verified rows of the technique corpora, and says what each one managed to do.

Called by tests/replay inside of a throw-away root with a loopback of its own: rows really start their
payloads (a payload only writes marker files). One JSON object a row goes to standard output.

  replay.py --cofferdam FILE [--user USER] [--share K/N] [--only REGEX] [--bare] CORPUS…

policy   with the argument rules on and only the row's program allowed:
         refused | allowed
kernel   with the argument rules off and the program allowed, an always-denied name confined:
         escaped    the marker outside, the canary in the output, a connection: the kernel let it through
         unlisted   nothing left the scope, but a program that the policy does not list was started
         confined   the program itself did it, where it may: inside of the workspace
         nothing    no trace of it
         refused    the name, the working directory or the time refused it all the same
bare     with --bare, the same without cofferdam: whether the technique works in this root at all
missing  the program, or what lays the row's files, is not installed
"""
import argparse
import ctypes
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

import lab
import net
import observe

PLACE = "/tmp/replay"
POLICY, AUDIT = PLACE + "/policy.toml", PLACE + "/audit.jsonl"
# Data that programs need to get as far as their technique; no directory of programs among it.
DATA = ["/usr/share", "/usr/lib/python3", "/usr/lib/python3.11", "/usr/lib/locale", "/usr/lib/node_modules"]
DATA += ["/etc/alternatives", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/ssl", "/etc/perl", "/etc/vim"]
DATA += ["/etc/python3", "/etc/python3.11", "/etc/mime.types", "/etc/magic", "/etc/php", "/etc/java-17-openjdk"]
DATA += ["/usr/lib/x86_64-linux-gnu/perl", "/usr/lib/x86_64-linux-gnu/perl-base", "/usr/lib/x86_64-linux-gnu/perl5"]
DATA += ["/usr/lib/ruby", "/usr/lib/x86_64-linux-gnu/ruby", "/var/lib/gems", "/usr/lib/file", "/usr/lib/ssl"]
# Output that is kept.
MOST = 4 << 20
STARTED = re.compile(r"[a-z0-9_.]+ is never passed or set here", re.I)


def loopback_up():
    """The new network namespace has a loopback that is down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", 0x41))  # SIOCSIFFLAGS: up, running


def sweep():
    """Ends what a row left behind; the process namespace is ours."""
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, os.getpid(), os.getppid()):
            try:
                os.kill(int(name), signal.SIGKILL)
            except ProcessLookupError:
                pass
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                return
        except ChildProcessError:
            return


class Run:
    """One start of a command: its output, and the wait for what it does."""

    def __init__(self, command, row, far, terminal):
        self.row, self.far, self.output = row, far, bytearray()
        mode = row.get("tty_mode") if terminal else None
        stdin, keys = row.get("stdin"), row.get("keys")
        self.master = None
        # What a caller sets for the command never goes to the server itself.
        own = row if terminal else row | {"env": None, "unset": None}
        options = {"cwd": lab.directory(row) if terminal else lab.WORKSPACE, "env": lab.environment(own)}
        if mode:
            if mode == "full":
                stdin, keys = None, stdin
            self.master, slave = pty.openpty()
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            whose = 0 if mode == "full" else 1
            options |= {"stdout": slave, "stderr": slave, "stdin": slave if mode == "full" else subprocess.PIPE}
            options["preexec_fn"] = lambda: fcntl.ioctl(whose, termios.TIOCSCTTY, 0)
            keys = None if mode == "ctl" else keys
        else:
            # Without a terminal the keys come as plain input.
            stdin = (stdin or "") + (keys or "") if stdin or keys else None
            keys = None
            options |= {"stdin": subprocess.DEVNULL if stdin is None else subprocess.PIPE}
            options |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.process = subprocess.Popen(command, start_new_session=True, **options)
        if mode:
            os.close(slave)
        source = self.master if mode else self.process.stdout.fileno()
        self.reader = self._thread(self._read, source)
        if self.process.stdin:
            self._thread(self._feed, (stdin or "").encode("utf-8", "surrogateescape"))
        if mode and keys:
            self._thread(self._type, keys.encode("utf-8", "surrogateescape"))

    @staticmethod
    def _thread(work, *arguments):
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        return thread

    def _read(self, source):
        while True:
            try:
                data = os.read(source, 65536)
            except OSError:
                return
            if not data:
                return
            if len(self.output) < MOST:
                self.output.extend(data)

    def _feed(self, text):
        try:
            self.process.stdin.write(text)
            self.process.stdin.close()
        except OSError:
            pass

    def _type(self, keys):
        """Types as a person would: only when the program has stopped to draw."""
        began, seen, quiet = time.monotonic(), -1, time.monotonic()
        while time.monotonic() - began < 5:
            if len(self.output) != seen:
                seen, quiet = len(self.output), time.monotonic()
            if time.monotonic() - began > 0.8 and time.monotonic() - quiet > 0.4:
                break
            time.sleep(0.05)
        for key in keys:
            try:
                os.write(self.master, bytes([key]))
            except OSError:
                return
            time.sleep(0.3 if key < 32 else 0.04)

    def result(self, linger):
        """What was observed, by the end of the command or of its time."""
        deadline, ended, seen = time.monotonic() + self.row.get("timeout", 12), None, None
        while time.monotonic() < deadline:
            seen = observe.observed(self.row, bytes(self.output), self.far) or seen
            if seen == "escaped":
                break
            if self.process.poll() is not None:
                ended = ended or time.monotonic()
                if time.monotonic() - ended > max(linger, self.row.get("linger") or 0):
                    break
            time.sleep(0.03)
        for command in self.row.get("post") or []:
            done = subprocess.run(command, cwd=lab.WORKSPACE, env=lab.environment(self.row), timeout=20,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            self.output.extend(done.stdout)
        try:
            os.killpg(self.process.pid, signal.SIGTERM)  # a run of cofferdam records its end, then ends
            self.process.wait(5)
        except ProcessLookupError:
            pass
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        sweep()
        self.reader.join(1)
        return observe.observed(self.row, bytes(self.output), self.far) or seen or "nothing"


def quoted(text):
    return json.dumps(text, ensure_ascii=True)  # a JSON string is a TOML basic string


def interpreters(name):
    """What a program that is a script is started with: to be listed, or it would not even start."""
    found = shutil.which(name, path=lab.PATH)
    if not found:
        return []
    with open(found, "rb") as file:
        first = file.readline(256)
    if not first.startswith(b"#!"):
        return []
    words = [word for word in first[2:].decode("utf-8", "replace").split() if not word.startswith("-")]
    if os.path.basename(words[0]) == "env":
        words = [words[0], shutil.which(words[1], path=lab.PATH)]
    return [word for word in words[:2] if word and os.path.exists(word)]


def policy(row, user, rules, dropped):
    """Only the row's program; the workspace writable, repository included: the widest that can be asked for."""
    name, seconds = lab.argv(row)[0], row.get("timeout", 12)
    read = ["@libraries"] + [path for path in DATA if os.path.exists(path)]
    path = ":".join(part for part in lab.PATH.split(":") if os.path.isdir(part))
    lines = ["version = 1"]
    lines += [f"allow = [{quoted(name)}]"] if rules else ['argument_rules = "off"']
    lines += ["[workspace]", f"path = {quoted(lab.WORKSPACE)}", "write = true", 'repository = "write"']
    lines += ["[environment]", f"path = {quoted(path)}"]
    lines += [f'set = {{ HOME = {quoted(lab.HOME)}, LANG = "C.UTF-8", TERM = "xterm" }}']
    lines += ["[limits]", f'timeout = "{seconds}s"', 'max_timeout = "10m"', 'memory = "64GiB"', "processes = 20000"]
    lines += ["[sandbox]", f"user = {quoted(user)}", f"read = [{', '.join(map(quoted, read))}]"]
    lines += ["[audit]", f'sinks = [{{ kind = "file", path = {quoted(AUDIT)} }}]']
    if not rules:
        lines += [f"[command.{quoted(name)}]", 'interpreters = "confine"', 'paths = "any"']
        lines += [f"execute = [{', '.join(map(quoted, interpreters(name)))}]"]
        given = {key: value for key, value in (row.get("env") or {}).items() if key != "PATH" and key not in dropped}
        lines += [f"[command.{quoted(name)}.environment]"] if given else []
        lines += [f"{quoted(key)} = {quoted(value)}" for key, value in given.items()]
    with open(POLICY, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def policy_half(binary, row, user):
    """The verdict before anything starts."""
    policy(row, user, True, ())
    request = {"argv": lab.argv(row), "env": row.get("env") or {}}
    request |= {"cwd": row["cwd"]} if row.get("cwd") else {}
    command = [binary, "explain", "--policy", POLICY, "--json", "--stdin"]
    done = subprocess.run(command, input=json.dumps(request) + "\n", capture_output=True, text=True, check=False)
    if done.returncode == 125 or not done.stdout:
        # The allow-list itself is refused: a program in the workspace, a path that is none.
        return ("refused", "config") if "allow" in done.stderr else ("error", done.stderr[-300:])
    verdict = json.loads(done.stdout)
    return ("refused" if verdict.get("verdict") == "deny" else "allowed", verdict.get("rule") or "")


def loads(binary, row, user):
    """Writes the policy of the kernel half without the variables that nobody may set; the error that is left."""
    dropped = set()
    while True:
        policy(row, user, False, dropped)
        done = subprocess.run([binary, "check", POLICY], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return dropped, None
        names = {found.split()[0] for found in STARTED.findall(done.stdout + done.stderr)} - dropped
        names |= {name for name in row.get("env") or {} if f"{name!r}" in done.stderr or f'"{name}" is not a variable' in done.stderr} - dropped
        if not names:
            return dropped, done.stdout + done.stderr
        dropped |= names


def ended(log):
    """The programs that the run tried to start, by its end record."""
    try:
        with open(log, encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
    except FileNotFoundError:
        return None
    ends = [record for record in records if record["event_type"] == "run.end"]
    return ends[-1] if ends else None


def kernel_half(binary, row, user, far):
    dropped, fault = loads(binary, row, user)
    answer = {"dropped": sorted(dropped)} if dropped else {}
    if fault is not None:
        in_workspace = "lies in the workspace" in fault or "does not exist" in fault or "is not a" in fault or "relative" in fault
        return answer | {"kernel": "refused" if in_workspace else "error", "why": fault[-300:]}
    if os.path.exists(AUDIT):
        os.unlink(AUDIT)
    command = [binary, "exec", "--policy", POLICY]
    command += ["--cwd", row["cwd"]] if row.get("cwd") else []
    command += ["--stdin"] if row.get("stdin") or row.get("keys") else []
    far.reset(lab.payload(row))
    run = Run(command + ["--"] + lab.argv(row), row, far, False)
    result = run.result(0.1)
    output, status, end = bytes(run.output).decode("utf-8", "replace"), run.process.returncode, ended(AUDIT)
    answer |= {"kernel": result, "status": status, "tail": output[-400:]}
    if end is None and status in (125, 126, 127) and result == "nothing":
        answer["kernel"] = "refused" if status == 126 else "error"
    if end is not None:
        answer |= {"outcome": end["outcome"], "exec": end.get("exec", [])[:8]}
        if end["outcome"] in ("spawn_error", "sandbox_error"):
            answer["kernel"] = "error"
        # What it did inside it did itself, unless it started something else.
        listed = {os.path.realpath(path) for path in interpreters(lab.argv(row)[0])}
        started = {os.path.realpath(line.split()[0]) for line in end.get("exec", []) if line.split()}
        if result == "confined" and not started <= listed:
            answer["kernel"] = "unlisted"
    return answer


def replay(binary, row, options, far):
    answer = {"id": row["id"], "program": lab.argv(row)[0], "kind": row["observable"]["type"]}
    name = lab.argv(row)[0]
    if not lab.lay(row) or not ("/" in name or shutil.which(name, path=lab.PATH)):
        return answer | {"kernel": "missing"}
    if name.startswith("/") and not name.startswith(lab.LAB) and not os.path.exists(name):
        return answer | {"kernel": "missing"}
    answer["policy"], answer["rule"] = policy_half(binary, row, options.user)
    answer |= kernel_half(binary, row, options.user, far)
    return answer


def bare(row, far):
    """The same row with nothing in its way."""
    lab.lay(row)
    far.reset(lab.payload(row))
    try:
        return Run(lab.argv(row), row, far, True).result(0.6)
    except OSError as error:
        return f"missing: {error}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cofferdam", required=True)
    parser.add_argument("--user", default="keep")
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--only", default="")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("corpus", nargs="+")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: daemons of rows are ours to reap
    loopback_up()
    os.makedirs(PLACE, exist_ok=True)
    share, shares = map(int, options.share.split("/"))
    rows = []
    for corpus in options.corpus:
        with open(corpus, encoding="utf-8") as file:
            rows += [json.loads(line) | {"corpus": os.path.basename(corpus)} for line in file]
    rows = [row for row in rows if row.get("verified") and row.get("automatable", True)]
    rows = [row for row in rows if re.search(options.only, row["id"])][:: options.every][share::shares]
    far, answers = net.Net(), []
    for row in rows:
        try:
            answers.append(replay(options.cofferdam, row, options, far) | {"corpus": row["corpus"]})
        except Exception as error:  # one row must not hide the others; the caller counts it as a fault
            answers.append({"id": row["id"], "corpus": row["corpus"], "kernel": "error", "why": repr(error)})
    # Bare rows afterwards: they may well break this root.
    for row, answer in zip(rows, answers):
        if options.bare and answer["kernel"] != "missing":
            try:
                answer["bare"] = bare(row, far)
            except Exception as error:
                answer["bare"] = f"error: {error!r}"
    for answer in answers:
        print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
