#!/usr/bin/env bash
# A PostgreSQL of the bench's own, on a port and in a folder of its own, run by the `postgres` user on one core:
#   bench/postgres.sh start   makes it where there is none, starts it, prints its address
#   bench/postgres.sh stop    stops it; the rows stay for the next start
#   bench/postgres.sh remove  stops it and deletes its data
# BENCH_PGPORT, BENCH_PGFOLDER and BENCH_PGCORE say where.
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

# A bench measures CPU, not disks: a commit does not wait for the disk, and what a server does in the background
# (vacuum, checkpoints) does not fall into somebody's round. Plans and statements are those of any PostgreSQL.
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
