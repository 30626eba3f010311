# PostgreSQL, alone or with a standby, for scripts/services.
# shellcheck shell=bash

# describe_postgres <server> <variable>
describe_postgres() {
  kind[$1]=postgres
  variable[$1]=$2
  login[$1]=postgresql://postgres
  program[$1]='postgres'
  works_in[$1]=data
  writes_pid_to[$1]=postmaster.pid
  signal_to_end[$1]=INT
  signal_to_abandon[$1]=QUIT
}
describe_postgres postgres OUTBOX_TEST_POSTGRES
describe_postgres postgres-standby OUTBOX_TEST_POSTGRES_STANDBY
partner[postgres]=postgres-standby
partner[postgres-standby]=postgres

postgres_programs() {
  local programs=/usr/lib/postgresql/15/bin
  if [[ -n ${other_version[postgres]:-} ]]; then
    programs=$("$root/scripts/fetch-postgres" "${other_version[postgres]}")
  elif [[ ! -d $programs ]]; then
    programs=$(dirname "$(readlink -f "$(command -v pg_ctl)")") ||
      die "pg_ctl is not in the PATH; please install PostgreSQL's server"
  fi
  programs=$(for_server_user "$1" "$programs" postgres)
  set_state "$1" programs "$programs"
}

# postgres_program <server> <program> <argument>...
postgres_program() {
  as_server_user "$(state "$1" programs)/$2" "${@:3}" </dev/null >>"$base/$1/log" 2>&1 9>&-
}

# postgres_sql <server> <statement>: the result, without any decoration.
postgres_sql() {
  PGCONNECT_TIMEOUT=5 psql -XAtq -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$(state "$1" port)" \
    -U postgres -c "$2" outbox
}

make_postgres() {
  postgres_programs "$1"
  if [[ -n $(state "$1" follows) ]]; then
    copy_postgres "$1" "$(state "$1" follows)"
  else
    create_postgres "$1"
  fi
}

create_postgres() {
  local data programs
  data=$(working_folder "$1")
  programs=$(state "$1" programs)
  as_server_user "$programs/initdb" -D "$data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 \
    --no-sync --no-instructions >/dev/null
  cat >>"$data/postgresql.conf" <<'END'
listen_addresses = '127.0.0.1'
unix_socket_directories = ''

# What is committed stays: tests kill this server.
fsync = on
synchronous_commit = on
full_page_writes = on

# In its folder, and deleted with it: in /dev/shm nobody would clear up after kill -9.
dynamic_shared_memory_type = mmap

# Small, and quick to start.
max_connections = 200
max_prepared_transactions = 10
shared_buffers = 128MB
max_wal_size = 512MB
min_wal_size = 80MB
jit = off

# Nobody's own: code that takes the session's time for UTC is found out.
timezone = 'Asia/Kathmandu'

log_timezone = 'UTC'
log_line_prefix = '%m [%p] %a %u@%d '
log_lock_waits = on

# Where there is a standby.
include_if_exists = 'standby.conf'
END
  # Without a client: the packages of 17 and 18 have none.
  as_server_user "$programs/postgres" --single -D "$data" postgres \
    <<<'CREATE DATABASE outbox' >>"$base/$1/log" 2>&1
}

launch_postgres() {
  # Its log is opened here: its own user could not.
  postgres_program "$1" pg_ctl --silent -w -t 120 -D "$(working_folder "$1")" \
    -o "-p $(state "$1" port)" start || return 1
  if [[ -f $(working_folder "$1")/standby.signal ]]; then attach_postgres "$1"; fi
}

# --- The standby

# set_replication <primary> <names of the standbys that a commit waits for>
set_replication() {
  local data
  data=$(working_folder "$1")
  cat >"$data/standby.conf" <<END
# A standby that was isolated can catch up, and is isolated until it is told to rejoin.
wal_keep_size = 256MB
wal_sender_timeout = 0
wal_receiver_timeout = 0
synchronous_standby_names = '$2'
END
  chmod go+r "$data/standby.conf"
  postgres_program "$1" pg_ctl --silent -D "$data" reload
}

# copy_postgres <server> <primary>
copy_postgres() {
  running "$2" || die "$1 would follow $2, which does not run; start that first"
  set_replication "$2" ''
  postgres_program "$1" pg_basebackup --pgdata "$(working_folder "$1")" --write-recovery-conf \
    --wal-method stream --checkpoint fast --no-sync --dbname \
    "host=127.0.0.1 port=$(state "$2" port) user=postgres application_name=standby" ||
    failed_to_start "$1"
}

# replicates_as <primary> sync|async|sync,async
replicates_as() {
  local state
  state=$(postgres_sql "$1" "SELECT sync_state FROM pg_stat_replication
    WHERE state = 'streaming'" 2>/dev/null) && [[ -n $state && ,$2, == *",$state,"* ]]
}

# attach_postgres <standby>: returns when the primary, if it runs, has it as it should.
attach_postgres() {
  local primary=${partner[$1]} names=''
  if ! running "$primary"; then return; fi
  if [[ $(state "$1" replication) == sync ]]; then names=standby; fi
  eventually 60 replicates_as "$primary" sync,async || return 1
  set_replication "$primary" "$names"
  eventually 60 replicates_as "$primary" "$(state "$1" replication)"
}

promote_postgres() {
  # It has no standby now that it could wait for.
  set_replication "$1" ''
  postgres_program "$1" pg_ctl --silent -w -t 60 -D "$(working_folder "$1")" promote ||
    die "$1 could not be promoted; see $base/$1/log"
}

# The processes that send what is committed, of either server.
wal_senders() {
  local pid
  { processes "$1" && processes "${partner[$1]}"; } | while read -r pid; do
    if [[ $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) == *walsender* ]]; then say "$pid"; fi
  done
}
isolate_postgres() {
  local senders
  senders=$(wal_senders "$1")
  [[ -n $senders ]] || die "$1 is not connected to ${partner[$1]}: there is nothing to isolate"
  signal STOP <<<"$senders"
}
rejoin_postgres() { wal_senders "$1" | signal CONT; }
