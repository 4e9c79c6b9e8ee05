"""Makes audit logs by running the product: one quiet, one a story.

    python tests/siem/stories.py PATH-TO-COFFERDAM DIRECTORY

Writes DIRECTORY/NAME.jsonl for each story, and prints its name. Every record is one that `cofferdam serve` or
`cofferdam exec` wrote. Needs `cc`, `git`, `find`, `sort`, `tar`.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# A bound on waiting for something that has to happen, never a measure of how fast it does.
PATIENCE = 60

POLICY = """
version = 1
allow = ["cat", "ls", "wc", "echo", "find", "sort", "tar", "grep"]
{top}
[workspace]
path = "{workspace}"
[limits]
timeout = "20s"
max_timeout = "60s"
{limits}
[server]
tools = ["toolkits", "command_run"]
[audit]
sinks = [{{ kind = "file", path = "{log}" }}]
[command."{story}"]
execute = ["/lib64/ld-linux-x86-64.so.2"]
[command.git]
subcommands = ["log", "status", "grep"]
{commands}
"""


class Session:
    """A client of `serve` over raw lines."""

    def __init__(self, place):
        self.place = place
        self.process = subprocess.Popen(
            [place.binary, "serve", "--policy", place.policy],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.number = 0
        self.answers = {}
        client = {"name": "story", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        self.answer(self.ask("initialize", params))
        self.write({"method": "notifications/initialized"})

    def write(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.number += 1
        self.write({"id": self.number, "method": method, "params": params})
        return self.number

    def answer(self, number):
        while number not in self.answers:
            line = self.process.stdout.readline()
            if not line:
                sys.exit(f"the server ended: {self.process.stderr.read()}")
            message = json.loads(line)
            if "id" in message and ("result" in message or "error" in message):
                self.answers[message["id"]] = message
        message = self.answers.pop(number)
        if "error" in message:
            sys.exit(f"a story asks for what is no request: {message}")
        return message["result"]

    def call(self, tool, **arguments):
        return self.answer(self.start(tool, **arguments))

    def start(self, tool, **arguments):
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def run(self, *argv, **more):
        return self.call("sh_run", command=argv[0], args=list(argv[1:]), **more)

    def end(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.process.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end()


class Place:
    """A workspace, a log and a policy of one story."""

    def __init__(self, base, binary, story):
        self.base, self.binary, self.story = base, binary, story
        base.mkdir()
        base.chmod(0o755)
        self.workspace = base / "workspace"
        self.workspace.mkdir()
        (self.workspace / "a.txt").write_text("one\ntwo\n")
        self.log = base / "log" / "audit.jsonl"
        self.policy = base / "policy.toml"
        self.write()

    def write(self, top="", limits="", commands=""):
        words = {"workspace": self.workspace, "log": self.log, "story": self.story}
        self.policy.write_text(POLICY.format(**words, top=top, limits=limits, commands=commands))
        return self

    def session(self):
        return Session(self)


def quiet(place):
    with place.session() as session:
        for argv in [["ls", "-l"], ["cat", "a.txt"], ["wc", "-l", "a.txt"], ["grep", "one", "a.txt"], ["echo", "é 漢字"]]:
            session.run(*argv)
        session.run("grep", "no such word", "a.txt")
        session.call("sh_start", command="sort", args=["a.txt"])
        session.call("command_run", commands=[{"program": "ls"}, {"program": "wc", "args": ["a.txt"]}])
        # One mistake is no burst.
        session.run("tree")
        session.run("ls", "-a")


def denials(place):
    with place.session() as session:
        for name in ["rm", "mv", "dd", "chmod", "chown", "ln", "cp", "touch", "mkdir", "rmdir", "ps", "df"]:
            session.run(name, "x")


def probing(place):
    with place.session() as session:
        session.run("find", ".", "-exec", "id", ";")
        session.run("find", ".", "-delete")
        session.run("find", ".", "-fprint", "x")
        session.run("sort", "--compress-program=id", "a.txt")
        session.run("sort", "-o", "x", "a.txt")
        session.run("tar", "--checkpoint-action=exec=id", "-cf", "x.tar", "a.txt")
        session.run("git", "-c", "core.pager=id", "log")
        session.run("git", "grep", "-O", "x")


def killed(place):
    with place.session() as session:
        session.run(str(place.story), "x32")


def limits(place):
    with place.session() as session:
        asked = [session.start("sh_run", command=str(place.story), args=["sleep", "30"], timeout=1) for _ in range(6)]
        for number in asked:
            session.answer(number)


def secrets(place):
    with place.session() as session:
        for number in range(6):
            session.run("echo", f"--password=hunter2-{number}-correct-horse")


def policy_change(place):
    with place.session() as session:
        session.run("ls")
    place.write(commands="[command.head]")
    with place.session() as session:
        session.run("ls")


def loader(place):
    with place.session() as session:
        session.run(str(place.story), "loader")


def shell(place):
    with place.session() as session:
        session.run("bash", "-c", "id")
        session.run("python3", "-c", "print(1)")


def batch(place):
    with place.session() as session:
        names = ["rm", "mv", "dd", "chmod", "chown", "ln"]
        session.call("command_run", commands=[{"program": name, "args": ["x"]} for name in names])


def replaced_log(place):
    with place.session() as session:
        session.run("ls")
    before = place.log.read_bytes()
    shutil.rmtree(place.log.parent)
    with place.session() as session:
        session.run("ls")
    # What a SIEM has: both.
    place.log.write_bytes(before + place.log.read_bytes())


def crash(place):
    session = place.session()
    session.start("sh_run", command=str(place.story), args=["sleep", "30"])
    deadline = time.monotonic() + PATIENCE
    while '"run.start"' not in place.log.read_text():
        if time.monotonic() > deadline:
            sys.exit("no run.start came")
        time.sleep(0.01)
    os.kill(session.process.pid, signal.SIGKILL)
    session.process.wait(PATIENCE)
    with place.session() as session:
        session.run("ls")


def jobs(place):
    place.write(limits="max_jobs = 3")
    with place.session() as session:
        for _ in range(12):
            session.call("sh_start", command=str(place.story), args=["sleep", "20"])


def hidden(place):
    with place.session() as session:
        session.run("echo", "safe\u202etxt.exe", "\x1b[2J", "a\u200bb")


def markup(place):
    with place.session() as session:
        for text in ["<script>document.title=alert(1)</script>", "\"><img src=x onerror=alert(1)>", "</style></code><iframe src=//x>"]:
            session.run("echo", text)
            session.run(text)
        session.run("cat", "a.txt")


def weakened(place):
    place.write(top='argument_rules = "off"')
    with place.session() as session:
        session.run("ls")


# Beside those of the title, a story may hit base rules, which are informational or low.
STORIES = {
    "quiet": (quiet, []),
    "denials": (denials, ["Cofferdam Allowlist Denial", "Cofferdam Allowlist Denial Burst"]),
    "probing": (probing, ["Cofferdam Dangerous Argument Refused", "Cofferdam Argument Rule Probing"]),
    "killed": (killed, ["Cofferdam Sandbox Violation"]),
    "limits": (limits, ["Cofferdam Run Stopped At A Limit", "Cofferdam Limit Flood"]),
    "secrets": (secrets, ["Cofferdam Secret-Like Argument", "Cofferdam Secrets In A Burst"]),
    "policy": (policy_change, ["Cofferdam Policy Loaded", "Cofferdam Policy Changed"]),
    "loader": (loader, ["Cofferdam Loader Executed By Hand"]),
    "shell": (shell, ["Cofferdam Shell Or Interpreter Asked For"]),
    "batch": (batch, ["Cofferdam Refusal In A Batch", "Cofferdam Batch Abuse"]),
    "replaced": (replaced_log, ["Cofferdam Audit Chain Began", "Cofferdam Audit Chain Broken Off"]),
    "crash": (crash, ["Cofferdam Audit Gap Or Crash"]),
    "jobs": (jobs, ["Cofferdam Job Asked For", "Cofferdam Job Flood"]),
    "hidden": (hidden, ["Cofferdam Hidden Characters In A Command"]),
    "markup": (markup, []),
    "weakened": (weakened, ["Cofferdam Weakened By Its Policy"]),
}


def tell(binary, target, base):
    """Runs every story below `base`, which has to be open to the user of commands; answers the log of each."""
    target.mkdir(parents=True, exist_ok=True)
    base.chmod(0o755)
    logs = {}
    (base / "bin").mkdir(mode=0o755)
    story = base / "bin" / "story"
    subprocess.run(["cc", "-O1", "-o", story, HERE / "story.c"], check=True)
    for name, (make, _) in STORIES.items():
        place = Place(base / name, binary, story)
        make(place)
        logs[name] = target / f"{name}.jsonl"
        shutil.copyfile(place.log, logs[name])
    return logs


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="cofferdam-siem-") as place_of_all:
        for made in tell(Path(sys.argv[1]).resolve(), Path(sys.argv[2]), Path(place_of_all)).values():
            print(made)
