#!/bin/sh
# Runs a benchmark driver, unchanged, against sh_run, shell_execute and command_run, and says of each whether
# the driver came to its end. Usage: driver.sh DRIVER.py SERVER [options of the driver, such as --client mcp]
# Called by maintainers; PYTHON names an interpreter with what the driver imports: psutil, and for `--client mcp` the
# SDK before release 2 (pip install 'mcp<2' psutil), whose results have the `isError` that the driver reads. Under
# release 2 the driver fails at the first call and never ends: each run is ended after LIMIT seconds (900).
set -u
[ $# -ge 2 ] || { echo "usage: driver.sh DRIVER.py SERVER [options of the driver]" >&2; exit 2; }
driver=$(realpath "$1") || exit 2
server=$(realpath "$2") || exit 2
shift 2
place=$(mktemp -d) || exit 2
trap 'rm -rf "$place"' EXIT
mkdir "$place/tree" || exit 2
failed=0
for tool in sh_run shell_execute command_run; do
    case $tool in
    sh_run) template='{"command":"@CMD","args":"@ARGS"}' ;;
    shell_execute) template='{"command":"@ARGV"}' ;;
    command_run) template='{"commands":[{"command_type":"argv","program":"@CMD","args":"@ARGS"}]}' ;;
    esac
    if [ "$tool" = sh_run ]; then tools=toolkits; else tools=$tool; fi
    cat >"$place/$tool.toml" <<POLICY || exit 2
version = 1
allow = ["cat", "echo", "head", "sleep", "true", "wc"]
[workspace]
path = "$place/tree"
[server]
tools = ["$tools"]
POLICY
    if timeout "${LIMIT:-900}" "${PYTHON:-python3}" "$driver" --server "$server serve --policy $place/$tool.toml" \
        --cwd "$place/tree" --tool "$tool" --template "$template" "$@"; then
        echo "$tool: complete"
    else
        echo "$tool: the driver failed; standard error of the server:"
        cat "$place/tree/server.stderr"
        failed=1
    fi
done
exit $failed
