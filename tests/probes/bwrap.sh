#!/usr/bin/env bash
# The words that start a program in strict bubblewrap, one a line, for `run.sh --peer bwrap`.
#
#   tests/probes/bwrap.sh MODE WORKSPACE PROGRAMS       MODE: read-only or writable
#
# Strict: every namespace, a session of its own, no capability, an empty environment, killed with its starter;
# of the host only the libraries, the programs of the lab and the workspace, and a new /proc, /dev and /tmp.
set -euo pipefail
[ $# -eq 3 ] || { echo "bwrap.sh: needs MODE WORKSPACE PROGRAMS" >&2; exit 2; }
bwrap=$(type -P bwrap) || { echo "bwrap.sh: no bwrap: apt-get install bubblewrap" >&2; exit 2; }
case $1 in
  read-only) bind=--ro-bind ;;
  writable) bind=--bind ;;
  *) echo "bwrap.sh: unknown mode: $1 (read-only, writable)" >&2; exit 2 ;;
esac
words=("$bwrap" --unshare-all --new-session --die-with-parent --cap-drop ALL --clearenv --ro-bind /usr /usr)
# Where /usr is merged these are links into it.
for dir in /bin /sbin /lib /lib64; do
  if [ -L "$dir" ]; then words+=(--symlink "$(readlink "$dir")" "$dir")
  elif [ -d "$dir" ]; then words+=(--ro-bind "$dir" "$dir"); fi
done
words+=(--proc /proc --dev /dev --tmpfs /tmp "$bind" "$2" "$2" --ro-bind "$3" "$3" --chdir "$2" --)
printf '%s\n' "${words[@]}"
