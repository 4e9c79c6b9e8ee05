#!/usr/bin/env bash
# Kernel probes: each program in open/ tries one thing that a confined command must not be able to do.
#
#   tests/probes/run.sh [options] COFFERDAM      confined: through `COFFERDAM exec --policy P --`
#   tests/probes/run.sh [options] --bare         not confined: what this host permits anyway
#   tests/probes/run.sh [options] -- WRAPPER…    through another launcher, for comparison
#                                                (@WS@, @BIN@, @LAB@ stand for the lab's directories)
#   --gate              fail on anything unexpected (see below); runs the bare baseline as well
#   --peer NAME         the same through another sandbox, by the words of NAME.sh beside this file, bare first;
#                       the last table shows escapes of all side by side (bwrap: bubblewrap, strict)
#   --mode MODE         read-only, writable or both (default): how the policy grants the workspace
#   -p PATTERN          only probes whose name matches this glob (not with --gate)
#   -o DIR              keep the tables as DIR/bare.tsv, DIR/read-only.tsv, DIR/writable.tsv
#   -d DIR              take probes, catalogue and lists from DIR instead of from here
#   -t SECONDS          longest time one probe may take (default 40)
#   --compile DIR       only compile the probes, into DIR
#   --compiled DIR      run those that --compile put there, where they lie: for a place without a compiler, or
#                       one where nothing new can be executed
#   --workspace DIR     try with this directory, a mount for instance; if it is writable all in it is replaced,
#                       if it is not, it is taken as it is
#
# Categories: E an effect or a read outside, S a risky kernel interface reachable, R a resource limit
# that is missing. Results: BLOCKED, ESCAPED, n/a (the host does not permit it bare either), NORUN (the
# probe did not get to say anything), TIMEOUT.
#
# The gate fails when a row is missing, NORUN or TIMEOUT; when an E or R row is ESCAPED; when an S row is
# ESCAPED and not listed with a reason in open-on-purpose.txt; and when a listed row is closed. For the
# writable workspace open-when-writable.txt lists further S and R rows. E rows can never be listed.
#
# Environment: PROBE_LAB names the working directory (made, and removed at the end); default: a new one in /tmp.
set -euo pipefail
shopt -s extglob
export LC_ALL=C
umask 022 # the confined command may be another user

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
gate=no bare_only=no mode=both pattern='*' out_dir= limit=40 binary= peer= compile= compiled= given=
wrapper=()
scripts=$here

die() { echo "probes: $*" >&2; exit 2; }

while [ $# -gt 0 ]; do
  case $1 in
    --gate) gate=yes; shift ;;
    --bare) bare_only=yes; shift ;;
    --peer) peer=${2:?--peer needs a name: bwrap}; shift 2 ;;
    --mode) mode=${2:?--mode needs read-only, writable or both}; shift 2 ;;
    -p) pattern=${2:?-p needs a glob}; shift 2 ;;
    -o) out_dir=${2:?-o needs a directory}; shift 2 ;;
    -d) here=$(cd "${2:?-d needs a directory}" && pwd); shift 2 ;;
    -t) limit=${2:?-t needs seconds}; shift 2 ;;
    --compile) compile=${2:?--compile needs a directory}; shift 2 ;;
    --compiled) compiled=$(cd "${2:?--compiled needs a directory}" && pwd -P); shift 2 ;;
    --workspace) given=$(cd "${2:?--workspace needs a directory}" && pwd -P); shift 2 ;;
    -h|--help) sed -n '2,/^set -/p' "${BASH_SOURCE[0]}" | sed '$d; s/^# \{0,1\}//'; exit 0 ;;
    --) shift; wrapper=("$@"); break ;;
    -*) die "unknown option: $1 (see --help)" ;;
    *) [ -z "$binary" ] || die "one program only: $binary, $1"; binary=$1; shift ;;
  esac
done
case $mode in read-only|writable) modes=("$mode") ;; both) modes=(read-only writable) ;; *) die "unknown mode: $mode (read-only, writable, both)" ;; esac
if [ -n "$peer" ]; then
  [ -n "$binary" ] || die "--peer is for a comparison with a cofferdam program"
  [[ $peer =~ ^[a-z]+$ && -x $scripts/$peer.sh ]] || die "unknown peer: $peer (bwrap)"
  "$scripts/$peer.sh" read-only / / >/dev/null || die "the peer $peer cannot be run"
fi
[ "$gate" = no ] || [ "$pattern" = '*' ] || die "--gate takes every probe: -p is not for it"
if [ -n "$binary" ]; then
  [ ${#wrapper[@]} -eq 0 ] && [ "$bare_only" = no ] || die "give a program, --bare or -- WRAPPER, not two of them"
  binary=$(realpath -e "$binary") || die "no such program: $binary"
elif [ ${#wrapper[@]} -eq 0 ] && [ "$bare_only" = no ] && [ -z "$compile" ]; then
  die "what to run them through? A cofferdam program, --bare, or -- WRAPPER (see --help)"
fi
needed=(jq script timeout mkfifo)
[ -n "$compiled" ] || needed+=(gcc)
for tool in "${needed[@]}"; do command -v "$tool" >/dev/null || die "needs $tool"; done

# --- programs and catalogue ------------------------------------------------------------------------------
declare -A category flags
names=()
while IFS=$'\t' read -r name cat flag; do
  category[$name]=$cat flags[$name]=${flag:-}
  # shellcheck disable=SC2053
  [[ $name == $pattern ]] && names+=("$name")
done < <(jq -r '.[] | [.name, .category, .flags] | @tsv' "$here/probes.json" | sort)
[ ${#names[@]} -gt 0 ] || die "no probe matches $pattern"
sources=$(cd "$here/open" && printf '%s\n' *.c | sed 's/\.c$//' | sort)
catalogue=$(printf '%s\n' "${!category[@]}" | sort)
[ "$sources" = "$catalogue" ] ||
  die "probes.json and open/*.c differ: $(comm -3 <(echo "$sources") <(echo "$catalogue") | tr -s '\n\t' '  ')"

programs() { # DIR: compiles the probes into DIR/bin and what they are tried on into DIR
  mkdir -p "$1/bin"
  echo "probes: compiling ${#names[@]} programs"
  printf '%s\n' "${names[@]}" |
    xargs -P "$(nproc)" -I{} gcc -w -O1 -o "$1/bin/{}" "$here/open/{}.c" || die "a probe does not compile"
  gcc -w -O1 -o "$1/victim" "$here/victim.c" || die "victim.c does not compile"
}
if [ -n "$compile" ]; then programs "$compile"; exit 0; fi

# --- the lab -------------------------------------------------------------------------------------------
# Not below a private home directory: the confined command may run as another user.
if [ -n "${PROBE_LAB:-}" ]; then
  lab=$PROBE_LAB
  mkdir "$lab" || die "PROBE_LAB must be a path that does not exist yet, in a directory that does"
  lab=$(cd "$lab" && pwd -P)
else
  lab=$(mktemp -d /tmp/cofferdam-probes-XXXXXXXX)
fi
bin=${compiled:-$lab}/bin ws=${given:-$lab/ws} out=$lab/outside run=$lab/run secret=$lab/secret
tag=probe-$$
victim_pid=

cleanup() {
  if [ -n "$victim_pid" ]; then kill "$victim_pid" 2>/dev/null || true; wait "$victim_pid" 2>/dev/null || true; fi
  rm -f "/tmp/probe-vis-$tag" "/var/tmp/probe-vis-$tag" "/dev/shm/probe-vis-$tag" "$HOME/.probe-vis-$tag" 2>/dev/null || true
  rm -rf "$lab"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
[[ $bin =~ ^[A-Za-z0-9/_-]+$ ]] || die "the programs' path goes into a pattern: only letters, digits, / _ - ($bin)"

chmod 755 "$lab"
mkdir -p "$run" "$secret" "$lab/audit"
chmod 755 "$run" "$secret"
chmod 700 "$lab/audit"
echo "secret-of-the-host" >"$secret/file"
chmod 644 "$secret/file"

# Each run starts with the same workspace and the same things outside.
fresh_workspace() {
  mkdir -p "$out"
  chmod 777 "$out"
  if [ -n "$given" ]; then
    [ -w "$ws" ] || return 0 # a read-only mount holds what was put there before
    (shopt -s dotglob nullglob; rm -rf "$ws"/*)
  else
    rm -rf "$ws"
  fi
  mkdir -p "$ws/.git/hooks"
  chmod 777 "$ws" "$ws/.git" "$ws/.git/hooks"
  printf '[core]\n' >"$ws/.git/config"
  chmod 666 "$ws/.git/config"
}

bait() {
  local b
  for b in mv del trunc; do
    [ -e "$out/$b-$tag" ] || echo bait >"$out/$b-$tag"
    chmod 666 "$out/$b-$tag"
  done
  # COFFERDAM_PROBES_FIFO: one that is there, where nobody may make any (a container's seccomp profile).
  if [ -n "${COFFERDAM_PROBES_FIFO:-}" ]; then ln -sfT "$COFFERDAM_PROBES_FIFO" "$out/fifo-$tag"; fi
  [ -p "$out/fifo-$tag" ] || mkfifo -m 666 "$out/fifo-$tag"
  rm -f "$out/victim-signalled"
}

# --- programs, and the stand-in for the launcher -----------------------------------------------------------
if [ -n "$compiled" ]; then
  for name in "${names[@]}"; do [ -x "$bin/$name" ] || die "$compiled has no $name: make it with --compile"; done
else
  programs "$lab"
fi

fresh_workspace
"${compiled:-$lab}/victim" "$out" "$tag" "$run/ready" &
victim_pid=$!
for _ in $(seq 100); do [ -s "$run/ready" ] && break; sleep 0.1; done
[ -s "$run/ready" ] || die "the victim process did not start"
read -r tcp_port udp_port <"$run/ready"
export PROBE_LAUNCHER_TOKEN=token-of-the-launcher

policy() { # MODE: writes the policy that confines the probes and prints its path
  local file=$lab/policy-$1.toml write=false
  [ "$1" = writable ] && write=true
  cat >"$file" <<TOML
version = 1
# The kernel alone is tried: the path rule would refuse most attempts before they start.
argument_rules = "off"
allow_patterns = ["$bin/[a-z0-9-]+"]

[workspace]
path = "$ws"
write = $write

[limits]
timeout = "30s"
memory = "1GiB"
processes = 128
cpu_time = "20s"
file_size = "64MiB"
open_files = 256

[sandbox]
read = ["@libraries"]

[audit]
sinks = [{ kind = "file", path = "$lab/audit/audit.jsonl" }]
TOML
  echo "$file"
}

# --- one probe ---------------------------------------------------------------------------------------------
# one NAME PREFIX…: prints "RESULT<TAB>detail".
one() {
  local name=$1 log=$run/log rc=0 began elapsed bytes
  shift
  local words=("$@" "$bin/$name" "$ws" "$out" "$secret/file" "$victim_pid" "$tcp_port" "$udp_port"
    "$out/v.sock" "$out/v.dgram" "$tag" PROBE_LAUNCHER_TOKEN)
  local bounded=(timeout -k 2 "$limit" "${words[@]}")
  bait
  : >"$log"
  began=$(date +%s%N)
  case $name:${flags[$name]} in
    leak-fd*:*) # descriptors of a file, a directory and a socket are open in the launcher
      ( exec 7<"$secret/file" 8<"$out" 9<>"/dev/tcp/127.0.0.1/$tcp_port"; "${bounded[@]}" </dev/null >"$log" 2>&1 ) || rc=$? ;;
    *:tty) # the launcher has a controlling terminal
      timeout -k 2 "$limit" script -qec "$(printf '%q ' "${words[@]}")" /dev/null </dev/null >"$log" 2>&1 || rc=$? ;;
    *:file) # standard output is a file outside
      "${bounded[@]}" </dev/null >"$out/log-$tag" 2>&1 || rc=$?
      cp "$out/log-$tag" "$log" ;;
    *:stdin) # the launcher's own standard input holds something
      echo '{"jsonrpc":"2.0"}' >"$run/in"
      "${bounded[@]}" <"$run/in" >"$log" 2>&1 || rc=$? ;;
    *:flood) # how much output comes through
      bytes=$( { "${bounded[@]}" </dev/null 2>&1 || true; } | wc -c)
      if [ "$bytes" -ge 100000000 ]; then rc=10; echo "ESCAPED $name: $bytes bytes came through" >"$log"
      elif [ "$bytes" -ge 4096 ]; then rc=0; echo "BLOCKED $name: $bytes bytes" >"$log"; fi ;;
    *:hold) # whether a descendant holds the reader of the output; such a probe ends with status 21
      set +e
      "${bounded[@]}" </dev/null 2>&1 | cat >"$log"
      rc=${PIPESTATUS[0]}
      set -e
      elapsed=$(( ($(date +%s%N) - began) / 1000000 ))
      if [ "$elapsed" -ge 5000 ]; then rc=10; echo "ESCAPED $name: reader held for $elapsed ms" >>"$log"
      elif [ "$rc" -eq 21 ]; then echo "BLOCKED $name: released after $elapsed ms" >>"$log"; fi ;;
    *)
      set +e
      "${bounded[@]}" </dev/null 2>&1 | head -c 65536 >"$log"
      rc=${PIPESTATUS[0]}
      set -e ;;
  esac
  judge "$name" "$rc" "$log"
}

# judge NAME RC LOG: what the log and the status say.
judge() {
  local name=$1 rc=$2 log=$3 line check path
  line=$(tr -d '\r\0' <"$log" | grep -aE '^(ESCAPED|BLOCKED|NA) ' | tail -1) || line=
  check=$(tr -d '\r\0' <"$log" | grep -aE '^CHECK ' | tail -1) || check=
  if [ -n "$check" ]; then # an effect that shows later, in a file
    read -r _ seconds path <<<"$check"
    sleep "$seconds"
    if [ -e "$path" ]; then rm -f "$path"; printf 'ESCAPED\t%s exists\n' "$path"
    else printf 'BLOCKED\t%s did not appear\n' "$path"; fi
    return
  fi
  local said=${line%% *} detail=${line#*: }
  detail=${detail:0:110}
  case $said:$rc in
    ESCAPED:*|*:10) printf 'ESCAPED\t%s\n' "$detail" ;;
    NA:77) printf 'NA\t%s\n' "$detail" ;;
    BLOCKED:*) printf 'BLOCKED\t%s\n' "$detail" ;;
    *:124|*:137) printf 'TIMEOUT\tstatus %s: %s\n' "$rc" "$(tail -c 100 "$log" | tr '\n\t' '  ')" ;;
    *) printf 'NORUN\tstatus %s: %s\n' "$rc" "$(tail -c 160 "$log" | tr '\n\t' '  ')" ;;
  esac
}

# --- one table -----------------------------------------------------------------------------------------------
declare -A baseline
# table LABEL FILE PREFIX…: every probe under the prefix, one row each.
table() {
  local label=$1 file=$2 name result detail n=0
  shift 2
  fresh_workspace
  : >"$file"
  cd "$ws"
  for name in "${names[@]}"; do
    IFS=$'\t' read -r result detail < <(one "$name" "$@")
    # What this host does not permit to an unconfined process says nothing about the sandbox.
    if [ "$result" = BLOCKED ] && [ "${baseline[$name]:-ESCAPED}" != ESCAPED ]; then
      result=NA detail="not possible bare either: $detail"
    fi
    printf '%s\t%s\t%s\t%s\n' "$name" "${category[$name]}" "$result" "$detail" >>"$file"
    n=$((n + 1))
  done
  cd "$here"
  echo
  echo "== $label: $n probes"
  awk -F'\t' '{ printf "%-26s %s  %-8s %s\n", $1, $2, $3, substr($4, 1, 120) }' "$file"
  totals "$file"
  if [ -n "$out_dir" ]; then cp "$file" "$out_dir/$label.tsv"; fi
}

totals() {
  awk -F'\t' '
    { t[$2 $3]++; a[$3]++ }
    function line(name, k) { printf "%-17s blocked %3d  escaped %3d  n/a %3d  not run %3d\n", name,
      t[k "BLOCKED"], t[k "ESCAPED"], t[k "NA"], t[k "NORUN"] + t[k "TIMEOUT"] }
    END { line("effects outside", "E"); line("risky interfaces", "S"); line("resource limits", "R")
      printf "%-17s blocked %3d  escaped %3d  n/a %3d  not run %3d\n", "total",
        a["BLOCKED"], a["ESCAPED"], a["NA"], a["NORUN"] + a["TIMEOUT"] }' "$1"
}

# --- the gate ------------------------------------------------------------------------------------------------
faults=0
fault() { echo "GATE: $*"; faults=$((faults + 1)); }

declare -A accepted
# accept FILE CATEGORIES: rows that are open on purpose, "name: reason" a line.
accept() {
  local file=$1 allowed=$2 line name reason
  while IFS= read -r line || [ -n "$line" ]; do
    [[ $line =~ ^[[:space:]]*(#|$) ]] && continue
    name=${line%%:*} reason=${line#*:}
    reason=${reason##+([[:space:]])}
    if [[ $line != *:* || ${#reason} -lt 15 ]]; then fault "${file##*/}: no written reason: $line"; continue; fi
    if [ -z "${category[$name]:-}" ]; then fault "${file##*/}: no probe of that name: $name"; continue; fi
    if [[ ${category[$name]} != [$allowed] ]]; then fault "${file##*/}: $name is ${category[$name]}, which cannot be accepted here"; continue; fi
    if [ -n "${accepted[$name]:-}" ]; then fault "${file##*/}: listed twice: $name"; continue; fi
    accepted[$name]=$reason
  done <"$file"
}

# check LABEL FILE: compares a table with what is promised.
check() {
  local label=$1 file=$2 name cat result detail before=$faults
  declare -A seen=()
  accepted=()
  accept "$here/open-on-purpose.txt" S
  if [ "$label" = writable ]; then accept "$here/open-when-writable.txt" SR; fi
  while IFS=$'\t' read -r name cat result detail; do
    seen[$name]=$result
    case $result in
      BLOCKED) [ -z "${accepted[$name]:-}" ] || fault "$label: $name is listed as open but is closed: take it off the list" ;;
      NA) [ "${baseline[$name]:-}" != ESCAPED ] || fault "$label: $name says n/a, yet it works bare: $detail" ;;
      ESCAPED) [ -n "${accepted[$name]:-}" ] || fault "$label: $name ($cat) ESCAPED: $detail" ;;
      *) fault "$label: $name ($cat) $result: $detail" ;;
    esac
  done <"$file"
  for name in "${!category[@]}"; do
    [ -n "${seen[$name]:-}" ] || fault "$label: $name is missing from the table"
  done
  if [ "$faults" -eq "$before" ]; then
    echo "gate $label: as promised, ${#accepted[@]} rows open on purpose"
  else
    echo "gate $label: $((faults - before)) faults"
  fi
}

# --- the runs ------------------------------------------------------------------------------------------------
if [ -n "$out_dir" ]; then mkdir -p "$out_dir"; out_dir=$(cd "$out_dir" && pwd); fi
beside=()
if [ "$gate" = yes ] || [ "$bare_only" = yes ] || [ -n "$peer" ]; then
  beside+=("bare=$run/bare.tsv")
  table bare "$run/bare.tsv"
  while IFS=$'\t' read -r name _ result _; do baseline[$name]=$result; done <"$run/bare.tsv"
  if [ "$bare_only" = yes ]; then
    if grep -qE $'\t(NORUN|TIMEOUT)\t' "$run/bare.tsv"; then die "a probe did not run"; fi
    exit 0
  fi
fi
for m in "${modes[@]}"; do
  if [ -n "$binary" ]; then
    prefix=("$binary" exec --policy "$(policy "$m")" --)
  else
    prefix=()
    for word in "${wrapper[@]}"; do
      word=${word//@WS@/$ws}; word=${word//@BIN@/$bin}; word=${word//@LAB@/$lab}
      prefix+=("$word")
    done
  fi
  table "$m" "$run/$m.tsv" "${prefix[@]}"
  if [ "$gate" = yes ]; then check "$m" "$run/$m.tsv"; fi
  if [ -n "$peer" ]; then
    mapfile -t prefix < <("$scripts/$peer.sh" "$m" "$ws" "$bin")
    table "$peer-$m" "$run/$peer-$m.tsv" "${prefix[@]}"
    beside+=("cofferdam, workspace $m=$run/$m.tsv" "$peer, workspace $m=$run/$peer-$m.tsv")
  fi
done
if [ -n "$peer" ]; then echo; "$scripts/beside.sh" "${beside[@]}"; fi
if [ "$gate" = yes ]; then
  [ "$faults" -eq 0 ] || { echo "probes: gate FAILED with $faults faults"; exit 1; }
  echo "probes: gate passed"
fi
