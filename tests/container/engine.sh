# A podman with everything of its own, for scripts that source this: images, layers, volumes and state lie in one
# directory, and nothing outside of it is read or changed.
#
#   engine_begin DIR     writes its configuration below DIR and exports it; DIR is made if it is not there
#   engine_end DIR       removes containers, volumes and networks of this storage, its mounts, and DIR
#
# runc and cgroupfs: they work with either version of control groups and without systemd.

engine_begin() {
  local house=$1
  mkdir -p "$house"
  chmod 755 "$house"
  cat >"$house/containers.conf" <<CONF
[containers]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "runc"
static_dir = "$house/podman/static"
tmp_dir = "$house/podman/tmp"
volume_path = "$house/podman/volumes"
[network]
network_backend = "netavark"
network_config_dir = "$house/podman/networks"
CONF
  cat >"$house/storage.conf" <<CONF
[storage]
driver = "overlay"
graphroot = "$house/podman/storage"
runroot = "$house/podman/run"
CONF
  export CONTAINERS_CONF=$house/containers.conf CONTAINERS_STORAGE_CONF=$house/storage.conf
  # Layers and caches of a build are large: not in a /tmp that may be memory.
  mkdir -p "$house/tmp"
  export TMPDIR=$house/tmp
}

engine_end() {
  local house=$1
  # Only with the storage that engine_begin made: never the host's own.
  [ "${CONTAINERS_STORAGE_CONF:-}" = "$house/storage.conf" ] || { echo "engine_end: not our storage" >&2; return 1; }
  podman ps --all --quiet | xargs -r podman rm --force --time 0 >/dev/null 2>&1 || true
  podman volume ls --quiet | xargs -r podman volume rm --force >/dev/null 2>&1 || true
  podman network ls --filter label=cofferdam.test --quiet | xargs -r podman network rm --force >/dev/null 2>&1 || true
  # The storage is a mount on itself.
  while mountpoint -q "$house/podman/storage/overlay"; do umount "$house/podman/storage/overlay" || break; done
  rm -rf --one-file-system "$house"
}
