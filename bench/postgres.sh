#!/usr/bin/env bash
# Runs the PostgreSQL server of the bench as the `postgres` user, on one core, with its own port and folder:
#   bench/postgres.sh start   creates the cluster if it does not exist, starts it and prints its URL
#   bench/postgres.sh stop    stops the server and keeps its data
#   bench/postgres.sh remove  stops the server and deletes its data
# BENCH_PGPORT, BENCH_PGFOLDER and BENCH_PGCORE set the port, the folder and the core.
set -euo pipefail

port=${BENCH_PGPORT:-26432}
folder=${BENCH_PGFOLDER:-/var/tmp/resource-api-bench}
core=${BENCH_PGCORE:-1}
data=$folder/data

bin=$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
[[ -n $bin ]] || bin=$(dirname "$(command -v initdb)")

# PostgreSQL refuses to run as root.
as_postgres() {
  if [[ $(id -u) -eq 0 ]]; then (cd / && runuser -u postgres -- "$@"); else "$@"; fi
}

# The bench measures CPU time, not disks: commits do not wait for the disk, and background work (autovacuum, timed
# checkpoints) is off, so that it does not distort single rounds. Plans and statements are not affected.
settings=(
  "port=$port" "listen_addresses=127.0.0.1" "unix_socket_directories=$folder"
  max_connections=200 shared_buffers=512MB synchronous_commit=off autovacuum=off
  checkpoint_timeout=1h max_wal_size=8GB
)

start() {
  if [[ ! -f $data/PG_VERSION ]]; then
    mkdir -p "$folder"
    [[ $(id -u) -ne 0 ]] || chown postgres: "$folder"
    as_postgres "$bin/initdb" -D "$data" -U postgres --auth=trust --encoding=UTF8 --locale=C.UTF-8 >"$folder.log"
  fi
  if ! as_postgres "$bin/pg_ctl" -D "$data" status >/dev/null; then
    local options=''
    for setting in "${settings[@]}"; do options+=" -c $setting"; done
    as_postgres taskset -c "$core" "$bin/pg_ctl" -D "$data" -w -l "$folder/log" -o "$options" start >/dev/null
  fi
  echo "postgres://postgres@127.0.0.1:$port/bench"
}

stop() {
  if as_postgres "$bin/pg_ctl" -D "$data" status >/dev/null 2>&1; then
    as_postgres "$bin/pg_ctl" -D "$data" -w -m fast stop >/dev/null
  fi
}

case ${1:-} in
  start) start ;;
  stop) stop ;;
  remove)
    stop
    rm -rf "$data" "$folder/log" "$folder.log"
    ;;
  *)
    echo "usage: bench/postgres.sh start|stop|remove" >&2
    exit 2
    ;;
esac
