# PgBouncer in front of PostgreSQL, for scripts/services.
# shellcheck shell=bash

kind[pgbouncer]=pgbouncer
variable[pgbouncer]=OUTBOX_TEST_PGBOUNCER
login[pgbouncer]=postgresql://postgres
program[pgbouncer]='pgbouncer'
works_in[pgbouncer]=.
writes_pid_to[pgbouncer]=server.pid
signal_to_end[pgbouncer]=TERM
signal_to_abandon[pgbouncer]=TERM

make_pgbouncer() {
  cat >"$(state pgbouncer folder)/common.ini" <<END
[databases]
outbox = host=127.0.0.1 port=$(state postgres port) dbname=outbox

[pgbouncer]
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
listen_addr = 127.0.0.1
unix_socket_dir =
pidfile = $(pid_file pgbouncer)
# Every role of the server may come.
auth_type = trust
auth_user = postgres
admin_users = postgres
END
}

launch_pgbouncer() {
  local folder
  folder=$(state pgbouncer folder)
  printf '%%include %s\nlisten_port = %s\n' "$folder/common.ini" "$(state pgbouncer port)" \
    >"$folder/pgbouncer.ini"
  chmod go+r "$folder"/*.ini
  run_in_background pgbouncer 60 \
    "$(PATH=$PATH:/usr/sbin command -v pgbouncer)" "$folder/pgbouncer.ini"
}
