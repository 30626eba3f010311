# MariaDB, or MySQL in its place, for scripts/services.
# shellcheck shell=bash

variable[mariadb]=OUTBOX_TEST_MYSQL
login[mariadb]=mysql://root
# MySQL, which scripts/fetch-mysql brings, is run by a loader of its own.
program[mariadb]='@(mariadbd|ld-linux)'
works_in[mariadb]=data
writes_pid_to[mariadb]=../server.pid
signal_to_end[mariadb]=TERM
signal_to_abandon[mariadb]=KILL

mariadb_server() {
  local programs server
  if [[ -n ${other_version[mariadb]:-} ]]; then
    programs=$("$root/scripts/fetch-mysql" "${other_version[mariadb]}")
    server=$(for_server_user mariadb "$programs" mysqld)/mysqld
  else
    server=$(PATH=$PATH:/usr/sbin command -v mariadbd) ||
      die "mariadbd is not in the PATH; please install MariaDB's server"
  fi
  set_state mariadb server "$server"
}

make_mariadb() {
  local folder server binlog_settings
  mariadb_server
  # shellcheck disable=SC2154 # scripts/services sets it
  if [[ $binlog == yes ]]; then
    binlog_settings=$'log_bin = binlog\nserver_id = 1\nsync_binlog = 1'
  else
    binlog_settings=skip_log_bin
  fi
  folder=$(state mariadb folder)
  server=$(state mariadb server)
  cat >"$folder/my.cnf" <<END
[mysqld]
datadir = $(working_folder mariadb)
bind_address = 127.0.0.1
socket = $folder/socket
# A server that starts deletes what it takes for leftovers in it, also those of others.
tmpdir = $folder
loose_mysqlx = OFF
pid_file = $(pid_file mariadb)
# Nobody waits for a name server.
skip_name_resolve = ON
character_set_server = utf8mb4

# What is committed stays: tests kill this server. Without the binary log, it shows a
# commit to others before it is on the disk, which some tests want.
innodb_flush_log_at_trx_commit = 1
innodb_doublewrite = ON
$binlog_settings

# Small, and quick to start.
max_connections = 250
innodb_buffer_pool_size = 128M
performance_schema = OFF

# For localhost by name, and for no other.
ssl_ca = $folder/certificate.pem
ssl_cert = $folder/certificate.pem
ssl_key = $folder/key.pem

# Nobody's own: whoever takes the session's time for UTC is found out.
default_time_zone = '+08:00'
END
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
    -subj '/CN=outbox test' -addext 'subjectAltName = DNS:localhost' \
    -out "$folder/certificate.pem" -keyout "$folder/key.pem" >>"$base/mariadb/log" 2>&1
  cat >"$folder/first.sql" <<'END'
CREATE DATABASE IF NOT EXISTS outbox CHARACTER SET utf8mb4;
CREATE USER IF NOT EXISTS root@'127.0.0.1';
GRANT ALL PRIVILEGES ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
END
  chmod go+r "$folder"/{my.cnf,first.sql,certificate.pem,key.pem}
  case $server in
    */mysqld) as_server_user "$server" --defaults-file="$folder/my.cnf" --initialize-insecure ;;
    *) as_server_user mariadb-install-db --defaults-file="$folder/my.cnf" --skip-test-db \
      --auth-root-authentication-method=normal ;;
  esac >>"$base/mariadb/log" 2>&1 || failed_to_start mariadb
}

launch_mariadb() {
  local folder
  folder=$(state mariadb folder)
  # The file is read at every start: no client is needed, and what is there stays.
  run_in_background mariadb 120 "$(state mariadb server)" --defaults-file="$folder/my.cnf" \
    --init-file="$folder/first.sql" --port="$(state mariadb port)"
}
