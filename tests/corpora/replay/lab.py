"""The laboratory of one technique row: workspace, secret, home and files, laid anew for each."""
import base64
import hashlib
import os
import shutil
import subprocess

LAB = "/tmp/escape-lab"
WORKSPACE, SECRET, HOME = LAB + "/ws", LAB + "/secret", LAB + "/home"
CANARY = "cnry5e1f0c7d9b42"
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:/usr/games"
LIBRARY = """#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void go(void) {
    const char *all[] = {"%s", "%s"};
    for (int i = 0; i < 2; i++) { int f = open(all[i], O_CREAT | O_WRONLY, 0644); if (f >= 0) close(f); }
}
int C_GetFunctionList(void *p) { return 1; }
int bind_engine(void *a, void *b) { return 0; }
int dl_load(void) { return 0; }
int plugin_is_GPL_compatible;
"""


def mark(row):
    return hashlib.sha256(row["id"].encode()).hexdigest()[:8]


def payload(row):
    """What a shell that is started, or a server that is asked, would run."""
    return f"echo>{WORKSPACE}/ran-{mark(row)};echo>/tmp/marker-{mark(row)}\n".encode()


def argv(row):
    return row.get("argv") or [row.get("shell_program") or "/bin/bash", "-c", row["shell"]]


def environment(row):
    """What the caller of the command has in its environment."""
    names = {"PATH": PATH, "HOME": HOME, "LANG": "C.UTF-8", "TERM": "xterm", "USER": "lab", "LOGNAME": "lab"}
    names |= {"SHELL": "/bin/sh", "GIT_CONFIG_NOSYSTEM": "1"} | (row.get("launcher_env") or {})
    names |= row.get("env") or {}
    return {name: value for name, value in names.items() if name not in (row.get("unset") or [])}


def directory(row):
    return os.path.join(WORKSPACE, row["cwd"]) if row.get("cwd") else WORKSPACE


def _remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)


def _put(path, file):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    _remove(path)
    if file.get("symlink"):
        os.symlink(file["symlink"], path)
        return
    content = file["content"].encode("utf-8", "surrogateescape") if "b64" not in file else base64.b64decode(file["b64"])
    with open(path, "wb") as handle:
        handle.write(content)
    os.chmod(path, file.get("mode", 0o644))


def lay(row):
    """Everything as the row wants it; what an earlier row left is gone."""
    subprocess.run(["chmod", "-R", "u+rwX", LAB], stderr=subprocess.DEVNULL)
    shutil.rmtree(LAB, ignore_errors=True)
    for path in (WORKSPACE, HOME, SECRET, LAB + "/outside"):
        os.makedirs(path)
    for place in ("/tmp", "/var/tmp", "/dev/shm"):
        for name in os.listdir(place):
            if name.startswith(("marker-", "outside-")):
                _remove(f"{place}/{name}")
    _put(SECRET + "/hostname", {"content": CANARY + "\nalpha beta gamma\n"})
    _put(SECRET + "/id_test", {"content": "-----BEGIN TEST KEY-----\n" + CANARY + "\n", "mode": 0o600})
    for name in row.get("dirs") or []:
        os.makedirs(os.path.join(WORKSPACE, name), exist_ok=True)
    for name, file in (row.get("files") or {}).items():
        _put(os.path.normpath(os.path.join(WORKSPACE, name)), file)
    for path, file in (row.get("outside") or {}).items():
        _put(path, file)
    if row.get("needs_lib"):
        source = LIBRARY % (f"{WORKSPACE}/ran-{mark(row)}", f"/tmp/marker-{mark(row)}")
        target = f"{WORKSPACE}/lib-{mark(row)}.so"
        subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-x", "c", "-", "-o", target], input=source.encode(), check=True)
    own = {name: value for name, value in (row.get("env") or {}).items() if name.startswith(("GIT_AUTHOR", "GIT_COMMITTER"))}
    for command in row.get("pre") or []:
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        try:
            subprocess.run(command, cwd=WORKSPACE, env=environment({}) | own, timeout=60, **quiet)
        except FileNotFoundError:
            return False  # what prepares the row is not installed
    what = row["observable"]
    for path in (what.get("marker"), what.get("marker_inside"), what.get("path") if what["type"] == "write" else None):
        if path:
            _remove(path)
    return True
