# PostgreSQL, for scripts/services.
# shellcheck shell=bash

variable[postgres]=OUTBOX_TEST_POSTGRES
login[postgres]=postgresql://postgres
program[postgres]='postgres'
works_in[postgres]=data
writes_pid_to[postgres]=postmaster.pid
signal_to_end[postgres]=INT
signal_to_abandon[postgres]=QUIT

postgres_programs() {
  local programs=/usr/lib/postgresql/15/bin
  if [[ -n ${other_version[postgres]:-} ]]; then
    programs=$("$root/scripts/fetch-postgres" "${other_version[postgres]}")
  elif [[ ! -d $programs ]]; then
    programs=$(dirname "$(readlink -f "$(command -v pg_ctl)")") ||
      die "pg_ctl is not in the PATH; please install PostgreSQL's server"
  fi
  programs=$(for_server_user postgres "$programs" postgres)
  set_state postgres programs "$programs"
}

make_postgres() {
  local data programs
  postgres_programs
  data=$(working_folder postgres)
  programs=$(state postgres programs)
  as_server_user "$programs/initdb" -D "$data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 \
    --no-sync --no-instructions >/dev/null
  cat >>"$data/postgresql.conf" <<'END'
listen_addresses = '127.0.0.1'
unix_socket_directories = ''

# What is committed stays: tests kill this server.
fsync = on
synchronous_commit = on
full_page_writes = on

# Small, and quick to start.
max_connections = 200
max_prepared_transactions = 10
shared_buffers = 128MB
max_wal_size = 512MB
min_wal_size = 80MB
jit = off

# Nobody's own: whoever takes the session's time for UTC is found out.
timezone = 'Asia/Kathmandu'

log_timezone = 'UTC'
log_line_prefix = '%m [%p] %a %u@%d '
log_lock_waits = on
END
  # Without a client: the packages of 17 and 18 have none.
  as_server_user "$programs/postgres" --single -D "$data" postgres \
    <<<'CREATE DATABASE outbox' >>"$base/postgres/log" 2>&1
}

launch_postgres() {
  # Its log is opened here: its own user could not.
  as_server_user "$(state postgres programs)/pg_ctl" --silent -w -t 120 \
    -D "$(working_folder postgres)" -o "-p $(state postgres port)" start \
    </dev/null >>"$base/postgres/log" 2>&1 9>&-
}
