# Runs argument vectors one by one, each in a fresh throw-away directory, observed and held.
#
#   unshare --mount --net --ipc --pid --fork … sh THIS-WITH-CALLS LAB UID PROGRAM
#
# Calls of `run` follow this text. The mount namespace has everything read-only but fresh file systems
# over /tmp, /var/tmp and /dev/shm; there is no network; what a vector leaves running is killed. Each run
# is told on standard output: @@run N, the log of strace, @@outside and @@inside with what changed.
set -u
lab=$1 uid=$2 # and the name of the program
mount --make-rprivate / || exit 97
cut -d' ' -f5 /proc/self/mountinfo | while read -r at; do
  mount -o remount,bind,ro "$at" 2>/dev/null
done
for dir in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o size=256m,mode=1777 tmpfs "$dir" || exit 96; done
if touch /usr/.cofferdam 2>/dev/null; then echo "the root is writable" >&2; exit 95; fi

export LC_ALL=C
if [ "$uid" = 0 ]; then drop="setpriv --no-new-privs"; else
  drop="setpriv --reuid=$uid --regid=$uid --clear-groups --no-new-privs"
fi
mkdir -m 700 /tmp/rec
mkdir -p /tmp/template/ws/dir/sub /tmp/template/scratch /tmp/template/outside /tmp/outside
cd /tmp/template/ws || exit 94
printf 'b 2\na 1\nc 300\na|b 4\n' >data
printf 'one\ntwo\nMATCH\n' >dir/one.txt
printf 'fn main() {}\n' >dir/sub/two.rs
printf 'data\ndir/one.txt\n' >list
cp data names; cp data input; cp data f
printf '#!/bin/sh\nexit 0\n' >bait
chmod 755 bait
cp bait P
printf 'e id\n1e ./bait\nw out\n' >script.sed
printf 'BEGIN { system("./bait") }\n' >prog.awk
printf -- '--to-command=./bait\n--use-compress-program=./bait\n-exec\n' >words
tar -cf x.tar data dir
tar -czf x.tgz data dir
tar -cjf x.tbz dir
tar -cJf x.txz dir
gzip -k <data >data.gz
# Members that would leave the directory, and one that goes through a link of the archive's own.
echo planted >/tmp/outside/planted
tar -cPf climb.tar --transform 's,^data$,../outside/planted,' data
tar -cPf absolute.tar /tmp/outside/planted
ln -s ../outside link
tar -cf link.tar link
tar -rPf link.tar --transform 's,^data$,link/planted,' data
rm link /tmp/outside/planted
echo secret >/tmp/template/outside/secret
echo canary >/tmp/outside/canary
cp list /tmp/template/stdin
printf './bait\nid\n! id\nsystem("id")\ne id\n' >>/tmp/template/stdin
if [ "$3" = git ]; then
  (
    exec >/dev/null 2>&1
    export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'
    git init -b main . && rm -rf .git/hooks
    git config user.name T && git config user.email t@example.com
    git add data dir list && git commit -m one
    git checkout -b topic && echo topic >>dir/one.txt && git commit -am two
    git checkout main && echo main >>data && git commit -am three && git tag v1
    git stash list
    git clone --bare --no-hardlinks . ../outside/other.git && git remote add origin ../outside/other.git
    git bundle create all.bundle --all
    git format-patch -1 --stdout >one.patch
    echo changed >>list
  ) || exit 93
fi
[ "$uid" = 0 ] || chown -R "$uid:$uid" /tmp/template /tmp/outside
mkdir -p "$lab" || exit 92
[ "$uid" = 0 ] || chown "$uid:$uid" "$lab"
calls=execve,execveat,open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,rmdir,link,linkat
calls=$calls,symlink,symlinkat,mkdir,mkdirat,mknod,mknodat,truncate,chmod,fchmodat,chown,lchown,fchownat
calls=$calls,utimensat,chdir,fchdir,fork,vfork,clone,clone3

outside() {
  find /tmp -mindepth 1 \( -path "$lab/ws" -o -path "$lab/scratch" -o -path /tmp/rec -o -path /tmp/template \) -prune \
    -o \( ! -type f -printf '%y %m %p %l\n' \) -o -printf '%y %m %s %T@ %p\n' | sort
}
inside() { find "$lab/ws" \( ! -type f -printf '%y %m %p %l\n' \) -o -printf '%y %m %s %T@ %p\n' | sort; }

# run NUMBER NAME=VALUE… -- PROGRAM ARGUMENT…: the environment, and the vector.
run() {
  number=$1
  shift
  rm -rf "${lab:?}"/* /tmp/rec/*
  cp -a /tmp/template/. "$lab"
  cd "$lab/ws" || exit 91
  outside >/tmp/rec/outside
  inside >/tmp/rec/inside
  # shellcheck disable=SC2086 # words of $drop
  (
    ulimit -f 32768
    exec timeout -s KILL 6 strace -f --seccomp-bpf -y -q -s 4096 -e signal=none -e trace="$calls" -o /tmp/rec/log \
      "$env" -i HOME="$lab/scratch" TMPDIR="$lab/scratch" PWD="$lab/ws" "$@"
  ) <"$lab/stdin" >/tmp/rec/out 2>/tmp/rec/err
  status=$?
  kill -9 -1 2>/dev/null
  echo "@@run $number $status"
  cat /tmp/rec/log
  echo
  echo "@@outside"
  outside | diff /tmp/rec/outside - | grep '^[<>]'
  echo "@@inside"
  inside | diff /tmp/rec/inside - | grep '^[<>]'
  echo "@@stderr"
  head -c 300 /tmp/rec/err
  echo
}
env=$(command -v env)
