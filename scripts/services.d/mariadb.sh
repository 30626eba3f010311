# MariaDB, alone or with a replica, or MySQL in its place, for scripts/services.
# shellcheck shell=bash

# describe_mariadb <server> <kind> <variable> <user>
describe_mariadb() {
  kind[$1]=$2
  variable[$1]=$3
  login[$1]=mysql://$4
  # MySQL, which scripts/fetch-mysql brings, is run by a loader of its own; rsync copies
  # the data to a new node of a cluster.
  program[$1]='@(mariadbd|ld-linux|rsync)'
  works_in[$1]=data
  writes_pid_to[$1]=../server.pid
  signal_to_end[$1]=TERM
  signal_to_abandon[$1]=KILL
}
describe_mariadb mariadb mariadb OUTBOX_TEST_MYSQL root
# Its user is held to read_only, which root is not.
describe_mariadb mariadb-replica mariadb OUTBOX_TEST_MYSQL_REPLICA outbox
partner[mariadb]=mariadb-replica
partner[mariadb-replica]=mariadb

mariadb_server() {
  local programs server
  if [[ -n ${other_version[mariadb]:-} ]]; then
    programs=$("$root/scripts/fetch-mysql" "${other_version[mariadb]}")
    server=$(for_server_user "$1" "$programs" mysqld)/mysqld
  else
    server=$(PATH=$PATH:/usr/sbin command -v mariadbd) ||
      die "mariadbd is not in the PATH; please install MariaDB's server"
  fi
  set_state "$1" server "$server"
}

make_mariadb() {
  local settings=skip_log_bin server_id=1
  # Never one of an earlier life: a server skips what was logged under its own.
  if [[ -n $(state "$1" follows) ]]; then server_id=$((2 + RANDOM * 32768 + RANDOM)); fi
  # shellcheck disable=SC2154 # scripts/services sets it
  if [[ $binlog == yes ]]; then
    settings="log_bin = binlog
server_id = $server_id
sync_binlog = 1
# So that a replica has the whole history, too, and those that follow it.
loose_log_slave_updates = ON"
  fi
  if [[ -n $(state "$1" follows) ]]; then settings+=$'\nread_only = ON'; fi
  mariadb_server "$1"
  configure_mariadb "$1" "$settings"
  install_mariadb "$1"
}

# configure_mariadb <server> <further settings>
configure_mariadb() {
  local folder
  folder=$(state "$1" folder)
  cat >"$folder/my.cnf" <<END
[mysqld]
datadir = $(working_folder "$1")
bind_address = 127.0.0.1
socket = $folder/socket
# A server that starts deletes what it takes for leftovers in it, also those of others.
tmpdir = $folder
loose_mysqlx = OFF
pid_file = $(pid_file "$1")
# Nobody waits for a name server.
skip_name_resolve = ON
character_set_server = utf8mb4

# What is committed stays: tests kill this server. Without the binary log, it shows a
# commit to others before it is on the disk, which some tests want.
innodb_flush_log_at_trx_commit = 1
innodb_doublewrite = ON
$2

# Users without all privileges may create triggers.
loose_log_bin_trust_function_creators = ON

# Small, and quick to start.
max_connections = 250
innodb_buffer_pool_size = 128M
performance_schema = OFF

ssl_ca = $folder/certificate.pem
ssl_cert = $folder/certificate.pem
ssl_key = $folder/key.pem

# Nobody's own: code that takes the session's time for UTC is found out.
default_time_zone = '+08:00'
END
  make_certificate "$1"
  # Every server has these of its own: in the binary log they would be a history that
  # its replica, or its primary, does not share.
  cat >"$folder/first.sql" <<'END'
SET sql_log_bin = 0;
CREATE DATABASE IF NOT EXISTS outbox CHARACTER SET utf8mb4;
CREATE USER IF NOT EXISTS root@'127.0.0.1';
GRANT ALL PRIVILEGES ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
CREATE USER IF NOT EXISTS outbox@'127.0.0.1';
GRANT ALL PRIVILEGES ON outbox.* TO outbox@'127.0.0.1';
END
  chmod go+r "$folder"/{my.cnf,first.sql}
}

# install_mariadb <server> [option]...
install_mariadb() {
  local folder server
  folder=$(state "$1" folder)
  server=$(state "$1" server)
  case $server in
    */mysqld) as_server_user "$server" --defaults-file="$folder/my.cnf" --initialize-insecure ;;
    *) as_server_user mariadb-install-db --defaults-file="$folder/my.cnf" --skip-test-db \
      --auth-root-authentication-method=normal "${@:2}" ;;
  esac >>"$base/$1/log" 2>&1 || failed_to_start "$1"
}

launch_mariadb() {
  local folder
  folder=$(state "$1" folder)
  # The file is read at every start: no client is needed, and what is there stays.
  run_in_background "$1" 120 "$(state "$1" server)" --defaults-file="$folder/my.cnf" \
    --init-file="$folder/first.sql" --port="$(state "$1" port)" || return 1
  if [[ -n $(state "$1" follows) && -z $(state "$1" attached) ]]; then attach_mariadb "$1"; fi
}

# mariadb_sql <server> <statements>: the result, without any decoration.
mariadb_sql() {
  mariadb --no-defaults --connect-timeout=5 --batch --skip-column-names -h 127.0.0.1 \
    -P "$(state "$1" port)" -u root -e "$2" outbox
}

# --- The replica

has_caught_up() { [[ $(mariadb_sql "$1" "SELECT master_gtid_wait('$2', 1)") == 0 ]]; }

# attach_mariadb <replica>: it replays the history of its primary from the beginning, and
# has what there is when this returns.
attach_mariadb() {
  local primary
  primary=$(state "$1" follows)
  running "$primary" || die "$1 would follow $primary, which does not run; start that first"
  [[ $(mariadb_sql "$primary" 'SELECT @@log_bin AND @@log_slave_updates') == 1 ]] ||
    die "$primary has no binary log that a replica could follow; stop it, and start both"
  mariadb_sql "$1" "CHANGE MASTER TO master_host = '127.0.0.1',
    master_port = $(state "$primary" port), master_user = 'root', master_use_gtid = slave_pos,
    master_connect_retry = 1; START SLAVE"
  eventually 60 has_caught_up "$1" "$(mariadb_sql "$primary" 'SELECT @@gtid_binlog_pos')" || return 1
  set_state "$1" attached yes
}

# What it has received is applied first.
promote_mariadb() {
  local received
  mariadb_sql "$1" 'STOP SLAVE IO_THREAD'
  received=$(mariadb_sql "$1" 'SHOW SLAVE STATUS \G' | sed -n 's/^ *Gtid_IO_Pos: //p')
  eventually 60 has_caught_up "$1" "$received" || die "$1 does not apply what it has received"
  mariadb_sql "$1" 'STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = OFF'
  sed -i '/^read_only = ON$/d' "$(state "$1" folder)/my.cnf"
}

replica_of() { if [[ -n $(state "$1" follows) ]]; then say "$1"; else say "${partner[$1]}"; fi; }
isolate_mariadb() { mariadb_sql "$(replica_of "$1")" 'STOP SLAVE IO_THREAD'; }
rejoin_mariadb() { mariadb_sql "$(replica_of "$1")" 'START SLAVE IO_THREAD'; }
