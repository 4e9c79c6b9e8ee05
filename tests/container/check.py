"""The stack of compose.yaml and compose.http.yaml, brought up from images that are there, tried and taken down.

    check.py DIR COFFERDAM [PART…]      DIR: an empty directory for what is made; COFFERDAM: the program, to verify
                                        records; PART: image, socket, seccomp, http, mutations (default: all)

Called by tests/container/run, which sets up a podman of its own and builds the images. Each check prints a line;
the last line counts them, and the status is 1 when one failed.
"""

import copy
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
HOUSE, PROGRAM = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
PROJECT = f"cofferdam-test-{os.getpid()}"
COMPOSE = [sys.executable, "-m", "podman_compose", "--project-name", PROJECT]
IMAGE = "localhost/cofferdam:dev"
UID = 10001
# A bound on waiting for something that has to happen.
PATIENCE = 120
# What podman calls a container that has ended: before it has tidied up, and after.
ENDED = ("stopped", "exited")

passed, failed = 0, 0


def check(what, good, found=""):
    global passed, failed
    if good:
        passed += 1
        print(f"ok      {what}", flush=True)
    else:
        failed += 1
        print(f"FAILED  {what}: {str(found)[-3000:]}", flush=True)


def run(*argv, **more):
    more = {"capture_output": True, "text": True, "cwd": ROOT, "timeout": 300, **more}
    done = subprocess.run([str(word) for word in argv], **more)
    # The engine has no systemd for the timers of health checks here, and says so twice a start.
    lines = [line for line in done.stderr.splitlines() if "healthcheck" not in line and "systemd" not in line]
    done.stderr = "\n".join(lines)
    return done


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.3)
    return False


class Stack:
    """One compose project: a directory with workspace and records, and the files."""

    count = 0

    def __init__(self, *files, **environment):
        Stack.count += 1
        self.dir = HOUSE / f"stack-{Stack.count}"
        self.audit, self.workspace = self.dir / "audit", self.dir / "workspace"
        self.audit.mkdir(parents=True)
        (self.dir / "socket").mkdir(mode=0o750)
        for own in (self.audit, self.dir / "socket"):
            os.chown(own, UID, UID)
        shutil.copytree(HOUSE / "repository", self.workspace, symlinks=True)
        self.files = [word for file in files for word in ("-f", str(file))]
        self.env = {**os.environ, "COFFERDAM_WORKSPACE": str(self.workspace), "COFFERDAM_AUDIT": str(self.audit),
                    "COFFERDAM_SOCKET": str(self.dir / "socket"),
                    **{name: str(value) for name, value in environment.items()}}

    def compose(self, *words, **more):
        return run(*COMPOSE, *self.files, *words, env=self.env, **more)

    def container(self, service="cofferdam"):
        found = run("podman", "ps", "--all", "--quiet", "--filter", f"label=com.docker.compose.service={service}",
                    "--filter", f"label=com.docker.compose.project={PROJECT}")
        return found.stdout.split()[0] if found.stdout.split() else None

    def log(self):
        name = self.container()
        done = run("podman", "logs", name) if name else None
        return done.stdout + done.stderr if done else "no container"

    def records(self):
        file = self.audit / "audit.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def up(self, *words):
        done = self.compose(*words, "up", "--detach", "--no-build")
        return done

    def ready(self):
        name = self.container()
        return bool(name) and run("podman", "healthcheck", "run", name).returncode == 0

    def down(self):
        return self.compose("--profile", "agent", "--profile", "siem", "down", "--volumes")


def repository():
    """A workspace with a repository that another user than the server's owns."""
    at = HOUSE / "repository"
    at.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
           **{f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}
    (at / "file").write_text("one\n")
    for line in ("init -q", "add file", "commit -q -m first"):
        subprocess.run(["git", *line.split()], cwd=at, env=env, check=True)


def whole(stack, what):
    """After the end: every record is there and the chain holds."""
    done = run(PROGRAM, "audit", "verify", stack.audit / "audit.jsonl")
    check(f"{what}: the records verify", done.returncode == 0, done.stdout + done.stderr)
    records = stack.records()
    check(f"{what}: the last record is that of the end", records and records[-1]["event_type"] == "server.stop",
          records[-1:])
    open_runs = {r["run_id"] for r in records if r["event_type"] == "run.start"}
    open_runs -= {r["run_id"] for r in records if r["event_type"] == "run.end"}
    check(f"{what}: every start has an end", not open_runs, open_runs)


def start_record(stack, what):
    start = next((r for r in stack.records() if r["event_type"] == "server.start"), {})
    facts = dict(fact.split(": ", 1) for fact in start.get("host_facts", []) if ": " in fact)
    check(f"{what}: server.start names the container", start.get("container") == "podman", start.get("container"))
    required = (ROOT / "deploy" / "policy.toml").read_text()
    check(f"{what}: server.start lists what was required",
          start.get("required") and all(f'"{name}"' in required for name in start["required"]), start.get("required"))
    zero = "0x0000000000000000"
    wanted = {"server.bounding": zero, "server.effective": zero, "server.no_new_privs": "set",
              "server.seccomp": "mode 2", "limit.pids": "512", "limit.memory": str(1 << 30),
              "limit.processes": "soft 512, hard 512", "file.writable": "none", "mount.hidepid": "hidepid=invisible",
              "container.init": "another process"}
    for name, value in wanted.items():
        check(f"{what}: {name} is {value}", facts.get(name) == value, facts.get(name))
    return facts


def bring_up(stack, what, *words):
    done = stack.up(*words)
    good = until(stack.ready)
    check(f"{what}: healthy after up", good, f"{done.stderr}\n{stack.log() if not good else ''}")
    return good


def inside_network(name, table):
    """A table of the kernel, as the network namespace of the container has it."""
    pid = run("podman", "inspect", name, "--format", "{{.State.Pid}}").stdout.strip()
    return run("nsenter", "--net", "--target", pid, "cat", f"/proc/self/net/{table}")


def by_socket(what, *more_files):
    stack = Stack(ROOT / "compose.yaml", *more_files)
    try:
        if not bring_up(stack, what):
            return
        facts = start_record(stack, what)
        for name in ("network.interfaces", "network.routes"):
            check(f"{what}: {name}: none but lo", facts.get(name) == "none but lo", facts.get(name))
        name = stack.container()
        seen = inside_network(name, "dev")
        devices = [line.split(":")[0].strip() for line in seen.stdout.splitlines() if ":" in line]
        check(f"{what}: its network has lo alone and no route", seen.returncode == 0 and devices == ["lo"], seen)
        said = stack.compose("--profile", "agent", "run", "--rm", "-T", "agent")
        check(f"{what}: a client lists, runs, is refused, streams, follows a job", "agent: done" in said.stdout,
              said.stdout + said.stderr)
        if not more_files:
            siem(stack, what)
        stopped = run("podman", "stop", "--time", "15", name)
        check(f"{what}: stops", stopped.returncode == 0, stopped.stderr)
        code = run("podman", "inspect", name, "--format", "{{.State.ExitCode}}").stdout.strip()
        check(f"{what}: ends with status 0 at SIGTERM", code == "0", code)
        whole(stack, what)
    finally:
        done = stack.down()
        check(f"{what}: down", done.returncode == 0, done.stderr)


def siem(stack, what):
    done = stack.compose("--profile", "siem", "up", "--detach", "--no-build", "siem")
    name = stack.container("siem")
    check(f"{what}: rsyslog is up", bool(name), done.stderr)
    if not name:
        return

    def taken():
        found = run("podman", "exec", name, "cat", "/var/spool/rsyslog/understood").stdout.splitlines()
        return found if len(found) == len(stack.records()) else None

    good = until(taken)
    found = taken() or []
    wrong = run("podman", "exec", name, "cat", "/var/spool/rsyslog/not-understood")
    check(f"{what}: rsyslog has parsed every record", good and wrong.returncode != 0,
          f"{len(found)} of {len(stack.records())}; {wrong.stdout} {run('podman', 'logs', name).stderr}")
    numbers = [line.split(" ")[0] for line in found]
    check(f"{what}: … in their order", numbers == [str(r["seq"]) for r in stack.records()], numbers)
    kinds = {line.split(" ")[1] for line in found if " " in line}
    check(f"{what}: … and knows their fields", {"server.start", "run.start", "run.end", "run.denied"} <= kinds, kinds)


def by_http(what):
    token = HOUSE / "token"
    token.write_text(os.urandom(32).hex() + "\n")
    token.chmod(0o400)
    os.chown(token, UID, UID)
    stack = Stack(ROOT / "compose.http.yaml", COFFERDAM_TOKEN_FILE=token)
    try:
        if not bring_up(stack, what):
            return
        start_record(stack, what)
        said = stack.compose("--profile", "agent", "run", "--rm", "-T", "agent")
        check(f"{what}: a client on the internal network does the same", "agent: done" in said.stdout,
              said.stdout + said.stderr)
        name = stack.container()
        routes = inside_network(name, "route").stdout.splitlines()[1:]
        out = [line for line in routes if line.split()[1] == "00000000"]
        check(f"{what}: the server has no route out of the network", routes and not out, routes)
        run("podman", "stop", "--time", "15", name)
        whole(stack, what)
    finally:
        done = stack.down()
        check(f"{what}: down", done.returncode == 0, done.stderr)


def without(values, word):
    return [value for value in values if word not in value]


def remount(service, at, old, new):
    service["volumes"] = [v.replace(old, new) if at in v else v for v in service["volumes"]]


def tmpfs(service, at, options=None):
    service["tmpfs"] = [t for t in service["tmpfs"] if not t.startswith(at + ":")] + ([f"{at}:{options}"] if options else [])


def opened(service, at):
    """A directory of the user in place of it: a tmpfs takes the mode of what it covers, which nobody can write."""
    tmpfs(service, at)
    place = HOUSE / "open"
    place.mkdir(exist_ok=True)
    os.chown(place, UID, UID)
    service["volumes"].append(f"{place}:{at}:rw,noexec,nosuid,nodev")


# What is lost or loosened, and the name of the requirement that says so.
MUTATIONS = {
    "read_only is lost": ("read-only-root", lambda s: s.pop("read_only")),
    "cap_drop is lost": ("server-caps-empty", lambda s: s.pop("cap_drop")),
    "no-new-privileges is lost": ("server-no-new-privs",
                                  lambda s: s.update(security_opt=without(s["security_opt"], "no-new-privileges"))),
    "seccomp is off": ("server-seccomp", lambda s: s["security_opt"].append("seccomp=unconfined")),
    "hidepid is lost": ("hidepid", lambda s: s.update(security_opt=without(s["security_opt"], "hidepid"))),
    "the network is not none": ("no-network-routes", lambda s: s.pop("network_mode")),
    "the workspace is rw": ("workspace-read-only", lambda s: remount(s, ":/workspace:", ":ro,", ":rw,")),
    "the workspace is exec": ("workspace-mount", lambda s: remount(s, ":/workspace:", "noexec,", "exec,")),
    "the workspace is suid": ("workspace-mount", lambda s: remount(s, ":/workspace:", "nosuid", "suid")),
    "the workspace is dev": ("workspace-mount", lambda s: remount(s, ":/workspace:", "nodev", "dev")),
    # Two requirements fail; the server names the first.
    "records are exec": ("writable-noexec", lambda s: remount(s, ":/var/lib/cofferdam:", "noexec", "exec")),
    "records are suid": ("audit-mount", lambda s: remount(s, ":/var/lib/cofferdam:", "nosuid", "suid")),
    "scratch is exec": ("writable-noexec", lambda s: tmpfs(s, "/scratch", "rw,exec,nosuid,nodev,mode=1777")),
    "/var/tmp is open": ("writable-known", lambda s: opened(s, "/var/tmp")),
    "/tmp is open": ("writable-known", lambda s: opened(s, "/tmp")),
    "/run is open": ("writable-known", lambda s: opened(s, "/run")),
    "/dev/shm is open": ("writable-known", lambda s: tmpfs(s, "/dev/shm")),
    "pids_limit is lost": ("pids-limit<=1024", lambda s: s.pop("pids_limit")),
    "mem_limit is lost": ("memory-limit", lambda s: (s.pop("mem_limit"), s.pop("memswap_limit"))),
    "nproc is lost": ("process-limit<=1024", lambda s: s["ulimits"].pop("nproc")),
    "the policy belongs to the server": ("policy-protected",
                                         lambda s: remount(s, "/etc/cofferdam/policy.toml:", ":ro,", ":rw,")),
}


def mutations():
    """Each setting of the service in turn; the server must refuse, and name the requirement."""
    plain = yaml.safe_load((ROOT / "compose.yaml").read_text())
    for what, (name, change) in MUTATIONS.items():
        text = copy.deepcopy(plain)
        for other in ("agent", "siem"):
            text["services"].pop(other)
        text.pop("volumes")
        service = text["services"]["cofferdam"]
        service["restart"] = "no"
        change(service)
        # Named in full: what a file of compose names is looked up beside that file.
        policy = ROOT / "deploy" / "policy.toml"
        if name == "policy-protected":
            policy = Path(shutil.copy(policy, HOUSE / "policy-of-10001.toml"))
            os.chown(policy, UID, UID)
        file = HOUSE / f"mutant-{Stack.count}.yaml"
        file.write_text(yaml.safe_dump(text))
        stack = Stack(file, COFFERDAM_POLICY=policy)
        try:
            begun = stack.up()
            until(lambda: not stack.container() or run("podman", "inspect", stack.container(), "--format",
                                                       "{{.State.Status}}").stdout.strip() in ENDED
                  or stack.records())
            check(f"{what}: the container is made", stack.container(), begun.stdout + begun.stderr)
            code = run("podman", "inspect", stack.container() or "none", "--format", "{{.State.ExitCode}}")
            said = stack.log()
            served = [r for r in stack.records() if r["event_type"] == "server.start"]
            check(f"{what}: refused by {name}", code.stdout.strip() == "125" and f"sandbox.require: {name} does not"
                  in said and not served, f"status {code.stdout.strip()}: {said}")
        finally:
            stack.down()


def same_service():
    """The two variants differ in what the network asks for, and in nothing else."""
    first, second = (yaml.safe_load((ROOT / name).read_text())["services"]["cofferdam"]
                     for name in ("compose.yaml", "compose.http.yaml"))
    differ = {key for key in first.keys() | second.keys() if first.get(key) != second.get(key)}
    check("compose.http.yaml is compose.yaml but for the network",
          differ == {"command", "healthcheck", "network_mode", "networks", "volumes"}, differ)
    own = {"/etc/cofferdam/token", "/etc/cofferdam/policy.toml", "/socket"}
    mounts = [{v for v in one["volumes"] if not any(place in v for place in own)} for one in (first, second)]
    check("… and their other volumes are the same", mounts[0] == mounts[1], mounts)


def image():
    """What the image says of itself, and what is in it."""
    about = json.loads(run("podman", "image", "inspect", IMAGE).stdout)[0]
    config = about["Config"]
    check("the image runs as uid 10001", config["User"] == "10001:10001", config["User"])
    check("the image stops by SIGTERM", config.get("StopSignal") == "SIGTERM", config.get("StopSignal"))
    check("the image has labels", config["Labels"].get("org.opencontainers.image.licenses"), config["Labels"])
    check("the image has a health check by cofferdam health", "health" in str(about.get("Healthcheck") or config.get("Healthcheck")), about.keys())
    root = HOUSE / "root"
    root.mkdir()
    name = run("podman", "create", IMAGE).stdout.strip()
    try:
        tar = HOUSE / "image.tar"
        run("podman", "export", "--output", tar, name)
        run("tar", "-x", "--same-permissions", "-f", tar, "-C", root)
    finally:
        run("podman", "rm", name)
    bad, owned = [], []
    for path in root.rglob("*"):
        mode = path.lstat()
        at = "/" + str(path.relative_to(root))
        if not path.is_symlink() and (mode.st_mode & 0o6000 or mode.st_mode & 0o002):
            bad.append(at)
        if mode.st_uid == UID:
            owned.append(at)
    check("nothing in it is setuid or writable for everybody", not bad, bad)
    check("uid 10001 owns socket and records only", sorted(owned) == ["/socket", "/var/lib/cofferdam"], owned)
    tools = sorted(path.name for path in (root / "usr/bin").iterdir())
    check("no shell, no package manager, no network client", not {"sh", "bash", "dash", "apt", "dpkg", "perl", "curl"} & set(tools), tools)
    sbom = json.loads((root / "usr/share/cofferdam/sbom.cdx.json").read_text())
    debs = {path.name for path in (root / "var/lib/dpkg/status.d").iterdir()}
    named = {part["name"] for part in sbom["components"]}
    check("the SBOM names every package and crate",
          sbom["bomFormat"] == "CycloneDX" and debs <= named and {"rmcp", "landlock"} <= named, sbom.keys())
    print(f"image: {about['Size'] / 1e6:.1f} MB, {sum(1 for p in root.rglob('*') if p.is_file() and not p.is_symlink())} files")


PARTS = {
    "image": lambda: (same_service(), image()),
    "socket": lambda: by_socket("socket"),
    "seccomp": lambda: by_socket("socket, tightened seccomp", ROOT / "compose.seccomp.yaml"),
    "http": lambda: by_http("http"),
    "mutations": mutations,
}


def main():
    wanted = sys.argv[3:] or list(PARTS)
    if unknown := set(wanted) - PARTS.keys():
        sys.exit(f"check.py: no such part: {', '.join(sorted(unknown))} ({', '.join(PARTS)})")
    repository()
    for part in wanted:
        PARTS[part]()
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
